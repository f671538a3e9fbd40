"""Fit the model of a study: test, train, choose, build; and estimate how long that takes.

A study ends with patterns, with one index of the mean difference, or without a detected difference (`Finding`).
Patterns that are not stable are reported as a mean difference, together with their figures.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import StudyError, format_count, join_names
from rindices.learners.ensemble import Member, TrainingOutcome, select_usable_members
from rindices.model.fitted import FittedModel
from rindices.model.records import CandidateRecord, SelectionRecord, describe_adjustment
from rindices.selection.agreement import IndexMoments, IndexRows
from rindices.selection.choose import (
    MIN_STABLE_CONCORDANCE,
    Candidate,
    GridPoint,
    SelectionResult,
    choose_and_measure,
    choose_grid_point,
    compute_candidate_agreement,
    is_clearly_judged,
)
from rindices.selection.group_difference import MIN_POWER
from rindices.study.build import (
    TrainedSettings,
    build_model,
    collect_likelihoods,
    collect_provenance,
    make_candidate_records,
)
from rindices.study.cluster import make_engine
from rindices.study.config import ModelConfig
from rindices.study.engines import NO_OBSERVER, Engine, LocalEngine, StudyObserver, count_processes, run_plan
from rindices.study.exceptions import NoPatternError
from rindices.study.group_tests import Finding, make_number_record
from rindices.study.recipes import MEAN_DIFFERENCE, MemberSet
from rindices.study.store import RunStore
from rindices.study.study import Study, StudyPeople, check_settings, find_largest_number
from rindices.threads import limit_blas_threads
from rindices.wording import get_wording

TYPICAL_PATTERNS = (2, 3, 4)
"""Numbers of patterns whose time is estimated where the tests are to decide."""


@limit_blas_threads()
def fit_study(
    study: Study, store: RunStore, engine: Engine | None = None, observer: StudyObserver = NO_OBSERVER
) -> FittedModel:
    """Return the model of the patterns, or of the mean difference where there are none that are stable.

    store: what it lacks is trained; engine: left out, the one that the study names. Raises NoPatternError: if no
    difference between patients and controls was detected, and no stable patterns were asked for.
    """
    cohort, model = study.cohort, study.config.model
    if not cohort.n_controls or not cohort.n_patients:
        raise StudyError("the cohort has no controls or no patients: name the column of groups and its labels.")
    check_settings(cohort, model)
    _ = study.preprocessing  # people who cannot be adjusted are an error before the tests
    failed: tuple[CandidateRecord, ...] = ()
    finding, is_forced = study.tests.finding, model.forced is not None
    has_patterns = model.recipe != MEAN_DIFFERENCE and (is_forced or finding is Finding.PATTERNS)
    if has_patterns:
        numbers = model.patterns or study.tests.list_numbers_to_try(find_largest_number(cohort, model.recipe))
        people = StudyPeople(study, model.model_copy(update={"patterns": numbers}))
        trained = _train_settings(people, store, engine or make_engine(study.config.run), observer)
        if trained.choice.best is not None:
            return _build(trained, Finding.PATTERNS)
        failed = make_candidate_records(trained.gathered, trained.choice)
    if finding is Finding.NO_DIFFERENCE and (has_patterns or not is_forced):
        raise _make_no_pattern_error(study, failed)
    people = StudyPeople(study, ModelConfig(patterns=(1,), members=model.members, recipe=MEAN_DIFFERENCE))
    trained = _train_settings(people, store, LocalEngine(1), NO_OBSERVER, min_concordance=0.0)
    return _build(trained, Finding.MEAN_DIFFERENCE, failed)


def _train_settings(
    people: StudyPeople,
    store: RunStore,
    engine: Engine,
    observer: StudyObserver,
    min_concordance: float = MIN_STABLE_CONCORDANCE,
) -> TrainedSettings:
    """Train all settings of a model and choose among them."""
    training = _SettingsTraining(people, store, engine, observer, min_concordance)
    if people.recipe.compares_halves:
        training.train([work for work in people.plan if work.numbers[0] == 0])
        candidates = [training.make(point) for point in training.gathered]
        choice = choose_and_measure(candidates, training.measure, training.complete, people.study.seed, min_concordance)
    else:
        choice = training.choose_by_agreement()
    return TrainedSettings(people, training.gathered, choice)


@dataclass
class _SettingsTraining:
    """Trains what the choice among settings needs: first sets of members, fits to halves, later sets.

    plan: member sets that were trained; gathered: all members by grid point.
    """

    people: StudyPeople
    store: RunStore
    engine: Engine
    observer: StudyObserver
    min_concordance: float
    plan: list[MemberSet] = field(default_factory=list)
    gathered: dict[GridPoint, list[Member]] = field(default_factory=dict)

    def train(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        """Train member sets and return their members."""
        self.plan += works
        on_progress = self.observer.on_progress
        observer = replace(
            self.observer, on_progress=lambda done, total, work: on_progress(done, max(total, self.n_expected), work)
        )
        run_plan(self.plan, self.people.prepare_set, self.store, self.engine, observer)
        trained = []
        for work in works:
            members = self.store.load(work)
            if members is None:
                raise StudyError(f"{self.store.path(work)} vanished or was damaged while the study ran: run it again.")
            trained.append(members)
            if not work.halves:
                self.gathered.setdefault(work.point, []).extend(members)
        return trained

    @property
    def n_expected(self) -> int:
        """Number of member sets that will be trained, if halves of one number are compared."""
        if not self.people.recipe.compares_halves and not _list_shortened_sets(self.people):
            return len(self.people.plan)
        n_points = len({work.point for work in self.people.plan})
        return n_points + len(self.people.plan) // n_points

    def choose_by_agreement(self) -> SelectionResult:
        """Choose the grid point whose members agree best; a long training is shortened to choose, and then repeated."""
        plan, seed, shortened = self.people.plan, self.people.study.seed, _list_shortened_sets(self.people)
        self.train(shortened or plan)
        candidates = [self.make(point) for point in self.gathered]
        choice = choose_grid_point(candidates, seed, 0.0 if shortened else self.min_concordance)
        if not shortened or choice.best is None:
            return choice
        best, point = choice.best, candidates[choice.best].point
        self.gathered[point] = []
        self.train([work for work in plan if work.point == point])
        whole = choose_grid_point([self.make(point)], seed, self.min_concordance)
        evaluations = (*choice.evaluations[:best], *whole.evaluations, *choice.evaluations[best + 1 :])
        return whole._replace(evaluations=evaluations, best=None if whole.best is None else best, ties=choice.ties)

    def list_sets(self, point: GridPoint) -> list[MemberSet]:
        """Return the member sets of a grid point; later ones follow the first."""
        first, *later = (work for work in self.people.plan if work.point == point)
        return [first, *(self.people.recipe.follow(work, self.gathered[point]) for work in later)]

    def make(self, point: GridPoint) -> Candidate:
        """Return what the choice of a grid point needs."""
        candidate = make_candidate(point, self.gathered[point], self.people.prepare_patients)
        if not self.people.recipe.compares_halves and (agreement := compute_candidate_agreement(candidate)):
            self.observer.on_setting(point, agreement.concordance)
        return candidate

    def measure(self, points: Sequence[GridPoint]) -> list[Candidate]:
        """Compare fits on disjoint halves, for as many sets of members of a setting as are needed to judge it."""
        open_sets = {point: self.list_sets(point) for point in points}
        while any(open_sets.values()):
            works = [sets.pop(0) for sets in open_sets.values() if sets]
            self.train([work for work in works if work not in self.plan])
            for work, members in zip(works, self.train([replace(work, halves=True) for work in works]), strict=True):
                evidence = {member.number: member.evidence for member in members}
                self.gathered[work.point] = [
                    each._replace(evidence=evidence.get(each.number, each.evidence))
                    for each in self.gathered[work.point]
                ]
                values = [each.evidence[0] for each in self.gathered[work.point] if each.evidence is not None]
                if is_clearly_judged(values, self.min_concordance):
                    open_sets[work.point] = []
        candidates = [self.make(point) for point in points]
        for candidate in candidates:
            if candidate.evidence is not None and candidate.indices.n_members > 1:
                self.observer.on_setting(candidate.point, float(candidate.evidence[:, 0].mean()))
        return candidates

    def complete(self, point: GridPoint) -> Candidate:
        """Train all sets of members of a grid point."""
        self.train([work for work in self.list_sets(point) if work not in self.plan])
        return self.make(point)


def _list_shortened_sets(people: StudyPeople) -> list[MemberSet]:
    """Return a shorter training of the first set of each grid point; none if there is nothing to choose, or to save."""
    first = [work for work in people.plan if work.numbers[0] == 0]
    return [short for work in first if len(first) > 1 and (short := people.recipe.shorten(work)) is not None]


def _build(trained: TrainedSettings, finding: Finding, failed: tuple[CandidateRecord, ...] = ()) -> FittedModel:
    """Build the model of the chosen setting; ``failed`` are settings that were tried before."""
    choice, grid = trained.choice, make_candidate_records(trained.gathered, trained.choice)
    assert choice.best is not None
    has_patterns = finding is Finding.PATTERNS
    best = grid[choice.best]
    selection = _make_selection(
        trained.people.study,
        finding,
        best.setting.n_patterns if has_patterns else None,
        "agreement" if best.held_out is None else "likelihood",
        chosen=best,
        ties=tuple(grid[index].setting for index in choice.ties),
        grid=grid if has_patterns else failed,
    )
    return build_model(trained, selection)


def _make_selection(
    study: Study, finding: Finding, n_patterns: int | None, decided_by: str = "agreement", **fields: Any
) -> SelectionRecord:
    """Return the record of the tests and of what was chosen."""
    number = make_number_record(study.tests, study.config.model.forced, n_patterns, decided_by)
    difference = study.tests.make_difference_record()
    return SelectionRecord(number_of_patterns=number, finding=str(finding), difference=difference, **fields)


def _make_no_pattern_error(study: Study, failed: tuple[CandidateRecord, ...]) -> NoPatternError:
    tests, unit = study.tests, study.cohort.unit
    what = (
        f"no difference between patients and controls was detected ({tests.describe_p()}); an effect of "
        f"d = {tests.smallest_effect:.2f} in one {get_wording(unit)('region')} would have been found with a power of "
        f"{MIN_POWER:.0%}"
    )
    selection = _make_selection(
        study,
        Finding.NO_DIFFERENCE,
        None,
        chosen=None,
        grid=failed,
        made_with=collect_provenance(study),
        adjustment=describe_adjustment(study.preprocessing, unit),
    )
    cure = "To train all the same, name one number of patterns (--patterns 2)."
    if failed:
        patterns = join_names(format_count(candidate.setting.n_patterns, "pattern") for candidate in failed)
        cure = f"{patterns}, as asked, gave no stable result, so there is no model."
    return NoPatternError(f"{what}. {cure}", selection)


def make_candidate(
    point: GridPoint, members: Sequence[Member], prepare_patients: Callable[[int], FloatArray]
) -> Candidate:
    """Return the usable members of a grid point, with what its choice needs.

    ``prepare_patients`` takes the number of a member and returns the patients (N, R) prepared by its pipeline.
    """
    usable = select_usable_members(members)
    inferred = [member.head.infer(prepare_patients(member.number)) for member in usable]
    held_out = collect_likelihoods(members)
    indices: IndexRows | IndexMoments = IndexRows(np.stack(inferred) if usable else np.zeros((0, 0, point.n_patterns)))
    if held_out is not None and usable:
        indices = IndexMoments.compute(inferred)
    split_halves = [member.evidence for member in usable if member.evidence is not None]
    evidence = np.array(split_halves) if split_halves else None
    numbers = tuple(member.number for member in usable)
    converged = sum(member.outcome is TrainingOutcome.CONVERGED for member in members)
    return Candidate(point, indices, numbers, len(members), evidence, held_out, converged)


@dataclass(frozen=True)
class RunEstimate:
    """Size of a study and the seconds it still takes, as ``rindices fit --dry-run --json`` prints them."""

    settings: int
    members: int
    member_sets: int
    finished: int
    workers: int
    seconds_left: float


def estimate_run_time(study: Study, runs: Path) -> RunEstimate:
    """Return what would run and roughly for how long; ``runs`` has finished member sets, which would not run again."""
    model = study.config.model
    people = StudyPeople(study, model.model_copy(update={"patterns": model.patterns or TYPICAL_PATTERNS}))
    plan, store = people.plan, RunStore(runs) if runs.is_dir() else None
    if people.recipe.compares_halves:  # later sets are trained for the chosen number; any will do here
        *others, chosen = (work for work in plan if work.numbers[0] == 0)
        first = None if store is None else store.load(chosen)
        later = [work for work in plan if work.point == chosen.point and work.numbers[0]]
        plan = [*others, chosen, *(work if first is None else people.recipe.follow(work, first) for work in later)]
    if shortened := _list_shortened_sets(people):
        plan = [*shortened, *(work for work in plan if work.point == plan[0].point)]
    missing = [work for work in plan if store is None or store.load(work) is None]
    n_processes, seconds = count_processes(study.config.run.workers, len(missing)), 0.0
    if missing:
        prepared = people.prepare(visits=people.visits)
        by_kind = {(work.point.n_patterns, work in shortened): work for work in reversed(missing)}
        per_member = {kind: people.recipe.estimate_seconds(prepared, work) for kind, work in by_kind.items()}
        seconds = sum(per_member[work.point.n_patterns, work in shortened] * len(work.numbers) for work in missing)
    return RunEstimate(
        settings=len({work.point for work in plan}),
        members=sum(len(work.numbers) for work in plan),
        member_sets=len(plan),
        finished=len(plan) - len(missing),
        workers=n_processes,
        seconds_left=round(seconds / n_processes, 1),
    )

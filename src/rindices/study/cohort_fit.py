"""Fit the model of a cohort: test, train, choose, build.

A study ends with patterns, with one index of the mean difference, or without a detected difference (`Finding`).
Patterns that are not stable are reported as a mean difference, together with their figures.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import StudyError, format_count, join_names
from rindices.learners.ensemble import Member, TrainingOutcome, select_usable_members
from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.prepared_people import PreparedPeople
from rindices.model.fitted import FittedModel
from rindices.model.normal_reference import NormalReference
from rindices.model.records import CandidateRecord, ReferenceRecord, SelectionRecord, describe_adjustment
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.selection.choose import (
    MIN_STABLE_CONCORDANCE,
    Candidate,
    GridPoint,
    SelectionResult,
    choose_grid_point,
    compute_candidate_concordance,
)
from rindices.selection.group_difference import MIN_POWER
from rindices.study.build import (
    build_model,
    collect_likelihoods,
    collect_provenance,
    make_candidate_records,
)
from rindices.study.config import ModelConfig, StudyConfig
from rindices.study.engines.base import Engine, StudyObserver, run_plan
from rindices.study.engines.local import LocalEngine
from rindices.study.exceptions import NoPatternError
from rindices.study.group_tests import Finding, make_number_record, run_group_tests
from rindices.study.people import StudyPeople, resolve_visits
from rindices.study.plan import MemberSet, make_data_key, make_plan
from rindices.study.recipes import MEAN_DIFFERENCE, get_study_recipe
from rindices.study.store import RunStore
from rindices.tables.cohort import ID, Cohort, sort_people
from rindices.threads import limit_blas_threads
from rindices.wording import get_wording

_NO_OBSERVER = StudyObserver()


@dataclass
class CohortFit:
    """Fits the model of a cohort: tests, trains what the store lacks, chooses a setting.

    cohort: its people are put in an order that depends on their values alone (`sort_people`); study: all settings. Of
    its section ``data``, those of the adjustment and of visits; the rest was read into `cohort`; reference: the
    reference that the study names (`rindices.study.reference.read_reference`).
    """

    cohort: Cohort
    study: StudyConfig
    store: RunStore
    engine: Engine
    reference: NormalReference | None
    observer: StudyObserver = _NO_OBSERVER

    @limit_blas_threads()
    def __post_init__(self) -> None:
        if not self.cohort.n_controls or not self.cohort.n_patients:
            raise StudyError("the cohort has no controls or no patients: name the column of groups and its labels.")
        self.ids = self.cohort.people[ID].tolist()
        self.cohort = sort_people(self.cohort, self.study.run.seed)
        self.model, self.seed, self.visits = self.study.model, self.study.run.seed, self.study.data.visits
        check_settings(self.cohort, self.model)
        self.preprocessing = self.study.fit_preprocessing(self.cohort)
        self.tests = run_group_tests(self.cohort, self.seed, self.study.adjust)

    @limit_blas_threads()
    def run(self) -> FittedModel:
        """Return the model of the patterns, or of the mean difference where there are none that are stable.

        Raises NoPatternError: if no difference between patients and controls was detected, and no stable patterns were
        asked for.
        """
        failed: tuple[CandidateRecord, ...] = ()
        is_forced = self.model.forced is not None
        has_patterns = self.model.recipe != MEAN_DIFFERENCE and (is_forced or self.tests.finding is Finding.PATTERNS)
        if has_patterns:
            model = self.model.model_copy(update={"patterns": self._list_numbers()})
            people, gathered, choice = self._train(model, self.engine, self.observer)
            if choice.best is not None:
                return self._build(model, people, gathered, choice, Finding.PATTERNS)
            failed = make_candidate_records(choice.evaluations, gathered)
        if self.tests.finding is Finding.NO_DIFFERENCE and (has_patterns or not is_forced):
            raise self._make_no_pattern_error(failed)
        model = ModelConfig(patterns=(1,), members=self.model.members, recipe=MEAN_DIFFERENCE)
        people, gathered, choice = self._train(model, LocalEngine(1), _NO_OBSERVER, min_concordance=0.0)
        return self._build(model, people, gathered, choice, Finding.MEAN_DIFFERENCE, failed)

    def _get_visits(self, recipe: str) -> str | None:
        """Return what the study says of visits; the mean difference, with which a study may end, decides by itself."""
        return self.visits if recipe == self.model.recipe or self.visits != "all" else None

    def _list_numbers(self) -> tuple[int, ...]:
        """Return the numbers of patterns to try: those that the study names, else those next to the test's."""
        if self.model.patterns is not None:
            return self.model.patterns
        return self.tests.list_numbers_to_try(find_largest_number(self.cohort, self.model.recipe))

    def _train(
        self,
        model: ModelConfig,
        engine: Engine,
        observer: StudyObserver,
        min_concordance: float = MIN_STABLE_CONCORDANCE,
    ) -> tuple[StudyPeople, dict[GridPoint, list[Member]], SelectionResult]:
        """Train all settings of a model and choose among them."""
        visits = resolve_visits(self.cohort, self._get_visits(model.recipe), model.recipe)
        key = make_data_key(self.cohort, self.study, self.reference, visits)
        plan = make_plan(model, self.seed, key)
        people = StudyPeople(self.cohort, self.study, self.preprocessing, self.reference).deal_to_members(model)
        prepare_patients = partial(people.prepare_patients, recipe=model.recipe)
        watcher = _SettingWatcher(plan, self.store, prepare_patients, observer)
        prepare_set = partial(people.prepare_set, visits=visits)
        run_plan(plan, prepare_set, self.store, engine, replace(observer, on_progress=watcher.update))
        gathered = gather_members(plan, self.store)
        candidates = [make_candidate(point, members, prepare_patients) for point, members in gathered.items()]
        return people, gathered, choose_grid_point(candidates, self.seed, min_concordance)

    def _build(
        self,
        model: ModelConfig,
        people: StudyPeople,
        gathered: dict[GridPoint, list[Member]],
        choice: SelectionResult,
        finding: Finding,
        failed: tuple[CandidateRecord, ...] = (),
    ) -> FittedModel:
        assert choice.best is not None
        has_patterns = finding is Finding.PATTERNS
        chosen = choice.evaluations[choice.best].point.n_patterns if has_patterns else None
        grid = make_candidate_records(choice.evaluations, gathered)
        decided_by = "agreement" if grid[choice.best].held_out is None else "likelihood"
        selection = SelectionRecord(
            grid[choice.best],
            tuple(grid[index].setting for index in choice.ties),
            grid if has_patterns else failed,
            number_of_patterns=make_number_record(self.tests, self.model.forced, chosen, decided_by),
            finding=str(finding),
            difference=self.tests.make_difference_record(),
        )
        fitted = build_model(people, gathered, choice, model, selection)
        visits = resolve_visits(self.cohort, self._get_visits(model.recipe), model.recipe)
        scans = {} if self.cohort.visits is None or visits == "first" else {"scans": len(self.cohort.visits)}
        trained_on = {**fitted.card.trained_on, **scans}
        card = replace(fitted.card, reference=self._make_reference_record(people.prepare()), trained_on=trained_on)
        assert fitted.indices is not None
        indices = fitted.indices.set_index(ID).loc[self.ids].reset_index()
        return replace(fitted, card=card, indices=indices)

    def _make_reference_record(self, people: PreparedPeople) -> ReferenceRecord | None:
        """Return the reference and the weight that it gets among all controls."""
        controls = (people.complete().X[people.y == 0] - CONTROL_MEAN) / CONTROL_SD
        target = ReferenceTarget.choose(controls, people.reference)
        if self.reference is None or target is None:
            return None
        return ReferenceRecord(self.reference.name, self.reference.people, self.reference.sites, target.weight)

    def _make_no_pattern_error(self, failed: tuple[CandidateRecord, ...]) -> NoPatternError:
        tests, noun = self.tests, get_wording(self.cohort.unit)("region")
        what = (
            f"no difference between patients and controls was detected ({tests.describe_p()}); an effect of "
            f"d = {tests.smallest_effect:.2f} in one {noun} would have been found with a power of {MIN_POWER:.0%}"
        )
        selection = SelectionRecord(
            None,
            grid=failed,
            number_of_patterns=make_number_record(tests, self.model.forced, None),
            made_with=collect_provenance(self.cohort, self.seed),
            finding=str(Finding.NO_DIFFERENCE),
            difference=tests.make_difference_record(),
            adjustment=describe_adjustment(self.preprocessing, self.cohort.unit),
        )
        cure = "To train all the same, name one number of patterns (--patterns 2)."
        if failed:
            patterns = join_names(format_count(candidate.setting.n_patterns, "pattern") for candidate in failed)
            cure = f"{patterns}, as asked, gave no stable result, so there is no model."
        return NoPatternError(f"{what}. {cure}", selection)


@dataclass
class _SettingWatcher:
    """Passes progress on, and announces each setting when all its members are trained."""

    plan: Sequence[MemberSet]
    store: RunStore
    prepare_patients: Callable[[int], FloatArray]
    observer: StudyObserver
    announced: set[GridPoint] = field(default_factory=set)

    def update(self, done: float, total: int, work: MemberSet | None) -> None:
        """Take note of a finished member set."""
        self.observer.on_progress(done, total, work)
        if work is None or work.point in self.announced:
            return
        setting = [other for other in self.plan if other.point == work.point]
        if all(self.store.path(other).is_file() for other in setting):
            self.announced.add(work.point)
            members = gather_members(setting, self.store)[work.point]
            candidate = make_candidate(work.point, members, self.prepare_patients)
            concordance = compute_candidate_concordance(candidate)
            if concordance is not None:
                self.observer.on_setting(work.point, concordance)


def check_settings(cohort: Cohort, model: ModelConfig) -> None:
    """Refuse settings that cannot succeed, before anything is trained."""
    wanted = max(model.patterns or (1,))
    if wanted > 1 and model.recipe == MEAN_DIFFERENCE:
        raise StudyError(f"the recipe {MEAN_DIFFERENCE} has one index: leave out --patterns, or change the recipe.")
    if wanted > find_largest_number(cohort, model.recipe):
        least = get_study_recipe(model.recipe).min_patients(wanted)
        noun = get_wording(cohort.unit)("region")
        raise StudyError(
            f"{format_count(wanted, 'pattern needs', 'patterns need')} at least {least} patients and "
            f"{format_count(wanted, noun)}; there are {cohort.n_patients} and {cohort.n_regions}: "
            f"{'ask for fewer patterns' if wanted > 1 else 'add people'}."
        )
    typical = (1,) if model.recipe == MEAN_DIFFERENCE else (1, 2)
    one_member = model.model_copy(update={"members": 1, "patterns": model.patterns or typical})
    n_settings = len(make_plan(one_member, 0, ""))
    if n_settings > 1 and model.n_members < 2:
        raise StudyError(f"choosing among {n_settings} settings needs at least 2 members each: raise members.")


def find_largest_number(cohort: Cohort, recipe: str) -> int:
    """Return the largest number of patterns that a recipe can train on these people and regions; 0 if none."""
    min_patients = get_study_recipe(recipe).min_patients
    numbers = range(1, cohort.n_regions + 1)
    return max((number for number in numbers if min_patients(number) <= cohort.n_patients), default=0)


def gather_members(plan: Sequence[MemberSet], store: RunStore) -> dict[GridPoint, list[Member]]:
    """Return all members by grid point."""
    gathered: dict[GridPoint, list[Member]] = {}
    for work in plan:
        members = store.load(work)
        if members is None:
            raise StudyError(f"{store.path(work)} vanished or was damaged while the study ran: run it again.")
        gathered.setdefault(work.point, []).extend(members)
    return gathered


def make_candidate(
    point: GridPoint, members: Sequence[Member], prepare_patients: Callable[[int], FloatArray]
) -> Candidate:
    """Return the usable members of a grid point, with what its choice needs.

    ``prepare_patients`` takes the number of a member and returns the patients (N, R) prepared by its pipeline.
    """
    usable = select_usable_members(members)
    inferred = [member.head.infer(prepare_patients(member.number)) for member in usable]
    indices = np.stack(inferred) if usable else np.zeros((0, 0, point.n_patterns))
    split_halves = [member.evidence for member in usable if member.evidence is not None]
    evidence = np.array(split_halves) if split_halves and len(split_halves) == len(usable) else None
    numbers = tuple(member.number for member in usable)
    converged = sum(member.outcome is TrainingOutcome.CONVERGED for member in members)
    return Candidate(point, indices, numbers, len(members), evidence, collect_likelihoods(members), converged)

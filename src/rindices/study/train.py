"""Training of a study: the members of all settings, and the choice among the settings.

Which members are trained depends on how those before agree, so that settings are chosen
while they are trained.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from rindices.engine.local import LocalEngine
from rindices.engine.tasks import Engine
from rindices.errors import StudyError
from rindices.learners.ensemble import Member, TrainingOutcome, select_usable_members
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
    keep_best_member,
)
from rindices.study.candidates import (
    TrainedSettings,
    TrainedStudy,
    collect_group_losses,
    collect_likelihoods,
    is_diffuse,
    is_guessing,
)
from rindices.study.config import ModelConfig
from rindices.study.engines import NO_OBSERVER, StudyObserver, run_plan
from rindices.study.exceptions import TrainingFailedError
from rindices.study.group_tests import Finding
from rindices.study.methods import MemberSet, get_study_method, list_shortened_sets
from rindices.study.plan import StudyPlan
from rindices.study.store import RunStore
from rindices.study.study import StudyPeople, make_plan


def train_study(
    plan: StudyPlan,
    store: RunStore,
    engine: Engine,
    observer: StudyObserver = NO_OBSERVER,
) -> TrainedStudy:
    """Train the patterns of a plan, and the mean difference where none are stable.

    store: what it lacks is trained. Raises TrainingFailedError: if no member can be
    used, and the mean difference may not take the place of the method.
    """
    patterns, difference = None, None
    if plan.patterns is not None:
        training = CohortTraining(plan.patterns, store, engine, observer)
        patterns = _train_patterns(training)
        if patterns.choice.best is None:
            _refuse_replacement(training, patterns.choice, plan.end.tests.finding)
    if plan.end.find_ending(patterns) is Finding.MEAN_DIFFERENCE:
        training = CohortTraining(
            plan.difference, store, LocalEngine(1), min_concordance=0.0
        )
        difference = TrainedSettings(
            choice=training.choose(), gathered=training.gathered
        )
    return TrainedStudy(patterns=patterns, difference=difference)


@contextmanager
def keep_processes(engine: Engine, model: ModelConfig) -> Iterator[None]:
    """Start the processes of this machine now if what they import takes long.

    Whoever starts them first keeps them: within its context, this does nothing again.
    """
    method = model.get_method()
    if (
        not isinstance(engine, LocalEngine)
        or method.training_module is None
        or engine.kept
    ):
        yield
        return
    least = model.model_copy(
        update={"patterns": model.patterns or method.patterns or (1,)}
    )
    n_jobs = len(make_plan(least, 0, ""))
    with engine.keep_processes(n_jobs, method.training_module):
        yield


@dataclass(kw_only=True)
class SettingsTraining(ABC):
    """Trains what the choice among settings needs: first member sets, fits to halves,
    later sets.

    A subclass holds the people, or asks for sums over them.

    Attributes
    ----------
    plan : sequence of MemberSet
        All member sets.
    observer : StudyObserver
        Is told about the progress.
    min_concordance : float
        See `choose_grid_point`.
    trained : list of MemberSet
        Member sets that were trained.
    gathered : dict
        All members by grid point.
    measured : dict
        Candidates whose halves were compared.
    """

    plan: Sequence[MemberSet]
    observer: StudyObserver = NO_OBSERVER
    min_concordance: float = MIN_STABLE_CONCORDANCE
    trained: list[MemberSet] = field(default_factory=list)
    gathered: dict[GridPoint, list[Member]] = field(default_factory=dict)
    measured: dict[GridPoint, Candidate] = field(default_factory=dict)

    @abstractmethod
    def train_sets(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        """Return the members of sets, or those of `gathered` with evidence, for sets of
        halves.
        """

    @abstractmethod
    def infer_indices(
        self, point: GridPoint, members: Sequence[Member]
    ) -> IndexRows | IndexMoments:
        """Return the R-indices of all patients by members of a grid point."""

    @property
    def compares_halves(self) -> bool:
        """Whether fits on disjoint halves of the people are compared."""
        return get_study_method(self.plan[0].method).compares_halves

    def choose(self) -> SelectionResult:
        """Train all settings and choose among them."""
        if self.compares_halves:
            self.train([work for work in self.plan if work.numbers[0] == 0])
            candidates = [
                self.make_candidate(point, is_measured=False) for point in self.gathered
            ]
            seed = self.plan[0].seed
            return choose_and_measure(
                candidates, self.measure, self.complete, seed, self.min_concordance
            )
        shortened = list_shortened_sets(self.plan)
        if not shortened:
            return self._choose_by_agreement(self.plan, self.min_concordance)
        choice = self._choose_by_agreement(shortened, min_concordance=0.0)
        if choice.best is None:
            return choice
        best, evaluations = choice.best, list(choice.evaluations)
        works = [work for work in self.plan if work.point == evaluations[best].point]
        whole = self._choose_by_agreement(works, self.min_concordance)
        evaluations[best : best + 1] = whole.evaluations
        position = None if whole.best is None else best
        return replace(
            whole, evaluations=tuple(evaluations), best=position, ties=choice.ties
        )

    def _choose_by_agreement(
        self, works: Sequence[MemberSet], min_concordance: float
    ) -> SelectionResult:
        """Train member sets and choose the setting whose members agree best."""
        self.gathered |= {work.point: [] for work in works}
        self.train(works)
        candidates = [
            self.make_candidate(point)
            for point in dict.fromkeys(work.point for work in works)
        ]
        for candidate in candidates:
            if (agreement := compute_candidate_agreement(candidate)) is not None:
                self.observer.on_setting(candidate.point, agreement.concordance)
        margin = get_study_method(self.plan[0].method).number_margin
        return choose_grid_point(candidates, self.plan[0].seed, min_concordance, margin)

    def train(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        """Train member sets and return their members."""
        self.trained += works
        trained = self.train_sets(works) if works else []
        for work, members in zip(works, trained, strict=True):
            if not work.halves:
                self.gathered.setdefault(work.point, []).extend(members)
        return trained

    def list_sets(self, point: GridPoint) -> list[MemberSet]:
        """Return the member sets of a grid point; later ones follow the first."""
        first, *later = (work for work in self.plan if work.point == point)
        method = get_study_method(first.method)
        return [first, *(method.follow(work, self.gathered[point]) for work in later)]

    def make_candidate(self, point: GridPoint, is_measured: bool = True) -> Candidate:
        """Return the usable members of a grid point, with what its choice needs;
        without R-indices at first.
        """
        members = self.gathered[point]
        usable = select_usable_members(members)
        indices: IndexRows | IndexMoments = IndexRows(
            np.zeros((0, 0, point.n_patterns))
        )
        if is_measured and usable:
            indices = self.infer_indices(point, usable)
        split_halves = [
            member.evidence for member in usable if member.evidence is not None
        ]
        evidence = np.array(split_halves) if split_halves else None
        numbers = tuple(member.number for member in usable)
        converged = sum(
            member.outcome is TrainingOutcome.CONVERGED for member in members
        )
        return Candidate(
            point=point,
            indices=indices,
            numbers=numbers,
            trained=len(members),
            evidence=evidence,
            held_out=collect_likelihoods(members),
            converged=converged,
            group_loss=collect_group_losses(members),
            is_diffuse=is_diffuse(members),
            is_guessing=is_guessing(members),
        )

    def measure(self, points: Sequence[GridPoint]) -> list[Candidate]:
        """Compare fits on disjoint halves, for as many sets of members of a setting as
        are needed to judge it.
        """
        open_sets = {point: self.list_sets(point) for point in points}
        while any(open_sets.values()):
            works = [sets.pop(0) for sets in open_sets.values() if sets]
            self.train([work for work in works if work not in self.trained])
            for work, members in zip(
                works,
                self.train([replace(work, halves=True) for work in works]),
                strict=True,
            ):
                evidence = {member.number: member.evidence for member in members}
                self.gathered[work.point] = [
                    replace(each, evidence=evidence.get(each.number, each.evidence))
                    for each in self.gathered[work.point]
                ]
                values = [
                    each.evidence[0]
                    for each in self.gathered[work.point]
                    if each.evidence is not None
                ]
                if is_clearly_judged(values, self.min_concordance):
                    open_sets[work.point] = []
        candidates = [self.make_candidate(point) for point in points]
        for candidate in candidates:
            if candidate.evidence is not None and candidate.indices.n_members > 1:
                self.observer.on_setting(
                    candidate.point, float(candidate.evidence[:, 0].mean())
                )
            self.measured[candidate.point] = candidate
        return candidates

    def complete(self, point: GridPoint) -> Candidate:
        """Train all sets of members of a grid point."""
        later = [work for work in self.list_sets(point) if work not in self.trained]
        self.train(later)
        return self.make_candidate(point) if later else self.measured[point]


class CohortTraining(SettingsTraining):
    """Trains members on people in memory; the store keeps them."""

    def __init__(
        self,
        people: StudyPeople,
        store: RunStore,
        engine: Engine,
        observer: StudyObserver = NO_OBSERVER,
        min_concordance: float = MIN_STABLE_CONCORDANCE,
    ) -> None:
        super().__init__(
            plan=people.plan, observer=observer, min_concordance=min_concordance
        )
        self.people, self._store, self._engine = people, store, engine

    def train_sets(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        """Train what the store lacks, and return all."""
        n_points, on_progress = (
            len({work.point for work in self.plan}),
            self.observer.on_progress,
        )
        # halves are compared, or whole trainings follow shortened ones, for at least
        # one setting
        has_stages = self.compares_halves or list_shortened_sets(self.plan)
        n_expected = (
            n_points + len(self.plan) // n_points if has_stages else len(self.plan)
        )
        observer = replace(
            self.observer,
            on_progress=lambda done, total, work: on_progress(
                done, max(total, n_expected), work
            ),
        )
        run_plan(
            self.trained, self.people.prepare_set, self._store, self._engine, observer
        )
        trained = []
        for work in works:
            members = self._store.load(work)
            if members is None:
                raise StudyError(
                    f"{self._store.path(work)} vanished or was damaged while the study ran: run it again."
                )
            trained.append(members)
        return trained

    def infer_indices(
        self, point: GridPoint, members: Sequence[Member]
    ) -> IndexRows | IndexMoments:
        """Infer them; agreement is counted in pairs of people for methods without a
        likelihood.
        """
        inferred = [
            member.head.infer(self.people.prepare_patients(member.number))
            for member in members
        ]
        return (
            IndexRows(np.stack(inferred))
            if members[0].held_out is None
            else IndexMoments.compute(inferred)
        )


def _train_patterns(training: CohortTraining) -> TrainedSettings:
    """Return the trained patterns, and the choice as the method wants it."""
    method = training.people.method
    if method.min_concordance is not None:
        training.min_concordance = method.min_concordance
    choice = training.choose()
    if method.uses_one_member:
        choice = keep_best_member(choice)
    return TrainedSettings(choice=choice, gathered=training.gathered)


def _refuse_replacement(
    training: CohortTraining, choice: SelectionResult, finding: Finding
) -> None:
    """Raise an error if no member can be used and the mean difference may not take the
    place of the method.

    Members that converged and do not agree are no error where the tests detected no
    difference: the study ends with that finding.
    """
    method = training.people.method
    if method.can_be_replaced:
        return
    whole = {work.point for work in training.trained if work in training.plan} or set(
        training.gathered
    )
    members = [member for point in sorted(whole) for member in training.gathered[point]]
    has_converged = any(
        member.outcome is TrainingOutcome.CONVERGED for member in members
    )
    if has_converged and finding is Finding.NO_DIFFERENCE:
        return
    reasons = [each.why for each in choice.evaluations if each.point in whole]
    problem = method.explain_failure(
        members, reasons, training.people.model.resolve_values()
    )
    raise TrainingFailedError(
        problem,
        [replace(member, number=number) for number, member in enumerate(members)],
    )

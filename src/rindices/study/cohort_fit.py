"""Fit the model of a study of people in memory: test, train, choose, build; and estimate how long that takes."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rindices.errors import StudyError
from rindices.learners.ensemble import Member, TrainingOutcome
from rindices.model.fitted import FittedModel
from rindices.selection.agreement import IndexMoments, IndexRows
from rindices.selection.choose import MIN_STABLE_CONCORDANCE, GridPoint, keep_best_member
from rindices.study.build import TrainedSettings, build_model, collect_provenance, make_candidate_records
from rindices.study.cluster import count_workers, make_engine
from rindices.study.conclude import conclude_study
from rindices.study.config import ModelConfig
from rindices.study.decide import Records, SettingsTraining, StudyEnd
from rindices.study.engines import NO_OBSERVER, Engine, LocalEngine, StudyObserver, run_plan
from rindices.study.exceptions import TrainingFailedError
from rindices.study.group_tests import Finding
from rindices.study.methods import MEAN_DIFFERENCE, MemberSet, list_shortened_sets
from rindices.study.store import RunStore
from rindices.study.study import Study, StudyPeople, check_groups, check_settings, find_largest_number, make_plan
from rindices.threads import limit_blas_threads

TYPICAL_PATTERNS = (2, 3, 4)
"""Numbers of patterns whose time is estimated where the tests are to decide."""


@limit_blas_threads()
def fit_study(
    study: Study, store: RunStore, engine: Engine | None = None, observer: StudyObserver = NO_OBSERVER
) -> FittedModel:
    """Return the model of a study; see `StudyEnd.conclude`.

    store: what it lacks is trained; engine: left out, the one that the study names.
    """
    cohort, model = study.cohort, study.config.model
    check_groups(cohort)
    check_settings(cohort, model)
    _ = study.preprocessing  # people who cannot be adjusted are an error before the tests
    chosen_engine = engine or make_engine(study.config.run, observer.on_training)
    with _keep_processes(chosen_engine, model):
        return _fit_tested(study, store, chosen_engine, observer)


def _keep_processes(engine: Engine, model: ModelConfig) -> AbstractContextManager[None]:
    """Start the processes of this machine now if what they import takes long."""
    method = model.get_method()
    if not isinstance(engine, LocalEngine) or method.training_module is None:
        return nullcontext()
    least = model.model_copy(update={"patterns": model.patterns or method.patterns or (1,)})
    return engine.keep_processes(len(make_plan(least, 0, "")), method.training_module)


def _fit_tested(study: Study, store: RunStore, engine: Engine, observer: StudyObserver) -> FittedModel:
    """Test the groups, and train what the tests find."""
    cohort, model = study.cohort, study.config.model
    end = StudyEnd(model, study.tests, cohort.unit, collect_provenance(study), study.preprocessing)

    def fit_patterns() -> tuple[FittedModel | None, Records]:
        largest = find_largest_number(cohort.n_patients, cohort.n_regions, model.method)
        method = model.get_method()
        usual = tuple(number for number in method.patterns if number <= largest)
        numbers = model.patterns or usual or study.tests.list_numbers_to_try(largest, from_one=method.compares_halves)
        people = StudyPeople(study, model.model_copy(update={"patterns": numbers}))
        training = CohortTraining(people, store, engine, observer)
        if method.min_concordance is not None:
            training.min_concordance = method.min_concordance
        choice = training.choose()
        choice = keep_best_member(choice) if method.uses_one_member else choice
        trained = TrainedSettings(people, training.gathered, choice)
        evaluated = make_candidate_records(trained.gathered, trained.choice)
        if trained.choice.best is None:
            _refuse_replacement(training, evaluated, study.tests.finding)
            return None, evaluated
        return build_model(trained, end.record_choice(Finding.PATTERNS, trained.choice, evaluated)), ()

    def fit_difference(failed: Records) -> FittedModel:
        people = StudyPeople(study, ModelConfig(patterns=(1,), members=model.members, method=MEAN_DIFFERENCE))
        training = CohortTraining(people, store, LocalEngine(1), min_concordance=0.0)
        trained = TrainedSettings(people, training.gathered, training.choose())
        evaluated = make_candidate_records(trained.gathered, trained.choice)
        return build_model(trained, end.record_choice(Finding.MEAN_DIFFERENCE, trained.choice, evaluated, failed))

    return conclude_study(study, end.conclude(fit_patterns, fit_difference))


def _refuse_replacement(training: "CohortTraining", evaluated: Records, finding: Finding) -> None:
    """Raise an error if no member can be used and the mean difference may not take the place of the method.

    Members that converged and do not agree are no error where the tests detected no difference: the study ends with
    that finding.
    """
    method = training.people.method
    if method.can_be_replaced:
        return
    whole = {work.point for work in training.trained if work in training.plan} or set(training.gathered)
    members = [member for point in sorted(whole) for member in training.gathered[point]]
    has_converged = any(member.outcome is TrainingOutcome.CONVERGED for member in members)
    if has_converged and finding is Finding.NO_DIFFERENCE:
        return
    numbers = [(point.n_patterns, point.orthogonality) for point in whole]
    reasons = [each.why for each in evaluated if (each.setting.n_patterns, each.setting.orthogonality) in numbers]
    problem = method.explain_failure(members, reasons, training.people.model.resolve_values())
    raise TrainingFailedError(problem, [member._replace(number=number) for number, member in enumerate(members)])


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
        super().__init__(people.plan, observer, min_concordance)
        self.people, self._store, self._engine = people, store, engine

    def train_sets(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        """Train what the store lacks, and return all."""
        n_points, on_progress = len({work.point for work in self.plan}), self.observer.on_progress
        # halves are compared, or whole trainings follow shortened ones, for at least one setting
        has_stages = self.compares_halves or list_shortened_sets(self.plan)
        n_expected = n_points + len(self.plan) // n_points if has_stages else len(self.plan)
        observer = replace(
            self.observer, on_progress=lambda done, total, work: on_progress(done, max(total, n_expected), work)
        )
        run_plan(self.trained, self.people.prepare_set, self._store, self._engine, observer)
        trained = []
        for work in works:
            members = self._store.load(work)
            if members is None:
                raise StudyError(f"{self._store.path(work)} vanished or was damaged while the study ran: run it again.")
            trained.append(members)
        return trained

    def infer_indices(self, point: GridPoint, members: Sequence[Member]) -> IndexRows | IndexMoments:
        """Infer them; agreement is counted in pairs of people for methods without a likelihood."""
        inferred = [member.head.infer(self.people.prepare_patients(member.number)) for member in members]
        return IndexRows(np.stack(inferred)) if members[0].held_out is None else IndexMoments.compute(inferred)


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
    if people.method.compares_halves:  # later sets are trained for the chosen number; any will do here
        *others, chosen = (work for work in plan if work.numbers[0] == 0)
        first = None if store is None else store.load(chosen)
        later = [work for work in plan if work.point == chosen.point and work.numbers[0]]
        plan = [*others, chosen, *(work if first is None else people.method.follow(work, first) for work in later)]
    if shortened := list_shortened_sets(plan):
        plan = [*shortened, *(work for work in plan if work.point == plan[0].point)]
    missing = [work for work in plan if store is None or store.load(work) is None]
    n_workers, seconds = count_workers(study.config.run, len(missing)), 0.0
    if missing:
        prepared = people.prepare(visits=people.visits)
        by_kind = {(work.point.n_patterns, work in shortened): work for work in reversed(missing)}
        per_member = {kind: people.method.estimate_seconds(prepared, work) for kind, work in by_kind.items()}
        seconds = sum(per_member[work.point.n_patterns, work in shortened] * len(work.numbers) for work in missing)
    return RunEstimate(
        settings=len({work.point for work in plan}),
        members=sum(len(work.numbers) for work in plan),
        member_sets=len(plan),
        finished=len(plan) - len(missing),
        workers=n_workers,
        seconds_left=round(seconds / n_workers, 1),
    )

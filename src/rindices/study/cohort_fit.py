"""Fit the model of a cohort: test, train, choose, build.

A study ends with patterns, with one index of the mean difference, or without a detected difference (`Finding`).
Patterns that are not stable are reported as a mean difference, together with their figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import StudyError, format_count, join_names
from rindices.learners.ensemble import Member, select_usable_members
from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.prepared_people import PreparedPeople
from rindices.model.fitted import FittedModel
from rindices.model.normal_reference import NormalReference
from rindices.model.records import CandidateRecord, ReferenceRecord, SelectionRecord
from rindices.preprocess.measures import DEFAULT_ICV_FOR
from rindices.preprocess.pipeline import Preprocessing
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
    make_selection_record,
)
from rindices.study.config import ModelConfig
from rindices.study.engines.base import Engine, StudyObserver, run_plan
from rindices.study.engines.local import LocalEngine
from rindices.study.exceptions import NoPatternError
from rindices.study.group_tests import Finding, make_number_record, run_group_tests
from rindices.study.plan import MemberSet, make_data_key, make_plan
from rindices.study.recipes import MEAN_DIFFERENCE, get_study_recipe
from rindices.study.store import RunStore
from rindices.study.visits import prepare_first_visits, reduce_to_visits, resolve_visits
from rindices.tables.cohort import Cohort
from rindices.threads import limit_blas_threads
from rindices.wording import get_wording

_NO_OBSERVER = StudyObserver()


@dataclass
class CohortFit:
    """Fits the model of a cohort: tests, trains what the store lacks, chooses a setting.

    Parameters
    ----------
    cohort : Cohort
    model : ModelConfig
    seed : int
    store : RunStore
    engine : Engine
    harmonise : {'controls', 'all', 'none'}, optional
        People from whom site effects are learnt.
    adjust : {'log', 'linear', 'rank', 'none'}, optional
        Scale of the adjustment for covariates.
    observer : StudyObserver
    reference : NormalReference, optional
    icv_for : {'volume', 'all'}
        Regions that are adjusted for head size in a cohort with thickness and other measures.
    visits : {'first', 'mean', 'all'}, optional
        What is learnt from repeat visits; see `resolve_visits`.
    """

    cohort: Cohort
    model: ModelConfig
    seed: int
    store: RunStore
    engine: Engine
    harmonise: str | None = None
    adjust: str | None = None
    observer: StudyObserver = _NO_OBSERVER
    reference: NormalReference | None = None
    icv_for: str = DEFAULT_ICV_FOR
    visits: str | None = None

    @limit_blas_threads()
    def __post_init__(self) -> None:
        if not self.cohort.n_controls or not self.cohort.n_patients:
            raise StudyError("the cohort has no controls or no patients: name the column of groups and its labels.")
        check_settings(self.cohort, self.model)
        resolve_visits(self.cohort, self.visits, self.model.recipe)
        self.adjust = self.adjust or get_study_recipe(self.model.recipe).adjust
        self.preprocessing = Preprocessing.fit(self.cohort, self.harmonise, self.adjust, self.icv_for)
        self.people = prepare_first_visits(self.cohort, self.preprocessing, self.reference)
        self.completed = self.people.complete()
        self.tests = run_group_tests(self.cohort, self.seed, self.adjust)

    @limit_blas_threads()
    def run(self) -> FittedModel:
        """Return the model of the patterns, or of the mean difference where there are none that are stable.

        Raises
        ------
        NoPatternError
            If no difference between patients and controls was detected, and no stable patterns were asked for.
        """
        failed: tuple[CandidateRecord, ...] = ()
        is_forced = self.model.forced is not None
        has_patterns = self.model.recipe != MEAN_DIFFERENCE and (is_forced or self.tests.finding is Finding.PATTERNS)
        if has_patterns:
            model = self.model.model_copy(update={"patterns": self._list_numbers()})
            gathered, choice = self._train(model, self.engine, self.observer)
            if choice.best is not None:
                return self._build(model, gathered, choice, Finding.PATTERNS)
            failed = make_candidate_records(choice.evaluations, gathered)
        if self.tests.finding is Finding.NO_DIFFERENCE and (has_patterns or not is_forced):
            raise self._make_no_pattern_error(failed)
        model = ModelConfig(patterns=(1,), members=self.model.members, recipe=MEAN_DIFFERENCE)
        gathered, choice = self._train(model, LocalEngine(1), _NO_OBSERVER, min_concordance=0.0)
        return self._build(model, gathered, choice, Finding.MEAN_DIFFERENCE, failed)

    def _select_people(self, recipe: str, visits: str = "first") -> PreparedPeople:
        """Return the people, with missing cells only for recipes that can use the others."""
        if visits == "first":
            return self.people if get_study_recipe(recipe).uses_measured_cells else self.completed
        people = reduce_to_visits(self.people, self.cohort, self.preprocessing, visits)
        return people if get_study_recipe(recipe).uses_measured_cells else people.complete()

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
    ) -> tuple[dict[GridPoint, list[Member]], SelectionResult]:
        """Train all settings of a model and choose among them."""
        visits = resolve_visits(self.cohort, self._get_visits(model.recipe), model.recipe)
        key = make_data_key(self.cohort, self.harmonise, self.adjust, self.reference, self.icv_for, visits)
        plan = make_plan(model, self.seed, key)
        people = self._select_people(model.recipe, visits)
        patients = self._select_people(model.recipe).X[people.y == 1]
        watcher = _SettingWatcher(plan, self.store, patients, observer)
        run_plan(plan, people, self.store, engine, replace(observer, on_progress=watcher.update))
        gathered = gather_members(plan, self.store)
        candidates = [make_candidate(point, members, patients) for point, members in gathered.items()]
        return gathered, choose_grid_point(candidates, self.seed, min_concordance)

    def _build(
        self,
        model: ModelConfig,
        gathered: dict[GridPoint, list[Member]],
        choice: SelectionResult,
        finding: Finding,
        failed: tuple[CandidateRecord, ...] = (),
    ) -> FittedModel:
        assert choice.best is not None
        has_patterns = finding is Finding.PATTERNS
        chosen = choice.evaluations[choice.best].point.n_patterns if has_patterns else None
        selection = make_selection_record(choice, gathered)
        has_likelihood = selection.chosen is not None and selection.chosen.held_out is not None
        decided_by = "likelihood" if has_likelihood else "agreement"
        selection = replace(
            selection,
            number_of_patterns=make_number_record(self.tests, self.model.forced, chosen, decided_by),
            finding=str(finding),
            difference=self.tests.make_difference_record(),
        )
        if not has_patterns:
            selection = replace(selection, grid=failed)
        fitted = build_model(
            self.cohort,
            self.preprocessing,
            self.people,
            gathered,
            choice,
            model,
            self.seed,
            selection,
        )
        return replace(fitted, card=replace(fitted.card, reference=self._make_reference_record()))

    def _make_reference_record(self) -> ReferenceRecord | None:
        """Return the reference and the weight that it gets among all controls."""
        controls = (self.completed.X[self.completed.y == 0] - CONTROL_MEAN) / CONTROL_SD
        target = ReferenceTarget.choose(controls, self.people.reference)
        if self.reference is None or target is None:
            return None
        return ReferenceRecord(self.reference.name, self.reference.people, self.reference.sites, target.weight)

    def _make_no_pattern_error(self, failed: tuple[CandidateRecord, ...]) -> NoPatternError:
        tests, noun = self.tests, get_wording(self.cohort.unit)("region")
        what = (
            f"no difference between patients and controls was detected (p = {tests.difference.p:.2f}); an effect of "
            f"d = {tests.smallest_effect:.2f} in one {noun} would have been found with a power of {MIN_POWER:.0%}"
        )
        selection = SelectionRecord(
            None,
            grid=failed,
            number_of_patterns=make_number_record(tests, self.model.forced, None),
            made_with=collect_provenance(self.cohort, self.seed),
            finding=str(Finding.NO_DIFFERENCE),
            difference=tests.make_difference_record(),
            adjust=self.preprocessing.adjust,
        )
        cure = "To train all the same, name one number of patterns (--patterns 2)."
        if failed:
            patterns = join_names(format_count(candidate.setting.n_patterns, "pattern") for candidate in failed)
            cure = f"{patterns}, as asked, gave no stable result, so there is no model."
        return NoPatternError(f"{what}. {cure}", selection)


def fit_cohort(
    cohort: Cohort,
    model: ModelConfig,
    seed: int,
    store: RunStore,
    workers: int = -1,
    *,
    engine: Engine | None = None,
    harmonise: str | None = None,
    adjust: str | None = None,
    observer: StudyObserver = _NO_OBSERVER,
    reference: NormalReference | None = None,
    visits: str | None = None,
) -> FittedModel:
    """Train what the store lacks, choose a setting and build the model.

    Parameters
    ----------
    cohort, model, seed, store, engine, harmonise, adjust, observer, reference, visits
        See `CohortFit`.
    workers : int
        Number of processes of this machine, where no engine is given.

    Returns
    -------
    FittedModel

    Raises
    ------
    NoPatternError
        If the study ends without a model.
    """
    engine = engine or LocalEngine(workers)
    fit = CohortFit(cohort, model, seed, store, engine, harmonise, adjust, observer, reference, visits=visits)
    return fit.run()


@dataclass
class _SettingWatcher:
    """Passes progress on, and announces each setting when all its members are trained."""

    plan: Sequence[MemberSet]
    store: RunStore
    patients: FloatArray
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
            candidate = make_candidate(work.point, gather_members(setting, self.store)[work.point], self.patients)
            concordance = compute_candidate_concordance(candidate)
            if concordance is not None:
                self.observer.on_setting(work.point, concordance)


def check_settings(cohort: Cohort, model: ModelConfig) -> None:
    """Refuse settings that cannot succeed, before anything is trained."""
    wanted = max(model.patterns or (1,))
    if model.orthogonality and not get_study_recipe(model.recipe).orthogonality_weights:
        raise StudyError(
            f"the recipe {model.recipe} has no weight of orthogonality: leave it out, or use --recipe adversarial "
            "or paper."
        )
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
    if n_settings > 1 and model.members < 2:
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


def make_candidate(point: GridPoint, members: Sequence[Member], patients: FloatArray) -> Candidate:
    """Return the usable members of a grid point, with what its choice needs."""
    usable = select_usable_members(members)
    shape = (0, len(patients), point.n_patterns)
    indices = np.stack([member.head.infer(patients) for member in usable]) if usable else np.zeros(shape)
    split_halves = [member.evidence for member in usable if member.evidence is not None]
    evidence = np.array(split_halves) if split_halves and len(split_halves) == len(usable) else None
    numbers = tuple(member.number for member in usable)
    converged = sum(member.outcome is TrainingOutcome.CONVERGED for member in members)
    return Candidate(point, indices, numbers, len(members), evidence, collect_likelihoods(members), converged)

"""A study: a cohort with all settings, the people as its members take them, and the
plan of its member sets.

`Study` is passed whole, so that no setting is lost on the way. Each member has a
pipeline of its own (site effects, adjustment, scales), learnt from the people that it
is trained on. So the R-index that a member gives to a person whom it has not seen owes
nothing to that person. The plan does not depend on the machine, so results do not
either.

Shape letters: S members, N people, R regions.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rindices._typing import BoolArray, FloatArray
from rindices.errors import StudyError, format_count, join_names
from rindices.learners.prepared_people import (
    PreparedPeople,
    find_seen_people,
    reduce_visits,
)
from rindices.model.normal_reference import NormalReference
from rindices.preprocess.ageing import N_FOLDS, choose_age_knots
from rindices.preprocess.harmonise import resolve_harmonise_mode
from rindices.preprocess.measures import encode_measures, resolve_adjustment
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.choose import GridPoint
from rindices.study.config import ModelConfig, StudyConfig
from rindices.study.group_tests import GroupTests, run_group_tests
from rindices.study.methods import (
    MEAN_DIFFERENCE,
    MemberSet,
    StudyMethod,
    get_study_method,
)
from rindices.study.outlying_measurements import CheckedCohort, check_cells
from rindices.tables.cohort import (
    GROUP,
    ID,
    SITE,
    Cohort,
    find_visit_times,
    sort_people,
)
from rindices.threads import limit_blas_threads
from rindices.wording import get_nouns

STACK_SIZE = N_FOLDS
"""Members per set: those of one partition into folds, or five that share matrix
products and fit a core's cache.
"""
_MIN_SITE_SIZE = 3  # two are left where one is in the fold of a member


@dataclass(frozen=True, eq=False)
class Study:
    """A cohort and all settings.

    Attributes
    ----------
    cohort : Cohort
        People in the order of the table.
    config : StudyConfig
        Settings. Of the section ``data``, only the adjustment and the visits are used.
        The rest was used to read the cohort.
    reference : NormalReference or None
        Reference that the study names (`rindices.study.preflight.read_reference`).
    """

    cohort: Cohort
    config: StudyConfig
    reference: NormalReference | None = None

    @property
    def seed(self) -> int:
        """Seed of everything that is drawn."""
        return self.config.run.seed

    @cached_property
    def checked(self) -> CheckedCohort:
        """The cohort in an order that depends on the values of people alone, and its
        outlying measurements.
        """
        with limit_blas_threads():
            cohort = sort_people(self.cohort, self.seed)
            return check_cells(
                cohort, self.seed, self.config.adjust, self.config.on_outlier
            )

    @property
    def ordered(self) -> Cohort:
        """The cohort as it is trained: in the order of `checked`, with outlying
        measurements missing.
        """
        return self.checked.cohort

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """The pipeline of everyone."""
        with limit_blas_threads():
            return self.config.fit_preprocessing(self.ordered, age_knots=self.age_knots)

    @cached_property
    def age_knots(self) -> tuple[float, ...]:
        """Knots of age as a spline, chosen with the folds of the first members; empty
        for a straight line.
        """
        cohort, data = self.ordered, self.config.data
        scale = resolve_adjustment(cohort, self.config.adjust)
        if self.config.has_straight_age or scale == "none":
            return ()
        mode = resolve_harmonise_mode(cohort, data.harmonise)
        volumes = cohort.volumes.to_numpy(dtype=float)
        volumes = np.log(volumes) if scale == "log" else volumes
        numbers = range(max(min(self.config.model.n_members, N_FOLDS), 2))
        first = replace(cohort, visits=None)
        seen = self.find_seen(numbers)
        return choose_age_knots(first, volumes, scale == "log", mode != "none", seen)

    def find_seen(self, numbers: Sequence[int]) -> BoolArray:
        """Return the people (S, N) that members are trained on, by group and site."""
        people = self.ordered.people
        strata = list(
            zip(
                *(people[name].astype(str) for name in (GROUP, SITE) if name in people),
                strict=True,
            )
        )
        # also the cells that are wrong
        measured = sort_people(self.cohort, self.seed)
        values = measured.volumes.to_numpy(dtype=float)
        return find_seen_people(values, strata, numbers, self.seed)

    @cached_property
    def tests(self) -> GroupTests:
        """The permutation tests."""
        return run_group_tests(
            self.ordered, self.seed, self.config.adjust, age_knots=self.age_knots
        )


@dataclass(frozen=True, eq=False)
class StudyPeople:
    """The people of a study as the members of a model take them.

    A study may end with another model than its own.

    Attributes
    ----------
    study : Study
        The study.
    model : ModelConfig
        Settings of the model.
    """

    study: Study
    model: ModelConfig

    @property
    def cohort(self) -> Cohort:
        """The people in the order in which they are trained."""
        return self.study.ordered

    @property
    def method(self) -> StudyMethod:
        """The method of the model."""
        return self.model.get_method()

    @property
    def visits(self) -> str:
        """What members learn from: the first visits, the mean of visits, or all of
        them.

        Left out in the study, all visits. Methods that do not couple visits learn from
        the mean of all.
        """
        if self.cohort.visits is None:
            return "first"
        visits = self.study.config.data.visits or "all"
        return visits if visits != "all" or "visits" in self.method.uses else "mean"

    @property
    def data_key(self) -> str:
        """Key of the training data: the cohort, its harmonisation, adjustment and
        visits, and the reference.
        """
        data, reference = self.study.config.data, self.study.reference
        mode = resolve_harmonise_mode(self.cohort, data.harmonise)
        scale = resolve_adjustment(self.cohort, self.study.config.adjust)
        parts = [
            self.cohort.fingerprint(),
            "" if mode == "none" else f"-{mode}",
            "" if data.age_curve is None else f"-age-{data.age_curve}",
            "" if data.harmonise_to is None else f"-to-{data.harmonise_to}",
            "" if scale == "linear" else f"-{scale}",
            "" if encode_measures(self.cohort) is None else f"-measures-{data.icv_for}",
            "" if self.visits == "first" else f"-visits-{self.visits}",
            "" if reference is None else f"-{reference.digest}",
        ]
        return "".join(parts)

    @property
    def plan(self) -> list[MemberSet]:
        """The member sets of the model."""
        return make_plan(self.model, self.study.seed, self.data_key)

    @cached_property
    def seen(self) -> BoolArray | None:
        """The people (S, N) that each member is trained on, by group and site; None if
        it is everyone.
        """
        if not self.method.leaves_people_out:
            return None
        self.check_site_sizes()
        return self.study.find_seen(range(self.model.n_members))

    def check_reference(self) -> None:
        """Refuse a reference that lacks a region."""
        if self.study.reference is not None:
            self.study.reference.select(self.cohort.regions)

    def check_site_sizes(self) -> None:
        """Refuse sites whose effect cannot be estimated without the people whom a
        member leaves out.

        So do the members of the mean difference, with which any study may end.
        """
        harmoniser = self.study.preprocessing.harmoniser
        sizes = (
            {}
            if harmoniser is None
            else dict(zip(harmoniser.sites, harmoniser.counts, strict=True))
        )
        small = [site for site, number in sizes.items() if number < _MIN_SITE_SIZE]
        if small:
            raise StudyError(
                f"{join_names(small)}: the effect of a site needs at least {_MIN_SITE_SIZE} controls, since each "
                "ensemble member leaves a fifth of the people out. Leave the site out "
                f"(--leave-out-site {','.join(small)}), or join it to another."
            )

    @cached_property
    def pipelines(self) -> tuple[Preprocessing, ...]:
        """The pipeline of each member; empty if all members share that of everyone."""
        if self.seen is None:
            return ()
        return tuple(
            self.study.config.fit_preprocessing(self.cohort, seen, self.study.age_knots)
            for seen in self.seen
        )

    def prepare(
        self, number: int | None = None, visits: str = "first"
    ) -> PreparedPeople:
        """Return the people, one row each.

        Parameters
        ----------
        number : int or None
            Member whose pipeline prepares them. By default, the pipeline of everyone.
        visits : str
            Use the first visit of each person, the mean of visits, or both the mean and
            the trend.
        """
        pipeline, seen, cohort = self.study.preprocessing, None, self.cohort
        if number is not None and self.seen is not None:
            pipeline, seen = self.pipelines[number], self.seen[number]
        reference = (
            None
            if self.study.reference is None
            else self.study.reference.select(cohort.regions)
        )
        y, kinds = cohort.is_patient.astype(np.intp), encode_measures(cohort)
        if visits == "first" or cohort.visits is None:
            return PreparedPeople(
                X=pipeline.transform(cohort),
                y=y,
                reference=reference,
                kinds=kinds,
                seen=seen,
            )
        positions = dict(zip(cohort.people[ID], range(len(cohort)), strict=True))
        person = cohort.visits.people[ID].map(positions).to_numpy(dtype=np.intp)
        is_control = cohort.is_control if seen is None else cohort.is_control & seen
        reduced = reduce_visits(
            pipeline.transform(cohort.visits),
            person,
            find_visit_times(cohort.visits),
            is_control,
        )
        people = PreparedPeople(
            X=reduced.level, y=y, reference=reference, kinds=kinds, seen=seen
        )
        return (
            people
            if visits == "mean"
            else replace(people, trend=reduced.trend, n_visits=reduced.n_visits)
        )

    def prepare_set(self, numbers: Sequence[int]) -> list[PreparedPeople]:
        """Return the people of each member of a set, to train on; one element if all
        members share them.
        """
        return [
            self.prepare(number, self.visits)
            for number in (numbers if self.seen is not None else [None])
        ]

    def prepare_patients(self, number: int) -> FloatArray:
        """Return the patients (N, R) of a member; missing cells are filled for methods
        that need all of them.
        """
        people = self.prepare(number)
        people = people if self.method.uses_measured_cells else people.complete()
        return np.asarray(people.X[people.y == 1])


def make_plan(model: ModelConfig, seed: int, data: str) -> list[MemberSet]:
    """Return the member sets of a model, in a fixed order; ``data`` is the key of the
    training data.
    """
    values, plan = model.resolve_values(), []
    points = [
        GridPoint(number, weight)
        for number in dict.fromkeys(model.patterns or ())
        for weight in model.list_weights()
    ]
    for point in points:
        own = dict(values)
        if point.orthogonality is not None:
            own["weights"] = values.get("weights", {}) | {
                "orthogonality": point.orthogonality
            }
        for start in range(0, model.n_members, STACK_SIZE):
            numbers = tuple(range(start, min(start + STACK_SIZE, model.n_members)))
            plan.append(
                MemberSet(
                    point=point,
                    numbers=numbers,
                    method=model.method,
                    values=json.dumps(own, sort_keys=True),
                    seed=seed,
                    data=data,
                )
            )
    return plan


def check_groups(cohort: Cohort) -> None:
    """Refuse people who are not controls and patients."""
    if not cohort.n_controls or not cohort.n_patients:
        raise StudyError(_explain_missing_group(cohort))


def _explain_missing_group(cohort: Cohort) -> str:
    """Return which group a cohort lacks, and what to do."""
    if not cohort.n_controls and not cohort.n_patients:
        cure = "name the column of groups (--group) and the labels (--controls, --patients) in it"
        return f"the cohort has no controls and no patients: {cure}."
    here, absent = (
        ("controls", "patients") if cohort.n_controls else ("patients", "controls")
    )
    number = max(cohort.n_controls, cohort.n_patients)
    return f"the cohort has {number:,} {here} and no {absent}: add {absent}, since a study compares the two groups."


def check_settings(cohort: Cohort, model: ModelConfig) -> None:
    """Refuse settings that cannot succeed, before anything is trained."""
    wanted = max(model.patterns or (1,))
    if wanted > 1 and model.method == MEAN_DIFFERENCE:
        raise StudyError(
            f"the method {MEAN_DIFFERENCE} has one index: leave out --patterns, or change the method."
        )
    if wanted > find_largest_number(cohort.n_patients, cohort.n_regions, model.method):
        least, noun = (
            model.get_method().min_patients(wanted),
            get_nouns(cohort.unit).region,
        )
        raise StudyError(
            f"{format_count(wanted, 'pattern needs', 'patterns need')} at least {least} patients and "
            f"{format_count(wanted, noun)}; there are {cohort.n_patients} and {cohort.n_regions}: "
            f"{'ask for fewer patterns' if wanted > 1 else 'add people'}."
        )
    typical = (1,) if model.method == MEAN_DIFFERENCE else (1, 2)
    one_member = model.model_copy(
        update={"members": 1, "patterns": model.patterns or typical}
    )
    n_settings = len(make_plan(one_member, 0, ""))
    if n_settings > 1 and model.n_members < 2:
        raise StudyError(
            f"choosing among {n_settings} settings needs at least 2 members each: raise members."
        )


def find_largest_number(n_patients: int, n_regions: int, method: str) -> int:
    """Return the largest number of patterns that a method can train on so many patients
    and regions; 0 if none.
    """
    min_patients = get_study_method(method).min_patients
    return max(
        (
            number
            for number in range(1, n_regions + 1)
            if min_patients(number) <= n_patients
        ),
        default=0,
    )

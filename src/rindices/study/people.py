"""People of a study as its members take them: prepared by a pipeline of each member, with one or several visits.

A pipeline is the preprocessing of a member (site effects, adjustment, scales), learnt from the people that the member
is trained on. So the R-index that a member gives to a person whom it has not seen owes nothing to that person.

Shape letters: S members, N people, R regions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from rindices._typing import BoolArray, FloatArray
from rindices.errors import StudyError, join_names
from rindices.learners.prepared_people import PreparedPeople, find_seen_people
from rindices.learners.repeat_visits import reduce_visits
from rindices.model.normal_reference import NormalReference
from rindices.preprocess.measures import encode_measures
from rindices.preprocess.pipeline import Preprocessing
from rindices.study.config import ModelConfig, StudyConfig
from rindices.study.recipes import get_study_recipe
from rindices.tables.cohort import GROUP, ID, SITE, Cohort, find_visit_times

_MIN_SITE_SIZE = 3  # two are left where one is in the fold of a member


@dataclass(frozen=True, eq=False)
class StudyPeople:
    """A cohort as the members of a study take it.

    preprocessing: learnt from everyone; seen (S, N): the people that each member is trained on; None if all members are
    trained on everyone.
    """

    cohort: Cohort
    study: StudyConfig
    preprocessing: Preprocessing
    reference: NormalReference | None = None
    seen: BoolArray | None = None

    def deal_to_members(self, model: ModelConfig) -> Self:
        """Return the people with the folds of the members of a model, within groups and sites."""
        if not get_study_recipe(model.recipe).leaves_people_out:
            return replace(self, seen=None)
        self._check_site_sizes()
        people = self.cohort.people
        strata = list(zip(*(people[name].astype(str) for name in (GROUP, SITE) if name in people), strict=True))
        values = self.cohort.volumes.to_numpy(dtype=float)
        return replace(self, seen=find_seen_people(values, strata, range(model.n_members), self.study.run.seed))

    def _check_site_sizes(self) -> None:
        """Refuse sites whose effect cannot be estimated without the people whom a member leaves out."""
        harmoniser = self.preprocessing.harmoniser
        sizes = {} if harmoniser is None else dict(zip(harmoniser.sites, harmoniser.counts, strict=True))
        small = [site for site, number in sizes.items() if number < _MIN_SITE_SIZE]
        if small:
            raise StudyError(
                f"{join_names(small)}: the effect of a site needs at least {_MIN_SITE_SIZE} controls, since each "
                "ensemble member leaves a fifth of the people out. Leave the site out, or join it to another."
            )

    @cached_property
    def pipelines(self) -> tuple[Preprocessing, ...]:
        """The pipeline of each member; empty if all members share `preprocessing`."""
        if self.seen is None:
            return ()
        return tuple(self.study.fit_preprocessing(self.cohort, seen) for seen in self.seen)

    def prepare(self, number: int | None = None, visits: str = "first") -> PreparedPeople:
        """Return the people, one row each.

        number: the member by whose pipeline they are prepared; left out, by that of everyone; visits: use the first
        visit of each person, the mean of visits, or both the mean and the trend.
        """
        pipeline, seen = self.preprocessing, None
        if number is not None and self.seen is not None:
            pipeline, seen = self.pipelines[number], self.seen[number]
        correlations = None if self.reference is None else self.reference.select(self.cohort.regions)
        y, kinds = self.cohort.is_patient.astype(np.intp), encode_measures(self.cohort)
        if visits == "first" or self.cohort.visits is None:
            return PreparedPeople(pipeline.transform(self.cohort), y, correlations, kinds, seen=seen)
        positions = dict(zip(self.cohort.people[ID], range(len(self.cohort)), strict=True))
        person = self.cohort.visits.people[ID].map(positions).to_numpy(dtype=np.intp)
        values, times = pipeline.transform(self.cohort.visits), find_visit_times(self.cohort.visits)
        is_control = self.cohort.is_control if seen is None else self.cohort.is_control & seen
        reduced = reduce_visits(values, person, times, is_control)
        people = PreparedPeople(reduced.level, y, correlations, kinds, seen=seen)
        return people if visits == "mean" else people._replace(trend=reduced.trend, n_visits=reduced.n_visits)

    def prepare_set(self, numbers: Sequence[int], visits: str = "first") -> list[PreparedPeople]:
        """Return the people of each member of a set; one element if all members share them."""
        return [self.prepare(number, visits) for number in (numbers if self.seen is not None else [None])]

    def prepare_patients(self, number: int, recipe: str) -> FloatArray:
        """Return the patients (N, R) of a member; missing cells are filled for recipes that need all of them."""
        people = self.prepare(number)
        people = people if get_study_recipe(recipe).uses_measured_cells else people.complete()
        return np.asarray(people.X[people.y == 1])


def resolve_visits(cohort: Cohort, visits: str | None, recipe: str) -> str:
    """Return what a recipe learns from: the first visits, the mean of visits, or all of them.

    visits: left out, ``all`` for recipes that couple visits, else ``mean``.
    """
    if cohort.visits is None:
        return "first"
    return visits or ("all" if "visits" in get_study_recipe(recipe).uses else "mean")

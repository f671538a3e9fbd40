"""People of a study as learners take them, with one or several visits each."""

import numpy as np

from rindices.errors import StudyError, join_names
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.repeat_visits import reduce_visits
from rindices.model.normal_reference import NormalReference
from rindices.preprocess.measures import encode_measures
from rindices.preprocess.pipeline import Preprocessing
from rindices.study.recipes import RECIPES, get_study_recipe
from rindices.tables.cohort import ID, Cohort
from rindices.tables.sessions import find_visit_times


def resolve_visits(cohort: Cohort, visits: str | None, recipe: str) -> str:
    """Return what a recipe learns from: the first visits, the mean of visits, or all of them.

    Parameters
    ----------
    cohort : Cohort
    visits : {'first', 'mean', 'all'}, optional
        Left out, ``all`` for recipes that couple visits, else ``mean``.
    recipe : str

    Raises
    ------
    StudyError
        If the recipe cannot couple visits.
    """
    couples_visits = get_study_recipe(recipe).couples_visits
    if visits == "all" and not couples_visits:
        names = join_names([name for name, each in RECIPES.items() if each.couples_visits])
        raise StudyError(f"the recipe {recipe} cannot couple visits: use --visits mean, or the recipe {names}.")
    if cohort.visits is None:
        return "first"
    return visits or ("all" if couples_visits else "mean")


def prepare_first_visits(
    cohort: Cohort, preprocessing: Preprocessing, reference: NormalReference | None = None
) -> PreparedPeople:
    """Return the rows of a cohort, one per person."""
    correlations = None if reference is None else reference.select(cohort.regions)
    y = cohort.is_patient.astype(np.intp)
    return PreparedPeople(preprocessing.transform(cohort), y, correlations, encode_measures(cohort))


def reduce_to_visits(
    people: PreparedPeople, cohort: Cohort, preprocessing: Preprocessing, visits: str
) -> PreparedPeople:
    """Return the people with the mean of their visits, and with their trend if visits are to be coupled.

    Parameters
    ----------
    people : PreparedPeople
        The first visits.
    cohort : Cohort
    preprocessing : Preprocessing
    visits : {'first', 'mean', 'all'}
    """
    if visits == "first" or cohort.visits is None:
        return people
    positions = dict(zip(cohort.people[ID], range(len(cohort)), strict=True))
    person = cohort.visits.people[ID].map(positions).to_numpy(dtype=np.intp)
    values, times = preprocessing.transform(cohort.visits), find_visit_times(cohort.visits)
    reduced = reduce_visits(values, person, times, cohort.is_control)
    people = people._replace(X=reduced.level)
    return people if visits == "mean" else people._replace(trend=reduced.trend, n_visits=reduced.n_visits)

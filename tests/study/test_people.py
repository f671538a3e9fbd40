"""People of a study with repeat visits."""

from dataclasses import replace

import numpy as np
import pytest

from rindices.experiments.visits import VisitPlan, simulate_visits
from rindices.preprocess.pipeline import Preprocessing
from rindices.study.config import DataConfig, StudyConfig
from rindices.study.people import StudyPeople, resolve_visits
from rindices.study.plan import make_data_key
from rindices.tables.cohort import ID, Cohort, attach_visits


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return attach_visits(simulate_visits("tiny", 0, VisitPlan(visits=3)).simulated.cohort)[0]


def test_visits_follow_the_recipe(cohort: Cohort) -> None:
    assert resolve_visits(cohort, None, "default") == "all"
    assert resolve_visits(cohort, None, "contrastive") == "mean"
    assert resolve_visits(cohort, "mean", "default") == "mean"
    assert resolve_visits(replace(cohort, visits=None), None, "default") == "first"


def test_people_have_the_mean_of_their_prepared_visits(cohort: Cohort) -> None:
    assert cohort.visits is not None
    preprocessing = Preprocessing.fit(cohort)
    people = StudyPeople(cohort, StudyConfig(data=DataConfig(volumes=("memory",))), preprocessing)
    first, mean, coupled = (people.prepare(visits=visits) for visits in ("first", "mean", "all"))
    assert first.trend is None
    assert mean.trend is None
    assert coupled.trend is not None
    assert coupled.n_visits is not None
    assert coupled.n_visits.sum() == len(cohort.visits)
    np.testing.assert_array_equal(coupled.X, mean.X)
    values, ids = preprocessing.transform(cohort.visits), cohort.visits.people[ID].to_numpy()
    for row in (0, 50, len(cohort) - 1):
        own = values[ids == cohort.people[ID].iloc[row]]
        np.testing.assert_allclose(mean.X[row], own.mean(axis=0))
        np.testing.assert_array_equal(first.X[row], own[0])


def test_the_key_of_the_data_depends_on_the_visits(cohort: Cohort) -> None:
    study = StudyConfig(data=DataConfig(volumes=("memory",)))
    keys = {make_data_key(cohort, study, None, visits) for visits in ("mean", "all")}
    keys |= {make_data_key(replace(cohort, visits=None), study, None, "first")}
    half = cohort.take(np.arange(len(cohort)) % 2 == 0)
    assert half.visits is not None
    assert set(half.visits.people[ID]) == set(half.people[ID])
    assert len(keys | {make_data_key(half, study, None, "all")}) == 4

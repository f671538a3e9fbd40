"""People of a study with repeat visits."""

from dataclasses import replace

import numpy as np
import pytest

from rindices.experiments.visits import VisitPlan, simulate_visits
from rindices.study.config import DataConfig, ModelConfig, StudyConfig
from rindices.study.study import Study, StudyPeople
from rindices.tables.cohort import ID, Cohort, attach_visits


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return attach_visits(
        simulate_visits("tiny", 0, VisitPlan(visits=3)).simulated.cohort
    )[0]


def make_people(
    cohort: Cohort, visits: str | None = None, method: str = "trajectories"
) -> StudyPeople:
    config = StudyConfig(
        data=DataConfig(volumes=("memory",), visits=visits),
        model=ModelConfig(method=method),
    )
    return StudyPeople(Study(cohort, config), config.model)


def test_visits_follow_the_method(cohort: Cohort) -> None:
    assert make_people(cohort).visits == "all"
    assert make_people(cohort, method="contrastive").visits == "mean"
    assert (
        make_people(cohort, "all", "mean-difference").visits == "mean"
    )  # with which a study may end
    assert make_people(cohort, "mean").visits == "mean"
    assert make_people(replace(cohort, visits=None)).visits == "first"


def test_people_have_the_mean_of_their_prepared_visits(cohort: Cohort) -> None:
    people = make_people(cohort)
    cohort = people.cohort
    assert cohort.visits is not None
    first, mean, coupled = (
        people.prepare(visits=visits) for visits in ("first", "mean", "all")
    )
    assert first.trend is None
    assert mean.trend is None
    assert coupled.trend is not None
    assert coupled.n_visits is not None
    assert coupled.n_visits.sum() == len(cohort.visits)
    np.testing.assert_array_equal(coupled.X, mean.X)
    values, ids = (
        people.study.preprocessing.transform(cohort.visits),
        cohort.visits.people[ID].to_numpy(),
    )
    for row in (0, 50, len(cohort) - 1):
        own = values[ids == cohort.people[ID].iloc[row]]
        np.testing.assert_allclose(mean.X[row], own.mean(axis=0))
        np.testing.assert_array_equal(first.X[row], own[0])


def test_the_key_of_the_data_depends_on_the_visits(cohort: Cohort) -> None:
    half = cohort.take(np.arange(len(cohort)) % 2 == 0)
    assert half.visits is not None
    assert set(half.visits.people[ID]) == set(half.people[ID])
    cohorts = [
        (cohort, "mean"),
        (cohort, "all"),
        (replace(cohort, visits=None), None),
        (half, "all"),
    ]
    assert len({make_people(*each).data_key for each in cohorts}) == 4


def test_the_model_that_a_study_ends_with_keeps_its_adjustment(cohort: Cohort) -> None:
    """The method surreal-gan-published is linear, and so is the mean difference of its
    study.
    """
    people = make_people(replace(cohort, visits=None), method="surreal-gan-published")
    other = StudyPeople(people.study, ModelConfig(method="mean-difference"))
    assert other.data_key == people.data_key == people.cohort.fingerprint()

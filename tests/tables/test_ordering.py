"""The order of people depends on their values alone."""

from dataclasses import replace

import numpy as np

import rindices as ri
from rindices.experiments.visits import VisitPlan, simulate_visits
from rindices.tables.cohort import ID
from rindices.tables.ordering import order_people, sort_people
from rindices.tables.sessions import attach_visits


def test_ids_digits_beyond_six_and_columns_do_not_matter() -> None:
    cohort = ri.simulate_cohort("tiny", 0).cohort
    cohort = replace(cohort, volumes=cohort.volumes.round(0))
    order = order_people(cohort, 0)
    renamed = cohort.people.assign(**{ID: [f"x{k:04d}" for k in range(len(cohort), 0, -1)]})
    volumes = cohort.volumes.iloc[:, ::-1] * (1 + 1e-12)
    np.testing.assert_array_equal(order_people(replace(cohort, people=renamed, volumes=volumes), 0), order)
    assert sorted(order) == list(range(len(cohort)))
    assert (order_people(cohort, 1) != order).any()


def test_people_with_equal_values_have_a_fixed_order() -> None:
    cohort = ri.simulate_cohort("tiny", 0).cohort
    same = replace(cohort, volumes=cohort.volumes * 0 + 1.0)
    order, shuffled = order_people(same, 0), np.random.default_rng(0).permutation(len(same))
    frames = (frame.iloc[shuffled].reset_index(drop=True) for frame in (same.volumes, same.people, same.covariates))
    again = order_people(ri.Cohort(*frames), 0)
    np.testing.assert_array_equal(shuffled[again], order)


def test_visits_follow_their_people() -> None:
    cohort = attach_visits(simulate_visits("tiny", 0, VisitPlan(visits=3)).simulated.cohort)[0]
    ordered = sort_people(cohort, 0)
    assert ordered.visits is not None
    assert ordered.visits.people[ID].drop_duplicates().tolist() == ordered.people[ID].tolist()
    assert ordered.fingerprint() == cohort.fingerprint()

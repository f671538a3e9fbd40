"""Choice between coupled visits and the mean of visits, in members of the trajectory
learner.
"""

from dataclasses import replace

import numpy as np
import pytest

from rindices._typing import FloatArray
from rindices.learners.contrastive.estimator import initialise_contrastive_head
from rindices.learners.ensemble import Member, is_clear_gain
from rindices.learners.prepared_people import PreparedPeople, reduce_visits
from rindices.learners.trajectory.coupling import MIN_COUPLING_GAIN
from rindices.learners.trajectory.members import (
    compare_trajectory_halves,
    fit_trajectory_members,
)
from rindices.learners.trajectory.visits import MIN_FOLLOWED, prepare_visit_shifts
from rindices.selection.agreement import pattern_c_index
from tests.learners.trajectory.helpers import FollowedCohort, simulate_followed


def prepare(cohort: FollowedCohort) -> PreparedPeople:
    reduced = reduce_visits(
        1.0 + 0.1 * cohort.visits, cohort.person, cohort.times, cohort.y == 0
    )
    return PreparedPeople(
        X=reduced.level, y=cohort.y, trend=reduced.trend, n_visits=reduced.n_visits
    )


def get_first_visits(cohort: FollowedCohort) -> FloatArray:
    rows = np.unique(cohort.person, return_index=True)[1]
    return np.asarray(1.0 + 0.1 * cohort.visits[rows][cohort.y == 1])


def score(member: Member, cohort: FollowedCohort) -> float:
    return pattern_c_index(cohort.z, member.head.infer(get_first_visits(cohort))).mean


@pytest.mark.slow
def test_visits_are_coupled_where_disease_moves_and_severities_are_found_better() -> (
    None
):
    cohort = simulate_followed(0.6)
    people = prepare(cohort)
    dealt = people.deal_to_members(range(5), 0)
    settings = {"seed": 0, "shape": "proportional", "start": "contrastive"}
    members = fit_trajectory_members(dealt, 2, range(5), **settings)
    members = compare_trajectory_halves(dealt, members, seed=0)
    mean = fit_trajectory_members(dealt, 2, range(5), coupled=False, **settings)
    for member, other in zip(members, mean, strict=True):
        assert member.held_out is not None
        assert other.held_out is not None
        assert (member.held_out.coupled, other.held_out.coupled) == (True, False)
        assert member.held_out.coupling_gain == other.held_out.coupling_gain
        assert member.evidence is not None
        assert member.evidence[0] > 0.6
    assert (
        np.mean([score(one, cohort) for one in members])
        > np.mean([score(one, cohort) for one in mean]) + 0.01
    )


def test_visits_are_not_coupled_where_nothing_moves() -> None:
    cohort = simulate_followed(0.0)
    people = prepare(cohort)
    numbers = range(5)
    member, *_ = fit_trajectory_members(
        people.deal_to_members(numbers, 0), 2, numbers, seed=0, shape="proportional"
    )
    assert member.held_out is not None
    assert member.held_out.coupled is False
    mean, *_ = fit_trajectory_members(
        replace(people, trend=None).deal_to_members(numbers, 0),
        2,
        numbers,
        seed=0,
        shape="proportional",
    )
    assert mean.held_out is not None
    assert (mean.held_out.coupled, mean.held_out.coupling_gain) == (None, None)
    np.testing.assert_allclose(
        member.patterns, mean.patterns
    )  # the heads differ by the retest noise of one visit
    assert member.held_out.proportional == pytest.approx(mean.held_out.proportional)


def test_with_few_followed_people_the_mean_of_visits_is_fitted() -> None:
    cohort = simulate_followed(0.6)
    people = prepare(cohort)
    assert people.trend is not None
    trend = people.trend.copy()
    trend[np.flatnonzero(cohort.y == 0)[MIN_FOLLOWED - 1 :]] = np.nan
    few, none = replace(people, trend=trend), replace(people, trend=None, n_visits=None)
    members = [
        fit_trajectory_members(each.deal_to_members([0], 0), 2, [0], 0, "proportional")[
            0
        ]
        for each in (few, none)
    ]
    np.testing.assert_array_equal(members[0].patterns, members[1].patterns)


def test_trends_of_two_visits_are_differences_of_their_shifts() -> None:
    rng = np.random.default_rng(0)
    first, second = np.exp(rng.normal(0, 0.2, (2, 120, 3)))
    second[60:] *= 0.8
    y = np.repeat([0, 1], 60)
    level, trend = (first + second) / 2, (second - first) / np.sqrt(2)
    head = initialise_contrastive_head(level, y == 1, 1, straighten=True)
    people = PreparedPeople(X=level, y=y, trend=trend, n_visits=np.full(120, 2))
    found = prepare_visit_shifts(people, head)
    assert found is not None
    assert found.retest_share == 0.5
    np.testing.assert_allclose(
        found.trend,
        (head.prepare(second) - head.prepare(first)) / np.sqrt(2),
        atol=1e-9,
    )
    rows = found.select(level, np.array([0, 5]))
    np.testing.assert_array_equal(rows.trend, found.trend[[0, 5]])


@pytest.mark.parametrize(
    ("gains", "coupled"),
    [((0.5, 0.6), True), ((0.1, 0.2), False), ((3.0, -2.0), False)],
)
def test_the_gain_must_be_large_and_certain(
    gains: tuple[float, float], coupled: bool
) -> None:
    assert is_clear_gain(np.array(gains), MIN_COUPLING_GAIN) is coupled


def test_staged_patterns_are_those_of_the_mean_of_visits() -> None:
    people = prepare(simulate_followed(0.6))
    (member,) = fit_trajectory_members(
        people.deal_to_members([0], 0), 2, [0], seed=0, shape="staged", coupled=True
    )
    (mean,) = fit_trajectory_members(
        replace(people, trend=None).deal_to_members([0], 0),
        2,
        [0],
        seed=0,
        shape="staged",
    )
    assert member.held_out is not None
    assert member.held_out.coupled is False
    np.testing.assert_array_equal(member.patterns, mean.patterns)

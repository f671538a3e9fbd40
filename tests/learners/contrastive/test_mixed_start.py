"""The mixed start: which patterns are local, and that these are kept beside independent
diffuse ones.
"""

import numpy as np
import pytest

from rindices.learners.contrastive.linear_start import GroupMoments
from rindices.learners.contrastive.mixed_start import (
    MAX_LOCAL_SHARE,
    compute_region_shares,
    has_local_patterns,
    solve_mixed,
)
from rindices.learners.contrastive.rotation import compute_severity_weights
from rindices.learners.contrastive.whole_cohort_start import (
    CONTROL_SHARE,
    shrink_controls,
)
from tests.learners.diffuse_people import DiffusePeople, simulate_mixed_people


def compute_moments(people: DiffusePeople) -> GroupMoments:
    return GroupMoments.compute(
        people.shifts[people.y == 0], people.shifts[people.y == 1]
    )


def measure_cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(abs(first @ second) / np.linalg.norm(first) / np.linalg.norm(second))


def test_share_of_regions() -> None:
    patterns = np.zeros((40, 2))
    patterns[:, 0] = -2.0
    patterns[:4, 1] = 5.0
    np.testing.assert_allclose(compute_region_shares(patterns), [1.0, 0.1])


def test_local_patterns_are_those_of_most_members() -> None:
    local, diffuse = np.ones((40, 2)), np.ones((40, 2))
    local[4:, 1] = 0.0
    assert compute_region_shares(local).min() < MAX_LOCAL_SHARE
    assert has_local_patterns([local, diffuse, local])
    assert not has_local_patterns([local, diffuse, diffuse])
    assert not has_local_patterns([local[:, 1:]] * 3)  # one pattern alone


@pytest.mark.parametrize("seed", range(3))
def test_the_local_pattern_is_kept_and_the_other_one_is_that_of_the_whole_cohort(
    seed: int,
) -> None:
    people = simulate_mixed_people(seed)
    diffuse, local = people.patterns
    blurred = np.stack([diffuse + 0.3 * local, local + 0.02 * diffuse], axis=1)
    start = solve_mixed(compute_moments(people), blurred)
    cosines = [measure_cosine(each, blurred[:, 1]) for each in start.patterns.T]
    assert max(cosines) == pytest.approx(1.0, abs=1e-12)
    (other,) = start.patterns[:, np.argsort(cosines)[:1]].T
    assert measure_cosine(other, diffuse) > 0.93


def test_severities_are_independent_in_the_whole_cohort() -> None:
    people = simulate_mixed_people()
    moments = compute_moments(people)
    start = solve_mixed(moments, people.patterns.T)
    noise = shrink_controls(moments)
    np.testing.assert_array_equal(start.noise, noise)
    weights = compute_severity_weights(start.patterns, noise)
    controls, patients = moments.controls, moments.patients
    mean = weights.T @ (patients.mean - controls.mean)
    assert (mean > 0).all()
    excess = weights.T @ (patients.covariance - controls.covariance) @ weights
    excess += CONTROL_SHARE * np.outer(mean, mean)
    assert np.abs(excess - np.diag(np.diag(excess))).max() < 1e-8

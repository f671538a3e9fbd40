"""Standard errors and intervals of consensus patterns."""

import numpy as np
import pytest
from scipy import stats

from rindices.selection.agreement import (
    compute_confidence_interval,
    compute_standard_error,
)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_jackknife_gives_the_standard_error_of_a_mean(share: float) -> None:
    rng = np.random.default_rng(0)
    people = rng.exponential(size=(200, 3))
    n_seen = round(share * len(people))
    members = np.stack(
        [
            people[rng.permutation(len(people))[:n_seen]].mean(axis=0)
            for _ in range(4000)
        ]
    )
    error = compute_standard_error(members[:, None, None, :], share)[0, 0]
    np.testing.assert_allclose(error, stats.sem(people, axis=0), rtol=0.05)


def test_members_that_see_everyone_give_the_spread_of_one_training() -> None:
    members = np.random.default_rng(1).normal(size=(12, 4, 2, 5))
    np.testing.assert_allclose(
        compute_standard_error(members, 1.0), members.std(axis=0, ddof=1)
    )


def test_interval_is_students() -> None:
    low, high = compute_confidence_interval(np.array([2.0]), np.array([0.5]), 10)
    np.testing.assert_allclose([low[0], high[0]], stats.t(9, 2.0, 0.5).interval(0.95))

"""The retest error is the noise of a visit, and few people without change exceed its limit."""

import numpy as np
import pytest

from rindices.analysis.slopes import IndexVisits, estimate_retest_error


def simulate_stable_people(n_people: int, n_visits: int, seed: int = 0) -> IndexVisits:
    rng = np.random.default_rng(seed)
    person, time = np.repeat(np.arange(n_people), n_visits), np.tile(np.arange(float(n_visits)), n_people)
    values = rng.normal(0, 0.3, n_people)[person] + 0.1 * time + rng.normal(0, 0.1, len(person))
    return IndexVisits(values, time, person, n_people)


@pytest.mark.parametrize("n_visits", [2, 4])
def test_noise_and_correlation_are_recovered(n_visits: int) -> None:
    error = estimate_retest_error(simulate_stable_people(1000, n_visits))
    assert error is not None
    assert (error.people, error.visits) == (1000, 1000 * n_visits)
    assert error.noise == pytest.approx(0.1, rel=0.06)
    assert error.correlation == pytest.approx(0.9, abs=0.02)
    assert error.smallest_change == pytest.approx(1.96 * np.sqrt(2) * error.noise, rel=0.01)


def test_one_in_twenty_stable_people_exceeds_the_smallest_change() -> None:
    error = estimate_retest_error(simulate_stable_people(500, 2))
    assert error is not None
    others = simulate_stable_people(4000, 2, seed=1)
    change = np.diff(others.values.reshape(-1, 2), axis=1)[:, 0] - 0.1
    assert np.mean(np.abs(change) > error.smallest_change) == pytest.approx(0.05, abs=0.015)


def test_two_controls_are_not_enough() -> None:
    assert estimate_retest_error(simulate_stable_people(2, 3)) is None

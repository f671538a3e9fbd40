"""Reduction of visits to levels and trends."""

import numpy as np
import pytest

from rindices.learners.prepared_people import reduce_visits


def test_level_and_trend_are_those_of_a_naive_loop() -> None:
    rng = np.random.default_rng(0)
    counts = np.array([1, 2, 3, 4, 2, 3])
    person, times = np.repeat(np.arange(6), counts), rng.random(counts.sum())
    values, is_control = (
        rng.normal(size=(len(person), 3)),
        np.array([True, True, True, False, False, False]),
    )
    mixed = rng.permutation(len(person))
    found = reduce_visits(values[mixed], person[mixed], times[mixed], is_control)
    products, squares = np.zeros(3), 0.0
    raw = {}
    for one in range(6):
        own, t = values[person == one], times[person == one]
        np.testing.assert_allclose(found.level[one], own.mean(axis=0))
        if len(own) > 1:
            slope = np.polyfit(t, own, 1)[0]
            spread = np.sqrt(((t - t.mean()) ** 2).sum())
            raw[one] = slope, spread
            if is_control[one]:
                products, squares = products + spread**2 * slope, squares + spread**2
    assert found.n_visits.tolist() == counts.tolist()
    assert np.isnan(found.trend[0]).all()
    for one, (slope, spread) in raw.items():
        np.testing.assert_allclose(
            found.trend[one], spread * (slope - products / squares)
        )


def test_noise_of_trends_is_that_of_a_visit_however_many_there_are() -> None:
    rng = np.random.default_rng(1)
    for n_visits in (2, 5):
        person = np.repeat(np.arange(4000), n_visits)
        values = 10 * rng.normal(size=(4000, 1))[person] + rng.normal(
            size=(len(person), 1)
        )
        trend = reduce_visits(
            values, person, rng.random(len(person)), np.ones(4000, dtype=bool)
        ).trend
        assert trend.std() == pytest.approx(1.0, abs=0.05)


def test_the_course_of_controls_is_taken_from_everyone() -> None:
    person, times = np.repeat([0, 1, 2], 3), np.array([0.0, 1, 2, 0, 3, 4, 0, 1, 5])
    values = 2.0 * times[:, None] + np.repeat([5.0, 7, 9], 3)[:, None]
    found = reduce_visits(values, person, times, np.array([True, True, False]))
    np.testing.assert_allclose(found.trend, 0.0, atol=1e-12)


def test_missing_cells_leave_the_level_of_the_other_visits() -> None:
    values = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, 4.0], [2.0, 6.0]])
    found = reduce_visits(
        values,
        np.array([0, 0, 1, 1]),
        np.array([0.0, 1, 0, 1]),
        np.array([False, False]),
    )
    np.testing.assert_array_equal(found.level, [[2.0, np.nan], [2.0, 5.0]])
    np.testing.assert_allclose(
        found.trend, [[np.sqrt(2), np.nan], [np.nan, np.sqrt(2)]]
    )

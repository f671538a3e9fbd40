"""Shrunken slopes are closer to the truth, and differences between groups equal those of statsmodels."""

import numpy as np
import pytest
import statsmodels.api as sm

from rindices.analysis.slopes import (
    MIXED_MODEL,
    TWO_STAGE,
    IndexVisits,
    compare_slopes,
    estimate_slopes,
    fit_robust_regression,
)


def simulate_visits(
    n_people: int, n_visits: int, noise: float = 0.05, sd: float = 0.02, seed: int = 0
) -> tuple[IndexVisits, np.ndarray]:
    """Return visits about half a year around whole years, and true slopes."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_people), n_visits)
    time = np.tile(np.arange(float(n_visits)), n_people) + rng.uniform(-0.3, 0.3, len(person))
    slopes = rng.normal(0.05, sd, n_people)
    values = rng.normal(0.4, 0.2, n_people)[person] + slopes[person] * time + rng.normal(0, noise, len(person))
    return IndexVisits(values, time, person, n_people), slopes


def test_intervals_of_shrunken_slopes_cover_the_truth() -> None:
    """Also in small groups, in which the variance of slopes is often estimated as zero."""
    shares = []
    for seed in range(6):
        visits, truth = simulate_visits(40, 3, seed=seed)
        result = estimate_slopes(visits)
        shares.append(np.mean(np.abs(result.slopes - truth) < 1.645 * result.errors))
    assert abs(np.mean(shares) - 0.9) < 0.07


def test_shrunken_slopes_have_smaller_errors() -> None:
    visits, truth = simulate_visits(400, 3)
    result = estimate_slopes(visits)
    assert result.model == MIXED_MODEL
    least_squares = visits.fit_lines().slope[:, 0]
    assert np.mean((result.slopes - truth) ** 2) < 0.75 * np.mean((least_squares - truth) ** 2)
    assert result.slope_variance == pytest.approx(0.02**2, rel=0.4)
    assert result.noise_variance == pytest.approx(0.05**2, rel=0.15)


def test_two_visits_are_shrunken_by_the_noise_of_other_people() -> None:
    visits, truth = simulate_visits(400, 2)
    result = estimate_slopes(visits, noise_variance=0.05**2)
    assert result.model == TWO_STAGE
    least_squares = visits.fit_lines().slope[:, 0]
    assert np.mean((result.slopes - truth) ** 2) < 0.5 * np.mean((least_squares - truth) ** 2)
    assert result.mean == pytest.approx(float(least_squares.mean()))
    assert np.isnan(estimate_slopes(visits).slopes).all()


@pytest.mark.parametrize("n_visits", [2, 3])
def test_a_difference_of_slopes_is_found_where_it_is(n_visits: int) -> None:
    visits, _ = simulate_visits(200, n_visits, seed=1)
    is_patient = (np.arange(200) % 2).astype(float)
    age = np.random.default_rng(2).normal(size=(200, 1)) + is_patient[:, None]
    shift = (0.03 * is_patient + 0.02 * age[:, 0])[visits.person] * visits.time
    moved = IndexVisits(visits.values + shift, visits.time, visits.person, 200)
    result = compare_slopes(moved, is_patient, age)
    assert result.model == (MIXED_MODEL if n_visits > 2 else TWO_STAGE)
    assert abs(result.difference - 0.03) < 2.5 * result.error
    unadjusted = compare_slopes(moved, is_patient, np.zeros((200, 0)))
    assert unadjusted.difference - result.difference > 0.01  # age differs between groups and changes slopes


def test_robust_regression_equals_statsmodels() -> None:
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(40), rng.normal(size=(40, 2))])
    values = design @ [1.0, 0.5, -0.2] + rng.normal(size=40) * np.abs(design[:, 1])
    expected = sm.OLS(values, design).fit(cov_type="HC3")
    coefficients, covariance = fit_robust_regression(values, design)
    np.testing.assert_allclose(coefficients, expected.params, atol=1e-10)
    np.testing.assert_allclose(covariance, expected.cov_params(), atol=1e-10)

"""The mixed model equals statsmodels', and says when visits do not determine it."""

import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from rindices.analysis.mixed_model import MixedModel, count_degrees_of_freedom, fit_mixed_model

TRUE_COVARIANCE = np.array([[1.0, 0.15], [0.15, 0.25]])


def simulate_people(number: int = 50, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return values, time, person and design of two to five visits each, with a covariate."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(number), rng.integers(2, 6, number))
    time = rng.uniform(0, 3, len(person))
    effects = rng.multivariate_normal([2.0, 0.5], TRUE_COVARIANCE, number)
    covariate = rng.normal(size=number)[person]
    values = effects[person, 0] + effects[person, 1] * time + 0.3 * covariate + rng.normal(0, 0.4, len(person))
    return values, time, person, np.column_stack([np.ones_like(time), time, covariate, covariate * time])


def compute_criterion(model: MixedModel, values, time, person, design) -> float:  # type: ignore[no-untyped-def]
    """Return -2 times the restricted log-likelihood from the covariance of the visits, person by person."""
    total, information = 0.0, np.zeros((design.shape[1],) * 2)
    for one in np.unique(person):
        rows = person == one
        z = np.column_stack([np.ones(rows.sum()), time[rows]])
        covariance = z @ model.random_covariance @ z.T + model.noise_variance * np.eye(rows.sum())
        total -= 2 * multivariate_normal.logpdf(values[rows], design[rows] @ model.coefficients, covariance)
        information += design[rows].T @ np.linalg.solve(covariance, design[rows])
    return total + float(np.linalg.slogdet(information)[1])


def test_estimates_equal_statsmodels() -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM

    values, time, person, design = simulate_people()
    model = fit_mixed_model(values, time, person, person.max() + 1, design)
    z = np.column_stack([np.ones_like(time), time])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = MixedLM(values, design, groups=person, exog_re=z).fit(reml=True, method=["lbfgs"])
    assert model.converged
    np.testing.assert_allclose(model.coefficients, expected.fe_params, atol=2e-4)
    np.testing.assert_allclose(np.sqrt(np.diag(model.covariance)), expected.bse_fe, rtol=5e-3)  # observed information
    np.testing.assert_allclose(model.random_covariance, expected.cov_re, atol=5e-3)
    np.testing.assert_allclose(model.noise_variance, expected.scale, rtol=5e-3)
    slopes = np.array([expected.random_effects[one].iloc[1] for one in range(person.max() + 1)])
    np.testing.assert_allclose(model.slopes, slopes, atol=5e-3)


def test_no_other_variances_have_a_higher_likelihood() -> None:
    visits = simulate_people(seed=3)
    values, time, person, design = visits
    model = fit_mixed_model(values, time, person, person.max() + 1, design)
    best = compute_criterion(model, *visits)
    rng = np.random.default_rng(0)
    for _ in range(10):
        step = rng.normal(0, 0.02, (2, 2))
        changed = MixedModel(**{**vars(model), "random_covariance": model.random_covariance + step @ step.T})
        assert compute_criterion(changed, *visits) > best
        changed = MixedModel(**{**vars(model), "noise_variance": model.noise_variance * np.exp(rng.normal(0, 0.1))})
        assert compute_criterion(changed, *visits) > best


def test_equal_slopes_give_a_slope_variance_of_nearly_zero() -> None:
    rng = np.random.default_rng(1)
    person, time = np.repeat(np.arange(60), 3), np.tile([0.0, 1.0, 2.0], 60)
    shares = []
    for _ in range(5):
        values = rng.normal(size=60)[person] + 0.2 * time + rng.normal(0, 0.3, 180)
        model = fit_mixed_model(values, time, person, 60, np.column_stack([np.ones(180), time]))
        assert model.converged
        shares.append(model.random_covariance[1, 1] / model.noise_variance)
    assert min(shares) < 0.02
    assert max(shares) < 0.3


@pytest.mark.parametrize(("visits", "expected"), [(1, 0), (2, 0), (3, 7), (5, 21)])
def test_visits_beyond_the_second_count(visits: int, expected: int) -> None:
    assert count_degrees_of_freedom(np.repeat(np.arange(7), visits), 7) == expected

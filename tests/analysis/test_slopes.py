"""Mixed models equal those of statsmodels; slopes, their differences and the retest
error.
"""

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import multivariate_normal

from rindices.analysis.slopes import (
    MIXED_MODEL,
    TWO_STAGE,
    MixedModel,
    Visits,
    compare_slopes,
    estimate_retest_error,
    estimate_slopes,
    fit_mixed_model,
    fit_robust_regression,
)

TRUE_COVARIANCE = np.array([[1.0, 0.15], [0.15, 0.25]])


def simulate_people(
    number: int = 50, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return values, time, person and design of two to five visits each, with a
    covariate.
    """
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(number), rng.integers(2, 6, number))
    time = rng.uniform(0, 3, len(person))
    effects = rng.multivariate_normal([2.0, 0.5], TRUE_COVARIANCE, number)
    covariate = rng.normal(size=number)[person]
    values = (
        effects[person, 0]
        + effects[person, 1] * time
        + 0.3 * covariate
        + rng.normal(0, 0.4, len(person))
    )
    return (
        values,
        time,
        person,
        np.column_stack([np.ones_like(time), time, covariate, covariate * time]),
    )


def fit_model(
    values: np.ndarray, time: np.ndarray, person: np.ndarray, design: np.ndarray
) -> MixedModel:
    model = fit_mixed_model(
        Visits(
            values=values[:, None],
            time=time,
            person=person,
            n_people=int(person.max()) + 1,
        ),
        design,
    )
    assert model is not None
    return model


def compute_criterion(model: MixedModel, values, time, person, design) -> float:  # type: ignore[no-untyped-def]
    """Return -2 times the restricted log-likelihood from the covariance of the visits,
    person by person.
    """
    total, information = 0.0, np.zeros((design.shape[1],) * 2)
    for one in np.unique(person):
        rows = person == one
        z = np.column_stack([np.ones(rows.sum()), time[rows]])
        covariance = z @ model.random_covariance @ z.T + model.noise_variance * np.eye(
            rows.sum()
        )
        total -= 2 * multivariate_normal.logpdf(
            values[rows], design[rows] @ model.coefficients, covariance
        )
        information += design[rows].T @ np.linalg.solve(covariance, design[rows])
    return total + float(np.linalg.slogdet(information)[1])


def test_estimates_equal_statsmodels() -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM

    values, time, person, design = simulate_people()
    model = fit_model(values, time, person, design)
    z = np.column_stack([np.ones_like(time), time])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = MixedLM(values, design, groups=person, exog_re=z).fit(
            reml=True, method=["lbfgs"]
        )
    np.testing.assert_allclose(model.coefficients, expected.fe_params, atol=2e-4)
    np.testing.assert_allclose(
        np.sqrt(np.diag(model.covariance)), expected.bse_fe, rtol=5e-3
    )  # observed information
    np.testing.assert_allclose(model.random_covariance, expected.cov_re, atol=5e-3)
    np.testing.assert_allclose(model.noise_variance, expected.scale, rtol=5e-3)
    slopes = np.array(
        [expected.random_effects[one].iloc[1] for one in range(person.max() + 1)]
    )
    np.testing.assert_allclose(model.slopes, slopes, atol=5e-3)


def test_no_other_variances_have_a_higher_likelihood() -> None:
    visits = simulate_people(seed=3)
    values, time, person, design = visits
    model = fit_model(values, time, person, design)
    best = compute_criterion(model, *visits)
    rng = np.random.default_rng(0)
    for _ in range(10):
        step = rng.normal(0, 0.02, (2, 2))
        changed = MixedModel(
            **{
                **vars(model),
                "random_covariance": model.random_covariance + step @ step.T,
            }
        )
        assert compute_criterion(changed, *visits) > best - 1e-8
        changed = MixedModel(
            **{
                **vars(model),
                "noise_variance": model.noise_variance * np.exp(rng.normal(0, 0.1)),
            }
        )
        assert compute_criterion(changed, *visits) > best - 1e-8


def test_equal_slopes_give_a_slope_variance_of_nearly_zero() -> None:
    rng = np.random.default_rng(1)
    person, time = np.repeat(np.arange(60), 3), np.tile([0.0, 1.0, 2.0], 60)
    shares = []
    for _ in range(5):
        values = rng.normal(size=60)[person] + 0.2 * time + rng.normal(0, 0.3, 180)
        model = fit_model(values, time, person, np.column_stack([np.ones(180), time]))
        shares.append(model.random_covariance[1, 1] / model.noise_variance)
    assert min(shares) < 0.02
    assert max(shares) < 0.3


def simulate_visits(
    n_people: int, n_visits: int, noise: float = 0.05, sd: float = 0.02, seed: int = 0
) -> tuple[Visits, np.ndarray]:
    """Return visits about half a year around whole years, and true slopes."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_people), n_visits)
    time = np.tile(np.arange(float(n_visits)), n_people) + rng.uniform(
        -0.3, 0.3, len(person)
    )
    slopes = rng.normal(0.05, sd, n_people)
    values = (
        rng.normal(0.4, 0.2, n_people)[person]
        + slopes[person] * time
        + rng.normal(0, noise, len(person))
    )
    return Visits(
        values=values[:, None], time=time, person=person, n_people=n_people
    ), slopes


def test_intervals_of_shrunken_slopes_cover_the_truth() -> None:
    """Also in small groups, in which the variance of slopes is often
    estimated as zero.
    """
    shares = []
    for seed in range(6):
        visits, truth = simulate_visits(40, 3, seed=seed)
        result = estimate_slopes(visits)
        shares.append(np.mean(np.abs(result.slopes - truth) < 1.645 * result.errors))
    assert abs(np.mean(shares) - 0.9) < 0.07


def test_shrunken_slopes_have_smaller_errors() -> None:
    visits, truth = simulate_visits(400, 3)
    result = estimate_slopes(visits)
    assert result.mean.model == MIXED_MODEL
    least_squares = visits.lines.slope[:, 0]
    assert np.mean((result.slopes - truth) ** 2) < 0.75 * np.mean(
        (least_squares - truth) ** 2
    )
    assert result.slope_variance == pytest.approx(0.02**2, rel=0.4)
    assert result.noise_variance == pytest.approx(0.05**2, rel=0.15)


def test_two_visits_are_shrunken_by_the_noise_of_other_people() -> None:
    visits, truth = simulate_visits(400, 2)
    result = estimate_slopes(visits, noise_variance=0.05**2)
    assert result.mean.model == TWO_STAGE
    least_squares = visits.lines.slope[:, 0]
    assert np.mean((result.slopes - truth) ** 2) < 0.5 * np.mean(
        (least_squares - truth) ** 2
    )
    assert result.mean.value == pytest.approx(float(least_squares.mean()))
    assert np.isnan(estimate_slopes(visits).slopes).all()


@pytest.mark.parametrize("n_visits", [2, 3])
def test_a_difference_of_slopes_is_found_where_it_is(n_visits: int) -> None:
    visits, _ = simulate_visits(200, n_visits, seed=1)
    is_patient = (np.arange(200) % 2).astype(float)
    age = np.random.default_rng(2).normal(size=(200, 1)) + is_patient[:, None]
    shift = (0.03 * is_patient + 0.02 * age[:, 0])[visits.person] * visits.time
    moved = Visits(
        values=visits.values + shift[:, None],
        time=visits.time,
        person=visits.person,
        n_people=200,
    )
    result = compare_slopes(moved, is_patient, age)
    assert result.model == (MIXED_MODEL if n_visits > 2 else TWO_STAGE)
    assert abs(result.value - 0.03) < 2.5 * result.error
    unadjusted = compare_slopes(moved, is_patient, np.zeros((200, 0)))
    assert (
        unadjusted.value - result.value > 0.01
    )  # age differs between groups and changes slopes


def test_robust_regression_equals_statsmodels() -> None:
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(40), rng.normal(size=(40, 2))])
    values = design @ [1.0, 0.5, -0.2] + rng.normal(size=40) * np.abs(design[:, 1])
    expected = sm.OLS(values, design).fit(cov_type="HC3")
    coefficients, covariance = fit_robust_regression(values, design)
    np.testing.assert_allclose(coefficients, expected.params, atol=1e-10)
    np.testing.assert_allclose(covariance, expected.cov_params(), atol=1e-10)


def simulate_stable_people(n_people: int, n_visits: int, seed: int = 0) -> Visits:
    rng = np.random.default_rng(seed)
    person, time = (
        np.repeat(np.arange(n_people), n_visits),
        np.tile(np.arange(float(n_visits)), n_people),
    )
    values = (
        rng.normal(0, 0.3, n_people)[person]
        + 0.1 * time
        + rng.normal(0, 0.1, len(person))
    )
    return Visits(values=values[:, None], time=time, person=person, n_people=n_people)


@pytest.mark.parametrize("n_visits", [2, 4])
def test_noise_and_correlation_are_recovered(n_visits: int) -> None:
    error = estimate_retest_error(simulate_stable_people(1000, n_visits)).iloc[0]
    assert (error.people, error.visits) == (1000, 1000 * n_visits)
    assert error.noise == pytest.approx(0.1, rel=0.06)
    assert error.correlation == pytest.approx(0.9, abs=0.02)
    assert error.smallest_change == pytest.approx(
        1.96 * np.sqrt(2) * error.noise, rel=0.01
    )


def test_one_in_twenty_stable_people_exceeds_the_smallest_change() -> None:
    error = estimate_retest_error(simulate_stable_people(500, 2)).iloc[0]
    others = simulate_stable_people(4000, 2, seed=1)
    change = np.diff(others.values.reshape(-1, 2), axis=1)[:, 0] - 0.1
    assert np.mean(np.abs(change) > error.smallest_change) == pytest.approx(
        0.05, abs=0.015
    )

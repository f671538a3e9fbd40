"""Slopes of R-indices in groups of people, differences between groups, and the retest error of controls.

Slopes come from a mixed model. Where it cannot be fitted, because hardly anyone has three visits or because it does not
converge, they come from two stages: the least-squares slopes of persons, then a linear model of these slopes with
standard errors that do not assume equal variances (HC3).
Shape letters: N people, V visits, P covariate columns.
"""

from dataclasses import dataclass

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.analysis.change import LinearTrends
from rindices.analysis.mixed_model import (
    MIN_DEGREES_OF_FREEDOM,
    MixedModel,
    count_degrees_of_freedom,
    fit_mixed_model,
)

MIXED_MODEL, TWO_STAGE = "mixed model", "two stages"
_CONFIDENCE = 0.95  # share of people without change whose measured change stays below the smallest change


@dataclass(frozen=True)
class IndexVisits:
    """Visits at which one R-index was measured.

    values, time (V,): the R-index, and years since the person's first visit; person (V,): position of the person, from
    0 to N - 1.
    """

    values: FloatArray
    time: FloatArray
    person: IntArray
    n_people: int

    def fit_lines(self) -> LinearTrends:
        """Fit one line per person by least squares."""
        return LinearTrends.fit(self.time, self.values[:, None], self.person, self.n_people)


@dataclass(frozen=True)
class GroupSlopes:
    """Slopes of the people of a group.

    model: ``mixed model`` or ``two stages``; mean, mean_error: mean slope and its standard error; freedom: degrees of
    freedom of the mean; slopes, errors (N,): shrunken slope of each person and its standard error; NaN where noise and
    change cannot be separated; slope_variance, noise_variance: between the slopes of people, and of a visit; NaN where
    they cannot be separated.
    """

    model: str
    mean: float
    mean_error: float
    freedom: int
    slopes: FloatArray
    errors: FloatArray
    slope_variance: float
    noise_variance: float


@dataclass(frozen=True)
class SlopeDifference:
    """Difference of the mean slope of patients from that of controls, with its standard error."""

    model: str
    difference: float
    error: float
    freedom: int


def estimate_slopes(visits: IndexVisits, noise_variance: float | None = None) -> GroupSlopes:
    """Estimate the slopes of a group of people, each shrunken towards the mean by its uncertainty.

    visits: of people of one group; noise_variance: variance of a visit from other people. It is used where the mixed
    model cannot be fitted.
    """
    design = np.column_stack([np.ones_like(visits.time), visits.time])
    model = _fit_if_identified(visits, design, average_errors=True)
    if model is None:
        return _estimate_in_two_stages(visits, noise_variance)
    direction = np.array([0.0, 1.0]) - model.slope_leverage
    variances = model.slope_variances + np.einsum("np,pq,nq->n", direction, model.covariance, direction)
    return GroupSlopes(
        MIXED_MODEL,
        float(model.coefficients[1]),
        float(np.sqrt(model.covariance[1, 1])),
        visits.n_people - 1,
        model.coefficients[1] + model.slopes,
        np.sqrt(variances),
        float(model.random_covariance[1, 1]),
        model.noise_variance,
    )


def compare_slopes(visits: IndexVisits, is_patient: FloatArray, covariates: FloatArray) -> SlopeDifference:
    """Compare the slopes of patients and controls, adjusted for covariates of level and of slope.

    visits: of both groups; is_patient (N,): 1 for patients, 0 for controls; covariates (N, P): design columns of each
    person's covariates.
    """
    centred = covariates - covariates.mean(axis=0)
    between = np.column_stack([np.ones(visits.n_people), is_patient, centred])  # (N, 2 + P)
    freedom = visits.n_people - between.shape[1]
    rows = between[visits.person]
    model = _fit_if_identified(visits, np.column_stack([rows, rows * visits.time[:, None]]))
    if model is not None:
        column = between.shape[1] + 1
        error = float(np.sqrt(model.covariance[column, column]))
        return SlopeDifference(MIXED_MODEL, float(model.coefficients[column]), error, freedom)
    trends = visits.fit_lines()
    used = trends.is_repeated
    coefficients, covariance = fit_robust_regression(trends.slope[used, 0], between[used])
    freedom = int(used.sum()) - between.shape[1]
    return SlopeDifference(TWO_STAGE, float(coefficients[1]), float(np.sqrt(covariance[1, 1])), freedom)


def fit_robust_regression(values: FloatArray, design: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return least-squares coefficients (P,) of values (N,) by a design (N, P), and their HC3 covariance (P, P)."""
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ values
    leverage = np.einsum("np,pq,nq->n", design, inverse, design)
    scaled = (values - design @ coefficients) / np.maximum(1 - leverage, 1e-12)
    half = inverse @ (design * scaled[:, None]).T
    return coefficients, half @ half.T


def _fit_if_identified(visits: IndexVisits, design: FloatArray, average_errors: bool = False) -> MixedModel | None:
    """Return the mixed model; None if the visits do not determine it or it does not converge."""
    freedom = count_degrees_of_freedom(visits.person, visits.n_people)
    if freedom < MIN_DEGREES_OF_FREEDOM or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    model = fit_mixed_model(visits.values, visits.time, visits.person, visits.n_people, design, average_errors)
    return model if model.converged else None


def _estimate_in_two_stages(visits: IndexVisits, noise_variance: float | None) -> GroupSlopes:
    """Return the mean of least-squares slopes; persons are shrunken if the noise is known from other people."""
    trends = visits.fit_lines()
    used = trends.is_repeated
    slope, spread, number = trends.slope[used, 0], trends.spread[used], int(used.sum())
    mean = float(slope.mean()) if number else np.nan
    observed = float(slope.var(ddof=1)) if number > 1 else np.nan
    mean_error = float(np.sqrt(observed / number)) if number > 1 else np.nan
    slopes, errors = np.full(visits.n_people, np.nan), np.full(visits.n_people, np.nan)
    slope_variance = np.nan
    if noise_variance is not None and number > 1:
        sampling = noise_variance / spread
        slope_variance = max(observed - float(sampling.mean()), 0.0)
        weight = slope_variance / (slope_variance + sampling)
        slopes[used] = mean + weight * (slope - mean)
        errors[used] = np.sqrt(weight * sampling + (1 - weight) ** 2 * mean_error**2)
    noise = np.nan if noise_variance is None else noise_variance
    return GroupSlopes(TWO_STAGE, mean, mean_error, number - 1, slopes, errors, slope_variance, noise)


@dataclass(frozen=True)
class RetestError:
    """Variation of an R-index between visits of people who do not change.

    people, visits: that the error was estimated from: controls with two visits or more; noise: standard deviation of a
    visit about the person's level and the common change per year. It includes true differences of change between
    controls, so that it is not too small; correlation: intraclass correlation: the share of the variance of a visit
    that lies between people; smallest_change: change between two visits that 5 % of people without change exceed, up or
    down.
    """

    people: int
    visits: int
    noise: float
    correlation: float
    smallest_change: float


def estimate_retest_error(controls: IndexVisits) -> RetestError | None:
    """Estimate the retest error of an R-index from the visits of controls; None if fewer than three have two."""
    from scipy.stats import t as student

    trends = controls.fit_lines()
    used = trends.is_repeated
    n_people, n_visits = int(used.sum()), int(trends.visits[used].sum())
    freedom = n_visits - n_people - 1
    if n_people < 3:
        return None
    slope, spread = trends.slope[used, 0], trends.spread[used]
    common = spread @ slope / spread.sum()
    within = float((trends.residual[used, 0] + spread * (slope - common) ** 2).sum()) / freedom
    drift = common * (controls.time - controls.time.mean())
    level = np.bincount(controls.person, controls.values - drift, controls.n_people)[used] / trends.visits[used]
    between = max(float(level.var(ddof=1)) - within * float((1 / trends.visits[used]).mean()), 0.0)
    smallest = float(student.ppf((1 + _CONFIDENCE) / 2, freedom)) * np.sqrt(2 * within)
    return RetestError(n_people, n_visits, float(np.sqrt(within)), between / (between + within), float(smallest))

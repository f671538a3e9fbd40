"""Slopes of R-indices in groups of people, differences between groups, and the retest error of controls.

Slopes come from a linear mixed model with a random intercept and a random slope, by restricted maximum likelihood. The
likelihood is profiled as in lme4: for the relative factor L of the random effects' covariance, G = s2 L L', the
coefficients and the noise variance s2 have closed forms, and three numbers are left to optimise. Estimates equal those
of statsmodels' ``MixedLM`` where that converges. It needs more time, and values of unit scale.

Where the mixed model cannot be fitted, because hardly anyone has three visits or because it does not converge, slopes
come from two stages: the least-squares slopes of persons, then a linear model of these slopes with standard errors that
do not assume equal variances (HC3).
Shape letters: N people, V visits, P columns of the design or of covariates.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import minimize
from scipy.stats import t as student

from rindices._typing import FloatArray, IntArray
from rindices.analysis.change import LinearTrends
from rindices.analysis.tidy import sum_by_group

MIN_DEGREES_OF_FREEDOM = 10
"""Visits beyond the second of each person that are needed to separate the noise from the variation of slopes."""
_START_FACTORS = ((1.0, 1.0), (0.5, 2.0))  # of the first guess of intercepts and slopes
_MIN_START, _MAX_START = 0.1, 100.0
_AGREEMENT = 1e-3  # difference of the criterion between starts, below which both have found the optimum
_GRID_SIZE = 16  # standard deviations of slopes over which errors are averaged
_GRID_STEPS = (-2.4, -1.2, 0.0, 1.2, 2.4)  # of the regression of slopes on intercepts, in standard errors
_NEGLIGIBLE = 10.0  # rise of the criterion at which a standard deviation has no weight
_MAX_FACTOR = 1e4


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
class MixedModel:
    """A fitted mixed model.

    coefficients (P,): fixed effects; covariance (P, P): of the fixed effects; random_covariance (2, 2): of intercepts
    and slopes; noise_variance: of a visit about the person's line; slopes (N,): deviation of each person's slope from
    the fixed effects, shrunken (best linear unbiased prediction); slope_variances (N,): of the error of ``slopes``,
    given the fixed effects; slope_leverage (N, P): change of ``slopes`` with the fixed effects, which adds their
    uncertainty.
    """

    coefficients: FloatArray
    covariance: FloatArray
    random_covariance: FloatArray
    noise_variance: float
    converged: bool
    slopes: FloatArray
    slope_variances: FloatArray
    slope_leverage: FloatArray


@dataclass(frozen=True)
class _CrossProducts:
    """Sums of products: by person for the random effects Z = (1, time), in total for design X and values y."""

    zz: FloatArray  # (N, 2, 2)
    zx: FloatArray  # (N, 2, P + 1), the last column for y
    xx: FloatArray  # (P + 1, P + 1)
    yy: FloatArray  # (N,)
    n_visits: int


def fit_mixed_model(visits: IndexVisits, design: FloatArray, average_errors: bool = False) -> MixedModel:
    """Fit an R-index by a design, with a random intercept and a random slope of time per person.

    design (V, P): columns of the fixed effects, with an intercept and the time; average_errors: whether errors of
    slopes are averaged over the uncertainty of the random effects' covariance.
    """
    time, unit = visits.time, visits.values.std() or 1.0
    centre, scale = time.mean(), time.std() or 1.0  # well-scaled for the optimiser
    sums = _sum_products(replace(visits, values=visits.values / unit, time=(time - centre) / scale), design)
    criterion, options = partial(_compute_criterion, sums), {"ftol": 1e-13, "gtol": 1e-7}
    guess = _guess_parameters(sums)
    starts = [guess * [intercept, 1.0, slope] for intercept, slope in _START_FACTORS]
    fits = [minimize(criterion, start, method="L-BFGS-B", options=options) for start in starts]
    best = min(fits, key=lambda fit: float(fit.fun))
    agree = abs(float(fits[0].fun) - float(fits[1].fun)) < _AGREEMENT
    back = np.array([[1, -centre / scale], [0, 1 / scale]])  # to the intercept at time 0
    raw = _sum_products(visits, design)
    model = _summarise_model(raw, back @ _build_factor(best.x), bool(np.isfinite(best.fun) and (best.success or agree)))
    if not (average_errors and model.converged):
        return model
    others, weights = _weigh_slope_variances(sums, best.x)
    alternatives = [_summarise_model(raw, back @ _build_factor(parameters), True) for parameters in others]
    errors = [other.slope_variances + (other.slopes - model.slopes) ** 2 for other in alternatives]
    return replace(model, slope_variances=np.asarray(weights @ np.array(errors)))


def _weigh_slope_variances(sums: _CrossProducts, parameters: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return parameters with other standard deviations of slopes, and their weights.

    Weights are proportional to the restricted likelihood, which is a posterior with flat priors of the two parameters
    of slopes: the regression on the intercept and the standard deviation about it. The variance of intercepts stays as
    estimated, while the noise adapts.
    """
    noise, best = _estimate_noise(sums, parameters), _compute_criterion(sums, parameters)

    def change_slopes(shift: float, value: float) -> FloatArray:
        changed = np.array([parameters[0], parameters[1] + shift, value])
        for _ in range(3):  # parameters are relative to the noise
            changed[0] = parameters[0] * noise / _estimate_noise(sums, changed)
        return changed

    step, largest = 0.01, max(2 * abs(float(parameters[2])), 0.1)
    while _compute_criterion(sums, change_slopes(step, float(parameters[2]))) - best < 1 and step < _MAX_FACTOR:
        step *= 1.3
    while _compute_criterion(sums, change_slopes(0.0, largest)) - best < _NEGLIGIBLE and largest < _MAX_FACTOR:
        largest *= 1.5
    values = np.linspace(0, largest, _GRID_SIZE)
    grid = [change_slopes(shift * step, value) for shift in _GRID_STEPS for value in values]
    criteria = np.array([_compute_criterion(sums, point) for point in grid])
    weights = np.exp(-(criteria - criteria.min()) / 2)
    return grid, weights / weights.sum()


def _sum_products(visits: IndexVisits, design: FloatArray) -> _CrossProducts:
    sum_by_person = partial(sum_by_group, group=visits.person, n_groups=visits.n_people)
    z = np.column_stack([np.ones_like(visits.time), visits.time])
    x = np.column_stack([design, visits.values])
    zz, zx = (sum_by_person(z[:, :, None] * each[:, None, :]) for each in (z, x))
    return _CrossProducts(zz, zx, x.T @ x, sum_by_person(visits.values**2), len(visits.time))


def _guess_parameters(sums: _CrossProducts) -> FloatArray:
    """Return relative standard deviations of intercepts and slopes from the lines of people with three visits.

    The optimiser starts there, since zero is a stationary point of the criterion in each standard deviation.
    """
    number = sums.zz[:, 0, 0]
    determinant = number * sums.zz[:, 1, 1] - sums.zz[:, 0, 1] ** 2
    used = (number > 2) & (determinant > 1e-6 * number**2)
    if used.sum() < 3:
        return np.array([1.0, 0.0, 0.5])
    inverse = np.linalg.inv(sums.zz[used])
    lines = (inverse @ sums.zx[used][:, :, -1:])[..., 0]  # (people, 2)
    explained = float((lines * sums.zx[used][:, :, -1]).sum())
    noise = max((float(sums.yy[used].sum()) - explained) / float((number[used] - 2).sum()), np.finfo(float).tiny)
    sampling = noise * np.array([inverse[:, 0, 0].mean(), inverse[:, 1, 1].mean()])
    relative = np.sqrt(np.maximum(lines.var(axis=0) - sampling, 0.0) / noise)
    intercept, slope = np.clip(relative, _MIN_START, _MAX_START)
    return np.array([intercept, 0.0, slope])


def _build_factor(parameters: FloatArray) -> FloatArray:
    return np.array([[parameters[0], 0.0], [parameters[1], parameters[2]]])


def _weigh_products(sums: _CrossProducts, factor: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return inverses of I + L'Z'ZL (N, 2, 2), weighted products of X and y (P + 1, P + 1), and log determinants."""
    inner = np.eye(2) + factor.T @ sums.zz @ factor
    determinant = inner[:, 0, 0] * inner[:, 1, 1] - inner[:, 0, 1] ** 2
    inverse = np.empty_like(inner)
    inverse[:, 0, 0], inverse[:, 1, 1] = inner[:, 1, 1] / determinant, inner[:, 0, 0] / determinant
    inverse[:, 0, 1] = inverse[:, 1, 0] = -inner[:, 0, 1] / determinant
    projected = factor.T @ sums.zx
    flat = (inverse @ projected).reshape(-1, projected.shape[-1])
    weighted = sums.xx - projected.reshape(-1, projected.shape[-1]).T @ flat
    return inverse, weighted, float(np.log(determinant).sum())


def _solve_profile(sums: _CrossProducts, weighted: FloatArray) -> tuple[FloatArray, float, int]:
    """Return coefficients (P,), the sum of squares about them and its degrees of freedom, given weighted products."""
    coefficients = np.asarray(np.linalg.solve(weighted[:-1, :-1], weighted[:-1, -1]), dtype=float)
    residual = max(float(weighted[-1, -1] - coefficients @ weighted[:-1, -1]), np.finfo(float).tiny)
    return coefficients, residual, sums.n_visits - len(coefficients)


def _estimate_noise(sums: _CrossProducts, parameters: FloatArray) -> float:
    """Return the standard deviation of the noise given the relative factor of the random effects."""
    _, residual, freedom = _solve_profile(sums, _weigh_products(sums, _build_factor(parameters))[1])
    return float(np.sqrt(residual / freedom))


def _compute_criterion(sums: _CrossProducts, parameters: FloatArray) -> float:
    """Return -2 times the profiled restricted log-likelihood, up to a constant."""
    _, weighted, log_determinant = _weigh_products(sums, _build_factor(parameters))
    try:
        _, residual, freedom = _solve_profile(sums, weighted)
    except np.linalg.LinAlgError:  # a step far outside
        return np.inf
    return log_determinant + float(np.linalg.slogdet(weighted[:-1, :-1])[1]) + freedom * float(np.log(residual))


def _summarise_model(sums: _CrossProducts, factor: FloatArray, converged: bool) -> MixedModel:
    """Return estimates and predictions for a relative factor (2, 2) of the random effects."""
    inverse, weighted, _ = _weigh_products(sums, factor)
    coefficients, residual, freedom = _solve_profile(sums, weighted)
    noise = residual / freedom
    gain = factor @ inverse @ factor.T  # (N, 2, 2), covariance of the random effects given the data, over the noise
    per_column = gain @ sums.zx  # predictions are linear in y and X: b = gain Z'(y - X beta)
    slopes = per_column[:, 1, -1] - per_column[:, 1, :-1] @ coefficients
    return MixedModel(
        coefficients,
        np.asarray(noise * np.linalg.inv(weighted[:-1, :-1]), dtype=float),
        noise * factor @ factor.T,
        noise,
        converged and residual > float(np.finfo(float).tiny),
        slopes,
        noise * gain[:, 1, 1],
        per_column[:, 1, :-1],
    )


MIXED_MODEL, TWO_STAGE = "mixed model", "two stages"
_CONFIDENCE = 0.95  # share of people without change whose measured change stays below the smallest change


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
    freedom = np.maximum(np.bincount(visits.person, minlength=visits.n_people) - 2, 0).sum()
    if freedom < MIN_DEGREES_OF_FREEDOM or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    model = fit_mixed_model(visits, design, average_errors)
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

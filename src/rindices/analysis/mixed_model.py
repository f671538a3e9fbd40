"""Linear mixed model with a random intercept and a random slope, by restricted maximum likelihood.

The likelihood is profiled as in lme4: for the relative factor L of the random effects' covariance, G = s2 L L', the
coefficients and the noise variance s2 have closed forms, and three numbers are left to optimise. Estimates equal those
of statsmodels' ``MixedLM`` where that converges. It needs more time, and values of unit scale.
Shape letters: N people, V visits, P columns of the design.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rindices._typing import FloatArray, IntArray

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
class MixedModel:
    """A fitted mixed model.

    coefficients (P,): fixed effects; covariance (P, P): of the fixed effects; random_covariance (2, 2): of intercepts
    and slopes; noise_variance: of a visit about the person's line; criterion: -2 times the restricted log-likelihood,
    up to a constant; slopes (N,): deviation of each person's slope from the fixed effects, shrunken (best linear
    unbiased prediction); slope_variances (N,): of the error of ``slopes``, given the fixed effects; slope_leverage (N,
    P): change of ``slopes`` with the fixed effects, which adds their uncertainty.
    """

    coefficients: FloatArray
    covariance: FloatArray
    random_covariance: FloatArray
    noise_variance: float
    criterion: float
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


def fit_mixed_model(
    values: FloatArray,
    time: FloatArray,
    person: IntArray,
    n_people: int,
    design: FloatArray,
    average_errors: bool = False,
) -> MixedModel:
    """Fit values by a design, with a random intercept and a random slope of time per person.

    values, time (V,); person (V,): position of each visit's person, from 0 to ``n_people`` - 1; design (V, P): columns
    of the fixed effects, with an intercept and the time; average_errors: whether errors of slopes are averaged over the
    uncertainty of the random effects' covariance.
    """
    from scipy.optimize import minimize

    centre, scale, unit = time.mean(), time.std() or 1.0, values.std() or 1.0  # well-scaled for the optimiser
    sums = _sum_products(values / unit, (time - centre) / scale, person, n_people, design)
    criterion, options = partial(_compute_criterion, sums), {"ftol": 1e-13, "gtol": 1e-7}
    guess = _guess_parameters(sums)
    starts = [guess * [intercept, 1.0, slope] for intercept, slope in _START_FACTORS]
    fits = [minimize(criterion, start, method="L-BFGS-B", options=options) for start in starts]
    best = min(fits, key=lambda fit: float(fit.fun))
    agree = abs(float(fits[0].fun) - float(fits[1].fun)) < _AGREEMENT
    back = np.array([[1, -centre / scale], [0, 1 / scale]])  # to the intercept at time 0
    raw = _sum_products(values, time, person, n_people, design)
    model = _summarise_model(raw, back @ _build_factor(best.x), bool(np.isfinite(best.fun) and (best.success or agree)))
    if not (average_errors and model.converged):
        return model
    others, weights = _weigh_slope_variances(sums, best.x)
    alternatives = [_summarise_model(raw, back @ _build_factor(parameters), True) for parameters in others]
    errors = [other.slope_variances + (other.slopes - model.slopes) ** 2 for other in alternatives]
    return replace(model, slope_variances=np.asarray(weights @ np.array(errors)))


def count_degrees_of_freedom(person: IntArray, n_people: int) -> int:
    """Return the number of visits beyond the second of each person, from the person of each visit (V,)."""
    return int(np.maximum(np.bincount(person, minlength=n_people) - 2, 0).sum())


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


def _sum_products(
    values: FloatArray, time: FloatArray, person: IntArray, n_people: int, design: FloatArray
) -> _CrossProducts:
    squares = np.zeros(n_people)
    np.add.at(squares, person, values**2)
    z = np.column_stack([np.ones_like(time), time])
    x = np.column_stack([design, values])
    zz, zx = np.zeros((n_people, 2, 2)), np.zeros((n_people, 2, x.shape[1]))
    np.add.at(zz, person, z[:, :, None] * z[:, None, :])
    np.add.at(zx, person, z[:, :, None] * x[:, None, :])
    return _CrossProducts(zz, zx, x.T @ x, squares, len(time))


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


def _estimate_noise(sums: _CrossProducts, parameters: FloatArray) -> float:
    """Return the standard deviation of the noise given the relative factor of the random effects."""
    _, weighted, _ = _weigh_products(sums, _build_factor(parameters))
    coefficients = np.linalg.solve(weighted[:-1, :-1], weighted[:-1, -1])
    residual = max(float(weighted[-1, -1] - coefficients @ weighted[:-1, -1]), np.finfo(float).tiny)
    return float(np.sqrt(residual / (sums.n_visits - len(coefficients))))


def _compute_criterion(sums: _CrossProducts, parameters: FloatArray) -> float:
    """Return -2 times the profiled restricted log-likelihood, up to a constant."""
    _, weighted, log_determinant = _weigh_products(sums, _build_factor(parameters))
    try:
        coefficients = np.linalg.solve(weighted[:-1, :-1], weighted[:-1, -1])
    except np.linalg.LinAlgError:  # a step far outside
        return np.inf
    residual = max(float(weighted[-1, -1] - coefficients @ weighted[:-1, -1]), np.finfo(float).tiny)
    freedom = sums.n_visits - len(coefficients)
    return log_determinant + float(np.linalg.slogdet(weighted[:-1, :-1])[1]) + freedom * float(np.log(residual))


def _summarise_model(sums: _CrossProducts, factor: FloatArray, converged: bool) -> MixedModel:
    """Return estimates and predictions for a relative factor (2, 2) of the random effects."""
    inverse, weighted, log_determinant = _weigh_products(sums, factor)
    coefficients = np.linalg.solve(weighted[:-1, :-1], weighted[:-1, -1])
    freedom = sums.n_visits - len(coefficients)
    noise = float(weighted[-1, -1] - coefficients @ weighted[:-1, -1]) / freedom
    criterion = (
        log_determinant + float(np.linalg.slogdet(weighted[:-1, :-1])[1]) + freedom * float(np.log(noise * freedom))
    )
    gain = factor @ inverse @ factor.T  # (N, 2, 2), covariance of the random effects given the data, over the noise
    per_column = gain @ sums.zx  # predictions are linear in y and X: b = gain Z'(y - X beta)
    slopes = per_column[:, 1, -1] - per_column[:, 1, :-1] @ coefficients
    return MixedModel(
        np.asarray(coefficients, dtype=float),
        np.asarray(noise * np.linalg.inv(weighted[:-1, :-1]), dtype=float),
        noise * factor @ factor.T,
        noise,
        criterion,
        converged and noise > 0,
        slopes,
        noise * gain[:, 1, 1],
        per_column[:, 1, :-1],
    )

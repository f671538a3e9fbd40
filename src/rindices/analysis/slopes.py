"""Slopes of R-indices in groups of people, differences between groups, and the retest
error of controls.

Slopes come from a linear mixed model with a random intercept and a random slope, by
restricted maximum likelihood. The likelihood is profiled as in lme4: for the relative
factor L of the random effects' covariance, G = s2 L L', the coefficients and the noise
variance s2 have closed forms, and three numbers are left to optimise. Estimates equal
those of statsmodels' ``MixedLM`` where that converges. It needs more time, and values
of unit scale.

Where the mixed model cannot be fitted, because hardly anyone has three visits or
because it does not converge, slopes come from two stages: the least-squares slopes of
persons, then a linear model of these slopes with standard errors that do not assume
equal variances (HC3). Shape letters: N people, V visits, M R-indices, P columns of the
design or of covariates.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import stdtrit

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.analysis.tidy import sum_by_group

MIN_DEGREES_OF_FREEDOM = 10
"""Visits beyond the second of each person that are needed to separate the noise from
the variation of slopes.
"""
MIXED_MODEL, TWO_STAGE = "mixed model", "two stages"
_MIN_YEARS = 1e-6
_STARTS = ((1.0, 0.0, 1.0), (0.5, 0.0, 2.0))  # in units of a guess
_MIN_FACTOR = 1e-6
_OPTIONS = {
    "ftol": 1e-12,
    "gtol": 1e-6,
    "eps": 1e-6,
}  # sums of squares cancel, so that smaller steps are all noise
# difference of the criterion between starts, below which both have found the optimum
_AGREEMENT = 1e-3


@dataclass(frozen=True, kw_only=True)
class LinearTrends:
    """Least-squares lines of people.

    Attributes
    ----------
    visits : ndarray of shape (N,)
        Number of visits.
    spread : ndarray of shape (N,)
        Sum of squares of time about its mean.
    slope : ndarray of shape (N, M)
        Slope of each R-index.
    residual : ndarray of shape (N, M)
        Sum of squares about the line.
    """

    visits: FloatArray
    spread: FloatArray
    slope: FloatArray
    residual: FloatArray

    @property
    def is_repeated(self) -> BoolArray:
        """People with two visits at different times, (N,)."""
        return np.asarray((self.visits > 1) & (self.spread > _MIN_YEARS))


@dataclass(frozen=True, kw_only=True)
class Visits:
    """Visits at which R-indices were measured.

    Attributes
    ----------
    values : ndarray of shape (V, M)
        The R-indices.
    time : ndarray of shape (V,)
        Years since the person's first visit.
    person : ndarray of shape (V,)
        Position of the person, from 0 to N - 1.
    n_people : int
        N.
    """

    values: FloatArray
    time: FloatArray
    person: IntArray
    n_people: int

    def take(self, members: BoolArray) -> "Visits":
        """Return the visits of some people (N,)."""
        rows, position = members[self.person], np.cumsum(members) - 1
        return Visits(
            values=self.values[rows],
            time=self.time[rows],
            person=position[self.person[rows]],
            n_people=int(members.sum()),
        )

    @cached_property
    def lines(self) -> LinearTrends:
        """One line per person and R-index."""
        sum_by_person = partial(sum_by_group, group=self.person, n_groups=self.n_people)
        visits = sum_by_person(np.ones(len(self.time)))
        t = self.time - (sum_by_person(self.time) / visits)[self.person]
        y = self.values - (sum_by_person(self.values) / visits[:, None])[self.person]
        spread = np.maximum(sum_by_person(t**2), _MIN_YEARS**2)
        slope = sum_by_person(t[:, None] * y) / spread[:, None]
        residual = sum_by_person((y - slope[self.person] * t[:, None]) ** 2)
        return LinearTrends(
            visits=visits, spread=spread, slope=slope, residual=residual
        )


@dataclass(frozen=True, kw_only=True)
class MixedModel:
    """A fitted mixed model.

    Attributes
    ----------
    coefficients : ndarray of shape (P,)
        Fixed effects.
    covariance : ndarray of shape (P, P)
        Covariance of the fixed effects.
    random_covariance : ndarray of shape (2, 2)
        Covariance of intercepts and slopes.
    noise_variance : float
        Variance of a visit about the person's line.
    slopes : ndarray of shape (N,)
        Deviation of each person's slope from the fixed effects, shrunken (best linear
        unbiased prediction).
    slope_variances : ndarray of shape (N,)
        Variance of the error of ``slopes``, given the fixed effects.
    slope_leverage : ndarray of shape (N, P)
        Change of ``slopes`` with the fixed effects, which adds their uncertainty.
    """

    coefficients: FloatArray
    covariance: FloatArray
    random_covariance: FloatArray
    noise_variance: float
    slopes: FloatArray
    slope_variances: FloatArray
    slope_leverage: FloatArray


class _ProfiledLikelihood:
    """Restricted likelihood of values y by a design X (V, P), with random effects of Z
    = (1, time) by person.
    """

    def __init__(self, visits: Visits, design: FloatArray, index: int) -> None:
        z = np.column_stack([np.ones_like(visits.time), visits.time])
        x = np.column_stack([design, visits.values[:, index]])  # the last column is y
        sum_by_person = partial(
            sum_by_group, group=visits.person, n_groups=visits.n_people
        )
        self.zz, self.zx = (
            sum_by_person(z[:, :, None] * each[:, None, :]) for each in (z, x)
        )
        self.xx, self.freedom = x.T @ x, len(x) - design.shape[1]

    def solve(self, factor: FloatArray) -> tuple[float, MixedModel]:
        """Return -2 times the log-likelihood up to a constant, and the model, for a
        relative factor L (2, 2).
        """
        inner = np.eye(2) + factor.T @ self.zz @ factor
        gain = (
            factor @ np.linalg.inv(inner) @ factor.T
        )  # (N, 2, 2), of the random effects given the data, over s2
        per_column = (
            gain @ self.zx
        )  # predictions are linear in y and X: b = gain Z'(y - X beta)
        n_columns = self.xx.shape[1]
        weighted = self.xx - self.zx.reshape(-1, n_columns).T @ per_column.reshape(
            -1, n_columns
        )
        inverse = np.linalg.inv(weighted[:-1, :-1])
        coefficients = inverse @ weighted[:-1, -1]
        noise = max(
            float(weighted[-1, -1] - coefficients @ weighted[:-1, -1]) / self.freedom,
            np.finfo(float).tiny,
        )
        log_determinants = float(
            np.linalg.slogdet(inner)[1].sum() - np.linalg.slogdet(inverse)[1]
        )
        model = MixedModel(
            coefficients=coefficients,
            covariance=noise * inverse,
            random_covariance=noise * factor @ factor.T,
            noise_variance=noise,
            slopes=per_column[:, 1, -1] - per_column[:, 1, :-1] @ coefficients,
            slope_variances=noise * gain[:, 1, 1],
            slope_leverage=per_column[:, 1, :-1],
        )
        return log_determinants + self.freedom * float(np.log(noise)), model


def fit_mixed_model(
    visits: Visits, design: FloatArray, index: int = 0, has_prior: bool = False
) -> MixedModel | None:
    """Fit an R-index by a design, with a random intercept and a random slope of time
    per person.

    Parameters
    ----------
    visits : Visits
    design : ndarray of shape (V, P)
        Columns of the fixed effects, with an intercept and the time.
    index : int
        Position of the R-index.
    has_prior : bool
        Whether the standard deviation of slopes has the weak prior of Chung and others
        (2013). It keeps the estimate from zero, where intervals of slopes would be far
        too narrow.

    Returns
    -------
    MixedModel or None
        None if the visits do not determine the model, or if it does not converge.
    """
    n_beyond_second = np.maximum(visits.lines.visits - 2, 0).sum()
    if (
        n_beyond_second < MIN_DEGREES_OF_FREEDOM
        or np.linalg.matrix_rank(design) < design.shape[1]
    ):
        return None
    likelihood = _ProfiledLikelihood(visits, design, index)
    # well-scaled for the optimiser
    centre, scale = visits.time.mean(), visits.time.std()
    to_time_zero = np.array([[1, -centre / scale], [0, 1 / scale]])

    lines, used = visits.lines, visits.lines.is_repeated
    noise = max(
        float(np.sqrt(lines.residual[used, index].sum() / n_beyond_second)),
        np.finfo(float).tiny,
    )
    spreads = visits.values[:, index].std(), scale * lines.slope[used, index].std()
    intercept, slope = np.clip(
        np.array(spreads) / noise, 0.1, 100.0
    )  # a guess, in units of the noise

    def solve(parameters: FloatArray) -> tuple[float, MixedModel]:
        factor = np.array(
            [
                [parameters[0] * intercept, 0.0],
                [parameters[1] * slope, parameters[2] * slope],
            ]
        )
        return likelihood.solve(to_time_zero @ factor)

    def compute_criterion(parameters: FloatArray) -> float:
        prior = 2 * float(np.log(parameters[2])) if has_prior else 0.0
        return solve(parameters)[0] - prior

    bounds = ((0.0, None), (None, None), (_MIN_FACTOR, None))
    fits = [
        minimize(compute_criterion, start, bounds=bounds, options=_OPTIONS)
        for start in _STARTS
    ]
    best = min(fits, key=lambda fit: float(fit.fun))
    model = solve(best.x)[1]
    is_found = best.success or abs(float(fits[0].fun) - float(fits[1].fun)) < _AGREEMENT
    has_noise = model.noise_variance > np.finfo(float).tiny
    return model if is_found and np.isfinite(best.fun) and has_noise else None


@dataclass(frozen=True, kw_only=True)
class SlopeEstimate:
    """A mean slope, or a difference of two.

    Attributes
    ----------
    model : str
        ``mixed model`` or ``two stages``.
    value : float
        The estimate.
    error : float
        Its standard error.
    freedom : int
        Its degrees of freedom.
    """

    model: str
    value: float
    error: float
    freedom: int


@dataclass(frozen=True, kw_only=True)
class GroupSlopes:
    """Slopes of the people of a group.

    The slopes of people and the variances are NaN where noise and change cannot be
    separated.

    Attributes
    ----------
    mean : SlopeEstimate
        Mean slope of the group.
    slopes : ndarray of shape (N,)
        Shrunken slope of each person.
    errors : ndarray of shape (N,)
        Standard error of each slope.
    slope_variance : float
        Variance between the slopes of people.
    noise_variance : float
        Variance of a visit about the person's line.
    """

    mean: SlopeEstimate
    slopes: FloatArray
    errors: FloatArray
    slope_variance: float
    noise_variance: float


def estimate_slopes(
    visits: Visits, index: int = 0, noise_variance: float = np.nan
) -> GroupSlopes:
    """Estimate the slopes of a group of people, each shrunken towards the mean by its
    uncertainty.

    Parameters
    ----------
    visits : Visits
        Visits of the people of one group.
    index : int
        Position of the R-index.
    noise_variance : float
        Variance of a visit, estimated in other people. It is used where the mixed model
        cannot be fitted.
    """
    design = np.column_stack([np.ones_like(visits.time), visits.time])
    model = fit_mixed_model(visits, design, index, has_prior=True)
    if model is None:
        return _estimate_in_two_stages(visits, index, noise_variance)
    direction = np.array([0.0, 1.0]) - model.slope_leverage
    variances = model.slope_variances + np.einsum(
        "np,pq,nq->n", direction, model.covariance, direction
    )
    mean, error = float(model.coefficients[1]), float(np.sqrt(model.covariance[1, 1]))
    return GroupSlopes(
        mean=SlopeEstimate(
            model=MIXED_MODEL, value=mean, error=error, freedom=visits.n_people - 1
        ),
        slopes=mean + model.slopes,
        errors=np.sqrt(variances),
        slope_variance=float(model.random_covariance[1, 1]),
        noise_variance=model.noise_variance,
    )


def _estimate_in_two_stages(
    visits: Visits, index: int, noise_variance: float
) -> GroupSlopes:
    """Return the mean of least-squares slopes; persons are shrunken if the noise is
    known from other people.
    """
    used = visits.lines.is_repeated
    slope, sampling, number = (
        visits.lines.slope[used, index],
        noise_variance / visits.lines.spread[used],
        used.sum(),
    )
    mean, observed = (
        float(slope.mean()),
        float(slope.var(ddof=1)) if number > 1 else np.nan,
    )
    error = float(np.sqrt(observed / number))
    slope_variance = float(np.maximum(observed - sampling.mean(), 0.0))
    weight = slope_variance / (slope_variance + sampling)
    slopes, errors = np.full((2, visits.n_people), np.nan)
    slopes[used] = mean + weight * (slope - mean)
    errors[used] = np.sqrt(weight * sampling + (1 - weight) ** 2 * error**2)
    estimate = SlopeEstimate(
        model=TWO_STAGE, value=mean, error=error, freedom=int(number) - 1
    )
    return GroupSlopes(
        mean=estimate,
        slopes=slopes,
        errors=errors,
        slope_variance=slope_variance,
        noise_variance=noise_variance,
    )


def compare_slopes(
    visits: Visits, is_patient: FloatArray, covariates: FloatArray, index: int = 0
) -> SlopeEstimate:
    """Compare the slopes of patients and controls, adjusted for covariates of level and
    of slope.

    Parameters
    ----------
    visits : Visits
        Visits of both groups.
    is_patient : ndarray of shape (N,)
        1 for patients, 0 for controls.
    covariates : ndarray of shape (N, P)
        Design columns of each person's covariates.
    index : int
        Position of the R-index.
    """
    centred = covariates - covariates.mean(axis=0)
    between = np.column_stack(
        [np.ones(visits.n_people), is_patient, centred]
    )  # (N, 2 + P)
    n_columns, rows = between.shape[1], between[visits.person]
    model = fit_mixed_model(
        visits, np.column_stack([rows, rows * visits.time[:, None]]), index
    )
    if model is not None:
        column = n_columns + 1
        error = float(np.sqrt(model.covariance[column, column]))
        return SlopeEstimate(
            model=MIXED_MODEL,
            value=float(model.coefficients[column]),
            error=error,
            freedom=visits.n_people - n_columns,
        )
    used = visits.lines.is_repeated
    coefficients, covariance = fit_robust_regression(
        visits.lines.slope[used, index], between[used]
    )
    error = float(np.sqrt(covariance[1, 1]))
    return SlopeEstimate(
        model=TWO_STAGE,
        value=float(coefficients[1]),
        error=error,
        freedom=int(used.sum()) - n_columns,
    )


def fit_robust_regression(
    values: FloatArray, design: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return least-squares coefficients (P,) of values (N,) by a design (N, P), and
    their HC3 covariance (P, P).
    """
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ values
    leverage = np.einsum("np,pq,nq->n", design, inverse, design)
    scaled = (values - design @ coefficients) / np.maximum(1 - leverage, 1e-12)
    half = inverse @ (design * scaled[:, None]).T
    return coefficients, half @ half.T


def estimate_retest_error(controls: Visits) -> pd.DataFrame:
    """Estimate how much R-indices vary between visits of people who do not change.

    It takes at least three people with two visits. True differences of change between
    controls count as noise, so that it is not too small.

    Parameters
    ----------
    controls : Visits
        Visits of controls.

    Returns
    -------
    DataFrame
        One row per R-index. ``people`` and ``visits`` count the controls with two
        visits or more. ``noise`` is the standard deviation of a visit about the
        person's level and the common change per year. ``correlation`` is the intraclass
        correlation, the share of the variance of a visit that lies between people. 5 %
        of people without change exceed ``smallest_change`` between two visits, up or
        down.
    """
    lines, used = controls.lines, controls.lines.is_repeated
    visits, slope, spread = lines.visits[used], lines.slope[used], lines.spread[used]
    freedom = visits.sum() - len(visits) - 1
    common = spread @ slope / spread.sum()
    within = (lines.residual[used] + spread[:, None] * (slope - common) ** 2).sum(
        axis=0
    ) / freedom
    level = controls.values - common * (controls.time - controls.time.mean())[:, None]
    level = (
        sum_by_group(level, controls.person, controls.n_people)[used] / visits[:, None]
    )
    between = np.maximum(level.var(axis=0, ddof=1) - within * (1 / visits).mean(), 0.0)
    columns: dict[str, Any] = {
        "people": len(visits),
        "visits": int(visits.sum()),
        "noise": np.sqrt(within),
    }
    columns |= {"correlation": between / (between + within)}
    return pd.DataFrame(
        columns | {"smallest_change": stdtrit(freedom, 0.975) * np.sqrt(2 * within)}
    )

"""Cox regression (Efron's treatment of ties) and logistic regression by Newton's method, with a ridge penalty.

Estimates without a penalty equal those of statsmodels and lifelines. Shape letters: N people, P columns, E events.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray

_MAX_STEPS = 100
_TOLERANCE = 1e-12  # of the expected gain of a step, relative to the log-likelihood
_JITTER = 1e-10  # of the Hessian of standardised columns, so that columns without information keep a coefficient of 0
_MAX_ERROR = 1e3  # standard error of a standardised column above which its coefficient is not estimable
_MAX_EXPONENT = 500.0
_Objective = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]


@dataclass(frozen=True)
class Outcome:
    """What is predicted.

    event (N,): whether the event was observed; time (N,): time of the event or of the end of observation; None for a
    yes or no outcome.
    """

    event: BoolArray
    time: FloatArray | None = None

    def take(self, rows: IntArray | BoolArray) -> "Outcome":
        """Return the outcome of some people."""
        return Outcome(self.event[rows], None if self.time is None else self.time[rows])


@dataclass(frozen=True)
class RegressionFit:
    """Coefficients (P,), their covariance (P, P), and which of them the data determine.

    A column is not estimable if it separates people with and without the event, if it is a combination of others, or if
    Newton's method did not converge. A category in which nobody has the event is not; the other columns then are.
    """

    coefficients: FloatArray
    covariance: FloatArray
    is_estimable: BoolArray


def fit_outcome(outcome: Outcome, design: FloatArray, penalty: FloatArray | None = None) -> RegressionFit:
    """Fit Cox regression to times, logistic regression to a yes or no outcome.

    design (N, P): columns without an intercept. Logistic regression adds one, which is left out of the result; penalty
    (P,): ridge penalty of each column, which adds ``penalty * coefficient ** 2 / 2`` to the negative log-likelihood.
    """
    ridge = np.zeros(design.shape[1]) if penalty is None else penalty
    spread = design.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    columns, ridge = (design - design.mean(axis=0)) / scale, ridge / scale**2
    if outcome.time is not None:
        objective = CoxLikelihood(outcome.time, outcome.event, columns).evaluate
    else:
        columns, ridge = np.column_stack([columns, np.ones(len(columns))]), np.append(ridge, 0.0)
        objective = partial(_evaluate_logistic, outcome.event, columns)
    coefficients, covariance, converged = _minimise_by_newton(objective, ridge)
    n_columns = design.shape[1]  # without the intercept
    covariance = covariance[:n_columns, :n_columns]
    is_estimable = converged & (np.diag(covariance) < _MAX_ERROR**2)
    return RegressionFit(coefficients[:n_columns] / scale, covariance / np.outer(scale, scale), is_estimable)


class CoxLikelihood:
    """Partial likelihood of Cox regression.

    time (N,); event (N,); design (N, P).
    """

    def __init__(self, time: FloatArray, event: BoolArray, design: FloatArray) -> None:
        order = np.argsort(-time, kind="stable")
        self.time, self.event, self.design = time[order], event[order], design[order]
        self.event_rows = np.flatnonzero(self.event)
        event_time = self.time[self.event_rows]
        self.last_at_risk = np.searchsorted(-self.time, -event_time, side="right") - 1  # (E,)
        _, self.tie, counts = np.unique(event_time, return_inverse=True, return_counts=True)
        rank = np.zeros(len(event_time))
        for group in np.flatnonzero(counts > 1):
            rank[self.tie == group] = np.arange(counts[group])
        self.fraction = rank / counts[self.tie]  # (E,), Efron's share of tied events that have left the risk set

    def _sum_risk_sets(self, coefficients: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return weights (N,), denominators (E,) and means of the design (E, P) of Efron's risk sets."""
        linear = np.clip(self.design @ coefficients, -_MAX_EXPONENT, _MAX_EXPONENT)
        weight = np.exp(linear - linear.max(initial=-_MAX_EXPONENT))
        weighted = weight[:, None] * self.design
        n_ties = int(self.tie.max(initial=-1)) + 1
        tied, tied_design = np.zeros(n_ties), np.zeros((n_ties, self.design.shape[1]))
        np.add.at(tied, self.tie, weight[self.event_rows])
        np.add.at(tied_design, self.tie, weighted[self.event_rows])
        total = np.cumsum(weight)[self.last_at_risk] - self.fraction * tied[self.tie]
        sums = np.cumsum(weighted, axis=0)[self.last_at_risk] - self.fraction[:, None] * tied_design[self.tie]
        return weight, total, sums / total[:, None]

    def evaluate(self, coefficients: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the negative log partial likelihood, its gradient (P,) and its Hessian (P, P)."""
        weight, total, mean = self._sum_risk_sets(coefficients)
        linear = np.clip(self.design @ coefficients, -_MAX_EXPONENT, _MAX_EXPONENT)
        shifted = linear[self.event_rows] - linear.max(initial=-_MAX_EXPONENT)
        value = float(np.log(total).sum() - shifted.sum())
        gradient = mean.sum(axis=0) - self.design[self.event_rows].sum(axis=0)
        ascending = np.argsort(self.time[self.event_rows], kind="stable")
        cumulated = np.concatenate([[0.0], np.cumsum(1 / total[ascending])])
        passed = np.searchsorted(self.time[self.event_rows][ascending], self.time, side="right")
        hazard = cumulated[passed]  # (N,)
        n_ties = int(self.tie.max(initial=-1)) + 1
        removed = np.zeros(n_ties)
        np.add.at(removed, self.tie, self.fraction / total)
        hazard[self.event_rows] -= removed[self.tie]
        hessian = (self.design * (weight * hazard)[:, None]).T @ self.design - mean.T @ mean
        return value, gradient, hessian

    def compute_residuals(self, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the times of events (E,) and their Schoenfeld residuals (E, P).

        A residual is the design of a person with an event minus its mean in the risk set, which is averaged over tied
        events.
        """
        _, _, mean = self._sum_risk_sets(coefficients)
        n_ties = int(self.tie.max(initial=-1)) + 1
        sums, counts = np.zeros((n_ties, self.design.shape[1])), np.bincount(self.tie, minlength=n_ties)
        np.add.at(sums, self.tie, mean)
        residuals = self.design[self.event_rows] - (sums / counts[:, None])[self.tie]
        return self.time[self.event_rows], residuals


def check_proportional_hazards(outcome: Outcome, design: FloatArray, fit: RegressionFit) -> FloatArray:
    """Return p-values (P,) of hazard ratios that do not change with the rank of time (Grambsch and Therneau)."""
    from scipy.special import chdtrc
    from scipy.stats import rankdata

    if outcome.time is None:
        return np.full(design.shape[1], np.nan)
    times, residuals = CoxLikelihood(outcome.time, outcome.event, design).compute_residuals(fit.coefficients)
    rank = rankdata(times)
    centred = rank - rank.mean()
    n_events = len(times)
    scaled = n_events * residuals @ fit.covariance
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = (centred @ scaled) ** 2 / (n_events * np.diag(fit.covariance) * (centred @ centred))
    return np.asarray(chdtrc(1, statistic), dtype=float)


def _evaluate_logistic(
    event: BoolArray, design: FloatArray, coefficients: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return the negative log-likelihood, its gradient (P,) and its Hessian (P, P)."""
    linear = np.clip(design @ coefficients, -_MAX_EXPONENT, _MAX_EXPONENT)
    probability = 1 / (1 + np.exp(-linear))
    value = float(np.logaddexp(0, linear).sum() - linear[event].sum())
    weight = probability * (1 - probability)
    return value, design.T @ (probability - event), (design * weight[:, None]).T @ design


def _minimise_by_newton(objective: _Objective, ridge: FloatArray) -> tuple[FloatArray, FloatArray, bool]:
    """Minimise a convex function plus a ridge penalty by Newton's method with step halving.

    Convergence is judged by the gain that the next step promises and not by its length: the coefficient of a column
    that separates people grows without end, when all others and the likelihood do not change any more.

    Returns coefficients (P,); covariance (P, P); converged.
    """
    coefficients, jitter = np.zeros(len(ridge)), _JITTER * np.eye(len(ridge))

    def evaluate(point: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        with np.errstate(all="ignore"):  # a step that is too long gives no finite value and is halved
            value, gradient, hessian = objective(point)
        return value + float(ridge @ point**2) / 2, gradient + ridge * point, hessian + np.diag(ridge) + jitter

    value, gradient, hessian = evaluate(coefficients)
    for _ in range(_MAX_STEPS):
        step = np.linalg.solve(hessian, gradient)
        if gradient @ step <= _TOLERANCE * max(1.0, abs(value)):
            return coefficients - step, np.asarray(np.linalg.inv(hessian), dtype=float), True
        for size in 0.5 ** np.arange(15):
            trial = evaluate(coefficients - size * step)
            if trial[0] <= value + _TOLERANCE * abs(value):
                break
        else:
            break
        coefficients = coefficients - size * step
        value, gradient, hessian = trial
    return coefficients, np.full((len(ridge), len(ridge)), np.nan), False

"""Cox and logistic regression, survival, and concordance on held-out people.

Logistic regression and the log-rank test are those of statsmodels. Cox regression
(Efron's treatment of ties) is fitted here by Newton's method: it has a ridge penalty,
which the folds of held-out people need, and is faster than `statsmodels.PHReg`, whose
estimates it equals. Shape letters: N people, P columns, E events.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtrc
from scipy.stats import CensoredData, ecdf, rankdata

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.analysis.tidy import compute_corrected_interval, sum_by_group
from rindices.errors import (
    AnalysisError,
    Problem,
    ProblemCode,
    Severity,
    make_install_command,
)
from rindices.learners.prepared_people import order_by_values

NORMAL_QUANTILE = 1.959963984540054
"""Half of a 95 % interval in standard errors."""
_MAX_STEPS = 100
_TOLERANCE = 1e-12  # of the expected gain of a step, relative to the log-likelihood
# of the Hessian of standardised columns, so that columns without information keep a
# coefficient of 0
_JITTER = 1e-10
_RIDGE_TOLERANCE = 1e-10
# standard error of a standardised column above which its coefficient is not estimable
_MAX_ERROR = 1e3
_MAX_EXPONENT = 500.0
_INNER_FOLDS = 3
_PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
_WEAK_PENALTY = (
    1e-3  # of columns that are not penalised, for people in a fold without variation
)
N_FOLDS, N_REPEATS = 5, 4


@dataclass(frozen=True)
class Outcome:
    """An outcome to be predicted.

    Attributes
    ----------
    event : ndarray of shape (N,)
        Whether the event was observed.
    time : ndarray of shape (N,) or None
        Time of the event or of the end of observation. None for a yes-or-no outcome.
    """

    event: BoolArray
    time: FloatArray | None = None

    def take(self, rows: IntArray | BoolArray) -> "Outcome":
        """Return the outcome of some people."""
        return Outcome(self.event[rows], None if self.time is None else self.time[rows])


@dataclass(frozen=True)
class RegressionFit:
    """A regression, and which of its coefficients the data determine.

    A column is not estimable if it separates people with and without the event, if it
    is a combination of others, or if Newton's method did not converge. A category in
    which nobody has the event is not estimable, but the other columns then are.

    Attributes
    ----------
    coefficients : ndarray of shape (P,)
    covariance : ndarray of shape (P, P)
        Covariance of the coefficients.
    is_estimable : ndarray of shape (P,)
        Whether the data determine each coefficient.
    """

    coefficients: FloatArray
    covariance: FloatArray
    is_estimable: BoolArray


def require_statsmodels(what: str) -> None:
    """Raise AnalysisError if statsmodels is not installed, without importing it."""
    if find_spec("statsmodels") is None:
        text = f"{what} needs statsmodels: {make_install_command('stats')}"
        code = ProblemCode.MISSING_PACKAGE
        raise AnalysisError(Problem(severity=Severity.ERROR, what=text, code=code))


def fit_outcome(outcome: Outcome, design: FloatArray) -> RegressionFit:
    """Fit Cox regression to times, logistic regression to a yes or no outcome.

    design (N, P): columns without an intercept. Logistic regression adds one, which is
    left out of the result.
    """
    spread = design.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    columns = (design - design.mean(axis=0)) / scale
    if outcome.time is not None:
        likelihood = CoxLikelihood(outcome.time, outcome.event, columns)
        coefficients, covariance, converged = _minimise_by_newton(
            likelihood, np.zeros(design.shape[1])
        )
    else:
        coefficients, covariance, converged = _fit_logistic(outcome.event, columns)
    is_estimable = converged & (np.diag(covariance) < _MAX_ERROR**2)
    return RegressionFit(
        coefficients / scale, covariance / np.outer(scale, scale), is_estimable
    )


def fit_ridge(outcome: Outcome, design: FloatArray, penalty: FloatArray) -> FloatArray:
    """Return the coefficients of Cox or logistic regression with a ridge penalty.

    Each column adds ``penalty * coefficient ** 2 / 2`` to the negative log-likelihood.

    Parameters
    ----------
    outcome : Outcome
    design : ndarray of shape (N, P)
        Columns without an intercept.
    penalty : ndarray of shape (P,)
        Above 0.

    Returns
    -------
    ndarray of shape (P,)
    """
    if outcome.time is not None:
        likelihood = CoxLikelihood(
            outcome.time, outcome.event, design - design.mean(axis=0)
        )
        return _minimise_by_newton(likelihood, penalty)[0]
    if not design.shape[1]:
        return np.zeros(0)
    from sklearn.linear_model import LogisticRegression

    scale = np.sqrt(penalty)  # scikit-learn has one penalty for all columns
    model = LogisticRegression(solver="newton-cholesky", tol=_RIDGE_TOLERANCE)
    model.fit(design / scale, outcome.event)
    return np.asarray(model.coef_[0] / scale)


def _fit_logistic(
    event: BoolArray, design: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Return coefficients (P,) and covariance (P, P) of statsmodels, without those of
    the intercept, and whether they converged, which is judged as in
    `_minimise_by_newton`.
    """
    from statsmodels.discrete.discrete_model import Logit

    def invert(model: Any, point: FloatArray, _: object) -> FloatArray:
        """Return the covariance, also of collinear columns, whose variance is large."""
        information = _JITTER * np.eye(len(point)) - model.hessian(point)
        if not np.isfinite(information).all():
            return np.full_like(information, np.nan)
        return np.asarray(np.linalg.inv(information))

    model = Logit(event.astype(float), np.column_stack([design, np.ones(len(event))]))
    with warnings.catch_warnings(action="ignore"):  # of columns that separate people
        fit = model.fit(tol=1e-10, disp=0, cov_params_func=invert)
        gradient, value = model.score(fit.params), model.loglike(fit.params)
    covariance = fit.normalized_cov_params
    converged = gradient @ covariance @ gradient <= _TOLERANCE * max(1.0, -value)
    return fit.params[:-1], covariance[:-1, :-1], bool(converged)


class CoxLikelihood:
    """Partial likelihood of Cox regression, for times and events (N,) and a design (N,
    P).
    """

    def __init__(self, time: FloatArray, event: BoolArray, design: FloatArray) -> None:
        order = np.argsort(-time, kind="stable")
        self.time, self.event, self.design = time[order], event[order], design[order]
        self.event_rows = np.flatnonzero(self.event)
        event_time = self.time[self.event_rows]
        self.last_at_risk = (
            np.searchsorted(-self.time, -event_time, side="right") - 1
        )  # (E,)
        _, self.tie, counts = np.unique(
            event_time, return_inverse=True, return_counts=True
        )
        rank = np.zeros(len(event_time))
        for group in np.flatnonzero(counts > 1):
            rank[self.tie == group] = np.arange(counts[group])
        self.n_ties = len(counts)
        self.fraction = (
            rank / counts[self.tie]
        )  # (E,), Efron's share of tied events that have left the risk set

    def _sum_risk_sets(
        self, coefficients: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return weights (N,), denominators (E,) and means of the design (E, P) of
        Efron's risk sets.
        """
        linear = np.clip(self.design @ coefficients, -_MAX_EXPONENT, _MAX_EXPONENT)
        weight = np.exp(linear - linear.max(initial=-_MAX_EXPONENT))
        weighted = weight[:, None] * self.design
        tied, tied_design = (
            sum_by_group(each[self.event_rows], self.tie, self.n_ties)
            for each in (weight, weighted)
        )
        total = np.cumsum(weight)[self.last_at_risk] - self.fraction * tied[self.tie]
        sums = (
            np.cumsum(weighted, axis=0)[self.last_at_risk]
            - self.fraction[:, None] * tied_design[self.tie]
        )
        return weight, total, sums / total[:, None]

    def evaluate(
        self, coefficients: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the negative log partial likelihood, its gradient (P,) and its Hessian
        (P, P).
        """
        weight, total, mean = self._sum_risk_sets(coefficients)
        linear = np.clip(self.design @ coefficients, -_MAX_EXPONENT, _MAX_EXPONENT)
        shifted = linear[self.event_rows] - linear.max(initial=-_MAX_EXPONENT)
        value = float(np.log(total).sum() - shifted.sum())
        gradient = mean.sum(axis=0) - self.design[self.event_rows].sum(axis=0)
        ascending = np.argsort(self.time[self.event_rows], kind="stable")
        cumulated = np.concatenate([[0.0], np.cumsum(1 / total[ascending])])
        passed = np.searchsorted(
            self.time[self.event_rows][ascending], self.time, side="right"
        )
        hazard = cumulated[passed]  # (N,)
        hazard[self.event_rows] -= sum_by_group(
            self.fraction / total, self.tie, self.n_ties
        )[self.tie]
        hessian = (
            self.design * (weight * hazard)[:, None]
        ).T @ self.design - mean.T @ mean
        return value, gradient, hessian

    def compute_residuals(
        self, coefficients: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the times of events (E,) and their Schoenfeld residuals (E, P).

        A residual is the design of a person with an event minus its mean in the risk
        set, which is averaged over tied events.
        """
        _, _, mean = self._sum_risk_sets(coefficients)
        sums, counts = (
            sum_by_group(mean, self.tie, self.n_ties),
            np.bincount(self.tie, minlength=self.n_ties),
        )
        residuals = self.design[self.event_rows] - (sums / counts[:, None])[self.tie]
        return self.time[self.event_rows], residuals


def check_proportional_hazards(
    outcome: Outcome, design: FloatArray, fit: RegressionFit
) -> FloatArray:
    """Return p-values (P,) of hazard ratios that do not change with the rank of time
    (Grambsch and Therneau).
    """
    if outcome.time is None:
        return np.full(design.shape[1], np.nan)
    times, residuals = CoxLikelihood(
        outcome.time, outcome.event, design
    ).compute_residuals(fit.coefficients)
    rank = rankdata(times)
    centred = rank - rank.mean()
    n_events = len(times)
    scaled = n_events * residuals @ fit.covariance
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = (centred @ scaled) ** 2 / (
            n_events * np.diag(fit.covariance) * (centred @ centred)
        )
    return np.asarray(chdtrc(1, statistic), dtype=float)


def _minimise_by_newton(
    likelihood: CoxLikelihood, ridge: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Minimise the negative log-likelihood plus a ridge penalty by Newton's method with
    step halving, and return the coefficients, their covariance and whether it
    converged.

    The gain that the next step promises decides on convergence, not the length of the
    step: the coefficient of a column that separates people grows without end when the
    likelihood no longer changes.
    """
    coefficients, jitter = np.zeros(len(ridge)), _JITTER * np.eye(len(ridge))

    def evaluate(point: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        with np.errstate(
            all="ignore"
        ):  # a step that is too long gives no finite value and is halved
            value, gradient, hessian = likelihood.evaluate(point)
        return (
            value + float(ridge @ point**2) / 2,
            gradient + ridge * point,
            hessian + np.diag(ridge) + jitter,
        )

    value, gradient, hessian = evaluate(coefficients)
    for _ in range(_MAX_STEPS):
        step = np.linalg.solve(hessian, gradient)
        if gradient @ step <= _TOLERANCE * max(1.0, abs(value)):
            return (
                coefficients - step,
                np.asarray(np.linalg.inv(hessian), dtype=float),
                True,
            )
        for size in 0.5 ** np.arange(15):
            trial = evaluate(coefficients - size * step)
            if trial[0] <= value + _TOLERANCE * abs(value):
                break
        else:
            break
        coefficients = coefficients - size * step
        value, gradient, hessian = trial
    return coefficients, np.full((len(ridge), len(ridge)), np.nan), False


def estimate_survival(time: FloatArray, event: BoolArray) -> pd.DataFrame:
    """Return the Kaplan-Meier estimate.

    time (N,); event (N,). Returns one row per distinct time, from 0: ``time``,
    ``at_risk``, ``events``, ``survival`` and its 95 % interval ``low`` to ``high`` on
    the scale log(-log).
    """
    curve = ecdf(CensoredData.right_censored(time, ~event)).sf
    times, survival = curve.quantiles, curve.probabilities
    with warnings.catch_warnings(
        action="ignore"
    ):  # of shares of 0 and 1, which have no interval
        ends = curve.confidence_interval(method="log-log")
    low, high = (
        np.where(np.isfinite(end.probabilities), end.probabilities, survival)
        for end in (ends.low, ends.high)
    )
    at_risk = [np.count_nonzero(time >= t) for t in times]
    events = [np.count_nonzero((time == t) & event) for t in times]
    columns = {
        "time": times,
        "at_risk": at_risk,
        "events": events,
        "survival": survival,
        "low": low,
        "high": high,
    }
    start = pd.DataFrame([[0.0, len(time), 0, 1.0, 1.0, 1.0]], columns=list(columns))
    frame = pd.DataFrame(columns)
    return pd.concat([start, frame[frame["time"] > 0]], ignore_index=True)


def compare_survival(time: FloatArray, event: BoolArray, group: IntArray) -> float:
    """Return the p-value of the log-rank test of groups (N,) that are numbered from 0;
    NaN if it is undefined.
    """
    from statsmodels.duration.survfunc import survdiff

    try:
        statistic = survdiff(time, event.astype(float), group)[0]
    except np.linalg.LinAlgError:
        return np.nan
    return float(chdtrc(len(np.unique(group)) - 1, statistic))  # also far below 1e-16


def compute_concordance(outcome: Outcome, risk: FloatArray) -> float:
    """Return the share of comparable pairs in which the person with the earlier event
    has the higher risk.

    outcome: for a yes or no outcome the result is the area under the ROC curve; risk
    (N,): ties count one half. Returns NaN if no pair is comparable.
    """
    concordant = pairs = 0.0
    time = np.where(outcome.event, 0.0, 1.0) if outcome.time is None else outcome.time
    for row in np.flatnonzero(outcome.event):
        later = (time > time[row]) | ((time == time[row]) & ~outcome.event)
        pairs += np.count_nonzero(later)
        concordant += np.count_nonzero(
            risk[later] < risk[row]
        ) + 0.5 * np.count_nonzero(risk[later] == risk[row])
    return concordant / pairs if pairs else np.nan


def _check_events(outcome: Outcome) -> None:
    """Refuse too few people with the event; of a yes or no outcome, also without it."""
    events = int(outcome.event.sum())
    others = len(outcome.event) - (events if outcome.time is None else 0)
    if min(events, others) < 2 * N_FOLDS:
        what = f"{events} of {len(outcome.event)} people have the event"
        needed = f"at least {2 * N_FOLDS} (of a yes or no outcome also without it)"
        raise AnalysisError(f"{what}: held-out concordance needs {needed}.")


def compare_predictors(
    outcome: Outcome,
    covariates: FloatArray,
    sets: Mapping[str, FloatArray],
    penalised: str = "",
    seed: int = 0,
) -> pd.DataFrame:
    """Compare sets of predictors by their concordance on held-out people.

    Parameters
    ----------
    outcome : Outcome
        Outcome of N people.
    covariates : ndarray of shape (N, C)
        Design columns that every set has in addition, without a penalty.
    sets : mapping
        Design (N, P) of each set by its name. The first is the baseline of the
        differences.
    penalised : str
        Set whose columns get a ridge penalty, chosen by cross-validation among the
        training people.
    seed : int
        Seed of the folds.

    Returns
    -------
    DataFrame
        One row per set, with the columns of ``outcome_concordance`` in
        ``columns.toml``.

    Raises
    ------
    AnalysisError
        If fewer than 10 people have the event, or fewer than 10 do not.
    """
    _check_events(outcome)
    times = [] if outcome.time is None else [outcome.time]
    order = order_by_values(
        np.column_stack([outcome.event, *times, covariates, *sets.values()]), seed
    )
    outcome = outcome.take(order)  # folds do not depend on the order of rows
    folds = [
        fold
        for repeat in range(N_REPEATS)
        for fold in draw_folds(outcome, N_FOLDS, [seed, repeat])
    ]
    rows: list[dict[str, Any]] = []
    baseline = None
    for name, values in sets.items():
        design = np.column_stack([covariates, values])[order]
        is_penalised = (np.arange(design.shape[1]) >= covariates.shape[1]) & (
            name == penalised
        )
        scores = np.array(
            [
                _score_outer_fold(outcome, design, is_penalised, held_out)
                for held_out in folds
            ]
        )
        baseline = scores if baseline is None else baseline
        row: dict[str, Any] = {"predictors": name, "columns": design.shape[1]}
        row |= {"n": len(outcome.event), "events": int(outcome.event.sum())}
        for column, prefix, each in (
            ("concordance", "", scores),
            ("difference", "difference_", scores - baseline),
        ):
            mean, _, low, high = compute_corrected_interval(
                each[np.isfinite(each)], 1 / N_FOLDS
            )
            row |= {column: mean, f"{prefix}low": low, f"{prefix}high": high}
        rows.append(row)
    table = pd.DataFrame(rows)
    table.loc[0, ["difference", "difference_low", "difference_high"]] = np.nan
    return table


def draw_folds(outcome: Outcome, n_folds: int, seed: Sequence[int]) -> list[IntArray]:
    """Return the held-out people of each fold; folds have about equal numbers of
    events.
    """
    rng = np.random.default_rng(seed)
    fold = np.empty(len(outcome.event), dtype=np.intp)
    start = 0
    for stratum in (np.flatnonzero(outcome.event), np.flatnonzero(~outcome.event)):
        fold[rng.permutation(stratum)] = (np.arange(len(stratum)) + start) % n_folds
        start += len(stratum)
    return [np.flatnonzero(fold == number) for number in range(n_folds)]


def _score_outer_fold(
    outcome: Outcome, design: FloatArray, is_penalised: BoolArray, held_out: IntArray
) -> float:
    """Return the concordance of a fold; scale and penalty are learnt from the other
    people.
    """
    training = np.setdiff1d(np.arange(len(design)), held_out)
    mean, spread = design[training].mean(axis=0), design[training].std(axis=0)
    scaled = (design - mean) / np.where(spread > 0, spread, 1.0)
    penalty = is_penalised.astype(float)
    if is_penalised.any():
        penalty *= _choose_penalty(
            outcome.take(training), scaled[training], is_penalised
        )
    return _score_fold(outcome, scaled, held_out, penalty)


def _score_fold(
    outcome: Outcome, design: FloatArray, held_out: IntArray, penalty: FloatArray
) -> float:
    """Return the concordance on held-out people of the risk that is learnt from the
    others.
    """
    training = np.setdiff1d(np.arange(len(design)), held_out)
    coefficients = fit_ridge(
        outcome.take(training), design[training], np.maximum(penalty, _WEAK_PENALTY)
    )
    return compute_concordance(
        outcome.take(held_out), design[held_out] @ np.nan_to_num(coefficients)
    )


def _choose_penalty(
    outcome: Outcome, design: FloatArray, is_penalised: BoolArray
) -> float:
    """Return the ridge penalty with the highest concordance in inner folds."""
    folds = draw_folds(outcome, _INNER_FOLDS, [1])
    means = [
        np.nanmean(
            [
                _score_fold(
                    outcome, design, held_out, np.where(is_penalised, penalty, 0.0)
                )
                for held_out in folds
            ]
        )
        for penalty in _PENALTIES
    ]
    return _PENALTIES[int(np.argmax(means))]

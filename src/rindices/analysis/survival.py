"""Kaplan-Meier curves, the log-rank test, and concordance of predictions with outcomes."""

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.analysis.outcome_models import Outcome


def estimate_survival(time: FloatArray, event: BoolArray) -> pd.DataFrame:
    """Return the Kaplan-Meier estimate.

    time (N,); event (N,). Returns one row per distinct time, from 0: ``time``, ``at_risk``, ``events``, ``survival``
    and its 95 % interval ``low`` to ``high`` on the scale log(-log).
    """
    times = np.unique(time)
    at_risk = np.array([np.count_nonzero(time >= t) for t in times], dtype=float)
    events = np.array([np.count_nonzero((time == t) & event) for t in times], dtype=float)
    survival = np.cumprod(1 - events / at_risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        greenwood = np.cumsum(events / (at_risk * (at_risk - events)))
        width = 1.959963984540054 * np.sqrt(greenwood) / np.abs(np.log(survival))
        low, high = survival ** np.exp(width), survival ** np.exp(-width)
    inner = (survival > 0) & (survival < 1)
    low, high = np.where(inner, low, survival), np.where(inner, high, survival)
    frame = pd.DataFrame({"time": times, "at_risk": at_risk, "events": events, "survival": survival})
    frame = frame.assign(low=low, high=high)
    start = pd.DataFrame({"time": [0.0], "at_risk": [float(len(time))], "events": [0.0]})
    start = start.assign(survival=1.0, low=1.0, high=1.0)
    frame = pd.concat([start, frame[frame["time"] > 0]], ignore_index=True)
    return frame.astype({"at_risk": int, "events": int})


def compare_survival(time: FloatArray, event: BoolArray, group: IntArray) -> float:
    """Return the p-value of the log-rank test of groups (N,) that are numbered from 0; NaN if it is undefined."""
    from scipy.special import chdtrc

    number = int(group.max()) + 1
    member = np.eye(number)[group]  # (N, groups)
    difference, covariance = np.zeros(number), np.zeros((number, number))
    for t in np.unique(time[event]):
        at_risk = member[time >= t].sum(axis=0)
        total, dead = at_risk.sum(), member[(time == t) & event].sum(axis=0)
        share = at_risk / total
        difference += dead - dead.sum() * share
        if total > 1:
            factor = dead.sum() * (total - dead.sum()) / (total - 1)
            covariance += factor * (np.diag(share) - np.outer(share, share))
    if np.linalg.matrix_rank(covariance[1:, 1:]) < number - 1:
        return np.nan
    statistic = float(difference[1:] @ np.linalg.solve(covariance[1:, 1:], difference[1:]))
    return float(chdtrc(number - 1, statistic))


def compute_concordance(outcome: Outcome, risk: FloatArray) -> float:
    """Return the share of comparable pairs in which the person with the earlier event has the higher risk.

    outcome: for a yes or no outcome the result is the area under the ROC curve; risk (N,): ties count one half. Returns
    NaN if no pair is comparable.
    """
    concordant = pairs = 0.0
    time = np.where(outcome.event, 0.0, 1.0) if outcome.time is None else outcome.time
    for row in np.flatnonzero(outcome.event):
        later = (time > time[row]) | ((time == time[row]) & ~outcome.event)
        pairs += np.count_nonzero(later)
        concordant += np.count_nonzero(risk[later] < risk[row]) + 0.5 * np.count_nonzero(risk[later] == risk[row])
    return concordant / pairs if pairs else np.nan

"""Concordance of predictors with outcomes on held-out people: covariates, R-indices, and raw regions with a penalty.

Shape letters: N people, P columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rindices._typing import FloatArray, IntArray
from rindices.analysis.outcome_models import Outcome, fit_outcome
from rindices.analysis.survival import compute_concordance
from rindices.errors import AnalysisError

N_FOLDS, N_REPEATS = 5, 4
_INNER_FOLDS = 3
_PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
_WEAK_PENALTY = 1e-3  # of columns that are not penalised, for people in a fold without variation

COLUMN_DESCRIPTIONS = {
    "predictors": "What the risk is computed from",
    "columns": "Number of columns of the design",
    "n": "People",
    "events": "People with the event",
    "concordance": "Mean concordance on held-out people (area under the ROC curve for a yes or no outcome), "
    f"{N_REPEATS} times {N_FOLDS} folds",
    "low": "Lower end of its 95 % interval (corrected for folds that share people)",
    "high": "Upper end of its 95 % interval",
    "difference": "Concordance minus that of the covariates alone",
    "difference_low": "Lower end of its 95 % interval",
    "difference_high": "Upper end of its 95 % interval",
}


@dataclass(frozen=True)
class PredictorSet:
    """Columns of a prediction.

    design (N, P); is_penalised: whether the columns get a ridge penalty that is chosen by cross-validation among the
    training people.
    """

    design: FloatArray
    is_penalised: bool = False


def compare_predictors(
    outcome: Outcome, covariates: FloatArray, sets: Mapping[str, PredictorSet], seed: int = 0
) -> pd.DataFrame:
    """Compare sets of predictors by their concordance on held-out people.

    outcome: of N people; covariates (N, C): design columns that every set has in addition, without a penalty; sets: the
    first is the baseline of the differences; seed: of the folds. Returns one row per set, with the columns of
    `COLUMN_DESCRIPTIONS`. Raises AnalysisError: if fewer than 10 people have the event, or fewer than 10 do not have
    it.
    """
    if min(outcome.event.sum(), (~outcome.event).sum() if outcome.time is None else len(outcome.event)) < 2 * N_FOLDS:
        raise AnalysisError(
            f"{int(outcome.event.sum())} of {len(outcome.event)} people have the event: held-out concordance needs at "
            f"least {2 * N_FOLDS} (of a yes or no outcome also without it)."
        )
    folds = [fold for repeat in range(N_REPEATS) for fold in draw_folds(outcome, N_FOLDS, [seed, repeat])]
    scores = {name: _score_folds(outcome, covariates, predictors, folds) for name, predictors in sets.items()}
    baseline = next(iter(scores.values()))
    rows = []
    for name, values in scores.items():
        width = covariates.shape[1] + sets[name].design.shape[1]
        row = {"predictors": name, "columns": width, "n": len(outcome.event), "events": int(outcome.event.sum())}
        row |= _describe_scores("concordance", "", values)
        rows.append(row | _describe_scores("difference", "difference_", values - baseline))
    table = pd.DataFrame(rows)
    table.loc[0, ["difference", "difference_low", "difference_high"]] = np.nan
    return table


def draw_folds(outcome: Outcome, n_folds: int, seed: Sequence[int]) -> list[IntArray]:
    """Return the held-out people of each fold; folds have about equal numbers of events."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(outcome.event), dtype=np.intp)
    start = 0
    for stratum in (np.flatnonzero(outcome.event), np.flatnonzero(~outcome.event)):
        fold[rng.permutation(stratum)] = (np.arange(len(stratum)) + start) % n_folds
        start += len(stratum)
    return [np.flatnonzero(fold == number) for number in range(n_folds)]


def _score_folds(
    outcome: Outcome, covariates: FloatArray, predictors: PredictorSet, folds: Sequence[IntArray]
) -> FloatArray:
    """Return the concordance of each fold."""
    design = np.column_stack([covariates, predictors.design])
    is_penalised = np.zeros(design.shape[1], dtype=bool)
    is_penalised[covariates.shape[1] :] = predictors.is_penalised
    scores = []
    for held_out in folds:
        training = np.setdiff1d(np.arange(len(design)), held_out)
        mean, spread = design[training].mean(axis=0), design[training].std(axis=0)
        scaled = (design - mean) / np.where(spread > 0, spread, 1.0)
        penalty = np.where(is_penalised, 1.0, 0.0)
        if predictors.is_penalised:
            penalty *= _choose_penalty(outcome.take(training), scaled[training], is_penalised)
        risk = _predict_risk(outcome.take(training), scaled[training], scaled[held_out], penalty)
        scores.append(compute_concordance(outcome.take(held_out), risk))
    return np.array(scores)


def _predict_risk(outcome: Outcome, training: FloatArray, held_out: FloatArray, penalty: FloatArray) -> FloatArray:
    fit = fit_outcome(outcome, training, np.maximum(penalty, _WEAK_PENALTY))
    return np.asarray(held_out @ np.nan_to_num(fit.coefficients))


def _choose_penalty(outcome: Outcome, design: FloatArray, is_penalised: IntArray) -> float:
    """Return the ridge penalty with the highest concordance in inner folds."""
    folds = draw_folds(outcome, _INNER_FOLDS, [1])
    means = []
    for penalty in _PENALTIES:
        scores = []
        for held_out in folds:
            training = np.setdiff1d(np.arange(len(design)), held_out)
            ridge = np.where(is_penalised, penalty, 0.0)
            risk = _predict_risk(outcome.take(training), design[training], design[held_out], ridge)
            scores.append(compute_concordance(outcome.take(held_out), risk))
        means.append(float(np.nanmean(scores)))
    return _PENALTIES[int(np.argmax(means))]


def _describe_scores(name: str, prefix: str, scores: FloatArray) -> dict[str, float]:
    """Return the mean and its 95 % interval by the corrected resampled t-test (Nadeau and Bengio)."""
    from scipy.special import stdtrit

    values = scores[np.isfinite(scores)]
    error = float(np.sqrt(values.var(ddof=1) * (1 / len(values) + 1 / (N_FOLDS - 1))))
    half = float(stdtrit(len(values) - 1, 0.975)) * error
    mean = float(values.mean())
    return {name: mean, f"{prefix}low": mean - half, f"{prefix}high": mean + half}

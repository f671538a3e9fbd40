"""What R-indices predict: hazard or odds ratios, survival by thirds, and concordance on
held-out people; needs the extra ``stats``.

Shape letters: N people, M patterns, C covariate columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtr

import rindices.analysis.outcome_models as outcome_models
import rindices.analysis.tidy as tidy
from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import (
    AnalysisError,
    Findings,
    ProblemCode,
    format_count,
    join_names,
    name_arguments,
)
from rindices.one_line import ShownInOneLine
from rindices.tables.cohort import ID
from rindices.wording import load_columns

EFFECT_COLUMNS = load_columns("outcome_effects")
SURVIVAL_COLUMNS = load_columns("outcome_survival")
THIRDS = ("low", "middle", "high")
_REGIONS = "regions (ridge) and covariates"
_MIN_EVENTS_PER_COLUMN = 5
_NOT_ESTIMABLE = "not estimable: separates people with and without the event, or collinear with other columns"
_POSITIVE_LABELS = {"1", "1.0", "yes", "true", "y"}
_NEGATIVE_LABELS = {"0", "0.0", "no", "false", "n"}


@dataclass(frozen=True, kw_only=True, repr=False)
class OutcomePrediction(ShownInOneLine):
    """Results of `predict_outcome`.

    Attributes
    ----------
    effects : DataFrame
        Two rows per R-index, with the columns of `EFFECT_COLUMNS`.
    concordance : DataFrame
        One row per set of predictors. See `compare_predictors`.
    survival : DataFrame or None
        Columns of `SURVIVAL_COLUMNS`. None for a yes-or-no outcome.
    problems : Findings
        Warnings and notes for the user.
    """

    effects: pd.DataFrame
    concordance: pd.DataFrame
    survival: pd.DataFrame | None
    problems: Findings


def _find_complete_rows(*parts: pd.DataFrame | None) -> BoolArray:
    """Return who has all values in all parts."""
    known = [
        part.replace([np.inf, -np.inf], np.nan).notna().all(axis=1).to_numpy()
        for part in parts
        if part is not None
    ]
    return np.asarray(np.logical_and.reduce(known))


def _refuse_duplicates(ids: pd.Series) -> None:
    """Refuse people with several rows."""
    duplicated = ids[ids.duplicated()]
    if len(duplicated):
        raise AnalysisError(
            f"people appear more than once: {join_names(duplicated)}. Keep one row per person."
        )


def _report_incomplete(ids: pd.Series, findings: Findings) -> None:
    """Report people who lack a value and are left out."""
    if len(ids):
        count = format_count(len(ids), "person", "people")
        what = f"{count} with missing values of the outcome, an R-index, a covariate or a region"
        findings.warn(
            ProblemCode.MISSING_VALUES, what, offenders=ids, ending="; left out"
        )


def _report_failed_effects(effects: pd.DataFrame, findings: Findings) -> None:
    """Report R-indices whose effect cannot be estimated."""
    failed = effects.loc[effects["coefficient"].isna(), "index"]
    if len(failed):
        what = f"{join_names(dict.fromkeys(failed))} cannot be estimated; the column note says why"
        cure = "Adjust for fewer covariates, or add people with events"
        findings.warn(ProblemCode.MODEL_NOT_FITTED, what, cure)


@name_arguments()
def predict_outcome(
    indices: pd.DataFrame,
    outcomes: pd.DataFrame,
    *,
    event: str | tuple[str, str],
    time: str | None = None,
    covariates: Sequence[str] = (),
    regions: pd.DataFrame | None = None,
    missing_codes: Sequence[str] = (),
    seed: int = 0,
) -> OutcomePrediction:
    """Predict an outcome by R-indices, adjusted for covariates.

    Parameters
    ----------
    indices : DataFrame of N rows
        ``participant_id`` and r1, r2, ..., one row per person.
    outcomes : DataFrame of N rows
        The same people in the same order: event, time and covariates.
    event : str or (str, str)
        Column of the event: 0 and 1, no and yes; or the column and the label that means
        that it was observed.
    time : str, optional
        Column of the time to the event or to the end of observation. Without it the
        outcome is yes or no.
    covariates : sequence of str
        Columns of ``outcomes`` to adjust for.
    regions : DataFrame of N rows, optional
        Raw regions of the same people in the same order, to compare with.
    missing_codes : sequence of str
        Values that stand for missing.
    seed : int
        Of the folds.

    Returns
    -------
    OutcomePrediction
        How well the outcome is predicted.

    Raises
    ------
    AnalysisError
        If columns are missing, the event is not two-valued, times are negative,
        events are too few, or statsmodels is not installed.
    """
    outcome_models.require_statsmodels("predict")
    findings, names = Findings(), tidy.find_index_columns(indices)
    name, label = (event, None) if isinstance(event, str) else event
    used = [name, *([time] if time else []), *covariates]
    used = tidy.check_columns(outcomes, used, "outcome or covariates")
    values = tidy.exclude_missing_codes(
        outcomes, list(dict.fromkeys(used)), missing_codes
    )
    _refuse_duplicates(indices[ID])
    observed, complete = encode_event(values[name], label)
    complete = complete & _find_complete_rows(indices[names], values[used], regions)
    _report_incomplete(indices.loc[~complete, ID], findings)
    _check_event(observed[complete], name, has_time=time is not None)
    years = None
    if time is not None:
        years = _check_times(values.loc[complete, time], indices.loc[complete, ID])
    outcome = outcome_models.Outcome(observed[complete], years)
    severity = indices.loc[complete, names].astype(float)
    design = tidy.encode_covariates(values.loc[complete, list(covariates)])
    design = design[:, design.std(axis=0) > 0]
    models = (outcome, severity, design)
    own = [_estimate_effects(*models, joint) for joint in (False, True)]
    effects = pd.concat(own, ignore_index=True)
    _report_failed_effects(effects, findings)
    used_regions = None if regions is None else regions.loc[complete]
    sets = _list_predictors(severity, used_regions)
    concordance = outcome_models.compare_predictors(
        outcome, design, sets, _REGIONS, seed
    )
    survival = None if time is None else _estimate_thirds(outcome, severity)
    return OutcomePrediction(
        effects=effects,
        concordance=concordance,
        survival=survival,
        problems=findings,
    )


def _list_predictors(
    severity: pd.DataFrame, regions: pd.DataFrame | None
) -> dict[str, FloatArray]:
    """Return the predictors (N, K) that are compared, each beside the covariates."""
    sets = {
        "covariates": np.zeros((len(severity), 0)),
        "R-indices and covariates": severity.to_numpy(),
    }
    if regions is not None:
        sets[_REGIONS] = regions.to_numpy(dtype=float)
    return sets


def _check_event(observed: BoolArray, name: str, has_time: bool) -> None:
    """Refuse an event that nobody has, or that everybody has where there is no time."""
    if not observed.any() or (not has_time and observed.all()):
        raise AnalysisError(
            f"of {len(observed)} people with all values, all or none have the event in {name}."
        )


def _check_times(times: pd.Series, ids: pd.Series) -> FloatArray:
    """Return the times (N,); refuse texts and negative ones."""
    if not pd.api.types.is_numeric_dtype(times):
        cure = "give the time from the R-indices to the event or to the end"
        raise AnalysisError(f"{times.name} is not a number: {cure}.")
    if (times < 0).any():
        offenders = join_names(ids[times < 0])
        raise AnalysisError(
            f"{times.name} is negative: {offenders}. Count from the visit of the R-indices."
        )
    return np.asarray(times, dtype=float)


def encode_event(
    values: pd.Series, label: str | None = None
) -> tuple[BoolArray, BoolArray]:
    """Return whether the event was observed and whether this is known, both (N,).

    Without a label, 1, yes and true mean that the event was observed, and 0, no and
    false that it was not.

    Parameters
    ----------
    values : Series
        Two values. NaN where the outcome is unknown.
    label : str or None
        Value of an observed event.
    """
    texts = values.map(_format_label, na_action="ignore")
    levels = sorted(texts.dropna().unique())
    if len(levels) != 2:
        raise AnalysisError(
            f"{values.name} needs two values, event or not; it has {join_names(levels) or 'none'}."
        )
    found = [
        level
        for level in levels
        if level in (_POSITIVE_LABELS if label is None else {_format_label(label)})
    ]
    if label is not None and not found:
        raise AnalysisError(
            f"nobody has the label '{label}' of the event in {values.name}: {join_names(levels)}."
        )
    if len(found) != 1 or (
        label is None and not set(levels) - set(found) <= _NEGATIVE_LABELS
    ):
        raise AnalysisError(
            f"which value of {values.name} is the event: {join_names(levels)}? Name it: --event-label."
        )
    return np.asarray(texts == found[0], dtype=bool), np.asarray(values.notna())


def _format_label(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text.strip().lower()


def _estimate_effects(
    outcome: outcome_models.Outcome,
    indices: pd.DataFrame,
    covariates: FloatArray,
    joint: bool,
) -> pd.DataFrame:
    """Return the ratios of each R-index (N, M) alone or of all together, adjusted for a
    design (N, C).
    """
    spread = indices.std().where(lambda sd: sd > 0, 1.0)
    centred = covariates - covariates.mean(axis=0)
    rows = []
    for group in [list(indices)] if joint else [[name] for name in indices]:
        scaled = ((indices - indices.mean()) / spread)[group].to_numpy()
        design = np.column_stack([scaled, centred])
        fit = outcome_models.fit_outcome(outcome, design)
        hazards = outcome_models.check_proportional_hazards(outcome, design, fit)
        note = _explain_weak_model(outcome, fit.is_estimable, len(group))
        for position, name in enumerate(group):
            if not fit.is_estimable[position]:
                rows.append((name, np.nan, np.nan, np.nan, _NOT_ESTIMABLE))
                continue
            error = float(np.sqrt(fit.covariance[position, position]))
            rows.append(
                (name, fit.coefficients[position], error, hazards[position], note)
            )
    table = pd.DataFrame(
        rows, columns=["index", "coefficient", "error", "hazards_p", "note"]
    )
    coefficient, half = (
        table["coefficient"],
        outcome_models.NORMAL_QUANTILE * table["error"],
    )
    p = 2 * ndtr(-np.abs(coefficient / table["error"]))
    table = table.assign(
        model="joint" if joint else "single",
        regression="logistic" if outcome.time is None else "cox",
        n=len(indices),
        events=int(outcome.event.sum()),
        ratio=np.exp(coefficient),
        low=np.exp(coefficient - half),
        high=np.exp(coefficient + half),
        p=p,
        q=tidy.false_discovery_rate(p),
    )
    return table[list(EFFECT_COLUMNS)]


def _explain_weak_model(
    outcome: outcome_models.Outcome, is_estimable: BoolArray, n_indices: int
) -> str:
    """Return why a regression is uncertain; empty if it is not."""
    n_columns, n_unbounded = len(is_estimable), int((~is_estimable[n_indices:]).sum())
    rarer = (
        int(min(outcome.event.sum(), (~outcome.event).sum()))
        if outcome.time is None
        else int(outcome.event.sum())
    )
    notes = (
        [f"few events: {rarer} for {n_columns} columns"]
        if rarer < _MIN_EVENTS_PER_COLUMN * n_columns
        else []
    )
    if n_unbounded:
        number = format_count(
            n_unbounded,
            "column of the covariates has",
            "columns of the covariates have",
        )
        notes.append(
            f"{number} no finite effect: nobody or everybody has the event there, or columns are collinear"
        )
    return "; ".join(notes)


def split_into_thirds(values: FloatArray) -> IntArray:
    """Return 0, 1 or 2 for the low, middle and high third of values (N,)."""
    return np.asarray(
        np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values, side="left"),
        dtype=np.intp,
    )


def _estimate_thirds(
    outcome: outcome_models.Outcome, indices: pd.DataFrame
) -> pd.DataFrame:
    time, event, tables = outcome.time, outcome.event, []
    assert time is not None
    for name in indices:
        third = split_into_thirds(indices[name].to_numpy())
        p = (
            outcome_models.compare_survival(time, event, third)
            if len(np.unique(third)) == 3
            else np.nan
        )
        for number, label in enumerate(THIRDS):
            rows = third == number
            if rows.any():
                curve = outcome_models.estimate_survival(time[rows], event[rows])
                tables.append(curve.assign(index=name, third=label, log_rank_p=p))
    return pd.concat(tables, ignore_index=True)[list(SURVIVAL_COLUMNS)]

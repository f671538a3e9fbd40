"""R-indices against clinical variables (section B.9 of the paper)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from rindices._typing import FloatArray
from rindices.analysis.tidy import (
    SMALL_GROUP_SIZE,
    check_columns,
    false_discovery_rate,
    find_index_columns,
    join_by_id,
    select_people,
    standardise_columns,
)
from rindices.errors import AnalysisError
from rindices.preprocess.residualise import build_design_matrix, derive_codings
from rindices.tables.cohort import GROUP, ID, SESSION

COLUMN_DESCRIPTIONS = {
    "index": "R-index",
    "variable": "Clinical variable",
    "kind": "pearson, or point-biserial for a variable of two values",
    "level": "The one of two values that counts as 1",
    "n": "People who have both, and all covariates",
    "correlation": "Correlation; partial where covariates were named",
    "low": "Lower end of the confidence interval (Fisher)",
    "high": "Upper end of the confidence interval (Fisher)",
    "p": "Two-sided p of no correlation",
    "q": "False discovery rate over the whole table (Benjamini and Hochberg)",
    "note": "What makes a number weak or absent",
}


class CodedVariable(NamedTuple):
    """A clinical variable as numbers.

    Attributes
    ----------
    values : (N,)
        NaN where missing; 0 and 1 where there are two values.
    kind : str
        ``pearson``, ``point-biserial``, or empty where it has more than two categories.
    level : str
        The value that counts as 1.
    """

    values: FloatArray
    kind: str
    level: str = ""


class Correlation(NamedTuple):
    """A correlation with its confidence interval; all NaN where it cannot be told."""

    correlation: float
    low: float
    high: float
    p: float


def associate_indices(
    indices: pd.DataFrame,
    clinical: pd.DataFrame,
    *,
    variables: Sequence[str] | None = None,
    covariates: Sequence[str] = (),
    people: str = "patients",
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Correlate each R-index with each clinical variable, among the people who have both.

    Parameters
    ----------
    indices : DataFrame
        ``participant_id``, ``r1`` to ``rM``, and ``group`` where the patients are to be told from the controls.
    clinical : DataFrame
        ``participant_id`` and the variables; joined by participant (and session), never by row order.
    variables : sequence of str, optional
        Left out, every column that is neither an id, the group nor a covariate.
    covariates : sequence of str
        Columns of ``clinical`` whose linear effect is taken out of both sides: partial correlations.
    people : {'patients', 'controls', 'all'}
        Whom to look at. The paper looks at patients.
    confidence : float
        Of the intervals.

    Returns
    -------
    DataFrame
        A row per index and variable: ``index, variable, kind, level, n, correlation, low, high, p, q, note``. ``kind``
        is ``pearson``, or ``point-biserial`` for a variable of two values, ``level`` being the one that counts as 1.
        The interval is Fisher's. ``q`` is the false discovery rate over the whole table. ``note`` says where people
        are few or a correlation cannot be told, which leaves its numbers empty.
    """
    if not 0 < confidence < 1:
        raise AnalysisError(f"confidence {confidence:g} is not between 0 and 1.")
    names = find_index_columns(indices)
    chosen = select_people(indices, people)
    beside = join_by_id(chosen, clinical)
    adjusted = check_columns(clinical, covariates, "covariates")
    aside = {ID, SESSION, GROUP, *names, *adjusted}
    wanted = [c for c in clinical.columns if c not in aside] if variables is None else variables
    rows = []
    for variable in check_columns(clinical, wanted, "variables"):
        coded = code_variable(beside[variable])
        known = np.isfinite(coded.values) & beside[adjusted].notna().all(axis=1).to_numpy()
        design = _make_design(beside.loc[known, adjusted])
        for name in names:
            severity = chosen[name].to_numpy(dtype=float)
            told = known & np.isfinite(severity)
            found = compute_partial_correlation(severity[told], coded.values[told], design[told[known]], confidence)
            note = _explain_weak_correlation(coded, coded.values[told], found)
            rows.append((name, variable, coded.kind, coded.level, int(told.sum()), *found, np.nan, note))
    table = pd.DataFrame(rows, columns=list(COLUMN_DESCRIPTIONS))
    return table.assign(q=false_discovery_rate(table["p"]))


def code_variable(values: pd.Series) -> CodedVariable:
    """Return a column as numbers: two values, in words or not, become 0 and 1, the second in order being 1."""
    levels = sorted(values.dropna().unique())
    number = pd.api.types.is_numeric_dtype(values)
    if len(levels) == 2:
        coded = np.where(values.isna(), np.nan, (values == levels[1]).astype(float))
        return CodedVariable(coded, "point-biserial", f"{levels[1]:g}" if number else str(levels[1]))
    if number:
        return CodedVariable(values.to_numpy(dtype=float, na_value=np.nan), "pearson")
    return CodedVariable(np.full(len(values), np.nan), "")


def compute_partial_correlation(
    first: FloatArray, second: FloatArray, design: FloatArray, confidence: float = 0.95
) -> Correlation:
    """Correlate two variables (N,) after taking the linear effect of a design (N, P) out of both."""
    centred = standardise_columns(design)
    rank = int(np.linalg.matrix_rank(centred)) if centred.size else 0
    freedom = len(first) - 2 - rank
    nothing = Correlation(np.nan, np.nan, np.nan, np.nan)
    if freedom < 2:  # Fisher's interval needs N - P > 3
        return nothing
    both = np.column_stack([first, second])
    spread = both.std(axis=0)
    both = both - both.mean(axis=0)
    if rank:
        both = both - centred @ np.linalg.lstsq(centred, both, rcond=None)[0]
    left = both.std(axis=0)
    if (left <= 1e-10 * np.maximum(spread, np.finfo(float).tiny)).any():
        return nothing
    r = float(np.clip(np.mean(both[:, 0] * both[:, 1]) / (left[0] * left[1]), -1, 1))
    with np.errstate(divide="ignore"):
        t = r * np.sqrt(freedom / np.float64(1 - r * r))
        width = special.ndtri((1 + confidence) / 2) / np.sqrt(freedom - 1)
        low, high = np.tanh(np.arctanh(r) + np.array([-width, width]))
    return Correlation(r, float(low), float(high), float(2 * special.stdtr(freedom, -abs(t))))


def _make_design(covariates: pd.DataFrame) -> FloatArray:
    return build_design_matrix(derive_codings(covariates), covariates)


def _explain_weak_correlation(variable: CodedVariable, values: FloatArray, found: Correlation) -> str:
    """Say in words what stands in the way of a correlation, or makes it weak."""
    if not variable.kind:
        return "more than two categories: make it a number or two categories"
    if not len(values):
        return "no one has it"
    if not np.isfinite(found.correlation):
        return "the same in everyone" if np.ptp(values) == 0 else "too few people, or it follows from the covariates"
    if variable.kind == "point-biserial":
        ones = int(values.sum())
        smaller = min(ones, len(values) - ones)
        if smaller < SMALL_GROUP_SIZE // 2:
            return f"few people: {smaller} in the smaller group"
    return f"few people: {len(values)}" if len(values) < SMALL_GROUP_SIZE else ""

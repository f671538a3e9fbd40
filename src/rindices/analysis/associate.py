"""Correlations of R-indices with clinical variables (section B.9 of the paper)."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

import rindices.analysis.tidy as tidy
from rindices._typing import FloatArray
from rindices.analysis.model_columns import (
    ModelInputs,
    UsedColumns,
    find_used_columns,
    warn_of_unknown_model,
)
from rindices.errors import (
    AnalysisError,
    Severity,
    format_count,
    name_arguments,
    name_problem_arguments,
)
from rindices.model.fitted import FittedModel
from rindices.tables.cohort import GROUP, ID, SESSION
from rindices.wording import load_columns

COLUMN_DESCRIPTIONS = load_columns("associations")
_LOGGER = logging.getLogger("rindices")


class _CodedVariable(NamedTuple):
    """A clinical variable as numbers.

    Attributes
    ----------
    values : ndarray of shape (N,)
        NaN where the variable is missing. A variable with two values is 0 or 1.
    kind : str
        Kind of correlation: ``pearson`` or ``point-biserial``. Empty for text with more
        than two values.
    level : str
        The value that is coded as 1.
    """

    values: FloatArray
    kind: str
    level: str = ""


@name_arguments()
def associate_indices(
    indices: pd.DataFrame,
    clinical: pd.DataFrame,
    *,
    variables: Sequence[str] | None = None,
    covariates: Sequence[str] = (),
    people: str | None = None,
    missing_codes: Sequence[str] = (),
    model: FittedModel | None = None,
) -> pd.DataFrame:
    """Correlate each R-index with each clinical variable.

    An R-index is computed from the regions of its model, so it correlates with them
    whether or not there is a disease.

    Parameters
    ----------
    indices : DataFrame
        One row per person with ``participant_id``, ``r1`` to ``rM``, and ``group`` to
        tell patients from controls.
    clinical : DataFrame
        ``participant_id`` and the variables. Rows are joined by participant (and
        session), never by their order.
    variables : sequence of str, optional
        By default every column that is not an id, the group, a covariate, or a region
        of ``model``.
    covariates : sequence of str
        Columns of ``clinical`` whose linear effect is removed from both sides, for
        partial correlations.
    people : {'patients', 'controls', 'all'}, optional
        Whom to include. By default patients, as in the paper, or everyone if there is
        no ``group``.
    missing_codes : sequence of str
        Values that stand for missing, such as -9999, or ``none``. If left out, columns
        that seem to hold such codes are refused.
    model : FittedModel, optional
        The model of the R-indices. Its regions, and sums of regions, are left out
        unless ``variables`` names them. They, and the covariates that it adjusts for,
        have no q and are not counted in that of the others.

    Returns
    -------
    DataFrame
        One row per index and variable, with the columns of `COLUMN_DESCRIPTIONS`.
        Undefined correlations are NaN, and ``note`` says why.

    Raises
    ------
    AnalysisError
        If a column is unknown, if a variable or covariate seems to hold codes for
        missing, or if the R-indices are not those of the model.

    Examples
    --------
    >>> import rindices as ri
    >>> simulated = ri.simulate_cohort("tiny", seed=0)
    >>> names = {"s1": "r1", "s2": "r2", "s3": "r3"}
    >>> people = simulated.cohort.people[["participant_id", "group"]]
    >>> indices = people.merge(simulated.severities.rename(columns=names), how="left")
    >>> indices = indices.fillna(0.0)  # true severities, 0 in controls
    >>> clinical = simulated.cohort.covariates.assign(
    ...     participant_id=people["participant_id"]
    ... )
    >>> table = ri.analysis.associate_indices(indices, clinical, variables=["age"])
    >>> table[["index", "variable", "n"]]
      index variable    n
    0    r1      age  100
    1    r2      age  100
    2    r3      age  100
    """
    inputs = None if model is None else ModelInputs.of(model)
    used = check_inputs(indices, clinical, inputs, variables, covariates)
    problems = used.note(
        "", variables is not None, "" if inputs is None else inputs.unit
    )
    if inputs is None and variables is None and len(clinical.columns):
        unknown = warn_of_unknown_model(
            clinical.columns, "the model of the R-indices is not given"
        )
        problems += [
            problem for problem in unknown if problem.severity is Severity.WARNING
        ]
    for problem in problems:
        _LOGGER.warning("%s", name_problem_arguments(problem))
    return tabulate_associations(
        indices, clinical, used, variables, covariates, people, missing_codes
    )


def check_inputs(
    indices: pd.DataFrame,
    clinical: pd.DataFrame,
    inputs: ModelInputs | None,
    variables: Sequence[str] | None = None,
    covariates: Sequence[str] = (),
) -> UsedColumns:
    """Return the variables of a clinical table that the model of the R-indices used;
    none if it is not known.

    variables: left out, all columns without ids, groups and covariates. Raises
    AnalysisError: if the model has another number of R-indices.
    """
    if inputs is None:
        return UsedColumns()
    names = tidy.find_index_columns(indices)
    if len(names) != inputs.n_patterns:
        what = f"the table has {format_count(len(names), 'R-index', 'R-indices')} and the model {inputs.n_patterns}"
        raise AnalysisError(
            f"{what}: name the model that these R-indices were computed with, --model."
        )
    columns = [name for name in clinical.columns if name not in (ID, SESSION, GROUP)]
    wanted = (
        [name for name in columns if name not in covariates]
        if variables is None
        else variables
    )
    return find_used_columns(columns, inputs).select(wanted)


def tabulate_associations(
    indices: pd.DataFrame,
    clinical: pd.DataFrame,
    used: UsedColumns,
    variables: Sequence[str] | None = None,
    covariates: Sequence[str] = (),
    people: str | None = None,
    missing_codes: Sequence[str] = (),
) -> pd.DataFrame:
    """Return `associate_indices`, given the columns of the clinical table that the
    model used.
    """
    names = tidy.find_index_columns(indices)
    selected = tidy.select_people(
        indices, people or ("patients" if GROUP in indices else "all")
    )
    joined = tidy.join_by_id(selected, clinical)
    adjusted = tidy.check_columns(clinical, covariates, "covariates")
    if variables is None:  # columns that the model used are named, or not correlated
        excluded = {ID, SESSION, GROUP, *names, *adjusted, *used.regions, *used.sums}
        variables = [name for name in clinical.columns if name not in excluded]
    wanted = tidy.check_columns(clinical, variables, "variables")
    joined = tidy.exclude_missing_codes(
        joined, list(dict.fromkeys([*wanted, *adjusted])), missing_codes
    )
    rows = []
    for variable in wanted:
        coded = _code_variable(joined[variable])
        complete = (
            np.isfinite(coded.values) & joined[adjusted].notna().all(axis=1).to_numpy()
        )
        design = tidy.encode_covariates(joined.loc[complete, adjusted])
        for name in names:
            severity = selected[name].to_numpy(dtype=float)
            has_both = complete & np.isfinite(severity)
            pair = np.column_stack([severity, coded.values])[has_both]
            result = _compute_partial_correlation(pair, design[has_both[complete]])
            note = _explain_weak_correlation(coded, coded.values[has_both], result[0])
            kind, n = (coded.kind, coded.level), int(has_both.sum())
            rows.append((name, variable, *kind, n, *result, np.nan, note))
    return discount_inputs(pd.DataFrame(rows, columns=list(COLUMN_DESCRIPTIONS)), used)


def discount_inputs(table: pd.DataFrame, used: UsedColumns) -> pd.DataFrame:
    """Return associations with q over those that are no inputs of the model; the note
    says so of the others.
    """
    reasons = table["variable"].map(used.explain)
    is_counted = (reasons == "").to_numpy()
    notes = table["note"].astype(object).where(table["note"].notna(), "").astype(str)
    both = [
        "; ".join(filter(None, texts)) for texts in zip(reasons, notes, strict=True)
    ]
    return table.assign(
        q=tidy.false_discovery_rate(table["p"].where(is_counted)), note=both
    )


def _code_variable(values: pd.Series) -> _CodedVariable:
    """Return a column as numbers; of two values, numbers or text, the second in order
    becomes 1.
    """
    levels = sorted(values.dropna().unique())
    is_numeric = pd.api.types.is_numeric_dtype(values)
    if len(levels) == 2:
        coded = np.where(values.isna(), np.nan, (values == levels[1]).astype(float))
        return _CodedVariable(
            coded, "point-biserial", f"{levels[1]:g}" if is_numeric else str(levels[1])
        )
    if is_numeric:
        return _CodedVariable(values.to_numpy(dtype=float, na_value=np.nan), "pearson")
    return _CodedVariable(np.full(len(values), np.nan), "")


def _compute_partial_correlation(
    both: FloatArray, design: FloatArray
) -> tuple[float, float, float, float]:
    """Correlate two variables (N, 2) after removing the linear effect of a design (N,
    P) from both.

    Returns the correlation, its 95 % interval and p. All are NaN if there are too few
    people, or if a variable is constant or determined by the covariates.
    """
    centred = tidy.standardise_columns(design)
    rank = int(np.linalg.matrix_rank(centred)) if centred.size else 0
    freedom = len(both) - 2 - rank
    if freedom < 2:  # Fisher's interval needs N - P > 3
        return np.nan, np.nan, np.nan, np.nan
    spread = both.std(axis=0)
    both = both - both.mean(axis=0)
    if rank:
        both = both - centred @ np.linalg.lstsq(centred, both, rcond=None)[0]
    residual_spread = both.std(axis=0)
    if (residual_spread <= 1e-10 * np.maximum(spread, np.finfo(float).tiny)).any():
        return np.nan, np.nan, np.nan, np.nan
    r = float(
        np.clip(
            np.mean(both[:, 0] * both[:, 1])
            / (residual_spread[0] * residual_spread[1]),
            -1,
            1,
        )
    )
    with np.errstate(divide="ignore"):
        t = r * np.sqrt(freedom / np.float64(1 - r * r))
        width = special.ndtri(0.975) / np.sqrt(freedom - 1)
        low, high = np.tanh(np.arctanh(r) + np.array([-width, width]))
    return r, float(low), float(high), float(2 * special.stdtr(freedom, -abs(t)))


def _explain_weak_correlation(
    variable: _CodedVariable, values: FloatArray, correlation: float
) -> str:
    """Return why a correlation is undefined or uncertain; empty if it is neither."""
    if not variable.kind:
        return "more than two categories: recode it as a number or as two categories"
    if not len(values):
        return "no values"
    if not np.isfinite(correlation):
        return (
            "constant"
            if np.ptp(values) == 0
            else "too few people, or determined by the covariates"
        )
    if variable.kind == "point-biserial":
        ones = int(values.sum())
        smaller = min(ones, len(values) - ones)
        if smaller < tidy.SMALL_GROUP_SIZE // 2:
            return f"few people: {smaller} in the smaller group"
    return f"few people: {len(values)}" if len(values) < tidy.SMALL_GROUP_SIZE else ""

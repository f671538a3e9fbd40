"""Helpers of all statistics: joining tables by id, choosing people, false discovery
rates, and tables as files.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special, stats

from rindices._typing import FloatArray, IntArray
from rindices._version import __version__
from rindices.atomic import write_atomically, write_json
from rindices.errors import (
    AnalysisError,
    Findings,
    did_you_mean,
    explain_write_errors,
    join_names,
)
from rindices.preprocess.residualise import build_design_matrix, derive_codings
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.checks.missing_codes import (
    NO_CODES,
    mask_missing_codes,
    report_codes,
)
from rindices.tables.cohort import GROUP, ID, PERSON_COLUMNS, SESSION, Cohort
from rindices.tables.sources.spreadsheet import protect_texts
from rindices.wording import load_columns

SMALL_GROUP_SIZE = 20
"""Groups with fewer people get a note."""
GROUP_CHOICES = {"patients": PATIENT, "controls": CONTROL, "all": None}


def find_index_columns(indices: pd.DataFrame) -> list[str]:
    """Return the columns r1, r2, ... of a table of R-indices."""
    names = [str(name) for name in indices.columns if re.fullmatch(r"r\d+", str(name))]
    if not names or ID not in indices:
        columns = join_names(indices.columns, 12)
        raise AnalysisError(
            f"the table of R-indices needs the columns {ID} and r1, r2, ...; it has: {columns}."
        )
    return names


def select_people(indices: pd.DataFrame, people: str) -> pd.DataFrame:
    """Return the rows of ``patients``, ``controls`` or ``all``."""
    if people not in GROUP_CHOICES:
        raise AnalysisError(
            f"there is no choice of people '{people}': {did_you_mean(people, list(GROUP_CHOICES))}"
        )
    if GROUP_CHOICES[people] is None:
        return indices
    if GROUP not in indices:
        raise AnalysisError(
            f"the R-indices have no column {GROUP}, so {people} are unknown: choose all people."
        )
    selected = indices[indices[GROUP] == GROUP_CHOICES[people]]
    if selected.empty:
        raise AnalysisError(
            f"the table of R-indices has no {people}: choose all people."
        )
    return selected


def join_by_id(indices: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of another table in the order of the people of ``indices``.

    indices: ``participant_id`` and, optionally, ``session_id``; other: joined by
    participant, and by session if both tables have sessions. Returns missing values for
    people who are not in ``other``. Raises AnalysisError: if a person appears twice in
    either table, or if the tables have nobody in common. Visits of one person are not
    independent.
    """
    keys = [name for name in (ID, SESSION) if name in indices and name in other]
    if ID not in keys:
        raise AnalysisError(f"both tables need the column {ID}.")
    for table, own, label in (
        (indices, [ID], "the R-indices"),
        (other, keys, "the other table"),
    ):
        duplicates = table.loc[table.duplicated(own), ID]
        if len(duplicates):
            names = join_names(duplicates)
            raise AnalysisError(
                f"people appear more than once in {label}: {names}. Keep one row per person."
            )
    if not indices[ID].isin(other[ID]).any():
        raise _make_no_overlap_error(indices, other, "the other table")
    return indices[keys].merge(other, on=keys, how="left", validate="one_to_one")


def join_values(indices: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return `join_by_id` without the columns of ids."""
    return join_by_id(indices, other).drop(columns=[ID, SESSION], errors="ignore")


def encode_covariates(values: pd.DataFrame) -> FloatArray:
    """Return covariates (N, C) as a design (N, P); rows of people who lack
    one are NaN.
    """
    complete = values.notna().all(axis=1).to_numpy()
    coded = build_design_matrix(derive_codings(values[complete]), values[complete])
    design = np.full((len(values), coded.shape[1]), np.nan)
    design[complete] = coded
    return design


def compute_corrected_interval(
    scores: FloatArray, test_share: float
) -> tuple[float, float, float, float]:
    """Return mean, standard deviation and 95 % interval of scores (K,) of held-out
    people.

    Splits share people, so the variance over splits is too small; it is corrected
    (Nadeau and Bengio).
    """
    mean, sd = (
        float(scores.mean()),
        float(scores.std(ddof=1)) if len(scores) > 1 else np.nan,
    )
    error = sd * np.sqrt(1 / len(scores) + test_share / (1 - test_share))
    width = float(special.stdtrit(max(len(scores) - 1, 1), 0.975) * error)
    return mean, sd, mean - width, mean + width


def exclude_missing_codes(
    frame: pd.DataFrame, columns: Sequence[str], codes: Sequence[str]
) -> pd.DataFrame:
    """Return a table in which codes for missing are empty.

    Parameters
    ----------
    frame : DataFrame
        The table.
    columns : sequence of str
        Columns that are used.
    codes : sequence of str
        Values that stand for missing. ``none`` takes all numbers as they are.

    Raises
    ------
    AnalysisError
        If a column holds a usual code that was not named, such as -9999 far from its
        other values.
    """
    masked = mask_missing_codes(
        frame, codes, keep=[name for name in frame.columns if name not in columns]
    )
    findings = Findings()
    if tuple(codes) != NO_CODES and report_codes(masked[list(columns)], findings):
        raise AnalysisError(findings)
    return masked


def add_ids(cohort: Cohort, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of a cohort's people, for example its volumes, with ids and
    sessions as first columns.
    """
    keys = [name for name in (ID, SESSION) if name in cohort.people]
    return pd.concat([cohort.people[keys], frame], axis=1)


def add_groups(indices: pd.DataFrame, cohort: Cohort) -> pd.DataFrame:
    """Return the R-indices of people in the cohort, with the cohort's ``group`` unless
    the table has this column.
    """
    keys = [name for name in (ID, SESSION) if name in indices and name in cohort.people]
    group = [GROUP] if GROUP in cohort.people and GROUP not in indices else []
    joined = indices.merge(
        cohort.people[[*keys, *group]], on=keys, how="inner", validate="one_to_one"
    )
    if joined.empty:
        raise _make_no_overlap_error(indices, cohort.people, "the table of regions")
    if GROUP not in joined:
        raise AnalysisError(
            "it is unknown who is a control: name the column of groups with --group."
        )
    return joined


def _make_no_overlap_error(
    indices: pd.DataFrame, other: pd.DataFrame, label: str
) -> AnalysisError:
    examples = join_names(indices[ID], 2), join_names(other[ID], 2)
    return AnalysisError(
        f"none of the people with R-indices ({examples[0]}) is in {label} ({examples[1]})."
    )


def sum_by_group(values: FloatArray, group: IntArray, n_groups: int) -> FloatArray:
    """Return the sum of the rows (N, ...) of each group, (n_groups, ...); groups (N,)
    are numbered from 0.
    """
    total = np.zeros((n_groups, *values.shape[1:]))
    np.add.at(total, group, values)
    return total


def standardise_columns(design: FloatArray) -> FloatArray:
    """Return a design (N, P) with mean 0 and standard deviation 1; a constant column
    becomes 0.
    """
    centred = design - design.mean(axis=0) if len(design) else design
    spread = centred.std(axis=0) if len(design) else np.ones(design.shape[1])
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))


def false_discovery_rate(p: ArrayLike) -> FloatArray:
    """Return q-values (K,) of p-values (K,) by Benjamini and Hochberg; NaN is left out
    and stays NaN.
    """
    values = np.asarray(p, dtype=float)
    q = np.full(values.shape, np.nan)
    finite = np.isfinite(values)
    if finite.any():
        q[finite] = stats.false_discovery_control(values[finite])
    return q


def check_columns(frame: pd.DataFrame, names: Sequence[str], role: str) -> list[str]:
    """Return the names if all are columns; otherwise raise an error with a
    suggestion.
    """
    for name in names:
        if name not in frame:
            suggestion = did_you_mean(name, list(frame.columns))
            raise AnalysisError(
                f"there is no column '{name}' for the {role}: {suggestion}"
            )
    return list(names)


def write_table(
    table: pd.DataFrame | None,
    path: Path,
    settings: dict[str, Any],
    descriptions: dict[str, str] | None = None,
) -> None:
    """Write a table and its data dictionary.

    The dictionary has the name of the table with .json. Without a table, both files of
    an earlier run are removed.

    Parameters
    ----------
    table : DataFrame or None
    path : Path
        A .tsv file. Its folder is created if it is missing.
    settings : dict
        Options that the table was computed with.
    descriptions : dict or None
        Description of each column. By default, those of the tables with the name of the
        file.
    """
    if table is None:
        for file in (path, path.with_suffix(".json")):
            file.unlink(missing_ok=True)
        return
    descriptions = descriptions or load_columns(path.stem)
    columns = {name: {"Description": descriptions[name]} for name in table.columns}
    dictionary = {
        **columns,
        "GeneratedBy": {"Name": "rindices", "Version": __version__, **settings},
    }
    text = protect_texts(table).to_csv(
        None, sep="\t", index=False, na_rep="n/a", lineterminator="\n"
    )
    with explain_write_errors(str(path), AnalysisError):
        path.parent.mkdir(parents=True, exist_ok=True)
        is_private = not PERSON_COLUMNS.isdisjoint(table.columns)
        write_atomically(path, text.encode(), is_private=is_private)
        write_json(path.with_suffix(".json"), dictionary)


def as_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as plain values for JSON; missing and infinite numbers become
    null.
    """
    values = table.replace([np.inf, -np.inf], np.nan).astype(object)
    records: list[dict[str, Any]] = values.where(values.notna(), None).to_dict(
        "records"
    )
    return records

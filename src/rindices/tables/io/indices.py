"""A table of R-indices and another table about the same people, joined by id."""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from rindices.errors import Findings, Severity
from rindices.tables.cohort import ID, SESSION
from rindices.tables.io.text import to_text
from rindices.tables.layout import formats
from rindices.tables.participants import join_participants
from rindices.tables.table import ColumnRoles, Table, read_participants
from rindices.tables.validation.values import as_numbers


def read_indices(path: Path, findings: Findings) -> pd.DataFrame:
    """Read ``r_indices.tsv`` or its like: ``participant_id``, ``session_id`` where there are sessions, r1, r2, ..."""
    return _normalise_id_columns(read_participants(path, ColumnRoles(), [], findings), findings)


def read_indices_with_variables(
    path: Path, other: Path, roles: ColumnRoles, findings: Findings
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read R-indices and a table about the same people.

    Parameters
    ----------
    path : Path
        The R-indices.
    other : Path
        Clinical variables or whatever else is known; ids may be spelt a little differently.
    roles : Roles
        The other table's columns of id and session, where they have unusual names.

    Returns
    -------
    indices, beside : DataFrame
        Same people in the same order; a column of mostly numbers is numbers, its other cells are missing and said.
    """
    indices = read_participants(path, ColumnRoles(), [], findings)
    people = join_participants(indices, other, roles, findings)
    unusual = [name for name in (roles.id, roles.session) if name]
    known = (*formats.ID_NAMES, *formats.SESSION_NAMES, *unusual)
    columns = [name for name in people.frame.columns if not formats.find_column([name], known)]
    return _normalise_id_columns(indices, findings), _prepend_ids(
        indices, people.frame[columns], people.where, findings
    )


def _normalise_id_columns(table: Table, findings: Findings) -> pd.DataFrame:
    own = [name for name in table.frame.columns if not formats.find_column([name], formats.ID_NAMES)]
    own = [name for name in own if not formats.find_column([name], formats.SESSION_NAMES)]
    return _prepend_ids(table, table.frame[own], table.where, findings)


def _prepend_ids(table: Table, frame: pd.DataFrame, where: str, findings: Findings) -> pd.DataFrame:
    keys = {ID: table.ids} | ({} if table.sessions is None else {SESSION: table.sessions})
    columns = [_convert_column(frame[name], table.ids, where, findings) for name in frame.columns]
    return pd.concat([pd.DataFrame(keys), *(column.reset_index(drop=True) for column in columns)], axis=1)


def _convert_column(values: pd.Series, ids: list[str], where: str, findings: Findings) -> pd.Series:
    """Return a column as numbers where it is mostly numbers, else as text."""
    if not formats.is_mostly_numeric(values):
        return to_text(values).rename(values.name)
    strange = Findings()
    numbers = as_numbers(values.to_frame(), ids, where, strange).iloc[:, 0]
    cure = "These cells count as missing"
    findings.problems += [replace(problem, severity=Severity.WARNING, cure=cure) for problem in strange]
    return numbers

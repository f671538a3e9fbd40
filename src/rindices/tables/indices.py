"""Read a table of R-indices, and another table of the same people joined by id."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from rindices.errors import Findings, ProblemCode, Severity, format_count
from rindices.tables.cohort import ID, SESSION
from rindices.tables.io.text import to_text
from rindices.tables.layout import formats
from rindices.tables.participants import join_participants
from rindices.tables.table import ColumnRoles, Table, read_participants
from rindices.tables.validation.values import as_numbers


def read_indices(path: Path, findings: Findings) -> pd.DataFrame:
    """Read ``r_indices.tsv``: ``participant_id``, ``session_id`` if there are sessions, r1, r2, ...

    People without any R-index are left out, with a note.
    """
    table = read_participants(path, ColumnRoles(), [], findings)
    indices = _prepend_ids(table, table.frame, table.where, findings)
    return indices[_have_index(indices, table.where, findings)].reset_index(drop=True)


def read_indices_with_variables(
    path: Path, other: Path, roles: ColumnRoles, findings: Findings
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read R-indices and a table of the same people.

    path: the R-indices; other: clinical or other variables; ids may differ a little in spelling; roles: columns of id
    and session in the other table, if they have unusual names; findings: takes the problems. Returns indices,
    variables: same people in the same order, without those who have no R-index. In a column of mostly numbers, other
    cells are missing, with a warning.
    """
    table = read_participants(path, ColumnRoles(), [], findings)
    people = join_participants(table, other, roles, findings)
    unusual = [name for name in (roles.id, roles.session) if name]
    variables = _prepend_ids(table, people.frame, people.where, findings, unusual)
    indices = _prepend_ids(table, table.frame, table.where, findings)
    rows = _have_index(indices, table.where, findings)
    return indices[rows].reset_index(drop=True), variables[rows].reset_index(drop=True)


def _have_index(indices: pd.DataFrame, where: str, findings: Findings) -> pd.Series:
    """Return who has an R-index (N,), and note the others."""
    values = indices.filter(regex=r"^r\d+$")
    rows = values.notna().any(axis=1) if values.shape[1] else pd.Series(True, indices.index)
    if not rows.all():
        what = f"{format_count(int((~rows).sum()), 'person has', 'people have')} no R-index; left out"
        findings.note(ProblemCode.PEOPLE_WITHOUT_INDEX, what, where)
    return rows


def _prepend_ids(
    table: Table, frame: pd.DataFrame, where: str, findings: Findings, id_names: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the columns of a frame after the ids of a table, without the frame's columns of ids."""
    id_names = (*formats.ID_NAMES, *formats.SESSION_NAMES, *id_names)
    frame = frame[[name for name in frame.columns if not formats.find_column([name], id_names)]]
    keys = {ID: table.ids} | ({} if table.sessions is None else {SESSION: table.sessions})
    columns = [_convert_column(frame[name], table.ids, where, findings) for name in frame.columns]
    return pd.concat([pd.DataFrame(keys), *(column.reset_index(drop=True) for column in columns)], axis=1)


def _convert_column(values: pd.Series, ids: list[str], where: str, findings: Findings) -> pd.Series:
    """Return a column of mostly numbers as numbers, any other as text."""
    if not formats.is_mostly_numeric(values):
        return to_text(values).rename(values.name)
    errors = Findings()
    numbers = as_numbers(values.to_frame(), ids, where, errors).iloc[:, 0]
    cure = "These cells count as missing"
    findings.problems += [replace(problem, severity=Severity.WARNING, cure=cure) for problem in errors]
    return numbers

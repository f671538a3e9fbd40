"""Read files or folders of regions into tables with ids, and join several
tables by id.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial, reduce
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, IntArray
from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    format_count,
    join_names,
)
from rindices.tables.checks import ids as id_rules
from rindices.tables.layouts import column_names, detect, freesurfer
from rindices.tables.layouts.layout import Layout
from rindices.tables.sources.frames import (
    MemoryTable,
    find_duplicates,
    is_nameless,
    is_parquet,
    is_row_counter,
    list_table_files,
    read_frame,
    to_text,
)

NO_COLUMN = "none"
"""Word for no column, where one would be recognised otherwise."""
_MIN_SHARE_OF_IDS = 0.5
"""Share of the ids that a column of participants must hold to be taken as their id
column.
"""
_MIN_REGION_NAMES, _MAX_REGION_ROWS = 5, 2_000
"""Rows of a table that has regions in rows and people in columns."""
_TRANSPOSED = (
    "regions are in rows and people in columns",
    "Transpose it: one row a person, one column a region",
)
_UNPRINTABLE = f"with an id that holds a control character or is longer than {id_rules.MAX_ID_LENGTH:,} characters"


@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """Columns that the user named.

    None means that a column is recognised by its name. A site of `NO_COLUMN` and
    covariates of () mean that there are none.

    Attributes
    ----------
    id : str or None
        Column of the IDs.
    session : str or None
        Column of the sessions.
    group : str or None
        Column of the groups.
    site : str or None
        Column of the sites.
    covariates : tuple of str or None
        Columns of the covariates.
    participants_id : str or None
        Column of the IDs in the table of participants.
    """

    id: str | None = None
    session: str | None = None
    group: str | None = None
    site: str | None = NO_COLUMN
    covariates: tuple[str, ...] | None = ()
    participants_id: str | None = None

    def __post_init__(self) -> None:
        if self.covariates == (NO_COLUMN,):
            object.__setattr__(self, "covariates", ())

    def named(self) -> list[str]:
        """Return all columns that the user named."""
        single = (*split_id_columns(self.id), self.session, self.group, self.site)
        names = [name for name in single if name and name != NO_COLUMN]
        return names + [name for name in self.covariates or () if name.lower() != "icv"]

    def text_columns(self) -> list[str]:
        """Return the names of columns that are read as text, so that ids keep leading
        zeros.
        """
        guessed = [
            *column_names.ID_NAMES,
            *column_names.SESSION_NAMES,
            *column_names.GROUP_NAMES,
            "column 1",
        ]
        ids = (*split_id_columns(self.id), *split_id_columns(self.participants_id))
        named = (*ids, self.session, self.group, self.site)
        return [name for name in named if name] + guessed


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with the IDs of its rows.

    Attributes
    ----------
    ids : list of str
        ID of each row.
    sessions : list of str or None
        Session of each row. None if the table has no sessions.
    frame : DataFrame
        The rows, in the same order.
    layout : Layout
        What the columns are.
    where : str
        Name of the file, for messages.
    id_column : str or None
        Column of the IDs.
    session_column : str or None
        Column of the sessions.
    files : list of str or None
        File of each row, where the table is a folder of several.
    """

    ids: list[str]
    sessions: list[str] | None
    frame: pd.DataFrame
    layout: Layout
    where: str
    id_column: str | None = None
    session_column: str | None = None
    files: list[str] | None = None

    def keys(
        self, with_session: bool = True, ids: Sequence[str] | None = None
    ) -> list[str]:
        """Return the key of each row: the id, and the session if wanted.

        ids: the ids of the same people in another table, to be used instead.
        """
        ids = self.ids if ids is None else list(ids)
        if not with_session or self.sessions is None:
            return ids
        sessions = map(id_rules.normalise_session, self.sessions)
        return [
            f"{name} {session}" for name, session in zip(ids, sessions, strict=True)
        ]


def take_people(value: Any, mask: BoolArray) -> Any:
    """Select people by a mask (N,) from an array, frame or list, or from a record that
    holds such; keep all else.
    """
    if isinstance(value, pd.DataFrame | pd.Series):
        return value[mask].reset_index(drop=True)
    if isinstance(value, np.ndarray):
        return value[mask]
    if isinstance(value, list):
        return list(compress(value, mask))
    if is_dataclass(value) and not isinstance(value, type | Layout | Findings):
        return replace(
            value,
            **{
                each.name: take_people(getattr(value, each.name), mask)
                for each in fields(value)
            },
        )
    return value


def read_region_tables(
    paths: Sequence[Path | MemoryTable], roles: ColumnRoles, findings: Findings
) -> Table:
    """Read tables of regions and join them by id: two hemispheres, or aparc
    and aseg.
    """
    tables = [_read_region_table(path, roles, findings) for path in paths]
    named = {name.lower() for name in roles.named()}
    joined = reduce(partial(_join_tables, named=named, findings=findings), tables)
    sides = {name[:2] for name in joined.layout.regions if name[:3] in {"lh_", "rh_"}}
    if joined.layout.format == "aparc" and len(sides) == 1:
        what = f"only the {'left' if sides == {'lh'} else 'right'} hemisphere is here"
        cure = "Give both tables: TABLE_lh TABLE_rh side by side"
        findings.at(joined.where).warn(ProblemCode.ONE_HEMISPHERE, what, cure)
    return joined


def read_participants(
    path: Path | MemoryTable, roles: ColumnRoles, ids: Sequence[str], findings: Findings
) -> Table:
    """Read a table of participants; of several id columns, the one with most of ``ids``
    is used.
    """
    findings = findings.at(path.name)
    frame = read_frame(path, roles.text_columns(), findings)
    column = _choose_participants_id(frame, roles, ids, findings)
    frame = _drop_unmatched_duplicates(frame, column, ids, findings)
    return _build_table(
        frame, replace(roles, id=column), Layout(format="people", regions={}), findings
    )


def _read_region_table(
    path: Path | MemoryTable, roles: ColumnRoles, findings: Findings
) -> Table:
    findings = findings.at(path.name)
    if not isinstance(path, MemoryTable) and path.is_dir():
        files = list_table_files(path)
        if files and is_parquet(files[0]):
            return _read_parts(files, roles, findings)
        frame = freesurfer.read_subject_folders(path, findings)
        table = build_region_table(frame, roles, findings)
        return replace(table, layout=replace(table.layout, format="fastsurfer"))
    return build_region_table(
        read_frame(path, roles.text_columns(), findings), roles, findings
    )


def _read_parts(files: Sequence[Path], roles: ColumnRoles, findings: Findings) -> Table:
    """Read the files of a folder, which are parts of one table with the
    same columns.
    """
    parts = [read_frame(file, roles.text_columns(), findings) for file in files]
    columns = list(parts[0].columns)
    for file, part in zip(files, parts, strict=True):
        if set(part.columns) != set(columns):
            names = join_names(sorted(set(part.columns) ^ set(columns)))
            what = f"its columns differ from those of {files[0].name}: {names}"
            findings.at(file.name).fatal(
                ProblemCode.FILE_UNREADABLE, what, "Give parts of one table"
            )
    table = build_region_table(
        pd.concat([part[columns] for part in parts], ignore_index=True), roles, findings
    )
    origin = [
        file.name
        for file, part in zip(files, parts, strict=True)
        for _ in range(len(part))
    ]
    return replace(table, files=origin) if len(origin) == len(table.ids) else table


def _refuse_transposed(frame: pd.DataFrame, findings: Findings) -> None:
    """Refuse a table of another layout whose first column holds names of regions, as a
    known program spells them.
    """
    cells = (
        frame.iloc[:_MAX_REGION_ROWS, 0]
        if len(frame.columns)
        else pd.Series(dtype=object)
    )
    if pd.api.types.is_numeric_dtype(cells):  # ids may be codes of regions
        return
    names = [
        text
        for text in to_text(cells).dropna().unique()
        if any(char.isalpha() for char in text)
    ]
    if len(names) < _MIN_REGION_NAMES or 2 * len(names) < len(frame):
        return
    layout = detect.detect_layout(pd.DataFrame(columns=names), ())
    if layout.format not in ("table", "surrealgan") and 2 * len(layout.regions) > len(
        frame
    ):
        findings.fatal(ProblemCode.NOT_A_TABLE, *_TRANSPOSED)


def build_region_table(
    frame: pd.DataFrame, roles: ColumnRoles, findings: Findings
) -> Table:
    """Detect the layout of a frame with regions and its ids; ``findings`` are those of
    its file.
    """
    _refuse_transposed(frame, findings)
    id_column = _find_id_column(frame, roles, findings)
    session = _find_session_column(frame, roles)
    named = {name.lower() for name in roles.named()}
    columns = {
        name for name in frame.columns if name.lower() in named or name == session
    } - {id_column}
    layout = detect.detect_layout(frame, {id_column, *columns})
    layout = replace(
        layout, participant_columns=(*layout.participant_columns, *sorted(columns))
    )
    return _build_table(frame, replace(roles, id=id_column), layout, findings)


def build_chunk_table(first: Table, frame: pd.DataFrame, findings: Findings) -> Table:
    """Return a chunk of a table with the layout of the first chunk."""
    roles = ColumnRoles(id=first.id_column, session=first.session_column)
    return _build_table(frame, roles, first.layout, findings.at(first.where), first)


def _split_sessions(
    ids: list[str], first: Table | None, findings: Findings
) -> tuple[list[str], list[str] | None]:
    """Return ids and sessions where ids hold both, as in BIDS; all chunks of a table
    are like the first one.
    """
    if first is not None and first.sessions is None:
        return ids, None
    if bids := id_rules.split_bids_ids(ids):
        if first is None:
            what = "ids hold person and session"
            example = f"{ids[0]} is {bids[0][0]}, {bids[1][0]}"
            code = ProblemCode.SESSION_IN_ID
            findings.note(code, what, offenders=ids[:1], listing=example)
        return bids
    if first is None:
        return ids, None
    if ids:
        what = "ids hold person and session in the first rows, not here"
        cure, code = "Spell them alike", ProblemCode.SESSION_IN_ID
        findings.fatal(code, what, cure, offenders=ids[:1])
    return ids, []


def _build_table(
    frame: pd.DataFrame,
    roles: ColumnRoles,
    layout: Layout,
    findings: Findings,
    first: Table | None = None,
) -> Table:
    id_column = _find_id_column(frame, roles, findings)
    # Chunks are checked to the end, so that all problems of a table are reported at
    # once.
    report = findings.fatal if first is None else findings.error
    frame, ids = _read_ids(frame, id_column, report)
    if first is None:
        session = _find_session_column(frame, roles)
    else:
        session = first.session_column
    sessions: list[str] | None
    if session:
        sessions = [str(s) if s is not None else "" for s in to_text(frame[session])]
    else:
        ids, sessions = _split_sessions(ids, first, findings)
    table = Table(
        ids=ids,
        sessions=sessions,
        frame=frame,
        layout=layout,
        where=findings.where,
        id_column=id_column,
        session_column=session,
    )
    duplicates = find_duplicates(table.keys())
    if duplicates:
        what = format_count(len(duplicates), "duplicate ID")
        cure = _suggest_unique_ids(table)
        report(ProblemCode.DUPLICATE_IDS, what, cure, offenders=duplicates)
    return table


def split_id_columns(name: str | None) -> list[str]:
    """Return the columns whose cells together are the id, from
    ``dataset,participant_id``.
    """
    return [part.strip() for part in name.split(",")] if name else []


def find_id_columns(frame: pd.DataFrame, name: str | None) -> list[str]:
    """Return the columns of the ids that a name means, one or several; an empty list if
    one is not there.
    """
    columns = [name] if name and name in frame else split_id_columns(name)
    return columns if all(column in frame for column in columns) else []


def _get_id_cells(frame: pd.DataFrame, id_column: str) -> pd.Series:
    """Return the ids as text (N,): the cells of a column, or of several columns joined
    by an underscore.
    """
    parts = [to_text(frame[name]) for name in find_id_columns(frame, id_column)]
    ids = parts[0]
    for part in parts[1:]:  # an empty cell makes the id empty
        ids = (ids + "_" + part).where(ids.notna() & part.notna(), None)
    return ids


def _suggest_unique_ids(table: Table) -> str:
    """Return what to do about duplicate IDs: they are different people, or visits of
    one.
    """
    if table.sessions:
        return "Keep one row a person and session"
    rows = pd.Series(table.ids)
    others = {table.id_column, *table.layout.regions}
    about_people = (*column_names.AGE_SEX_NAMES, *column_names.GROUP_NAMES)
    columns = [
        name
        for name in table.frame
        if name not in others and not column_names.find_column([name], about_people)
    ]
    texts = {
        name: to_text(table.frame[name])
        for name in columns
        if not column_names.is_mostly_numeric(table.frame[name])
    }
    column = next(
        (
            name
            for name, cells in texts.items()
            if (cells.astype(str) + " " + rows).is_unique
        ),
        None,
    )
    people = (
        "make the ids unique"
        if column is None
        else f"join columns to unique ids: --id {column},{table.id_column}"
    )
    visits = f"--session {column or 'COLUMN'}"
    return f"If they are different people, {people}. If they are visits of one person, name the session: {visits}"


def _read_ids(
    frame: pd.DataFrame, id_column: str, report: Callable[..., None]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows with an id, and the ids; rows without an id or with one that is
    not printable are reported.
    """
    names = _get_id_cells(frame, id_column).to_numpy(dtype=object)
    nameless = pd.isna(names)
    unprintable = np.zeros_like(nameless)
    unprintable[~nameless] = id_rules.mark_unprintable_ids(names[~nameless].tolist())
    for code, rows, what, cure in (
        (
            ProblemCode.MISSING_IDS,
            nameless,
            "without an id",
            "Fill the id or delete the row",
        ),
        (ProblemCode.UNPRINTABLE_IDS, unprintable, _UNPRINTABLE, "Write the id again"),
    ):
        if rows.any():
            numbers = [str(number + 1) for number in frame.index[rows]]
            kind, listing = (
                OffenderKind.ROW,
                f"{frame.index.name or 'row'} {join_names(numbers)}",
            )
            what = f"{format_count(len(numbers), 'row')} {what}"
            report(
                code, what, cure, offenders=numbers, offender_kind=kind, listing=listing
            )
    dates = id_rules.find_dates(names[~nameless].tolist())
    if dates:
        count = format_count(len(dates), "ID is a date", "IDs are dates")
        what = f"{count}, as a spreadsheet makes them of IDs such as 1-3"
        cure = "Format the column as text and write the IDs again"
        report(ProblemCode.DATES_FOR_IDS, what, cure, offenders=dates)
    is_valid = ~(nameless | unprintable)
    frame = frame if is_valid.all() else frame[is_valid]
    return frame.reset_index(drop=True), names[is_valid].tolist()


def _find_id_column(frame: pd.DataFrame, roles: ColumnRoles, findings: Findings) -> str:
    """Return the column of ids: the one that the user named, one with a usual name, or
    the first column.
    """
    if roles.id and find_id_columns(frame, roles.id):
        return roles.id
    usual = column_names.find_column(frame.columns, column_names.ID_NAMES)
    if usual:
        return usual
    first = str(frame.columns[0])
    if is_nameless(first) or first.lower().startswith(("measure:", "lh.", "rh.")):
        return first
    if not pd.api.types.is_numeric_dtype(frame[first]) and frame[first].is_unique:
        what = f"the first column, '{first}', is taken as the id"
        findings.note(
            ProblemCode.ID_COLUMN_GUESSED, what, "If not: --id COLUMN", subject=first
        )
        return first
    cure = f"Name it: --id COLUMN (there is: {join_names(frame.columns)})"
    return findings.fatal(ProblemCode.NO_ID_COLUMN, "no column of ids was found", cure)


def _find_session_column(frame: pd.DataFrame, roles: ColumnRoles) -> str | None:
    if roles.session and roles.session in frame:
        return roles.session
    return column_names.find_column(frame.columns, column_names.SESSION_NAMES)


def _choose_participants_id(
    frame: pd.DataFrame, roles: ColumnRoles, ids: Sequence[str], findings: Findings
) -> str | None:
    """Return the id column of a table of participants: the named one, a usual one, or
    the one that holds the ids.
    """
    if roles.participants_id is not None:
        if not find_id_columns(frame, roles.participants_id):
            what = f"there is no column '{roles.participants_id}' for --participants-id"
            findings.misspelt(
                ProblemCode.UNKNOWN_COLUMN,
                what,
                roles.participants_id,
                list(frame.columns),
            )
            findings.raise_errors()
        return roles.participants_id
    if find_id_columns(frame, roles.id):
        return roles.id
    n_problems = len(findings.problems)
    column = _choose_id_column(frame, ids, findings)
    if not ids or (
        column is not None and _match_rows(ids, to_text(frame[column]).tolist())
    ):
        return column
    texts = {
        name: to_text(frame[name]).tolist() for name in frame.columns if name != column
    }
    matched = {name: len(_match_rows(ids, values)) for name, values in texts.items()}
    best = max(matched, key=matched.__getitem__, default=None)
    if best is None or matched[best] < _MIN_SHARE_OF_IDS * len(set(ids)):
        return column
    del findings.problems[n_problems:]  # the note about a column that is not used
    what = (
        f"column '{best}' holds the ids of the table of regions and is taken as the id"
    )
    findings.note(
        ProblemCode.ID_COLUMN_GUESSED,
        what,
        "If not: --participants-id COLUMN",
        subject=str(best),
    )
    return str(best)


def _drop_unmatched_duplicates(
    frame: pd.DataFrame, column: str | None, ids: Sequence[str], findings: Findings
) -> pd.DataFrame:
    """Drop participants with duplicate IDs of no one in ``ids``, such as
    ``no_filename``.
    """
    if column is None or not ids or _find_session_column(frame, ColumnRoles()):
        return frame
    texts = _get_id_cells(frame, column)
    repeated = sorted(texts[texts.duplicated() & texts.notna()].unique())
    strangers = (
        set(repeated) - set(id_rules.match_ids(repeated, ids).pairs)
        if repeated
        else set()
    )
    if not strangers:
        return frame
    rows = texts.isin(strangers)
    count = format_count(int(rows.sum()), "row has", "rows have")
    what = f"{count} duplicate IDs of nobody in the table of regions"
    findings.note(
        ProblemCode.UNUSED_PARTICIPANTS,
        what,
        offenders=sorted(strangers),
        ending="; not read",
    )
    return frame[~rows]


def _choose_id_column(
    frame: pd.DataFrame, ids: Sequence[str], findings: Findings
) -> str | None:
    """Return the column with a name for ids that has most of ``ids``; two that mean
    different people are an error.
    """
    candidates = [
        name
        for name in frame.columns
        if column_names.find_column([name], column_names.ID_NAMES)
    ]
    if len(candidates) < 2:
        return str(candidates[0]) if candidates else None
    rows = {
        name: _match_rows(ids, to_text(frame[name]).tolist()) for name in candidates
    }
    best = max(candidates, key=lambda name: len(rows[name]))
    rivals = [
        name
        for name in candidates
        if 2 * len(rows[name]) > len(rows[best]) and rows[name] != rows[best]
    ]
    if rivals:
        what = f"columns {join_names([best, *rivals])} all look like ids and mean different people"
        findings.fatal(ProblemCode.ID_COLUMN_UNCLEAR, what, "Name one: --id COLUMN")
    what = f"of the columns {join_names(candidates)}, '{best}' is taken as the id"
    findings.note(ProblemCode.ID_COLUMN_GUESSED, what, subject=best)
    return str(best)


def _match_rows(ids: Sequence[str], column: Sequence[str | None]) -> dict[str, int]:
    """Return the row of each id that matches a cell of a column."""
    rows = {name: row for row, name in enumerate(column) if name is not None}
    return {
        left: rows[right] for left, right in id_rules.match_ids(ids, rows).pairs.items()
    }


def _join_tables(
    left: Table, right: Table, named: Collection[str], findings: Findings
) -> Table:
    """Add the regions of a second table to the rows of the first, by id, and the
    columns that the user named.
    """
    findings = findings.at(right.where)
    same = sorted(
        set(left.layout.regions.values()) & set(right.layout.regions.values())
    )
    if same:
        what = f"{format_count(len(same), 'region stands', 'regions stand')} in {left.where} as well"
        cure = "Give each region once (one lh and one rh table, not the same twice)"
        findings.fatal(
            ProblemCode.DUPLICATE_REGIONS,
            what,
            cure,
            offenders=same,
            offender_kind=OffenderKind.REGION,
        )
    rows = IndexedTable(right).match_rows(left, findings)
    lacking = list(compress(left.ids, rows < 0))
    extra = len(right.ids) - (len(rows) - len(lacking))
    if lacking or extra:
        what = f"{extra:,} people are only here, {len(lacking):,} people of {left.where} are not here"
        cure = "Their regions count as missing; people who are only in the second table are not read"
        findings.warn(ProblemCode.UNMATCHED_IDS, what, cure, offenders=lacking)
    others = [
        name
        for name in right.layout.participant_columns
        if name.lower() in named and name not in left.frame
    ]
    brain = [
        name
        for name in right.layout.aside.get("composite", [])
        if freesurfer.is_brain_volume(name)
    ]
    icv = filter(None, [right.layout.icv])
    columns = [*right.layout.regions, *icv, *brain, *others]
    columns = [column for column in columns if column not in left.frame]
    added = right.frame[columns].reset_index(drop=True).reindex(rows)
    added = added.reset_index(drop=True)
    frame = pd.concat([left.frame.reset_index(drop=True), added], axis=1)
    layout = _merge_layouts(left.layout, right.layout)
    layout = replace(layout, participant_columns=(*layout.participant_columns, *others))
    return replace(
        left, frame=frame, layout=layout, where=f"{left.where} + {right.where}"
    )


class IndexedTable:
    """A table whose rows are found by id and, if both tables have it, session, for
    another table or its chunks.
    """

    def __init__(self, table: Table) -> None:
        self.table = replace(table, frame=table.frame.reset_index(drop=True))
        self._matcher = id_rules.IdMatcher(table.ids)
        self._rows: dict[
            bool, dict[str, int]
        ] = {}  # by key, with and without the session

    def match_rows(
        self, other: Table, findings: Findings, must_match: bool = False
    ) -> IntArray:
        """Return for each row of another table (N,) the row here, -1 without one.

        findings: takes the problems; must_match: whether it is an error that the tables
        have no id in common.
        """
        table, matches = self.table, self._matcher.match(other.ids)
        _report_inexact_matches(matches, other.where, table.where, findings)
        if not matches.pairs and must_match:
            columns = self._matcher.match(
                [name for name in other.frame.columns if name != other.id_column]
            )
            if 2 * len(columns.pairs) > len(other.frame.columns):
                findings.at(other.where).fatal(ProblemCode.NOT_A_TABLE, *_TRANSPOSED)
            what = f"none of the ids of {other.where} is in {table.where}"
            cure = (
                "Give the participants of these people, or name the id column with --id"
            )
            listing = f"{join_names(other.ids, 2)} against {join_names(table.ids, 2)}"
            findings.fatal(
                ProblemCode.NO_COMMON_IDS,
                what,
                cure,
                offenders=other.ids,
                listing=listing,
            )
        with_session = other.sessions is not None and table.sessions is not None
        if with_session not in self._rows:
            self._rows[with_session] = {
                key: row for row, key in enumerate(table.keys(with_session))
            }
        rows = self._rows[with_session]
        if not with_session and len(rows) < len(table.ids):
            what = f"{table.where} has several sessions a person, {other.where} does not say which was measured"
            findings.fatal(
                ProblemCode.SESSION_UNCLEAR,
                what,
                "Add session_id to the table of volumes",
            )
        keys = other.keys(
            with_session, [matches.pairs.get(name, "") for name in other.ids]
        )
        return np.array([rows.get(key, -1) for key in keys], dtype=np.intp)


def _report_inexact_matches(
    matches: id_rules.IdMatches, left: str, right: str, findings: Findings
) -> None:
    """Report ids that were matched though spelt differently, and ids that fit several
    people.
    """
    findings = findings.at(f"{left}, {right}")
    if matches.inexact:
        example = " = ".join(matches.inexact[0])
        matched = [pair[0] for pair in matches.inexact]
        if is_row_counter(matched) or is_row_counter(
            [pair[1] for pair in matches.inexact]
        ):
            what, cure = (
                "the ids of one table only count 1, 2, 3, ...",
                "Make sure that they are not row numbers",
            )
            listing = f"matched as {example}"
            findings.warn(
                ProblemCode.ROW_COUNTER_IDS,
                what,
                cure,
                offenders=matched,
                listing=listing,
            )
        count = format_count(len(matched), "id was", "ids were")
        what = f"{count} matched one to one though spelt differently (prefix, suffix, path or zeros)"
        findings.note(ProblemCode.INEXACT_IDS, what, offenders=matched, listing=example)
    if matches.ambiguous:
        what = f"{format_count(len(matches.ambiguous), 'id fits', 'ids fit')} more than one person"
        findings.error(
            ProblemCode.AMBIGUOUS_IDS,
            what,
            "Spell ids alike in both tables",
            offenders=matches.ambiguous,
        )


def _merge_layouts(left: Layout, right: Layout) -> Layout:
    aside = {
        why: [*left.aside.get(why, []), *right.aside.get(why, [])]
        for why in {**left.aside, **right.aside}
    }
    return Layout(
        format=left.format if left.format == right.format else "freesurfer",
        regions={**left.regions, **right.regions},
        icv=left.icv or right.icv,
        aside=aside,
        participant_columns=left.participant_columns,
        measures={**left.measures, **right.measures},
        aside_names={**left.aside_names, **right.aside_names},
    )

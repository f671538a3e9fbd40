"""One file (or folder) with regions becomes one table with ids; several become one by joining on the ids."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices.errors import Findings, count, named
from rindices.tables import folders, formats, identity
from rindices.tables.formats import Layout
from rindices.tables.identity import session_core
from rindices.tables.text import read_frame, to_text


@dataclass(frozen=True)
class Roles:
    """Which columns the user named; None where it is to be found out."""

    id: str | None = None
    session: str | None = None
    group: str | None = None
    site: str | None = None
    covariates: tuple[str, ...] = ()

    def named(self) -> list[str]:
        """Return all columns the user named."""
        single = (self.id, self.session, self.group, self.site)
        return [name for name in single if name] + [name for name in self.covariates if name.lower() != "icv"]

    def as_text(self) -> list[str]:
        """Return the names of columns that must be read as text."""
        guessed = [*formats.ID_NAMES, *formats.SESSION_NAMES, *formats.GROUP_NAMES, "column 1"]
        return [name for name in (self.id, self.session, self.group, self.site) if name] + guessed


@dataclass(frozen=True)
class Table:
    """A table whose rows have names.

    Attributes
    ----------
    ids, sessions : list of str
        One per row; sessions are None where the table has none.
    frame : DataFrame
        The rows, in the same order.
    layout : Layout
        What the columns are.
    where : str
        The file's name.
    id_column, session_column : str or None
    """

    ids: list[str]
    sessions: list[str] | None
    frame: pd.DataFrame
    layout: Layout
    where: str
    id_column: str | None = None
    session_column: str | None = None

    def take(self, rows: NDArray[np.bool_]) -> "Table":
        """Return some rows."""
        places = np.flatnonzero(rows)
        sessions = None if self.sessions is None else [self.sessions[int(row)] for row in places]
        frame = self.frame.iloc[places].reset_index(drop=True)
        return replace(self, ids=[self.ids[int(row)] for row in places], sessions=sessions, frame=frame)

    def keys(self, with_session: bool = True, ids: Sequence[str] | None = None) -> list[str]:
        """Return one text per row that tells people, and sessions where asked for, apart.

        Parameters
        ----------
        ids : sequence of str, optional
            Take these for the table's own ids: the names that the same people have in another table.
        """
        names = self.ids if ids is None else list(ids)
        if not with_session or self.sessions is None:
            return names
        return [f"{name} {session_core(session)}" for name, session in zip(names, self.sessions, strict=True)]


def read_regions(paths: Sequence[Path], roles: Roles, findings: Findings) -> Table:
    """Read the tables of volumes and join them (two hemispheres, or aparc and aseg) by id."""
    tables = [_read_regions(path, roles, findings) for path in paths]
    joined = tables[0]
    for table in tables[1:]:
        joined = _join(joined, table, findings)
    _check_hemispheres(joined, findings)
    return joined


def read_people(path: Path, roles: Roles, ids: Sequence[str], findings: Findings) -> Table:
    """Read a table of participants; of several id columns the one that knows most of ``ids`` counts."""
    frame, header = without_counter(*read_frame(path, roles.as_text(), findings), path.name, findings)
    column = roles.id if roles.id in frame else _best_id(frame, ids, path.name, findings)
    return _table(frame, header, path.name, replace(roles, id=column), Layout("people", {}), findings)


def _read_regions(path: Path, roles: Roles, findings: Findings) -> Table:
    if path.is_dir():
        frame = folders.read_folder(path, findings)
        table = regions_of(frame, [str(name) for name in frame.columns], path.name, roles, findings)
        return replace(table, layout=replace(table.layout, format="fastsurfer"))
    frame, header = without_counter(*read_frame(path, roles.as_text(), findings), path.name, findings)
    return regions_of(frame, header, path.name, roles, findings)


def regions_of(frame: pd.DataFrame, header: list[str], where: str, roles: Roles, findings: Findings) -> Table:
    """Find out what the columns of a frame with regions are, and who its rows are."""
    id_column = _id_column(frame, header, roles, where, findings)
    session = _session_column(frame, roles)
    wanted = {name.lower() for name in roles.named()}
    people = {id_column, *(name for name in frame.columns if name.lower() in wanted), *([session] if session else [])}
    layout = formats.detect(header, frame, people)
    layout = replace(layout, others=(*layout.others, *sorted(people - {id_column})))
    return _table(frame, header, where, replace(roles, id=id_column), layout, findings)


def more_rows(first: Table, frame: pd.DataFrame, findings: Findings) -> Table:
    """Return further rows of a table, whose columns are what they are in the first ones."""
    roles = Roles(first.id_column, first.session_column)
    return _table(frame, list(frame.columns), first.where, roles, first.layout, findings, first)


def _table(
    frame: pd.DataFrame,
    header: list[str],
    where: str,
    roles: Roles,
    layout: Layout,
    findings: Findings,
    first: Table | None = None,
) -> Table:
    id_column = _id_column(frame, header, roles, where, findings)
    if frame[id_column].isna().any():  # rows of nothing but separators, as spreadsheets leave them
        frame = frame.dropna(how="all").reset_index(drop=True)
    names = to_text(frame[id_column])
    nameless = [int(row) + 1 for row in np.flatnonzero(names.isna())]
    if nameless:
        findings.fatal(
            f"{count(len(nameless), 'row')} without an id: row {named(nameless)}",
            where,
            "Fill the id or delete the row",
        )
    ids: list[str] = names.tolist()
    session = _session_column(frame, roles) if first is None else first.session_column
    sessions = [str(s) if s is not None else "" for s in to_text(frame[session])] if session else None
    in_id = sessions is None and (first is None or first.sessions is not None)
    bids = identity.split_bids(ids) if in_id else None
    if bids:
        if first is None:
            findings.note(f"ids hold person and session: {ids[0]} is {bids[0][0]}, {bids[1][0]}", where)
        ids, sessions = bids
    elif in_id and first is not None and not ids:
        sessions = []
    elif in_id and first is not None:
        findings.fatal(f"ids hold person and session in the first rows, not here: {ids[0]}", where, "Spell them alike")
    table = Table(ids, sessions, frame, layout, where, id_column, session)
    _check_unique(table, findings)
    return table


def _check_unique(table: Table, findings: Findings) -> None:
    twice = identity.repeated(table.keys())
    if twice:
        cure = "Keep one row a person" if table.sessions else "Keep one row a person, or add a session_id column"
        findings.fatal(
            f"{count(len(twice), 'id stands', 'ids stand')} more than once: {named(twice)}",
            table.where,
            cure,
        )


def _id_column(frame: pd.DataFrame, header: list[str], roles: Roles, where: str, findings: Findings) -> str:
    """Return the column of ids: named by the user, by a usual name, or the first column where it must be it."""
    if roles.id and roles.id in frame:
        return roles.id
    usual = formats.find_name(frame.columns, formats.ID_NAMES)
    if usual:
        return usual
    first = str(frame.columns[0])
    lead = header[0].lower() if header else ""
    if lead == "" or lead.startswith(("measure:", "lh.", "rh.")):
        return first
    texts = frame[first]
    if not pd.api.types.is_numeric_dtype(texts) and texts.is_unique:
        findings.note(f"the first column, '{first}', is taken as the id", where, "If not: --id COLUMN")
        return first
    return findings.fatal(
        "no column of ids was found", where, f"Name it: --id COLUMN (there is: {named(frame.columns)})"
    )


def _session_column(frame: pd.DataFrame, roles: Roles) -> str | None:
    if roles.session and roles.session in frame:
        return roles.session
    return formats.find_name(frame.columns, formats.SESSION_NAMES)


def without_counter(
    frame: pd.DataFrame, header: list[str], where: str, findings: Findings
) -> tuple[pd.DataFrame, list[str]]:
    """Drop a nameless first column that only counts the rows, as pandas and R write it: it is nobody's id."""
    first = str(frame.columns[0])
    nameless = bool(header) and (header[0] == "" or header[0].startswith("Unnamed"))
    if not nameless or not identity.is_counter(to_text(frame[first]).tolist()):
        return frame, header
    findings.note("the nameless first column only counts the rows; it is not used", where)
    return frame.drop(columns=first), header[1:]


def _best_id(frame: pd.DataFrame, ids: Sequence[str], where: str, findings: Findings) -> str | None:
    """Return the id-like column that knows most of ``ids``; between two that mean different people none is guessed."""
    candidates = [name for name in frame.columns if formats.find_name([name], formats.ID_NAMES)]
    if len(candidates) < 2:
        return str(candidates[0]) if candidates else None
    rows = {name: _rows_of(ids, to_text(frame[name]).tolist()) for name in candidates}
    best = max(candidates, key=lambda name: len(rows[name]))
    rivals = [name for name in candidates if 2 * len(rows[name]) > len(rows[best]) and rows[name] != rows[best]]
    if rivals:
        findings.fatal(
            f"columns {named([best, *rivals])} all look like ids and mean different people",
            where,
            "Name one: --id COLUMN",
        )
    findings.note(f"of the columns {named(candidates)}, '{best}' is taken as the id", where)
    return str(best)


def _rows_of(ids: Sequence[str], column: Sequence[str | None]) -> dict[str, int]:
    """Return the row of each id that a column knows, exactly or loosely."""
    places = {name: row for row, name in enumerate(column) if name is not None}
    return {left: places[right] for left, right in identity.match(ids, places).pairs.items()}


def _join(left: Table, right: Table, findings: Findings) -> Table:
    """Put the columns of a second table beside the first, person by person."""
    same = sorted(set(left.layout.regions.values()) & set(right.layout.regions.values()))
    if same:
        findings.fatal(
            f"{count(len(same), 'region stands', 'regions stand')} in {left.where} as well: {named(same)}",
            right.where,
            "Give each region once (one lh and one rh table, not the same twice)",
        )
    with_session = left.sessions is not None and right.sessions is not None
    matching = identity.match(left.ids, right.ids)
    say_loose(matching, left.where, right.where, findings)
    rows = {key: row for row, key in enumerate(right.keys(with_session))}
    wanted = left.keys(with_session, [matching.pairs.get(name, "") for name in left.ids])
    lacking = [name for name, want in zip(left.ids, wanted, strict=True) if want not in rows]
    extra = len(right.ids) - (len(wanted) - len(lacking))
    if lacking or extra:
        findings.warn(
            f"{len(lacking):,} people of {left.where} are not here ({named(lacking) or 'none'}), {extra:,} only here",
            right.where,
            "Their regions count as missing; people who are only in the second table are not read",
        )
    places = pd.Index([rows.get(want, -1) for want in wanted])
    columns = [*right.layout.regions, *([right.layout.icv] if right.layout.icv else [])]
    columns = [column for column in columns if column not in left.frame]
    beside = right.frame[columns].reset_index(drop=True).reindex(places).reset_index(drop=True)
    frame = pd.concat([left.frame.reset_index(drop=True), beside], axis=1)
    return replace(
        left, frame=frame, layout=_merge_layouts(left.layout, right.layout), where=f"{left.where} + {right.where}"
    )


def say_loose(matching: identity.Matching, left: str, right: str, findings: Findings) -> None:
    """Tell the user about ids that were matched though spelt differently, and about those that were not."""
    if matching.loosely:
        example = " = ".join(matching.loosely[0])
        counted = identity.is_counter([pair[0] for pair in matching.loosely])
        counted |= identity.is_counter([pair[1] for pair in matching.loosely])
        if counted:
            what = "the ids of one table only count 1, 2, 3, ...: make sure that they are not row numbers"
            findings.warn(what, f"{left}, {right}", f"They were matched so: {example}")
        findings.note(
            f"{count(len(matching.loosely), 'id was', 'ids were')} matched one to one though spelt differently "
            f"(prefix, suffix, path or zeros): {example}",
            f"{left}, {right}",
        )
    if matching.ambiguous:
        findings.error(
            f"{count(len(matching.ambiguous), 'id fits', 'ids fit')} more than one person: {named(matching.ambiguous)}",
            f"{left}, {right}",
            "Spell ids alike in both tables",
        )


def _merge_layouts(left: Layout, right: Layout) -> Layout:
    aside = {why: [*left.aside.get(why, []), *right.aside.get(why, [])] for why in {**left.aside, **right.aside}}
    return Layout(
        left.format if left.format == right.format else "freesurfer",
        {**left.regions, **right.regions},
        left.icv or right.icv,
        aside,
        left.others,
        {**left.measures, **right.measures},
    )


def _check_hemispheres(table: Table, findings: Findings) -> None:
    sides = {name[:2] for name in table.layout.regions if name[:3] in {"lh_", "rh_"}}
    if table.layout.format == "aparc" and len(sides) == 1:
        have, lack = ("left", "rh") if sides == {"lh"} else ("right", "lh")
        findings.warn(
            f"only the {have} hemisphere is here", table.where, f"Give both tables: TABLE_lh TABLE_{lack} side by side"
        )

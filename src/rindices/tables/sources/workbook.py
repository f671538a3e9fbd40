"""Cells of an Excel file as a user sees them, within bounds that are checked before
anything is parsed.

Hidden and struck-out rows, title lines and headers in two rows are what a person reads
differently from a program.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import pandas as pd

from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    format_count,
    join_names,
    make_install_command,
)
from rindices.tables.sources.package import (
    EXCEL_CURE,
    MAX_CELL_CHARACTERS,
    MAX_SHEET_ROWS,
    open_package,
)

MAX_SHEET_CELLS = 10_000_000
"""Largest extent of a sheet: one cell far away makes it as large as all between."""
_UNREADABLE = (
    BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    SyntaxError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    RuntimeError,
)
"""Errors of a file that is no package of Excel, is damaged, encrypted, or packed in an
unknown way.
"""
_MIN_HEADER_SHARE = 0.5  # of the columns that are filled in the line of names
_MAX_TITLE_LINES = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class SheetCells:
    """Cells of a sheet.

    Attributes
    ----------
    name : str
        Name of the sheet.
    frame : DataFrame
        Cells as they are, empty ones as empty text. Its index counts the rows of the
        sheet from 0.
    hidden : frozenset of int
        Rows that are not shown.
    struck : frozenset of int
        Rows with a line through their first cell.
    is_filtered : bool
        Whether a filter is set.
    merged : tuple of tuple of int
        First row, last row, first column and last column of each merged range, from 0.
    """

    name: str
    frame: pd.DataFrame
    hidden: frozenset[int] = frozenset()
    struck: frozenset[int] = frozenset()
    is_filtered: bool = False
    merged: tuple[tuple[int, int, int, int], ...] = field(default_factory=tuple)


def read_workbook(path: Path, findings: Findings) -> list[SheetCells]:
    """Return the sheets with cells of an Excel file; a file that is too large, or none,
    is refused.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        cure = f"{EXCEL_CURE}, or install it: {make_install_command('excel')}"
        findings.fatal(
            ProblemCode.MISSING_PACKAGE, "reading Excel needs openpyxl", cure
        )
    try:
        workbook = load_workbook(
            open_package(path, findings), data_only=True, keep_links=False
        )
        sheets = [_read_cells(each, findings) for each in workbook.worksheets]
    except MemoryError:
        findings.fatal(
            ProblemCode.FILE_UNREADABLE,
            "this Excel file needs more memory than there is",
            EXCEL_CURE,
        )
    except _UNREADABLE as error:
        what = f"this is not a readable Excel file ({join_names([error])})"
        findings.fatal(ProblemCode.FILE_UNREADABLE, what, EXCEL_CURE)
    return [sheet for sheet in sheets if sheet is not None]


def _read_cells(sheet: Any, findings: Findings) -> SheetCells | None:
    """Return the cells of a sheet; None without any."""
    cells = {
        place: cell
        for place, cell in sheet._cells.items()
        if cell.value not in (None, "")
    }
    if not cells:
        return None
    long = next((cell for cell in cells.values() if _is_long(cell.value)), None)
    if long is not None:
        what = f"cell {long.coordinate} of sheet '{sheet.title}' holds {len(long.value):,} characters; at most {MAX_CELL_CHARACTERS:,} are read"
        findings.fatal(ProblemCode.FILE_UNREADABLE, what, EXCEL_CURE)
    if min(row for row, _ in cells) < 1:
        what = f"sheet '{sheet.title}' has cells above its first row"
        findings.fatal(ProblemCode.FILE_UNREADABLE, what, EXCEL_CURE)
    n_rows, n_columns = max(row for row, _ in cells), max(column for _, column in cells)
    if n_rows > MAX_SHEET_ROWS or n_rows * n_columns > max(
        MAX_SHEET_CELLS, 4 * len(cells)
    ):
        far = max(cells)
        what = f"sheet '{sheet.title}' reaches to row {n_rows:,} and column {n_columns:,} with {len(cells):,} cells"
        cure = f"Delete what stands far away (last: {cells[far].coordinate}), or export the table as CSV"
        findings.fatal(ProblemCode.FILE_UNREADABLE, what, cure)
    rows = [[""] * n_columns for _ in range(n_rows)]
    for (row, column), cell in cells.items():
        rows[row - 1][column - 1] = cell.value
    first = {row: cell for (row, column), cell in sorted(cells.items(), reverse=True)}
    merged = [
        (each.min_row - 1, each.max_row - 1, each.min_col - 1, each.max_col - 1)
        for each in sheet.merged_cells.ranges
    ]
    return SheetCells(
        name=str(sheet.title),
        frame=pd.DataFrame(rows, dtype=object),
        hidden=frozenset(
            row - 1 for row, each in sheet.row_dimensions.items() if each.hidden
        ),
        struck=frozenset(
            row - 1
            for row, cell in first.items()
            if cell.font is not None and cell.font.strike
        ),
        is_filtered=bool(sheet.auto_filter.ref),
        merged=tuple(merged),
    )


def _is_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > MAX_CELL_CHARACTERS


def build_table(sheet: SheetCells, findings: Findings) -> pd.DataFrame:
    """Return the table of a sheet.

    The names come from its header, in one row or two. Title lines above it are left
    out. Hidden rows are read, with a warning. Rows of people who are struck out are an
    error.
    """
    frame = sheet.frame.loc[(sheet.frame != "").any(axis=1)]
    header = _find_header(frame)
    above, names = (
        frame.iloc[:header],
        [str(cell).strip() for cell in frame.iloc[header]],
    )
    groups = list(_spread_merged(sheet, above))
    if groups:
        names = [
            f"{top} {name}".strip() if top and top != name else name
            for top, name in zip(groups[-1], names, strict=True)
        ]
        findings.note(
            ProblemCode.HEADER_JOINED,
            f"names of columns are joined from two rows, such as '{names[-1]}'",
        )
    elif len(above):
        what = f"{format_count(len(above), 'line')} above the names of the columns not read"
        findings.note(
            ProblemCode.HEADER_JOINED,
            what,
            listing=join_names(above.iloc[:, 0].map(str)),
        )
    table = frame.iloc[header + 1 :].set_axis(names, axis=1)
    _report_rows(sheet, table, findings)
    return table


def _find_header(frame: pd.DataFrame) -> int:
    """Return the position of the line with the names of the columns: the first one that
    is filled well enough.
    """
    is_filled = (frame != "").to_numpy()
    widths = is_filled.sum(axis=1)
    usual = float(pd.Series(widths).median())
    for row in range(min(len(frame), _MAX_TITLE_LINES)):
        texts = [cell for cell in frame.iloc[row] if cell != ""]
        is_text = all(isinstance(cell, str) for cell in texts)
        below = frame.iloc[row + 1] if row + 1 < len(frame) else None
        is_upper = (
            below is not None
            and widths[row] < widths[row + 1]
            and all(isinstance(c, str) for c in below if c != "")
        )
        if widths[row] >= _MIN_HEADER_SHARE * usual and not (is_upper and is_text):
            return row
    return 0


def _spread_merged(sheet: SheetCells, above: pd.DataFrame) -> Iterator[list[str]]:
    """Yield the lines above the names in which merged cells stand over several columns,
    with the cells repeated.
    """
    for number in above.index:
        line = [str(cell).strip() for cell in above.loc[number]]
        spans = [
            each
            for each in sheet.merged
            if each[0] <= number <= each[1] and each[3] > each[2]
        ]
        if not spans or sum(1 for cell in line if cell) < 2:
            continue
        for _, _, first, last in spans:
            line[first : last + 1] = [line[first]] * (last + 1 - first)
        yield line


def _report_rows(sheet: SheetCells, table: pd.DataFrame, findings: Findings) -> None:
    """Report rows of people that are hidden or struck out."""
    ids = table.iloc[:, 0].map(str)
    struck = ids[[row in sheet.struck for row in table.index]].tolist()
    if struck:
        what = f"{format_count(len(struck), 'row is', 'rows are')} struck out"
        cure = "Delete these rows, or remove the line through them"
        findings.error(
            ProblemCode.ROWS_STRUCK_OUT,
            what,
            cure,
            offenders=struck,
            offender_kind=OffenderKind.PARTICIPANT,
        )
    hidden = ids[
        [row in sheet.hidden and row not in sheet.struck for row in table.index]
    ].tolist()
    if hidden:
        how = "filtered out or hidden" if sheet.is_filtered else "hidden"
        what = f"{format_count(len(hidden), 'row is', 'rows are')} {how} in the sheet, and read all the same"
        cure = "Delete these rows if they do not belong to the study, or show them"
        findings.warn(
            ProblemCode.ROWS_HIDDEN,
            what,
            cure,
            offenders=hidden,
            offender_kind=OffenderKind.PARTICIPANT,
        )

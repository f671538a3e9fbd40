"""Read Excel files; write texts that a spreadsheet would run as a formula with an
apostrophe before them.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from rindices.errors import Findings, ProblemCode, join_names
from rindices.tables.sources.workbook import build_table, read_workbook

EXCEL_SUFFIX = ".xlsx"
_FORMULA_REGEX = re.compile(r"'*[=+\-@]")
_ESCAPED_REGEX = re.compile(r"'+[=+\-@]")
_NUMBER_REGEX = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def read_sheet(path: Path, findings: Findings) -> pd.DataFrame:
    """Return the first sheet with cells of an Excel file; the index counts the rows of
    the sheet from 0.
    """
    sheets = read_workbook(path, findings)
    if not sheets:
        findings.fatal(ProblemCode.FILE_EMPTY, "the file is empty", "Export it again")
    sheet, *others = sheets
    if others:
        what = f"sheet '{sheet.name}' is read, not {join_names(other.name for other in others)}"
        findings.note(
            ProblemCode.SHEET_CHOSEN,
            what,
            "To read another one, move it to the first place",
        )
    return build_table(sheet, findings)


def protect_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table for a csv or tsv file: texts that begin as a formula get an
    apostrophe before them.

    Numbers stay as they are, also in columns of text. `restore_texts` gives the texts
    back unchanged.
    """

    def protect(text: str) -> str:
        return (
            f"'{text}"
            if _FORMULA_REGEX.match(text) and not _NUMBER_REGEX.fullmatch(text)
            else text
        )

    return _change_texts(table, protect, ("=", "+", "-", "@", "'"))


def restore_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table that was read from a text file without the apostrophes of
    `protect_texts`.
    """
    return _change_texts(
        table, lambda text: text[1:] if _ESCAPED_REGEX.match(text) else text, ("'",)
    )


def _change_texts(
    table: pd.DataFrame, change: Callable[[str], str], first_characters: tuple[str, ...]
) -> pd.DataFrame:
    """Change the cells of text that begin with one of some characters."""
    changed = {}
    for name in table.columns[
        [not pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes]
    ]:
        cells = table[name].astype("object")
        rows = [
            isinstance(cell, str) and cell.startswith(first_characters)
            for cell in cells
        ]
        if any(rows):
            changed[name] = cells.where(
                [not row for row in rows], cells[rows].map(change)
            ).astype(table[name].dtype)
    return table.assign(**changed) if changed else table

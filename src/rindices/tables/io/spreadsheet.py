"""Texts that a spreadsheet would run as a formula are written with an apostrophe before them, and read without it."""

import re
from collections.abc import Callable

import pandas as pd

_FORMULA_REGEX = re.compile(r"'*[=+\-@]")
_ESCAPED_REGEX = re.compile(r"'+[=+\-@]")
_NUMBER_REGEX = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_FIRST_CHARACTERS = ("=", "+", "-", "@", "'")


def protect_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table for a csv or tsv file: texts that begin as a formula get an apostrophe before them.

    Numbers stay as they are, also in columns of text. `restore_texts` gives the texts back unchanged.
    """
    return _change_texts(table, _protect_text, _FIRST_CHARACTERS)


def restore_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table that was read from a text file without the apostrophes of `protect_texts`."""
    return _change_texts(table, _restore_text, ("'",))


def _change_texts(table: pd.DataFrame, change: Callable[[str], str], first_characters: tuple[str, ...]) -> pd.DataFrame:
    """Change the cells of text that begin with one of some characters."""
    changed = {}
    for name in table.columns[[not pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes]]:
        cells = table[name].astype("object")
        rows = [isinstance(cell, str) and cell.startswith(first_characters) for cell in cells]
        if any(rows):
            changed[name] = cells.where([not row for row in rows], cells[rows].map(change)).astype(table[name].dtype)
    return table.assign(**changed) if changed else table


def _protect_text(text: str) -> str:
    return f"'{text}" if _FORMULA_REGEX.match(text) and not _NUMBER_REGEX.fullmatch(text) else text


def _restore_text(text: str) -> str:
    return text[1:] if _ESCAPED_REGEX.match(text) else text

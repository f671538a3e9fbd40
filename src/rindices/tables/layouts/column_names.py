"""Columns of people, which are recognised by their names, and columns of numbers."""

import re
from collections.abc import Collection

import pandas as pd

from rindices.tables.layouts import NAMES
from rindices.tables.sources.frames import normalise_column_name

ID_NAMES, SESSION_NAMES, GROUP_NAMES, SITE_NAMES, AGE_NAMES, SEX_NAMES = (
    tuple(NAMES["columns"][kind].split())
    for kind in ("id", "session", "group", "site", "age", "sex")
)
ICV_NAMES = tuple(NAMES["columns"]["icv"].split(","))
AGE_SEX_NAMES = (*AGE_NAMES, *SEX_NAMES)
_VARIABLE_NAMES, _PARTICIPANT_WORDS = (
    set(NAMES["columns"][kind].split()) for kind in ("variables", "words")
)
_PARTICIPANT_NAMES = {
    normalise_column_name(name)
    for names in (
        ID_NAMES,
        SESSION_NAMES,
        GROUP_NAMES,
        SITE_NAMES,
        AGE_SEX_NAMES,
        _VARIABLE_NAMES,
    )
    for name in names
}
_FORMATTED_NUMBER_REGEX = re.compile(
    r"(?!\d{1,2}\.\d{1,2}\.\d{4}$)-?\d[\d.,' ]*"
)  # no date such as 31.03.2021


def find_column(columns: Collection[str], names: Collection[str]) -> str | None:
    """Return the column with the first of ``names`` that there is, regardless of case
    and punctuation.
    """
    by_key = {
        normalise_column_name(column): column for column in reversed(list(columns))
    }
    return next(
        (
            by_key[normalise_column_name(name)]
            for name in names
            if normalise_column_name(name) in by_key
        ),
        None,
    )


def is_positive_covariate(column: str) -> bool:
    """Return whether a column holds ages or head sizes, which are not 0."""
    return find_column([column], (*AGE_NAMES, *ICV_NAMES)) is not None


def is_participant_column(column: str) -> bool:
    """Return whether a column name, or a word in it, is about a person and not about a
    region.
    """
    words = re.findall(
        r"[a-z]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column).lower()
    )
    return has_participant_name(column) or any(
        word in _PARTICIPANT_WORDS for word in words
    )


def has_participant_name(column: str) -> bool:
    """Return whether a column name as a whole is about a person."""
    return normalise_column_name(column) in _PARTICIPANT_NAMES


def is_mostly_numeric(values: pd.Series) -> bool:
    """Return whether a column holds numbers: text in a few cells is an error, text in
    most cells is a label.
    """
    if pd.api.types.is_bool_dtype(values) or isinstance(
        values.dtype, pd.CategoricalDtype
    ):
        return False
    if pd.api.types.is_numeric_dtype(values):
        return True
    filled = values.dropna().astype("object")
    if not len(filled):
        return True
    numbers = pd.to_numeric(filled, errors="coerce").notna()
    # 1.234,5 and 1,234.5 are meant as numbers, though they cannot be parsed
    marked = filled.map(
        lambda cell: bool(_FORMATTED_NUMBER_REGEX.fullmatch(str(cell).strip()))
    )
    return bool((numbers | marked).mean() >= 0.5)

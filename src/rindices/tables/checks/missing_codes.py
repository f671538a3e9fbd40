"""Numbers that stand for a missing value, such as -9999: find them, ask about them, and
treat them as missing.
"""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray
from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    format_count,
    join_names,
)
from rindices.tables.checks.groups import normalise_labels

NO_CODES = ("none",)
"""What a user says where all numbers are values."""
_CODES_TEXT = "-4 -7 -8 -9 -77 -88 -99 -777 -888 -999 -9999 -99999 77 88 99 777 888 999 9999 99999"
_CODES = np.array([float(text) for text in _CODES_TEXT.split()])


def find_missing_codes(values: FloatArray) -> BoolArray:
    """Find cells that hold a usual code for missing and lie outside all other values.

    values (N,). Returns (N,). A negative code counts where no other value is negative,
    and any code where it is further from the other values than these are from each
    other.
    """
    candidates = np.isin(values, _CODES)
    if not candidates.any():
        return candidates
    others = values[~candidates & np.isfinite(values)]
    if not others.size:
        return np.zeros(len(values), dtype=bool)
    low, high = float(others.min()), float(others.max())
    with np.errstate(invalid="ignore"):
        is_far = (
            (values > high + (high - low))
            | (values < low - (high - low))
            | ((values < 0) & (low >= 0))
        )
    return np.asarray(candidates & is_far)


def mask_missing_codes(
    frame: pd.DataFrame,
    codes: Sequence[str],
    keep: Collection[str | None] = (),
    zero_columns: Collection[str] | None = None,
) -> pd.DataFrame:
    """Return a table in which cells with these codes are missing.

    Parameters
    ----------
    frame : DataFrame
        The table.
    codes : sequence of str
        Numbers or texts, where 9 and 9.0 are the same. `NO_CODES` leaves the table as
        it is.
    keep : collection of str or None
        Columns that are not changed.
    zero_columns : collection of str or None
        Columns in which 0 can be a code: regions, age and head size, but not a sex of 0
        and 1. By default, all columns.
    """
    if not codes or tuple(codes) == NO_CODES:
        return frame
    texts = set(normalise_labels(pd.Series(list(codes), dtype="object")))
    numbers = (
        pd.to_numeric(pd.Series(list(texts), dtype="object"), errors="coerce")
        .dropna()
        .tolist()
    )
    masked = {}
    for name in frame.columns:
        values = frame[name]
        if name in keep:
            continue
        is_numeric = pd.api.types.is_numeric_dtype(values)
        coded = (
            values.isin(numbers) if is_numeric else normalise_labels(values).isin(texts)
        )
        if zero_columns is not None and name not in zero_columns:
            coded &= (values != 0) if is_numeric else (normalise_labels(values) != "0")
        if coded.any():
            masked[name] = values.mask(coded)
    return frame.assign(**masked)


def looks_like_code(value: float) -> bool:
    """Return whether a number may stand for missing: 0, a negative integer, or a usual
    code such as 999.
    """
    return float(value).is_integer() and (value <= 0 or value in _CODES)


def report_codes(columns: pd.DataFrame, findings: Findings) -> dict[str, pd.Series]:
    """Report columns of numbers (N, C) with codes for missing as one error; return
    these with the cells empty.
    """
    counts: dict[str, Counter[str]] = {}
    emptied = {}
    for name in columns.columns:
        if pd.api.types.is_numeric_dtype(
            columns[name]
        ) and not pd.api.types.is_bool_dtype(columns[name]):
            values = columns[name].to_numpy(dtype=float, na_value=np.nan)
            coded = find_missing_codes(values)
            if coded.any():
                counts[str(name)] = Counter(f"{value:g}" for value in values[coded])
                emptied[str(name)] = columns[name].mask(coded)
    if counts:
        cells = format_count(sum(codes.total() for codes in counts.values()), "cell")
        all_codes = sorted(
            {code for codes in counts.values() for code in codes}, key=float
        )
        texts = []
        for name, codes in counts.items():
            cells_of_code = ", ".join(
                f"{code} in {format_count(number, 'cell')}"
                for code, number in codes.items()
            )
            texts.append(f"{name} ({cells_of_code})")
        what = f"{cells} in {format_count(len(counts), 'column')} may stand for missing"
        cure = f"If so: --missing-codes {','.join(all_codes)}. If these are values: --missing-codes none"
        kind, listing = OffenderKind.COLUMN, join_names(texts)
        findings.error(
            ProblemCode.CODES_FOR_MISSING,
            what,
            cure,
            offenders=counts,
            offender_kind=kind,
            listing=listing,
        )
    return emptied


def may_hold_codes(low: FloatArray, high: FloatArray) -> BoolArray:
    """Return for each region (R,) whether its lowest or highest value is a code: no
    other can be far outside.
    """
    return np.asarray(np.isin(low, _CODES) | np.isin(high, _CODES))

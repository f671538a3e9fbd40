"""Numbers that stand for a missing value, such as -9999: find them, ask about them, and treat them as missing."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray
from rindices.errors import Findings, OffenderKind, Problem, ProblemCode, Severity, format_count, join_names
from rindices.tables.validation.groups import normalise_labels

NO_CODES = ("none",)
"""What a user says where all numbers are values."""
_CODES_TEXT = "-4 -7 -8 -9 -77 -88 -99 -777 -888 -999 -9999 -99999 77 88 99 777 888 999 9999 99999"
_CODES = np.array([float(text) for text in _CODES_TEXT.split()])


def find_missing_codes(values: FloatArray) -> BoolArray:
    """Find cells that hold a usual code for missing and lie outside all other values.

    values (N,). Returns (N,), A negative code counts where no other value is negative, and any code where it is further
    from the other values than these are from each other.
    """
    candidates = np.isin(values, _CODES)
    if not candidates.any():
        return candidates
    others = values[~candidates & np.isfinite(values)]
    if not others.size:
        return np.zeros(len(values), dtype=bool)
    low, high = float(others.min()), float(others.max())
    with np.errstate(invalid="ignore"):
        is_far = (values > high + (high - low)) | (values < low - (high - low)) | ((values < 0) & (low >= 0))
    return np.asarray(candidates & is_far)


def mask_missing_codes(
    frame: pd.DataFrame,
    codes: Sequence[str],
    keep: Collection[str | None] = (),
    zero_columns: Collection[str] | None = None,
) -> pd.DataFrame:
    """Return a table in which cells with these codes are missing.

    codes: numbers or texts; 9 and 9.0 are the same. `NO_CODES` leaves the table as it is; keep: columns that are not
    changed; zero_columns: the columns in which 0 can be a code: regions, age and head size, but not a sex of 0 and 1.
    All if left out.
    """
    if not codes or tuple(codes) == NO_CODES:
        return frame
    texts = set(normalise_labels(pd.Series(list(codes), dtype="object")))
    numbers = [float(text) for text in texts if _is_number(text)]
    masked = {}
    for name in frame.columns:
        values = frame[name]
        if name in keep:
            continue
        is_numeric = pd.api.types.is_numeric_dtype(values)
        coded = values.isin(numbers) if is_numeric else normalise_labels(values).isin(texts)
        if zero_columns is not None and name not in zero_columns:
            coded &= (values != 0) if is_numeric else (normalise_labels(values) != "0")
        if coded.any():
            masked[name] = values.mask(coded)
    return frame.assign(**masked)


def looks_like_code(value: float) -> bool:
    """Return whether a number may stand for missing: 0, a negative integer, or a usual code such as 999."""
    return float(value).is_integer() and (value <= 0 or value in _CODES)


def list_codes(columns: pd.DataFrame) -> list[Problem]:
    """Return an error that names the columns of numbers with codes for missing; empty without any.

    columns (N, C). Returns at most one.
    """
    coded_columns = {}
    for name in columns.columns:
        if pd.api.types.is_numeric_dtype(columns[name]) and not pd.api.types.is_bool_dtype(columns[name]):
            values = columns[name].to_numpy(dtype=float, na_value=np.nan)
            codes = Counter(f"{value:g}" for value in values[find_missing_codes(values)])
            if codes:
                coded_columns[str(name)] = codes
    return [_describe_codes(coded_columns)] if coded_columns else []


def report_region_codes(regions: pd.DataFrame, suspects: BoolArray, where: str, findings: Findings) -> pd.DataFrame:
    """Report codes for missing in regions as an error, and return the regions with these cells empty.

    regions (N, R); suspects (R,): regions whose lowest or highest value is a code; the others are not searched; where:
    the file, for messages; findings: takes the error. Returns (N, R).
    """
    problems = list_codes(regions.loc[:, suspects])
    if not problems:
        return regions
    findings.problems += [replace(problem, where=where) for problem in problems]
    coded = {name: find_missing_codes(regions[name].to_numpy()) for name in regions.columns[suspects]}
    return regions.assign(**{name: regions[name].mask(rows) for name, rows in coded.items()})


def may_hold_codes(low: FloatArray, high: FloatArray) -> BoolArray:
    """Return for each region (R,) whether its lowest or highest value is a code: no other can be far outside."""
    return np.asarray(np.isin(low, _CODES) | np.isin(high, _CODES))


def _describe_codes(coded_columns: dict[str, Counter[str]]) -> Problem:
    """Return the error about codes in columns, given the number of cells of each code."""
    cells = sum(codes.total() for codes in coded_columns.values())
    all_codes = sorted({code for codes in coded_columns.values() for code in codes}, key=float)
    texts = []
    for name, codes in coded_columns.items():
        counts = ", ".join(f"{code} in {format_count(number, 'cell')}" for code, number in codes.items())
        texts.append(f"{name} ({counts})")
    what = f"{format_count(cells, 'cell')} in {format_count(len(coded_columns), 'column')} may stand for missing"
    cure = f"If so: --missing-codes {','.join(all_codes)}. If these are values: --missing-codes none"
    return Problem(
        Severity.ERROR,
        what,
        "",
        cure,
        ProblemCode.CODES_FOR_MISSING,
        offenders=tuple(coded_columns),
        offender_kind=OffenderKind.COLUMN,
        listing=join_names(texts),
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

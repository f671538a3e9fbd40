"""Check the numbers of a table: units, infinite, negative or constant values, and
measures.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import compress
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray
from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    ProblemDetails,
    format_count,
    join_names,
)
from rindices.tables.layouts import muse
from rindices.tables.layouts.freesurfer import may_be_zero
from rindices.wording import BRAIN_NOUNS, FEATURE_NOUNS, FEATURE_UNIT, Nouns

OUTLIER_FACTOR = 100.0
"""Ratio to the median of a region that no person has, so that the unit must be another
one.
"""
SEARCHED_REGIONS, SEARCHED_PEOPLE = 10, 40
"""Fewest regions and people of a table in which ``fit`` looks for outlying measurements
(`rindices.learners.outlying_measurements`).
"""
# of both halves of the middle 90 %; 2.3 in a log-normal whose logarithm has sd 0.5
_SKEWED_RATIO = 2.0
MIN_REGIONS = 5
"""Fewest regions for which equal values are no coincidence."""
MEASURES = ("volume", "thickness", "area", "any")
"""What a user can ask the regions to measure."""
ALL_MEASURES: Final = "all"
"""Columns of all kinds, for commands that read what another one has accepted; those of
unknown kinds are volumes.
"""


class Unit(StrEnum):
    """Unit of the regions of a table."""

    MM3 = "mm3"
    ML = "ml"
    NORMALISED = "normalised"
    STANDARDISED = "standardised"
    MM = "mm"
    MM2 = "mm2"
    MIXED = "mixed"
    ANY = FEATURE_UNIT
    UNKNOWN = "unknown"


_UNITS_OF_MEASURES = {
    ("thickness", Unit.ML): Unit.MM,
    ("thickness", Unit.MM3): Unit.UNKNOWN,
    ("area", Unit.MM3): Unit.MM2,
    ("area", Unit.ML): Unit.UNKNOWN,
    ("area", Unit.MM): Unit.UNKNOWN,
}


def guess_unit(values: FloatArray, medians: FloatArray) -> Unit:
    """Guess the unit of a table from typical magnitudes.

    Single regions of the adult brain have 100 to 200,000 mm3, 0.1 to 200 ml, and 1e-5
    to 0.1 of the intracranial volume. Values around 0, or around 1 with a spread of a
    tenth, are standardised. Cortical thickness is 1 to 5 mm in all regions, whereas
    volumes of regions differ more than fivefold.

    values (N, R): volumes, or the first rows of them; medians (R,): median of each
    region.
    """
    finite = medians[np.isfinite(medians)]
    if finite.size == 0:
        return Unit.UNKNOWN
    if _looks_standardised(values, finite):
        return Unit.STANDARDISED
    typical = float(np.median(finite))
    if typical > 100:
        return Unit.MM3 if typical < 1e6 else Unit.UNKNOWN
    if typical > 0.1:
        similar = (
            finite.size >= 8
            and finite.min() > 1
            and finite.max() < 6
            and finite.max() < 4 * finite.min()
        )
        return Unit.MM if similar else Unit.ML
    return Unit.NORMALISED if typical > 1e-6 else Unit.UNKNOWN


def guess_units(
    values: FloatArray, medians: FloatArray, kinds: Sequence[str]
) -> dict[str, Unit]:
    """Guess the unit of each kind of measure in a table.

    Parameters
    ----------
    values : ndarray of shape (N, R)
        Measures, or the first rows of them.
    medians : ndarray of shape (R,)
        Median of each region.
    kinds : sequence of str
        What each region measures: ``volume``, ``thickness`` or ``area``.

    Returns
    -------
    dict
        Unit by kind of measure.
    """
    units = {}
    for kind in sorted(set(kinds)):
        columns = np.array([name == kind for name in kinds])
        unit = guess_unit(values[:, columns], medians[columns])
        units[kind] = _UNITS_OF_MEASURES.get((kind, unit), unit)
    return units


def combine_units(units: Mapping[str, Unit]) -> Unit:
    """Return the unit of a whole table: mixed, if it has several kinds of measures that
    are not all standardised.
    """
    is_uniform = len(units) == 1 or set(units.values()) == {Unit.STANDARDISED}
    return next(iter(units.values())) if is_uniform else Unit.MIXED


def looks_like_centiles(medians: FloatArray, low: FloatArray, high: FloatArray) -> bool:
    """Return whether regions hold centiles, from 0 to 1 or to 100: median in the
    middle, both ends nearly reached.

    medians, low, high (R,): median, lowest and highest value of each region.
    """
    known = np.isfinite(medians)
    if not known.any():
        return False
    top = 1.0 if float(np.nanmax(high)) <= 1 else 100.0
    is_inside = bool((low[known] >= 0).all() and (high[known] <= top).all())
    spans = (high[known] - low[known]) / top
    return (
        is_inside
        and 0.3 < float(np.median(medians[known])) / top < 0.7
        and float(np.median(spans)) > 0.8
    )


def is_model_unit(table_unit: str, model_unit: str) -> bool:
    """Return whether a table may have the unit of a model."""
    return table_unit == model_unit or Unit.UNKNOWN in (table_unit, model_unit)


def find_scale_outliers(values: FloatArray, medians: FloatArray) -> BoolArray:
    """Return a mask of cells (N, R) more than `OUTLIER_FACTOR` times above or below the
    median (R,) of their region.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        off = (values / OUTLIER_FACTOR > medians) | (
            (values < medians / OUTLIER_FACTOR) & (values > 0)
        )
    return np.asarray(off & (medians > 0))


def _looks_standardised(values: FloatArray, medians: FloatArray) -> bool:
    """Return whether regions are centred at 0 (z-scores, residuals) or at 1 with a
    spread of about 0.1.
    """
    sample = np.ma.masked_invalid(values[:2_000])
    if sample.count() == 0:
        return False
    if float((sample < 0).mean()) > 0.2:
        return True
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # extreme values are reported as outliers, not here
        spreads = sample.std(axis=0).compressed()
    return bool(
        np.median(np.abs(medians - 1)) < 0.25
        and spreads.size
        and np.median(spreads) < 0.3
    )


_TO_MM3 = {Unit.MM3: 1.0, Unit.ML: 1e3}


def as_numbers(
    frame: pd.DataFrame, ids: Sequence[str], findings: Findings
) -> pd.DataFrame:
    """Return the columns (N, C) as floats; cells of text are an error and
    become NaN.
    """
    cells: list[str] = []
    people: list[str] = []
    dtypes = frame.dtypes
    is_bool, is_numeric = pd.api.types.is_bool_dtype, pd.api.types.is_numeric_dtype
    text_dtypes = [
        dtype for dtype in set(dtypes) if is_bool(dtype) or not is_numeric(dtype)
    ]
    text_columns = (
        [name for name, dtype in dtypes.items() if dtype in text_dtypes]
        if text_dtypes
        else []
    )
    numbers = {}
    for name in text_columns:
        raw = frame[name].astype("object")
        numbers[name] = pd.to_numeric(raw, errors="coerce").astype(float)
        rows = np.flatnonzero(raw.notna() & numbers[name].isna())
        cells += [f"'{raw.iloc[row]}' for {ids[row]} in {name}" for row in rows[:3]]
        people += [ids[int(row)] for row in rows]
    if cells:
        what = "text where a number should be"
        what += f" in {len(people):,} cells" if len(people) > len(cells) else ""
        cure = "Correct these values (decimal point, no thousands separators, empty for missing)"
        offenders, listing = dict.fromkeys(people), join_names(cells)
        findings.error(
            ProblemCode.NOT_A_NUMBER, what, cure, offenders=offenders, listing=listing
        )
    if text_columns:
        return frame.assign(**numbers).astype(float)
    if not all(isinstance(dtype, np.dtype) for dtype in set(dtypes)):
        frame = frame.astype(float)
    # one block of memory, so that to_numpy needs no copy
    return pd.DataFrame(
        frame.to_numpy(dtype=float),
        index=frame.index,
        columns=frame.columns,
        copy=False,
    )


class ColumnRanges(NamedTuple):
    """Ranges of the regions.

    Attributes
    ----------
    low : ndarray of shape (R,)
        Lowest value.
    high : ndarray of shape (R,)
        Highest value.
    not_finite : ndarray of shape (R,)
        Whether a value is missing or infinite.
    """

    low: FloatArray
    high: FloatArray
    not_finite: BoolArray


def compute_column_ranges(regions: pd.DataFrame) -> ColumnRanges:
    """Return the range of each region, without its missing values."""
    values = regions.to_numpy()
    if not len(values):
        nan = np.full(values.shape[1], np.nan)
        return ColumnRanges(nan, nan, np.zeros(values.shape[1], dtype=bool))
    low, high = np.array(
        [(column.min(), column.max()) for column in values.T]
    ).T  # both while a column is in the cache
    not_finite = ~(np.isfinite(low) & np.isfinite(high))
    for column in np.flatnonzero(not_finite):  # few: fmin over all columns is slow
        low[column], high[column] = (
            np.fmin.reduce(values[:, column]),
            np.fmax.reduce(values[:, column]),
        )
    return ColumnRanges(low, high, not_finite)


def check_measures(
    by_region: dict[str, str], requested: str | None, findings: Findings
) -> dict[str, str]:
    """Return what each region measures.

    A table without the requested measure, or without any volume, is refused. Names of
    regions that say nothing count as what was requested.

    Parameters
    ----------
    by_region : dict
        What the names of regions say they measure.
    requested : str or None
        One of `MEASURES`. None if the user named none.
    findings : Findings
        Collects the error.
    """
    kinds = sorted(set(by_region.values()))
    if requested in (None, "volume") and "volume" not in kinds:
        suggestion = kinds[0] if len(kinds) == 1 and kinds[0] in MEASURES else "any"
        what = f"all {len(by_region)} regions are {join_names(kinds)}, not volume"
        cure = f"Export volumes (aparcstats2table --meas volume), or say --measure {suggestion} if it is meant"
        findings.error(ProblemCode.WRONG_MEASURE, what, cure)
    elif requested not in (None, "volume", "any", ALL_MEASURES):
        if requested in kinds or kinds == ["volume"]:
            return dict.fromkeys(by_region, requested)
        what = f"the regions are {join_names(kinds)}, not {requested}"
        findings.error(ProblemCode.WRONG_MEASURE, what, f"Say --measure {kinds[0]}")
    return by_region


def check_regions(
    regions: pd.DataFrame,
    ranges: ColumnRanges,
    ids: Sequence[str],
    measures: Mapping[str, str],
    findings: Findings,
) -> dict[str, Unit]:
    """Check the values of a table, and return the guessed unit of each kind of measure.

    Parameters
    ----------
    regions : DataFrame
        Regions (N, R).
    ranges : ColumnRanges
        Ranges of the regions.
    ids : sequence of str
        IDs of the people, for messages.
    measures : mapping
        What each region measures.
    findings : Findings
        Collects the problems.
    """
    names = list(regions.columns)
    _check_finite(regions, ranges, findings)
    medians = _compute_medians(regions)
    kinds = [measures[name] for name in names]
    units = guess_units(regions.head(2_000).to_numpy(), medians, kinds)
    if looks_like_centiles(medians, ranges.low, ranges.high):
        units = dict.fromkeys(units, Unit.STANDARDISED)
        what = "the values look like centiles, in which the differences between severe people vanish"
        cure = "Give z-scores: scipy.stats.norm.ppf(centile / 100 or centile)"
        findings.warn(ProblemCode.CENTILES, what, cure)
    unit = combine_units(units)
    if units.get("volume") is Unit.MM and unit is not Unit.MIXED:
        what = "the values look like cortical thickness in mm, not volumes: all regions lie between 1 and 6"
        cure = "Give volumes, or say --measure thickness if thickness is meant"
        findings.error(ProblemCode.WRONG_MEASURE, what, cure)
    if unit is not Unit.STANDARDISED:
        _check_sign(regions, ranges, ids, findings)
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = (ranges.low < medians / OUTLIER_FACTOR) | (
                ranges.high / OUTLIER_FACTOR > medians
            )
        if suspicious.any():  # rare: only then is each cell checked
            _check_scale(regions.to_numpy(), medians, names, ids, findings)
        _check_atlas(medians, names, unit, findings)
    _report_unit(unit, kinds, findings)
    return units


def check_cells(
    regions: pd.DataFrame,
    ranges: ColumnRanges,
    ids: Sequence[str],
    unit: Unit,
    findings: Findings,
) -> None:
    """Check each cell (N, R) of a chunk of a table whose unit is known."""
    if ranges.not_finite.any():
        _check_infinite(regions.loc[:, ranges.not_finite], findings)
    if unit not in (Unit.STANDARDISED, Unit.ANY):
        _check_sign(regions, ranges, ids, findings)


def check_features(
    regions: pd.DataFrame, ranges: ColumnRanges, findings: Findings
) -> dict[str, Unit]:
    """Check features (N, R) of any kind: they may have any sign, unit and range, but
    not be empty or infinite.

    Returns the unit by kind of measure, as `check_regions` returns it.
    """
    _check_finite(regions, ranges, findings, FEATURE_NOUNS)
    scaled = (
        regions if (ranges.low <= 0).any() else np.log(regions)
    )  # as they are adjusted by default
    skewed = [
        str(name) for name in scaled.columns if _is_skewed(scaled[name].to_numpy())
    ]
    if skewed:
        what = format_count(len(skewed), "feature is skewed", "features are skewed")
        cure = "Transform them in the table first, for example to logarithms"
        kind = OffenderKind.COLUMN
        findings.note(
            ProblemCode.SKEWED_FEATURES,
            what,
            cure,
            offenders=skewed,
            offender_kind=kind,
        )
    return {"any": Unit.ANY}


def _is_skewed(values: FloatArray) -> bool:
    """Return whether the upper and the lower half (N,) of a feature have very different
    spreads.
    """
    finite = values[np.isfinite(values)]
    if finite.size < 2:
        return False
    low, middle, high = np.quantile(finite, (0.05, 0.5, 0.95))
    limit = _SKEWED_RATIO * np.exp(
        3 / np.sqrt(finite.size)
    )  # quantiles of few people vary
    return bool(
        max(high - middle, middle - low) > limit * min(high - middle, middle - low)
    )


def check_constant(
    controls: FloatArray,
    regions: Sequence[str],
    findings: Findings,
    nouns: Nouns = BRAIN_NOUNS,
) -> None:
    """Report regions that are constant in controls (N, R): they cannot be
    standardised.
    """
    names = (
        list(compress(regions, np.ptp(controls, axis=0) == 0))
        if len(controls) > 1
        else []
    )
    if names:
        what = f"{format_count(len(names), f'{nouns.region} is', f'{nouns.regions} are')} constant in the controls"
        _refuse_regions(ProblemCode.CONSTANT_REGIONS, what, names, findings)


def _refuse_regions(
    code: ProblemCode, what: str, names: list[str], findings: Findings
) -> None:
    cure = f"Leave them out: --exclude {','.join(names[:5])}"
    findings.error(code, what, cure, offenders=names, offender_kind=OffenderKind.REGION)


def _check_finite(
    regions: pd.DataFrame,
    ranges: ColumnRanges,
    findings: Findings,
    nouns: Nouns = BRAIN_NOUNS,
) -> None:
    suspects = regions.loc[:, ranges.not_finite]
    empty = [name for name in suspects if bool(suspects[name].isna().all())]
    if empty:
        what = f"{format_count(len(empty), f'{nouns.region} has', f'{nouns.regions} have')} no value at all"
        _refuse_regions(ProblemCode.EMPTY_REGIONS, what, empty, findings)
    _check_infinite(suspects, findings)


def _check_infinite(suspects: pd.DataFrame, findings: Findings) -> None:
    infinite = [name for name in suspects if bool(np.isinf(suspects[name]).any())]
    if infinite:
        what = f"infinite values in {join_names(infinite)}"
        findings.error(ProblemCode.INFINITE_VALUES, what, "Correct these values")


def _compute_medians(regions: pd.DataFrame) -> FloatArray:
    """Return the median of each region (R,), from about 5,000 people spread over the
    table; NaN without values.
    """
    sample = regions.iloc[:: max(1, len(regions) // 5_000)].to_numpy()
    filled = np.ma.masked_invalid(sample)
    if len(sample) and not np.ma.is_masked(filled):
        return np.asarray(np.median(sample, axis=0))
    return np.array(
        [
            np.median(column.compressed()) if column.count() else np.nan
            for column in filled.T
        ]
    )


def _check_sign(
    regions: pd.DataFrame, ranges: ColumnRanges, ids: Sequence[str], findings: Findings
) -> None:
    negative = ranges.low < 0
    zero = [
        low == 0 and not may_be_zero(name)
        for low, name in zip(ranges.low, regions.columns, strict=True)
    ]
    if negative.any():
        what = f"negative values in {format_count(int(negative.sum()), 'region')}"
        cure = "A volume cannot be negative: correct the values, or give the table before it was standardised"
        findings.error(
            ProblemCode.NEGATIVE_VALUES,
            what,
            cure,
            **_name_cells(regions.loc[:, negative] < 0, ids),
        )
    if any(zero):
        what = f"values of 0 in {format_count(sum(zero), 'region')}"
        cure = "No brain structure measures 0: empty the cells, or --missing-codes 0; features of any kind: --measure any"
        findings.error(
            ProblemCode.ZERO_VOLUMES,
            what,
            cure,
            **_name_cells(regions.loc[:, zero] == 0, ids),
        )


def _check_scale(
    values: FloatArray,
    medians: FloatArray,
    regions: Sequence[str],
    ids: Sequence[str],
    findings: Findings,
) -> None:
    off = find_scale_outliers(values, medians)
    n_cells, people = int(off.sum()), list(compress(ids, np.any(off, axis=1)))
    if not n_cells:
        return
    names = join_names(compress(regions, np.any(off, axis=0)))
    if n_cells > 0.3 * len(people) * len(regions) or n_cells > 0.02 * values.size:
        number = format_count(len(people), "person", "people")
        what, cure = (
            f"units are mixed: {number} a hundred times and more off the rest",
            "Bring all to one unit (mm3)",
        )
        findings.error(
            ProblemCode.MIXED_UNITS,
            what,
            cure,
            offenders=people,
            ending=f" (in {names})",
        )
    elif len(regions) < SEARCHED_REGIONS or len(values) < SEARCHED_PEOPLE:
        verb = "is" if n_cells == 1 else "are"
        what = f"{format_count(n_cells, 'cell')} {verb} a hundred times and more off the median of the region"
        few = f"fewer than {SEARCHED_REGIONS} regions or {SEARCHED_PEOPLE} people"
        cure = f"Correct or empty them: with {few} they are used"
        cells = _name_cells(pd.DataFrame(off, columns=list(regions)), ids)
        findings.warn(ProblemCode.OUTLYING_VALUES, what, cure, **cells)


def _check_atlas(
    medians: FloatArray, regions: Sequence[str], unit: Unit, findings: Findings
) -> None:
    """Compare MUSE regions with their typical volume: finds single columns in another
    unit or position.
    """
    if unit not in _TO_MM3:
        return
    ratios = [
        (region.label, median * _TO_MM3[unit] / region.typical_mm3)
        for region, median in zip(
            map(muse.find_muse_region, regions), medians, strict=True
        )
        if region and np.isfinite(median) and median > 0
    ]
    typical = float(np.median([ratio for _, ratio in ratios])) if ratios else 1.0
    if not 0.3 < typical < 3:
        what = f"all regions are about {typical:.2g} times the usual adult volume, taken as {unit}"
        cure = "Check the unit: mm3 or ml is expected, or volumes divided by ICV"
        findings.error(ProblemCode.UNIT_MISMATCH, what, cure)
        return
    wrong = {
        label: f"{label} ({ratio:.2g} times)"
        for label, ratio in ratios
        if not 0.05 < ratio < 20
    }
    if wrong:
        what = f"{format_count(len(wrong), 'region is', 'regions are')} far from the usual adult volume"
        cure, kind = (
            "Check the unit and the order of these columns",
            OffenderKind.REGION,
        )
        listing = join_names(wrong.values())
        findings.error(
            ProblemCode.UNIT_MISMATCH,
            what,
            cure,
            offenders=wrong,
            offender_kind=kind,
            listing=listing,
        )


def _report_unit(unit: Unit, kinds: Sequence[str], findings: Findings) -> None:
    if unit is Unit.MIXED:
        counts = Counter(kinds).most_common()
        what = "several kinds of measures stand side by side, each region is standardised on its own"
        cure = f"For one kind alone: --measure {counts[0][0]}"
        if "thickness" in kinds:
            cure += ". Thickness is adjusted for head size only with --icv-for all"
        listing = ", ".join(
            f"{format_count(number, 'column')} of {kind}" for kind, number in counts
        )
        findings.note(ProblemCode.MIXED_MEASURES, what, cure, listing=listing)
    elif unit is Unit.STANDARDISED:
        what = (
            "the values look standardised already (z-scores, or 1 with a spread of 0.1)"
        )
        findings.note(ProblemCode.STANDARDISED_VALUES, what)
    elif unit is Unit.NORMALISED:
        what = "the values look divided by intracranial volume (or in litres): if so, do not adjust for it again"
        findings.note(ProblemCode.NORMALISED_VALUES, what)
    elif unit is Unit.UNKNOWN:
        what = "the unit cannot be guessed from the magnitudes"
        findings.warn(ProblemCode.UNIT_UNKNOWN, what, "mm3 or ml is expected")


def _name_cells(bad: pd.DataFrame, ids: Sequence[str]) -> ProblemDetails:
    """Return the people with bad cells, given as a mask (N, R), and the first cells as
    ``region of person``.
    """
    rows, columns = np.nonzero(bad.to_numpy())
    cells = zip(rows[:50], columns[:50], strict=True)
    listing = join_names(
        f"{bad.columns[int(column)]} of {ids[int(row)]}" for row, column in cells
    )
    return {"offenders": [ids[int(row)] for row in np.unique(rows)], "listing": listing}


def warn_equal_rows(
    regions: pd.DataFrame, keys: Sequence[str], findings: Findings
) -> None:
    """Warn of people with the same values in all regions (N, R), if these are enough
    that it is no coincidence.

    keys: (N,) ids of the people, with their sessions.
    """
    values, rows_of_hash = regions.to_numpy(), defaultdict(list)
    if values.shape[1] < MIN_REGIONS:
        return
    for row in np.flatnonzero(~np.isnan(values).any(axis=1)):
        rows_of_hash[hash(values[row].tobytes())].append(row)
    groups = [
        [keys[int(row)] for row in rows]
        for rows in rows_of_hash.values()
        if len(rows) > 1
    ]
    if groups:
        people, pairs = (
            [key for group in groups for key in group],
            [" = ".join(group) for group in groups],
        )
        count = format_count(len(people), "person has", "people have")
        what = f"{count} the same values in all regions as someone else"
        cure = "If it is one person under two ids, keep one of the rows"
        findings.warn(
            ProblemCode.EQUAL_ROWS,
            what,
            cure,
            offenders=people,
            listing=join_names(pairs),
        )

"""Check the numbers of a table: infinite, negative or constant values, units and measures."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import (
    Findings,
    OffenderKind,
    Problem,
    ProblemCode,
    ProblemDetails,
    Severity,
    format_count,
    join_names,
)
from rindices.tables.layout import muse
from rindices.tables.layout.freesurfer import may_be_zero
from rindices.tables.validation.units import (
    OUTLIER_FACTOR,
    Unit,
    combine_units,
    find_scale_outliers,
    guess_units,
    looks_like_centiles,
)
from rindices.wording import Wording, reword

_TO_MM3 = {Unit.MM3: 1.0, Unit.ML: 1e3}
_SKEWED_RATIO = 2.0  # of both halves of the middle 90 %; 2.3 in a log-normal whose logarithm has sd 0.5


MEASURES = ("volume", "thickness", "area", "any")
"""What a user can ask the regions to measure."""
ALL_MEASURES = "all"
"""Columns of all kinds, for commands that read what another one has accepted; those of unknown kinds are volumes."""


def as_numbers(frame: pd.DataFrame, ids: Sequence[str], where: str, findings: Findings) -> pd.DataFrame:
    """Return the columns (N, C) as floats; cells of text are an error and become NaN."""
    cells: list[str] = []
    people: list[str] = []
    dtypes = frame.dtypes
    text_dtypes = [dtype for dtype in set(dtypes) if not _is_numeric_dtype(dtype)]
    text_columns = [name for name, dtype in dtypes.items() if dtype in text_dtypes] if text_dtypes else []
    numbers = {}
    for name in text_columns:
        raw = frame[name].astype("object")
        numbers[name] = pd.to_numeric(raw, errors="coerce").astype(float)
        rows = np.flatnonzero(raw.notna() & numbers[name].isna())
        cells += [f"'{raw.iloc[row]}' for {ids[row]} in {name}" for row in rows[:3]]
        people += _take_items(ids, rows)
    if cells:
        findings.error(
            ProblemCode.NOT_A_NUMBER,
            "text where a number should be",
            where,
            "Mend these cells (decimal point, no thousands separators, empty for missing)",
            offenders=dict.fromkeys(people),
            listing=join_names(cells),
        )
    return frame.assign(**numbers).astype(float) if text_columns else _to_contiguous_floats(frame)


def _to_contiguous_floats(frame: pd.DataFrame) -> pd.DataFrame:
    """Return columns of numbers as floats in one block of memory, so that ``to_numpy`` needs no copy."""
    if not all(isinstance(dtype, np.dtype) for dtype in set(frame.dtypes)):
        frame = frame.astype(float)
    return pd.DataFrame(frame.to_numpy(dtype=float), index=frame.index, columns=frame.columns, copy=False)


class ColumnRanges(NamedTuple):
    """Lowest and highest value of each region (R,), and whether a value is missing or infinite (R,)."""

    low: FloatArray
    high: FloatArray
    not_finite: BoolArray


def compute_column_ranges(regions: pd.DataFrame) -> ColumnRanges:
    """Return the range of each region, without its missing values."""
    values = regions.to_numpy()
    if not len(values):
        nan = np.full(values.shape[1], np.nan)
        return ColumnRanges(nan, nan, np.zeros(values.shape[1], dtype=bool))
    low, high = np.array([(column.min(), column.max()) for column in values.T]).T  # both while a column is in the cache
    not_finite = ~(np.isfinite(low) & np.isfinite(high))
    for column in np.flatnonzero(not_finite):  # few: fmin over all columns is slow
        low[column], high[column] = np.fmin.reduce(values[:, column]), np.fmax.reduce(values[:, column])
    return ColumnRanges(low, high, not_finite)


def check_measures(
    regions: Sequence[str], measures: Mapping[str, str], requested: str | None, where: str, findings: Findings
) -> dict[str, str]:
    """Return what each region measures; refuse a table without the requested measure, or without any volume.

    measures: what their names say they measure; requested: one of `MEASURES`; None if the user named none; where: the
    file, for messages; findings: takes the error. Returns by region. Names that say nothing count as what was
    requested.
    """
    by_region = {name: measures.get(name, "volume") for name in regions}
    kinds = sorted(set(by_region.values()))
    if requested in (None, "volume") and "volume" not in kinds:
        suggestion = kinds[0] if len(kinds) == 1 and kinds[0] in MEASURES else "any"
        what = f"all {len(regions)} regions are {join_names(kinds)}, not volume"
        cure = f"Export volumes (aparcstats2table --meas volume), or say --measure {suggestion} if it is meant"
        findings.error(ProblemCode.WRONG_MEASURE, what, where, cure)
    elif requested in (None, "volume", "any", ALL_MEASURES):
        return by_region
    elif requested not in kinds and kinds != ["volume"]:
        what = f"the regions are {join_names(kinds)}, not {requested}"
        findings.error(ProblemCode.WRONG_MEASURE, what, where, f"Say --measure {kinds[0]}")
    else:
        return dict.fromkeys(regions, requested)
    return by_region


def check_regions(
    regions: pd.DataFrame,
    ranges: ColumnRanges,
    ids: Sequence[str],
    measures: Mapping[str, str],
    where: str,
    findings: Findings,
) -> dict[str, Unit]:
    """Check the values of a table.

    regions (N, R); ranges: of the regions; ids: (N,) ids of the people, for messages; measures: what each region
    measures; where: the file, for messages; findings: takes the problems. Returns the guessed unit of each kind of
    measure.
    """
    names = list(regions.columns)
    _check_finite(regions, ranges, where, findings)
    medians = _compute_medians(regions)
    kinds = [measures.get(name, "volume") for name in names]
    units = guess_units(regions.head(2_000).to_numpy(), medians, kinds)
    if looks_like_centiles(medians, ranges.low, ranges.high):
        units = dict.fromkeys(units, Unit.STANDARDISED)
        what = "the values look like centiles, in which the differences between severe people vanish"
        cure = "Give z-scores: scipy.stats.norm.ppf(centile / 100 or centile)"
        findings.warn(ProblemCode.CENTILES, what, where, cure)
    unit = combine_units(units)
    if units.get("volume") is Unit.MM and unit is not Unit.MIXED:
        findings.error(
            ProblemCode.WRONG_MEASURE,
            "the values look like cortical thickness in mm, not volumes: all regions lie between 1 and 6",
            where,
            "Give volumes, or say --measure thickness if thickness is meant",
        )
    if unit is not Unit.STANDARDISED:
        _check_sign(regions, ranges, ids, where, findings)
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = (ranges.low < medians / OUTLIER_FACTOR) | (ranges.high / OUTLIER_FACTOR > medians)
        if suspicious.any():  # rare: only then is each cell checked
            _check_scale(regions.to_numpy(), medians, names, ids, where, findings)
        _check_atlas(medians, names, unit, where, findings)
    _report_unit(unit, kinds, where, findings)
    return units


def check_cells(
    regions: pd.DataFrame, ranges: ColumnRanges, ids: Sequence[str], unit: Unit, where: str, findings: Findings
) -> None:
    """Check each cell (N, R) of a chunk of a table whose unit is known."""
    if ranges.not_finite.any():
        _check_infinite(regions.loc[:, ranges.not_finite], where, findings)
    if unit not in (Unit.STANDARDISED, Unit.ANY):
        _check_sign(regions, ranges, ids, where, findings)


def check_features(regions: pd.DataFrame, ranges: ColumnRanges, where: str, findings: Findings) -> dict[str, Unit]:
    """Check features (N, R) of any kind: they may have any sign, unit and range, but not be empty or infinite.

    Returns the unit by kind of measure, as `check_regions` returns it.
    """
    _check_finite(regions, ranges, where, findings, reword)
    skewed = [str(name) for name in regions.columns if _is_skewed(regions[name].to_numpy())]
    if skewed:
        what = format_count(len(skewed), "feature is skewed", "features are skewed")
        cure = "To use normal scores of their ranks: --adjust rank"
        findings.note(
            ProblemCode.SKEWED_FEATURES, what, where, cure, offenders=skewed, offender_kind=OffenderKind.COLUMN
        )
    return {"any": Unit.ANY}


def _is_skewed(values: FloatArray) -> bool:
    """Return whether the upper and the lower half (N,) of a feature have very different spreads."""
    finite = values[np.isfinite(values)]
    if finite.size < 2:
        return False
    low, middle, high = np.quantile(finite, (0.05, 0.5, 0.95))
    limit = _SKEWED_RATIO * np.exp(3 / np.sqrt(finite.size))  # quantiles of few people vary
    return bool(max(high - middle, middle - low) > limit * min(high - middle, middle - low))


def check_constant(
    controls: FloatArray, regions: Sequence[str], where: str, findings: Findings, word: Wording = str
) -> None:
    """Report regions that are constant in controls (N, R): they cannot be standardised."""
    if len(controls) < 2:
        return
    names = _take_items(regions, np.flatnonzero(np.ptp(controls, axis=0) == 0))
    if names:
        one, many = word("region is"), word("regions are")
        what = f"{format_count(len(names), one, many)} constant in the controls"
        _refuse_regions(ProblemCode.CONSTANT_REGIONS, what, names, where, findings)


def _refuse_regions(code: ProblemCode, what: str, names: list[str], where: str, findings: Findings) -> None:
    cure = f"Leave them out: --exclude {','.join(names[:5])}"
    findings.error(code, what, where, cure, offenders=names, offender_kind=OffenderKind.REGION)


def _check_finite(
    regions: pd.DataFrame, ranges: ColumnRanges, where: str, findings: Findings, word: Wording = str
) -> None:
    suspects = regions.loc[:, ranges.not_finite]
    empty = [name for name in suspects if bool(suspects[name].isna().all())]
    if empty:
        what = f"{format_count(len(empty), word('region has'), word('regions have'))} no value at all"
        _refuse_regions(ProblemCode.EMPTY_REGIONS, what, empty, where, findings)
    _check_infinite(suspects, where, findings)


def _check_infinite(suspects: pd.DataFrame, where: str, findings: Findings) -> None:
    infinite = [name for name in suspects if bool(np.isinf(suspects[name]).any())]
    if infinite:
        what = f"infinite values in {join_names(infinite)}"
        findings.error(ProblemCode.INFINITE_VALUES, what, where, "Mend these cells")


def _compute_medians(regions: pd.DataFrame) -> FloatArray:
    """Return the median of each region (R,), from about 5,000 people spread over the table; NaN without values."""
    sample = regions.iloc[:: max(1, len(regions) // 5_000)].to_numpy()
    filled = np.ma.masked_invalid(sample)
    if len(sample) and not np.ma.is_masked(filled):
        return np.asarray(np.median(sample, axis=0))
    return np.array([np.median(column.compressed()) if column.count() else np.nan for column in filled.T])


def _check_sign(
    regions: pd.DataFrame, ranges: ColumnRanges, ids: Sequence[str], where: str, findings: Findings
) -> None:
    negative = ranges.low < 0
    zero = [low == 0 and not may_be_zero(name) for low, name in zip(ranges.low, regions.columns, strict=True)]
    if negative.any():
        what = f"negative values in {format_count(int(negative.sum()), 'region')}"
        cure = "A volume cannot be negative: mend the cells, or give the table before it was standardised"
        findings.error(ProblemCode.NEGATIVE_VALUES, what, where, cure, **_name_cells(regions.loc[:, negative] < 0, ids))
    if any(zero):
        what = f"values of 0 in {format_count(sum(zero), 'region')}"
        cure = (
            "No brain structure measures 0: empty the cells, or --missing-codes 0; features of any kind: --measure any"
        )
        findings.error(ProblemCode.ZERO_VOLUMES, what, where, cure, **_name_cells(regions.loc[:, zero] == 0, ids))


def _check_scale(
    values: FloatArray, medians: FloatArray, regions: Sequence[str], ids: Sequence[str], where: str, findings: Findings
) -> None:
    outliers = find_scale_outliers(values, medians)
    if not outliers.cells:
        return
    people, names = _take_items(ids, outliers.people), join_names(_take_items(regions, outliers.regions))
    if outliers.cells > 0.3 * len(people) * len(regions) or outliers.cells > 0.02 * values.size:
        number = format_count(len(people), "person", "people")
        what, cure = f"units are mixed: {number} a hundred times and more off the rest", "Bring all to one unit (mm3)"
        findings.error(ProblemCode.MIXED_UNITS, what, where, cure, offenders=people, ending=f" (in {names})")
    else:
        what, cure = "values a hundred times off the usual", "Look at these people's segmentations"
        findings.warn(ProblemCode.OUTLYING_VALUES, what, where, cure, offenders=people, ending=f" in {names}")


def _check_atlas(medians: FloatArray, regions: Sequence[str], unit: Unit, where: str, findings: Findings) -> None:
    """Compare MUSE regions with their typical volume: finds single columns in another unit or position."""
    if unit not in _TO_MM3:
        return
    ratios = [
        (region.label, median * _TO_MM3[unit] / region.typical_mm3)
        for region, median in zip(map(muse.find_muse_region, regions), medians, strict=True)
        if region and np.isfinite(median) and median > 0
    ]
    typical = float(np.median([ratio for _, ratio in ratios])) if ratios else 1.0
    if not 0.3 < typical < 3:
        what = f"all regions are about {typical:.2g} times the usual adult volume, taken as {unit}"
        cure = "Check the unit: mm3 or ml is expected, or volumes divided by ICV"
        findings.error(ProblemCode.UNIT_MISMATCH, what, where, cure)
        return
    wrong = {label: f"{label} ({ratio:.2g} times)" for label, ratio in ratios if not 0.05 < ratio < 20}
    if wrong:
        findings.error(
            ProblemCode.UNIT_MISMATCH,
            f"{format_count(len(wrong), 'region is', 'regions are')} far from the usual adult volume",
            where,
            "Check the unit and the order of these columns",
            offenders=wrong,
            offender_kind=OffenderKind.REGION,
            listing=join_names(wrong.values()),
        )


def _report_unit(unit: Unit, kinds: Sequence[str], where: str, findings: Findings) -> None:
    if unit is Unit.MIXED:
        counts = Counter(kinds).most_common()
        what = "several kinds of measures stand side by side, each region is standardised on its own"
        cure = f"For one kind alone: --measure {counts[0][0]}"
        if "thickness" in kinds:
            cure += ". Thickness is adjusted for head size only with --icv-for all"
        listing = ", ".join(f"{format_count(number, 'column')} of {kind}" for kind, number in counts)
        findings.note(ProblemCode.MIXED_MEASURES, what, where, cure, listing=listing)
    elif unit is Unit.STANDARDISED:
        what = "the values look standardised already (z-scores, or 1 with a spread of 0.1)"
        findings.note(ProblemCode.STANDARDISED_VALUES, what, where)
    elif unit is Unit.NORMALISED:
        what = "the values look divided by intracranial volume (or in litres): if so, do not adjust for it again"
        findings.note(ProblemCode.NORMALISED_VALUES, what, where)
    elif unit is Unit.UNKNOWN:
        what = "the unit cannot be guessed from the magnitudes"
        findings.warn(ProblemCode.UNIT_UNKNOWN, what, where, "mm3 or ml is expected")


def _name_cells(bad: pd.DataFrame, ids: Sequence[str]) -> ProblemDetails:
    """Return the people with bad cells, given as a mask (N, R), and the first cells as ``region of person``."""
    rows, columns = np.nonzero(bad.to_numpy())
    cells = zip(rows[:50], columns[:50], strict=True)
    listing = join_names(f"{bad.columns[int(column)]} of {ids[int(row)]}" for row, column in cells)
    return {"offenders": _take_items(ids, np.unique(rows)), "listing": listing}


def _take_items(items: Sequence[str], indices: IntArray) -> list[str]:
    return [items[int(index)] for index in indices]


def _is_numeric_dtype(dtype: object) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)


MIN_REGIONS = 5
"""Fewest regions for which equal values are no coincidence."""


def hash_rows(values: FloatArray) -> NDArray[np.uint64]:
    """Return a hash (N,) of the values of each person (N, R); people who lack a value, or all if R is small, have 0.

    Sums of integers do not depend on their order, so that equal rows have equal hashes on every machine.
    """
    if values.shape[1] < MIN_REGIONS:
        return np.zeros(len(values), dtype=np.uint64)
    weights = np.random.default_rng(0).integers(0, 2**63, values.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(
        1
    )
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    mixed = bits ^ (bits >> np.uint64(29))  # the low bits of volumes with few digits are 0
    return np.where(np.isnan(values).any(axis=1), np.uint64(0), (mixed * weights).sum(axis=1, dtype=np.uint64))


def warn_equal_rows(regions: pd.DataFrame, keys: Sequence[str], where: str, findings: Findings) -> None:
    """Warn of people with the same values in all regions.

    regions (N, R); keys: (N,) ids of the people, with their sessions; where: the file, for messages; findings: takes
    the warning.
    """
    hashes = hash_rows(regions.to_numpy())
    order = np.argsort(hashes, kind="stable")
    starts = np.flatnonzero(np.diff(hashes[order], prepend=np.uint64(0)))
    groups = [group for group in np.split(order, starts) if len(group) > 1 and hashes[group[0]]]
    if groups:
        pairs = [" = ".join(keys[int(row)] for row in group) for group in sorted(groups, key=lambda group: group[0])]
        people = [keys[int(row)] for group in groups for row in group]
        findings.problems.append(describe_equal_rows(len(people), people, pairs, where))


def describe_equal_rows(number: int, people: Sequence[str], pairs: Sequence[str], where: str) -> Problem:
    """Return the warning of a number of people with the values of someone else, of whom some are named."""
    what = f"{format_count(number, 'person has', 'people have')} the same values in all regions as someone else"
    cure = "If it is one person under two ids, keep one of the rows"
    code, listing = ProblemCode.EQUAL_ROWS, join_names(pairs)
    return Problem(Severity.WARNING, what, where, cure, code, offenders=tuple(people), listing=listing)

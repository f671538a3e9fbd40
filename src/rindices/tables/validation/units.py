"""Guess the unit of a table from the magnitude of its values, and find values of another magnitude."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.wording import FEATURE_UNIT

OUTLIER_FACTOR = 100.0
"""Ratio to the median of a region that no person has, so that the unit must be another one."""


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


class ScaleOutliers(NamedTuple):
    """Cells more than `OUTLIER_FACTOR` times off: indices of their people and regions, and their number."""

    people: IntArray
    regions: IntArray
    cells: int


def guess_unit(values: FloatArray, medians: FloatArray) -> Unit:
    """Guess the unit of a table from typical magnitudes.

    Single regions of the adult brain have 100 to 200,000 mm3, 0.1 to 200 ml, and 1e-5 to 0.1 of the intracranial
    volume. Values around 0, or around 1 with a spread of a tenth, are standardised. Cortical thickness is 1 to 5 mm in
    all regions, whereas volumes of regions differ more than fivefold.

    values (N, R): volumes, or the first rows of them; medians (R,): median of each region.
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
        similar = finite.size >= 8 and finite.min() > 1 and finite.max() < 6 and finite.max() < 4 * finite.min()
        return Unit.MM if similar else Unit.ML
    return Unit.NORMALISED if typical > 1e-6 else Unit.UNKNOWN


def guess_units(values: FloatArray, medians: FloatArray, kinds: Sequence[str]) -> dict[str, Unit]:
    """Guess the unit of each kind of measure in a table.

    values (N, R): measures, or the first rows of them; medians (R,): median of each region; kinds: (R,) what each
    region measures: ``volume``, ``thickness``, ``area``, . Returns unit by kind of measure.
    """
    units = {}
    for kind in sorted(set(kinds)):
        columns = np.array([name == kind for name in kinds])
        unit = guess_unit(values[:, columns], medians[columns])
        units[kind] = _UNITS_OF_MEASURES.get((kind, unit), unit)
    return units


def combine_units(units: Mapping[str, Unit]) -> Unit:
    """Return the unit of a whole table: mixed, if it has several kinds of measures that are not all standardised."""
    is_uniform = len(units) == 1 or set(units.values()) == {Unit.STANDARDISED}
    return next(iter(units.values())) if is_uniform else Unit.MIXED


def looks_like_centiles(medians: FloatArray, low: FloatArray, high: FloatArray) -> bool:
    """Return whether regions hold centiles, from 0 to 1 or to 100: median in the middle, both ends nearly reached.

    medians, low, high (R,): median, lowest and highest value of each region.
    """
    known = np.isfinite(medians)
    if not known.any():
        return False
    top = 1.0 if float(np.nanmax(high)) <= 1 else 100.0
    is_inside = bool((low[known] >= 0).all() and (high[known] <= top).all())
    spans = (high[known] - low[known]) / top
    return is_inside and 0.3 < float(np.median(medians[known])) / top < 0.7 and float(np.median(spans)) > 0.8


def is_model_unit(table_unit: str, model_unit: str) -> bool:
    """Return whether a table may have the unit of a model."""
    return table_unit == model_unit or Unit.UNKNOWN in (table_unit, model_unit)


def find_scale_outliers(values: FloatArray, medians: FloatArray) -> ScaleOutliers:
    """Find cells more than `OUTLIER_FACTOR` times above or below the median of their region.

    values (N, R): volumes; medians (R,): median of each region.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        off = (values / OUTLIER_FACTOR > medians) | ((values < medians / OUTLIER_FACTOR) & (values > 0))
    off &= medians > 0
    return ScaleOutliers(np.flatnonzero(off.any(axis=1)), np.flatnonzero(off.any(axis=0)), int(off.sum()))


def _looks_standardised(values: FloatArray, medians: FloatArray) -> bool:
    """Return whether regions are centred at 0 (z-scores, residuals) or at 1 with a spread of about 0.1."""
    sample = np.ma.masked_invalid(values[:2_000])
    if sample.count() == 0:
        return False
    if float((sample < 0).mean()) > 0.2:
        return True
    with np.errstate(over="ignore", invalid="ignore"):  # extreme values are reported as outliers, not here
        spreads = sample.std(axis=0).compressed()
    return bool(np.median(np.abs(medians - 1)) < 0.25 and spreads.size and np.median(spreads) < 0.3)

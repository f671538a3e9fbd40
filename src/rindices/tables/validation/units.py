"""In which unit a table is, guessed from magnitudes, and who does not fit the rest."""

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray

OUTLIER_FACTOR = 100.0  # nobody's region is a hundred times the usual one; another unit is


class Unit(StrEnum):
    """The unit of the regions of a table."""

    MM3 = "mm3"
    ML = "ml"
    NORMALISED = "normalised"
    STANDARDISED = "standardised"
    MM = "mm"
    MIXED = "mixed"
    UNKNOWN = "unknown"


class ScaleOutliers(NamedTuple):
    """Cells that are about a thousand times off: ``people`` and ``regions`` are indices."""

    people: IntArray
    regions: IntArray
    cells: int


def guess_unit(values: FloatArray, medians: FloatArray) -> Unit:
    """Guess the unit of volumes (N, R) from the medians (R,) of the regions.

    Single regions of the adult brain have 100 to 200,000 mm3, 0.1 to 200 ml, and 1e-5 to 0.1 of the intracranial
    volume. Values around 0, or around 1 with a spread of a tenth, were standardised before. Cortical thickness is 1
    to 5 mm in all regions alike, whereas volumes differ by far more than fivefold between regions.
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
        alike = finite.size >= 8 and finite.min() > 1 and finite.max() < 6 and finite.max() < 4 * finite.min()
        return Unit.MM if alike else Unit.ML
    return Unit.NORMALISED if typical > 1e-6 else Unit.UNKNOWN


def find_scale_outliers(values: FloatArray, medians: FloatArray) -> ScaleOutliers:
    """Find cells of (N, R) that are more than a hundred times above or below the region's median (R,)."""
    with np.errstate(invalid="ignore", over="ignore"):
        off = (values / OUTLIER_FACTOR > medians) | ((values < medians / OUTLIER_FACTOR) & (values > 0))
    off &= medians > 0
    return ScaleOutliers(np.flatnonzero(off.any(axis=1)), np.flatnonzero(off.any(axis=0)), int(off.sum()))


def _looks_standardised(values: FloatArray, medians: FloatArray) -> bool:
    """Return whether regions are centred at 0 (z-scores, residuals) or at 1 with a spread of about 0.1."""
    some = np.ma.masked_invalid(values[:2_000])
    if some.count() == 0:
        return False
    if float((some < 0).mean()) > 0.2:
        return True
    with np.errstate(over="ignore", invalid="ignore"):  # absurd magnitudes are reported as strays, not here
        spreads = some.std(axis=0).compressed()
    return bool(np.median(np.abs(medians - 1)) < 0.25 and spreads.size and np.median(spreads) < 0.3)

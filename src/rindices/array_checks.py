"""Checks of arrays that come from a file: what their values must be, by the name of the
array.

A model whose numbers pass these checks gives finite R-indices unless several of them
are extreme at once.
"""

import numpy as np

from rindices._typing import AnyArray

LARGEST_NUMBER = 1e30
"""No number of a model is larger; products of a few such numbers are still finite."""
SMALLEST_SCALE = 1e-30
"""No standard deviation is smaller, because values are divided by it."""
_SCALES = frozenset({"sd", "scale", "control_scale", "shift_scale", "error", "cn_std"})
_NOT_NEGATIVE = frozenset({"patterns_se", "distances", "members", "share", "limit"})
_COVARIANCES = frozenset({"covariance", "precision", "correlation"})
_ASCENDING = frozenset({"distances", "knots"})
_TOLERANCE = (
    1e-8  # relative to the largest variance; an empirical covariance may be singular
)


def find_array_fault(name: str, array: AnyArray) -> str:
    """Check the values of one array.

    name: name in the file. What must hold depends on the part after the last dot.
    Returns what is wrong, to be read after the name; empty if nothing is.
    """
    if not array.size:
        return ""
    field = name.rpartition(".")[2]
    low, high = float(array.min()), float(array.max())
    if not np.isfinite([low, high]).all():
        return "holds values that are not finite"
    if max(high, -low) > LARGEST_NUMBER:
        return f"holds values beyond {LARGEST_NUMBER:g}"
    if field in _SCALES and low < SMALLEST_SCALE:
        return f"should be positive, but its smallest value is {low:g}"
    if field in _NOT_NEGATIVE and low < 0:
        return f"should not be negative, but its smallest value is {low:g}"
    if field in _ASCENDING and (np.diff(array, axis=-1) < 0).any():
        return "should be in ascending order"
    if field in ("share", "limit") and high > 1:
        return f"should be at most 1, but is {high:g}"
    return _find_covariance_fault(array) if field in _COVARIANCES else ""


def find_interval_fault(low: AnyArray, middle: AnyArray, high: AnyArray) -> str:
    """Return what is wrong with the offsets (M, K) of calibrated intervals; empty if
    nothing is.
    """
    slack = _TOLERANCE * max(
        float(np.abs(low).max(initial=0)), float(np.abs(high).max(initial=0))
    )
    is_ordered = (low <= middle + slack).all() and (middle <= high + slack).all()
    return "" if is_ordered else "should lie between intervals.low and intervals.high"


def _find_covariance_fault(covariance: AnyArray) -> str:
    """Return what is wrong with a covariance (R, R); empty if it is symmetric and has
    no negative eigenvalue.
    """
    variances = np.diag(covariance)
    if variances.min() < SMALLEST_SCALE:
        return (
            f"should have positive variances, but the smallest is {variances.min():g}"
        )
    slack = _TOLERANCE * float(variances.max())
    if not np.allclose(covariance, covariance.T, rtol=_TOLERANCE, atol=slack):
        return "should be symmetric"
    try:
        np.linalg.cholesky(
            covariance.astype(np.float64) + slack * np.eye(len(covariance))
        )
    except np.linalg.LinAlgError:
        return "should be positive definite"
    return ""

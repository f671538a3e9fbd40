"""Log transform that makes proportional loss additive.

Disease takes a share of a region, so a large region loses more in control units (z-scores) than a small one. To any
linear method that difference is noise. The transform t(z) = log(1 + c z) / c turns equal shares into equal shifts. The
constant c is the coefficient of variation that regions would have if all loss were proportional. It is one number for
the table, chosen by likelihood, and 0 (the identity) where the data do not support it.
"""

from collections.abc import Sequence

import numpy as np

from rindices._typing import FloatArray

LOG_FLOOR = 0.1
"""Relative size of a region below which its tangent replaces the logarithm."""
IDENTITY_THRESHOLD = 1e-6
"""Values of c below this one count as 0."""
_MAX_SHARE = 0.3  # upper limit of c; the coefficient of variation of single brain regions is 0.05 to 0.25
_EPSILON = 1e-12


def apply_log_transform(z: FloatArray, share: float) -> FloatArray:
    """Return log(1 + c z) / c, with its tangent where 1 + c z < 0.1, or z itself for c = 0; ``share`` is c."""
    return z if share < IDENTITY_THRESHOLD else log_with_tangent(1.0 + share * z) / share


def log_with_tangent(relative_size: FloatArray) -> FloatArray:
    """Return the logarithm, with its tangent below 0.1. Works in place where all values are above 0.1."""
    if relative_size.min(initial=LOG_FLOOR) >= LOG_FLOOR:
        return np.log(relative_size, out=relative_size)
    clipped = np.maximum(relative_size, LOG_FLOOR)
    return np.asarray(np.log(clipped) + (relative_size - clipped) / LOG_FLOOR)


def invert_log_transform(t: FloatArray, share: float) -> FloatArray:
    """Invert `apply_log_transform`."""
    if share < IDENTITY_THRESHOLD:
        return t
    clipped = np.maximum(share * t, np.log(LOG_FLOOR))
    relative_size = np.exp(clipped) + (share * t - clipped) * LOG_FLOOR
    return np.asarray((relative_size - 1.0) / share)


def _compute_group_loss(z: FloatArray, share: float) -> float:
    """Return the negative profile log-likelihood of a group (N, R) whose regions are Gaussian after the transform."""
    if share < IDENTITY_THRESHOLD:
        return 0.5 * len(z) * float(np.log(z.var(axis=0) + _EPSILON).sum())
    relative_size = 1.0 + share * z
    clipped = np.maximum(relative_size, LOG_FLOOR)
    logs = np.log(clipped)
    shifts = logs if (relative_size >= LOG_FLOOR).all() else logs + (relative_size - clipped) / LOG_FLOOR
    variances = shifts.var(axis=0) / share**2
    return 0.5 * len(z) * float(np.log(variances + _EPSILON).sum()) + float(logs.sum())


def fit_log_transform(groups: Sequence[FloatArray]) -> float:
    """Choose c by the composite Box-Cox likelihood: regions closest to Gaussian within each group.

    Parameters
    ----------
    groups : sequence of (N, R)
        Controls and patients, in control units.

    Returns
    -------
    float
        c, or 0 if the identity is at least as likely.
    """
    from scipy.optimize import minimize_scalar  # imported here because applying a model needs numpy alone

    def compute_loss(share: float) -> float:
        return sum(_compute_group_loss(z, share) for z in groups)

    result = minimize_scalar(compute_loss, bounds=(0.0, _MAX_SHARE), method="bounded", options={"xatol": 2e-3})
    return float(result.x) if result.fun < compute_loss(0.0) else 0.0

"""Shares to shifts: disease takes a share of a region, so its change grows with the region's own size.

In control units (z-scores) a loss of a share moves a large region further than a small one, which is noise to any
linear method. The transform t(z) = log(1 + c z) / c turns equal shares into equal shifts; c is the coefficient of
variation that the regions would need to have for that: one number for the table, chosen by likelihood, and 0 (the
identity) where the data do not ask for it.
"""

from collections.abc import Sequence

import numpy as np

from rindices._typing import FloatArray

LOG_FLOOR = 0.1  # below a tenth of the region the logarithm is continued by its tangent
IDENTITY_THRESHOLD = 1e-6  # a smaller c is none
_MAX_SHARE = 0.3  # largest coefficient of variation considered; that of single brain regions is 0.05 to 0.25
_EPSILON = 1e-12


def apply_log_transform(z: FloatArray, share: float) -> FloatArray:
    """Return log(1 + c z) / c, continued by its tangent where 1 + c z < 0.1; the identity for c = 0."""
    return z if share < IDENTITY_THRESHOLD else log_with_tangent(1.0 + share * z) / share


def log_with_tangent(left: FloatArray) -> FloatArray:
    """Return the logarithm, continued by its tangent where less than 0.1 is left; in place where nowhere is."""
    if left.min(initial=LOG_FLOOR) >= LOG_FLOOR:  # nearly always
        return np.log(left, out=left)
    kept = np.maximum(left, LOG_FLOOR)
    return np.asarray(np.log(kept) + (left - kept) / LOG_FLOOR)


def invert_log_transform(t: FloatArray, share: float) -> FloatArray:
    """Undo `apply_log_transform`."""
    if share < IDENTITY_THRESHOLD:
        return t
    floor = np.log(LOG_FLOOR)
    kept = np.maximum(share * t, floor)
    left = np.exp(kept) + (share * t - kept) * LOG_FLOOR
    return np.asarray((left - 1.0) / share)


def _compute_group_loss(z: FloatArray, share: float) -> float:
    """Return the negative profile log-likelihood of a group (N, R) whose regions are Gaussian after the transform."""
    if share < IDENTITY_THRESHOLD:
        return 0.5 * len(z) * float(np.log(z.var(axis=0) + _EPSILON).sum())
    left = 1.0 + share * z
    kept = np.maximum(left, LOG_FLOOR)
    logs = np.log(kept)
    shifts = logs if (left >= LOG_FLOOR).all() else logs + (left - kept) / LOG_FLOOR
    variances = shifts.var(axis=0) / share**2
    return 0.5 * len(z) * float(np.log(variances + _EPSILON).sum()) + float(logs.sum())


def fit_log_transform(groups: Sequence[FloatArray]) -> float:
    """Return the c for which regions are most nearly Gaussian within each group (composite Box-Cox likelihood).

    Parameters
    ----------
    groups : sequence of (N, R)
        Controls and patients, in control units.
    """

    def loss(share: float) -> float:
        return sum(_compute_group_loss(z, share) for z in groups)

    from scipy.optimize import minimize_scalar  # here, so that applying a model needs numpy alone

    found = minimize_scalar(loss, bounds=(0.0, _MAX_SHARE), method="bounded", options={"xatol": 2e-3})
    return float(found.x) if found.fun < loss(0.0) else 0.0

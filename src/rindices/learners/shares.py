"""Shares to shifts: disease takes a share of a region, so its change grows with the region's own size.

In control units (z-scores) a loss of a share moves a large region further than a small one, which is noise to any
linear method. The transform t(z) = log(1 + c z) / c turns equal shares into equal shifts; c is the coefficient of
variation that the regions would need to have for that: one number for the table, chosen by likelihood, and 0 (the
identity) where the data do not ask for it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FLOOR = 0.1  # below a tenth of the region the logarithm is continued by its tangent
IDENTITY = 1e-6  # a smaller c is none
_LARGEST = 0.3  # largest coefficient of variation considered; that of single brain regions is 0.05 to 0.25
_TINY = 1e-12


def to_shifts(z: Floats, share: float) -> Floats:
    """Return log(1 + c z) / c, continued by its tangent where 1 + c z < 0.1; the identity for c = 0."""
    return z if share < IDENTITY else logs(1.0 + share * z) / share


def logs(left: Floats) -> Floats:
    """Return the logarithm, continued by its tangent where less than 0.1 is left; in place where nowhere is."""
    if left.min(initial=FLOOR) >= FLOOR:  # nearly always
        return np.log(left, out=left)
    kept = np.maximum(left, FLOOR)
    return np.asarray(np.log(kept) + (left - kept) / FLOOR)


def to_shares(t: Floats, share: float) -> Floats:
    """Undo `to_shifts`."""
    if share < IDENTITY:
        return t
    floor = np.log(FLOOR)
    kept = np.maximum(share * t, floor)
    left = np.exp(kept) + (share * t - kept) * FLOOR
    return np.asarray((left - 1.0) / share)


def _group_loss(z: Floats, share: float) -> float:
    """Return the negative profile log-likelihood of a group (N, R) whose regions are Gaussian after the transform."""
    if share < IDENTITY:
        return 0.5 * len(z) * float(np.log(z.var(axis=0) + _TINY).sum())
    left = 1.0 + share * z
    kept = np.maximum(left, FLOOR)
    logs = np.log(kept)
    shifts = logs if (left >= FLOOR).all() else logs + (left - kept) / FLOOR
    variances = shifts.var(axis=0) / share**2
    return 0.5 * len(z) * float(np.log(variances + _TINY).sum()) + float(logs.sum())


def proportionality(groups: Sequence[Floats]) -> float:
    """Return the c for which regions are most nearly Gaussian within each group (composite Box-Cox likelihood).

    Parameters
    ----------
    groups : sequence of (N, R)
        Controls and patients, in control units.
    """

    def loss(share: float) -> float:
        return sum(_group_loss(z, share) for z in groups)

    from scipy.optimize import minimize_scalar  # here, so that applying a model needs numpy alone

    found = minimize_scalar(loss, bounds=(0.0, _LARGEST), method="bounded", options={"xatol": 2e-3})
    return float(found.x) if found.fun < loss(0.0) else 0.0

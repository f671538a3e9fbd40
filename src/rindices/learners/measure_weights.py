"""Weights of several kinds of measures, such as thickness and volumes, in an index of all of them.

A table may hold 148 thicknesses and 21 volumes. Which kind tells patients from controls is not known beforehand, and a
kind without a difference adds noise to the index. The weight of a kind is the variance of its true differences (the
prior variance of empirical Bayes). Squared differences along the principal axes of a kind, in standard errors, are 1 on
average if the groups do not differ, so their mean minus 1 estimates that variance. Two standard errors of the mean are
subtracted, so that chance gives no weight. The largest weight is 1, and none is below `MIN_WEIGHT`: regions that do not
differ still help to remove the variation that they share with others.

Shape letters: R regions.
"""

import numpy as np

from rindices._typing import FloatArray, IntArray

MIN_WEIGHT = 0.1
"""Smallest weight of a kind of measures, relative to the largest."""
_N_ERRORS = 2.0  # standard errors that are subtracted


def compute_measure_weights(
    difference: FloatArray, error: float, correlation: FloatArray, kinds: IntArray
) -> FloatArray:
    """Return the weight of each region: that of its kind.

    Parameters
    ----------
    difference : (R,)
        Between the means of the groups, in standard deviations within groups.
    error : float
        Standard error of a difference.
    correlation : (R, R)
        Within groups; positive definite.
    kinds : (R,)
        Code of what each region measures, from 0.

    Returns
    -------
    (R,)
        From `MIN_WEIGHT` to 1. All are 1 if no kind exceeds what chance gives.
    """
    excess = np.zeros(int(kinds.max()) + 1)
    for kind in np.unique(kinds):
        rows = kinds == kind
        shift = difference[rows] / error
        mean_square = float(shift @ np.linalg.solve(correlation[np.ix_(rows, rows)], shift)) / len(shift)
        excess[kind] = max(mean_square - 1.0 - _N_ERRORS * np.sqrt(2.0 / len(shift)), 0.0)
    if not excess.any():
        return np.ones(len(kinds))
    return np.asarray(np.maximum(excess / excess.max(), MIN_WEIGHT)[kinds])

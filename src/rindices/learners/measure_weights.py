"""Weights of several kinds of measures, such as thickness and volumes, in an index of all of them.

A table may hold 148 thicknesses and 21 volumes. Which kind tells patients from controls is not known beforehand, and a
kind without a difference adds noise to the index. The weight of a kind is the variance of its true differences (the
prior variance of empirical Bayes): its mean squared t statistic minus 1, which is expected without any difference,
minus one standard error of that mean. The largest weight is 1, and none is below `MIN_WEIGHT`, since regions that do
not differ still help to remove variation that they share with others.

Shape letters: R regions.
"""

import numpy as np

from rindices._typing import FloatArray, IntArray

MIN_WEIGHT = 0.1
"""Smallest weight of a kind of measures, relative to the largest."""


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
        Within groups; the t statistics of correlated regions vary together.
    kinds : (R,)
        Code of what each region measures.

    Returns
    -------
    (R,)
        From `MIN_WEIGHT` to 1. All are 1 if no kind exceeds what chance gives.
    """
    squared_t = (difference / error) ** 2
    excess = np.zeros(int(kinds.max()) + 1)
    for kind in np.unique(kinds):
        rows = kinds == kind
        spread = np.sqrt(2.0 * np.square(correlation[np.ix_(rows, rows)]).sum()) / rows.sum()
        excess[kind] = max(squared_t[rows].mean() - 1.0 - spread, 0.0)
    if not excess.any():
        return np.ones(len(kinds))
    return np.asarray(np.maximum(excess / excess.max(), MIN_WEIGHT)[kinds])

"""How sure a consensus pattern is, from the spread of its members.

Shape letters: S members, Q severities, M patterns, R regions.
"""

import numpy as np
from scipy.stats import t

from rindices._typing import FloatArray


def compute_standard_error(members: FloatArray, share: float) -> FloatArray:
    """Return the standard error of the mean of members' patterns: (S, Q, M, R) -> (Q, M, R).

    Members that each see a share of the people are the draws of a delete-d jackknife: what one fit on all people would
    vary over other people is their own variance times share / (1 - share) (Shao and Wu, 1989). Members that all see
    everyone differ by their random streams alone; their spread is then that of one training, and says nothing about
    other people.

    Parameters
    ----------
    members : (S, Q, M, R)
        Aligned.
    share : float
        Of the people that each member sees.
    """
    factor = share / (1 - share) if share < 1 else 1.0
    return np.asarray(np.sqrt(factor * members.var(axis=0, ddof=1)))


def compute_confidence_interval(
    centre: FloatArray, error: FloatArray, n_members: int, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Return both ends of the confidence interval; the error is known to n_members - 1 degrees of freedom."""
    half = t.ppf((1 + level) / 2, n_members - 1) * error
    return centre - half, centre + half

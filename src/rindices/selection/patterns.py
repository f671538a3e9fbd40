"""Uncertainty of a consensus pattern, from the spread of its members.

Shape letters: S members, Q severities, M patterns, R regions.
"""

import numpy as np
from scipy.stats import t

from rindices._typing import FloatArray


def compute_standard_error(members: FloatArray, share: float) -> FloatArray:
    """Return the standard error of the mean of members' patterns.

    If each member sees a share of the people, members are the draws of a delete-d jackknife: the sampling variance of a
    fit on all people is the variance of the members times share / (1 - share) (Shao and Wu, 1989). If all members see
    everyone, they differ by their random streams alone, and the result is the spread of one training. It then says
    nothing about other samples of people.

    members (S, Q, M, R): patterns of the aligned members; share: share of the people that each member sees. Returns (Q,
    M, R).
    """
    factor = share / (1 - share) if share < 1 else 1.0
    return np.asarray(np.sqrt(factor * members.var(axis=0, ddof=1)))


def compute_confidence_interval(
    centre: FloatArray, error: FloatArray, n_members: int, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of Student's confidence interval with ``n_members - 1`` degrees of freedom."""
    half = t.ppf((1 + level) / 2, n_members - 1) * error
    return centre - half, centre + half

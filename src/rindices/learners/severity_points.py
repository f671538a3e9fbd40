"""Points of the severities z over which posterior distributions are summed.

Up to three patterns the points are a full grid, above that they are quasi-random (Sobol). Both are fixed, so results
do not depend on a seed. Shape letters: G points, M patterns, K steps of a curve.
"""

from functools import cache
from itertools import product

import numpy as np
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from rindices._typing import FloatArray

N_STEPS = 5
"""K, the number of equal steps of z in which a curve may change its direction."""
_LEVELS_BY_PATTERNS = {1: 60, 2: 21, 3: 11}
_LOG2_SOBOL_POINTS = 11
_SOBOL_SEED = 0
_MIN_DISTANCE = 1e-4  # of quasi-random points from 0 and 1, where the copula is not defined


@cache
def make_severity_points(n_patterns: int) -> FloatArray:
    """Return the points (G, M), each coordinate in the open interval from 0 to 1."""
    if n_levels := _LEVELS_BY_PATTERNS.get(n_patterns):
        levels = (np.arange(n_levels) + 0.5) / n_levels
        points = np.array(list(product(levels, repeat=n_patterns)))
    else:
        drawn = Sobol(n_patterns, scramble=True, rng=_SOBOL_SEED).random_base2(_LOG2_SOBOL_POINTS)
        points = np.clip(drawn, _MIN_DISTANCE, 1 - _MIN_DISTANCE)
    points.setflags(write=False)
    return points


def compute_step_basis(z: FloatArray, n_steps: int = N_STEPS) -> FloatArray:
    """Return how far each step has been taken at severities z, from 0 to 1.

    Step k begins at severity k / K and is complete at (k + 1) / K. The change of a region at z is the sum of its steps
    times this basis, a line of K straight pieces.

    Parameters
    ----------
    z : (G, M)
    n_steps : int
        K.

    Returns
    -------
    (G, M * K)
    """
    return np.clip(z[:, :, None] * n_steps - np.arange(n_steps), 0.0, 1.0).reshape(len(z), -1)


def compute_log_copula(z: FloatArray, correlation: FloatArray) -> FloatArray:
    """Return the log density (G,) of a Gaussian copula with correlations (M, M) at points z (G, M)."""
    normal = ndtri(z)
    excess = np.linalg.inv(correlation) - np.eye(len(correlation))
    return np.asarray(-0.5 * (((normal @ excess) * normal).sum(axis=1) + np.linalg.slogdet(correlation)[1]))

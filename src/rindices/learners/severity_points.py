"""Points of the severities z over which posterior distributions are summed.

Up to five patterns the points are a full grid, above that they are quasi-random. Both are fixed, so results do not
depend on a seed. This module needs numpy alone, because applying a model does.
Shape letters: G points, M patterns, K steps of a curve.
"""

from functools import cache
from itertools import product
from statistics import NormalDist

import numpy as np

from rindices._typing import FloatArray

N_STEPS = 5
"""K, the number of equal steps of z in which a curve may change its direction."""
_LEVELS_BY_PATTERNS = {1: 60, 2: 21, 3: 11, 4: 8, 5: 6}


def make_severity_levels(n_patterns: int) -> FloatArray | None:
    """Return the levels (L,) of each coordinate of the grid; None where the points are quasi-random."""
    n_levels = _LEVELS_BY_PATTERNS.get(n_patterns)
    return None if n_levels is None else (np.arange(n_levels) + 0.5) / n_levels


@cache
def make_severity_points(n_patterns: int) -> FloatArray:
    """Return the points (G, M), each coordinate in the open interval from 0 to 1.

    The quasi-random points are a Kronecker sequence: multiples, modulo 1, of powers of the root of x^(M+1) = x + 1.
    Their number doubles with each pattern.
    """
    levels = make_severity_levels(n_patterns)
    if levels is not None:
        points = np.array(list(product(levels, repeat=n_patterns)))
    else:
        root = 2.0
        for _ in range(100):
            root = (1.0 + root) ** (1.0 / (n_patterns + 1))
        multiples = np.arange(1, 2 ** (7 + n_patterns) + 1)[:, None] * root ** -np.arange(1.0, n_patterns + 1)
        points = np.clip((0.5 + multiples) % 1.0, 1e-6, 1.0 - 1e-6)
    points.setflags(write=False)
    return points


@cache
def make_normal_points(n_patterns: int) -> FloatArray:
    """Return the points (G, M) as quantiles of the standard normal distribution."""
    levels, positions = np.unique(make_severity_points(n_patterns), return_inverse=True)
    quantiles = np.array([NormalDist().inv_cdf(level) for level in levels.tolist()])
    normal = quantiles[positions].reshape(-1, n_patterns)
    normal.setflags(write=False)
    return normal


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


@cache
def make_point_basis(n_patterns: int, n_steps: int = N_STEPS) -> FloatArray:
    """Return the basis (G, M * K) at the points of M patterns."""
    basis = compute_step_basis(make_severity_points(n_patterns), n_steps)
    basis.setflags(write=False)
    return basis


def compute_growth(z: FloatArray, interaction: FloatArray) -> FloatArray:
    """Return the factor by which the other patterns multiply the change of each pattern.

    Parameters
    ----------
    z : (G, M)
    interaction : (M, M)
        Entry [k, m] is the relative increase of the change of pattern k at full severity of pattern m; the diagonal
        is 0.

    Returns
    -------
    (G, M)
    """
    return np.asarray(1.0 + z @ interaction.T)


def compute_log_copula(correlation: FloatArray) -> FloatArray:
    """Return the log density (G,) of a Gaussian copula with correlations (M, M) at the points of M patterns."""
    normal = make_normal_points(len(correlation))
    excess = np.linalg.inv(correlation) - np.eye(len(correlation))
    return np.asarray(-0.5 * (((normal @ excess) * normal).sum(axis=1) + np.linalg.slogdet(correlation)[1]))

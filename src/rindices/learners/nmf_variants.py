"""Two relatives of NMF that no maintained package offers: opNMF and DNMF.

Shape letters: N people, R regions, M patterns. Pure functions; the estimators
that wrap them are in `rindices.learners.baselines`.

References
----------
Yang Z, Oja E (2010). Linear and nonlinear projective nonnegative matrix
factorization. IEEE Trans Neural Netw 21(5). (opNMF, its equation for W)

Zafeiriou S et al. (2006). Exploiting discriminant information in nonnegative
matrix factorization. IEEE Trans Neural Netw 17(3). Kotsia I, Zafeiriou S,
Pitas I (2007). IEEE Trans Inf Forensics Secur 2(3). (DNMF, its penalty)

Pompili F et al. (2014). Two algorithms for orthogonal nonnegative matrix
factorization. Neurocomputing 141. (orthogonality as an assignment)
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DiscriminantFactors",
    "OrthogonalFactor",
    "discriminant_nmf",
    "nndsvd",
    "orthogonal_nmf",
    "projection_error",
    "yang_oja_update",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

TINY = 1e-300
HALVINGS = 12


class OrthogonalFactor(NamedTuple):
    """Outcome of `orthogonal_nmf`.

    Attributes
    ----------
    factor : ndarray of shape (R, M)
        W >= 0 with W'W = I.
    errors : ndarray
        ``projection_error`` after each iteration with orthonormal W; never grows.
    relaxed_errors : ndarray
        The same for the start by the multiplicative rule; never grows.
    converged : bool
        Whether both stages stopped by themselves.
    """

    factor: Floats
    errors: Floats
    relaxed_errors: Floats
    converged: bool


class DiscriminantFactors(NamedTuple):
    """Outcome of `discriminant_nmf`.

    Attributes
    ----------
    coefficients : ndarray of shape (N, M)
    components : ndarray of shape (M, R)
        Rows of length 1.
    converged : bool
    """

    coefficients: Floats
    components: Floats
    converged: bool


def projection_error(gram: Floats, factor: Floats) -> float:
    """Share of X that the projection WW'X leaves out, ||X - WW'X||^2 / ||X||^2.

    Parameters
    ----------
    gram : ndarray of shape (R, R)
        XX', regions in the rows of X.
    factor : ndarray of shape (R, M)
        W.
    """
    projected = factor.T @ gram @ factor
    total = float(np.trace(gram))
    left = total - 2 * np.trace(projected) + np.sum((factor.T @ factor) * projected)
    return float(left) / total


def yang_oja_update(gram: Floats, factor: Floats) -> Floats:
    """Apply the published rule once: W <- W * (XX'W) / (WW'XX'W).

    Parameters
    ----------
    gram : ndarray of shape (R, R)
        XX'.
    factor : ndarray of shape (R, M)
        W.

    Returns
    -------
    ndarray of shape (R, M)
    """
    return factor * _ratio(gram, factor)


def orthogonal_nmf(gram: Floats, start: Floats, max_iter: int = 5000, tol: float = 1e-8) -> OrthogonalFactor:
    """Nonnegative orthonormal W that makes ||X - WW'X|| small (opNMF).

    Two stages. The multiplicative rule of Yang and Oja descends from `start`,
    a step that would raise the error being damped. Its fixed point is not
    orthonormal on data with a strong common factor, such as brains (columns
    overlap by 0.1 to 0.3), since nothing in the rule keeps two columns off the
    same region. So the second stage holds W'W = I exactly: every region belongs
    to the column that explains it best, and within its regions a column follows
    the same rule, which there is the power iteration. Both halves of such a step
    minimise the error, so the error falls until no region moves.

    Parameters
    ----------
    gram : ndarray of shape (R, R)
        XX', nonnegative and not all zero.
    start : ndarray of shape (R, M)
        Nonnegative, M <= R; `nndsvd` makes one.
    max_iter : int
        Cap on the iterations of each stage.
    tol : float
        A stage stops when an iteration lowers the error, a share of ||X||^2, by less.

    Returns
    -------
    OrthogonalFactor
    """
    relaxed, relaxed_errors, settled = _relaxed_stage(gram, start, max_iter, tol)
    factor, errors, converged = _orthonormal_stage(gram, relaxed, max_iter, tol)
    return OrthogonalFactor(factor, np.array(errors), np.array(relaxed_errors), settled and converged)


def _relaxed_stage(gram: Floats, start: Floats, max_iter: int, tol: float) -> tuple[Floats, list[float], bool]:
    """Yang and Oja's rule, damped, until the error stands still."""
    factor = _best_scale(gram, start)
    errors = [projection_error(gram, factor)]
    for _ in range(max_iter):
        moved, error = _damped_update(gram, factor, errors[-1])
        if error > errors[-1] - tol:
            return factor, errors, True
        factor = moved
        errors.append(error)
    return factor, errors, False


def _damped_update(gram: Floats, factor: Floats, error: float) -> tuple[Floats, float]:
    """Take the multiplicative step, weakened until it does not raise the error."""
    ratio = _ratio(gram, factor)
    for halving in range(HALVINGS):
        moved = factor * ratio ** (0.5**halving)
        moved_error = projection_error(gram, moved)
        if moved_error <= error:
            return moved, moved_error
    return factor, error


def _ratio(gram: Floats, factor: Floats) -> Floats:
    """(XX'W) / (WW'XX'W), and 1 where both vanish."""
    above = gram @ factor
    below = factor @ (factor.T @ above)
    return np.where(below > TINY, above / np.maximum(below, TINY), 1.0)


def _best_scale(gram: Floats, factor: Floats) -> Floats:
    """Multiply W by the one number that makes its projection error least."""
    projected = factor.T @ gram @ factor
    squared = np.trace(projected) / max(float(np.sum((factor.T @ factor) * projected)), TINY)
    return factor * float(np.sqrt(squared))


def _orthonormal_stage(gram: Floats, relaxed: Floats, max_iter: int, tol: float) -> tuple[Floats, list[float], bool]:
    """Alternate between assigning regions to columns and refitting the columns."""
    factor = _disjoint(gram, relaxed, gram @ relaxed, relaxed.argmax(axis=1))
    errors = [projection_error(gram, factor)]
    for _ in range(max_iter):
        pull = gram @ factor
        explained = _explained(factor, pull)
        moved = _disjoint(gram, factor, pull, explained.argmax(axis=1))
        error = projection_error(gram, moved)
        if error > errors[-1] - tol:
            return factor, errors, True
        factor = moved
        errors.append(error)
    return factor, errors, False


def _explained(factor: Floats, pull: Floats) -> Floats:
    """Sum of squares of region i that column k explains, (R, M)."""
    strength = np.sum(factor * pull, axis=0)
    return np.asarray(pull**2 / np.maximum(strength, TINY), dtype=np.float64)


def _disjoint(gram: Floats, factor: Floats, pull: Floats, owner: Integers) -> Floats:
    """Orthonormal W: region i only in column owner[i], weighted by its pull there."""
    rows = np.arange(len(pull))
    moved = np.zeros_like(pull)
    moved[rows, owner] = pull[rows, owner]
    unexplained = np.diag(gram) - _explained(factor, pull)[rows, owner]
    for empty in np.flatnonzero(~moved.any(axis=0)):
        worst = _spare_region(moved, unexplained)
        moved[worst] = 0.0
        moved[worst, empty] = 1.0
    return np.asarray(moved / np.linalg.norm(moved, axis=0), dtype=np.float64)


def _spare_region(factor: Floats, unexplained: Floats) -> int:
    """Worst explained region that is not the last one of its column."""
    alone = factor.astype(bool).sum(axis=0) == 1
    last_of_its_column = (factor.astype(bool) & alone).any(axis=1)
    return int(np.argmax(np.where(last_of_its_column, -np.inf, unexplained)))


def nndsvd(data: Floats, n_patterns: int, rng: np.random.Generator) -> Floats:
    """Nonnegative start from the singular vectors (Boutsidis and Gallopoulos 2008).

    Parameters
    ----------
    data : ndarray of shape (R, N)
        Nonnegative.
    n_patterns : int
    rng : numpy Generator
        Fills the columns beyond the rank of `data`, which have no singular vector.

    Returns
    -------
    ndarray of shape (R, M)
    """
    left, strength, right = np.linalg.svd(data, full_matrices=False)
    rank = int(np.sum(strength > strength[0] * 1e-10))
    factor = rng.random((len(data), n_patterns)) / len(data)
    for k in range(min(rank, n_patterns)):
        factor[:, k] = np.sqrt(strength[k]) * _nonnegative_half(left[:, k], right[k])
    return factor


def _nonnegative_half(left: Floats, right: Floats) -> Floats:
    """Positive or negative part of a singular pair's left vector, the heavier one."""
    halves = [(np.maximum(s * left, 0), np.maximum(s * right, 0)) for s in (1.0, -1.0)]
    lengths = [(np.linalg.norm(u), np.linalg.norm(v)) for u, v in halves]
    weights = [float(a * b) for a, b in lengths]
    best = int(np.argmax(weights))
    length = max(float(lengths[best][0]), TINY)
    return np.asarray(halves[best][0] * (np.sqrt(weights[best]) / length), dtype=np.float64)


def discriminant_nmf(
    data: Floats,
    labels: Integers,
    n_patterns: int,
    rng: np.random.Generator,
    within: float = 0.1,
    between: float = 0.1,
    max_iter: int = 500,
    tol: float = 1e-5,
) -> DiscriminantFactors:
    """NMF whose coefficients also tell two groups apart (DNMF).

    Minimises ||X - HW||^2 + within * tr(S_w) - between * tr(S_b) over H, W >= 0,
    where S_w and S_b are the scatter of the rows of H within and between groups,
    and the rows of W have length 1, without which the penalty could be dodged by
    scaling. With P the averaging within groups and Q the averaging over all,
    tr(S_w) = tr(H'(I - P)H) and tr(S_b) = tr(H'(P - Q)H), so the multiplicative
    rule puts the terms with a minus, (within + between) PH, above the line.

    Parameters
    ----------
    data : ndarray of shape (N, R)
        X, nonnegative.
    labels : ndarray of shape (N,)
        0 or 1.
    n_patterns : int
    rng : numpy Generator
        Draws the start.
    within, between : float
        Weights gamma and delta of the scatters; `between` < 1 keeps the
        objective bounded from below.
    max_iter : int
    tol : float
        Stops when the coefficients move by less than this share of their length.

    Returns
    -------
    DiscriminantFactors
    """
    size = np.sqrt(max(float(data.mean()), TINY) / n_patterns)
    coefficients = size * (0.5 + rng.random((len(data), n_patterns)))
    components = size * (0.5 + rng.random((n_patterns, data.shape[1])))
    for _ in range(max_iter):
        before = coefficients
        coefficients = _discriminant_step(data, labels, coefficients, components, within, between)
        components = _component_step(data, coefficients, components)
        coefficients, components = _unit_rows(coefficients, components)
        if np.linalg.norm(coefficients - before) < tol * np.linalg.norm(before):
            return DiscriminantFactors(coefficients, components, True)
    return DiscriminantFactors(coefficients, components, False)


def _discriminant_step(data: Floats, labels: Integers, h: Floats, w: Floats, within: float, between: float) -> Floats:
    """Multiplicative step for H (N, M), data term and both scatters."""
    above = data @ w.T + (within + between) * _group_means(h, labels)
    below = h @ (w @ w.T) + within * h + between * h.mean(axis=0)
    return np.asarray(h * above / np.maximum(below, TINY), dtype=np.float64)


def _component_step(data: Floats, h: Floats, w: Floats) -> Floats:
    """Lee and Seung's multiplicative step for W (M, R)."""
    return np.asarray(w * (h.T @ data) / np.maximum((h.T @ h) @ w, TINY), dtype=np.float64)


def _group_means(h: Floats, labels: Integers) -> Floats:
    """Give everyone the mean of their group, (N, M) -> (N, M)."""
    means = np.stack([h[labels == group].mean(axis=0) for group in (0, 1)])
    return np.asarray(means[labels], dtype=np.float64)


def _unit_rows(h: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Scale rows of W to length 1 and H with them, leaving HW as it is."""
    length = np.maximum(np.linalg.norm(w, axis=1), TINY)
    return h * length, w / length[:, None]

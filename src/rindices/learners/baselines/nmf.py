"""Two relatives of NMF that no maintained package offers: opNMF and DNMF.

Shape letters: N people, R regions, M patterns. Pure functions; the estimators
that wrap them are in `rindices.learners.baselines.decompositions`.

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

from rindices._typing import FloatArray, IntArray

__all__ = [
    "DiscriminantFactors",
    "OrthogonalFactor",
    "apply_yang_oja_update",
    "discriminant_nmf",
    "initialise_nndsvd",
    "orthogonal_nmf",
    "projection_error",
]


EPSILON = 1e-300
MAX_HALVINGS = 12


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

    factor: FloatArray
    errors: FloatArray
    relaxed_errors: FloatArray
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

    coefficients: FloatArray
    components: FloatArray
    converged: bool


def projection_error(gram: FloatArray, factor: FloatArray) -> float:
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


def apply_yang_oja_update(gram: FloatArray, factor: FloatArray) -> FloatArray:
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
    return factor * _compute_update_ratio(gram, factor)


def orthogonal_nmf(gram: FloatArray, start: FloatArray, max_iter: int = 5000, tol: float = 1e-8) -> OrthogonalFactor:
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
        Nonnegative, M <= R; `initialise_nndsvd` makes one.
    max_iter : int
        Cap on the iterations of each stage.
    tol : float
        A stage stops when an iteration lowers the error, a share of ||X||^2, by less.

    Returns
    -------
    OrthogonalFactor
    """
    relaxed, relaxed_errors, settled = _run_relaxed_stage(gram, start, max_iter, tol)
    factor, errors, converged = _run_orthonormal_stage(gram, relaxed, max_iter, tol)
    return OrthogonalFactor(factor, np.array(errors), np.array(relaxed_errors), settled and converged)


def _run_relaxed_stage(
    gram: FloatArray, start: FloatArray, max_iter: int, tol: float
) -> tuple[FloatArray, list[float], bool]:
    """Yang and Oja's rule, damped, until the error stands still."""
    factor = _rescale_factor(gram, start)
    errors = [projection_error(gram, factor)]
    for _ in range(max_iter):
        moved, error = _apply_damped_update(gram, factor, errors[-1])
        if error > errors[-1] - tol:
            return factor, errors, True
        factor = moved
        errors.append(error)
    return factor, errors, False


def _apply_damped_update(gram: FloatArray, factor: FloatArray, error: float) -> tuple[FloatArray, float]:
    """Take the multiplicative step, weakened until it does not raise the error."""
    ratio = _compute_update_ratio(gram, factor)
    for halving in range(MAX_HALVINGS):
        moved = factor * ratio ** (0.5**halving)
        moved_error = projection_error(gram, moved)
        if moved_error <= error:
            return moved, moved_error
    return factor, error


def _compute_update_ratio(gram: FloatArray, factor: FloatArray) -> FloatArray:
    """(XX'W) / (WW'XX'W), and 1 where both vanish."""
    above = gram @ factor
    below = factor @ (factor.T @ above)
    return np.where(below > EPSILON, above / np.maximum(below, EPSILON), 1.0)


def _rescale_factor(gram: FloatArray, factor: FloatArray) -> FloatArray:
    """Multiply W by the one number that makes its projection error least."""
    projected = factor.T @ gram @ factor
    squared = np.trace(projected) / max(float(np.sum((factor.T @ factor) * projected)), EPSILON)
    return factor * float(np.sqrt(squared))


def _run_orthonormal_stage(
    gram: FloatArray, relaxed: FloatArray, max_iter: int, tol: float
) -> tuple[FloatArray, list[float], bool]:
    """Alternate between assigning regions to columns and refitting the columns."""
    factor = _build_disjoint_factor(gram, relaxed, gram @ relaxed, relaxed.argmax(axis=1))
    errors = [projection_error(gram, factor)]
    for _ in range(max_iter):
        pull = gram @ factor
        explained = _compute_explained_squares(factor, pull)
        moved = _build_disjoint_factor(gram, factor, pull, explained.argmax(axis=1))
        error = projection_error(gram, moved)
        if error > errors[-1] - tol:
            return factor, errors, True
        factor = moved
        errors.append(error)
    return factor, errors, False


def _compute_explained_squares(factor: FloatArray, pull: FloatArray) -> FloatArray:
    """Sum of squares of region i that column k explains, (R, M)."""
    strength = np.sum(factor * pull, axis=0)
    return np.asarray(pull**2 / np.maximum(strength, EPSILON), dtype=np.float64)


def _build_disjoint_factor(gram: FloatArray, factor: FloatArray, pull: FloatArray, owner: IntArray) -> FloatArray:
    """Orthonormal W: region i only in column owner[i], weighted by its pull there."""
    rows = np.arange(len(pull))
    moved = np.zeros_like(pull)
    moved[rows, owner] = pull[rows, owner]
    unexplained = np.diag(gram) - _compute_explained_squares(factor, pull)[rows, owner]
    for empty in np.flatnonzero(~moved.any(axis=0)):
        worst = _find_spare_region(moved, unexplained)
        moved[worst] = 0.0
        moved[worst, empty] = 1.0
    return np.asarray(moved / np.linalg.norm(moved, axis=0), dtype=np.float64)


def _find_spare_region(factor: FloatArray, unexplained: FloatArray) -> int:
    """Worst explained region that is not the last one of its column."""
    alone = factor.astype(bool).sum(axis=0) == 1
    last_of_its_column = (factor.astype(bool) & alone).any(axis=1)
    return int(np.argmax(np.where(last_of_its_column, -np.inf, unexplained)))


def initialise_nndsvd(data: FloatArray, n_patterns: int, rng: np.random.Generator) -> FloatArray:
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
        factor[:, k] = np.sqrt(strength[k]) * _select_nonnegative_part(left[:, k], right[k])
    return factor


def _select_nonnegative_part(left: FloatArray, right: FloatArray) -> FloatArray:
    """Positive or negative part of a singular pair's left vector, the heavier one."""
    halves = [(np.maximum(s * left, 0), np.maximum(s * right, 0)) for s in (1.0, -1.0)]
    lengths = [(np.linalg.norm(u), np.linalg.norm(v)) for u, v in halves]
    weights = [float(a * b) for a, b in lengths]
    best = int(np.argmax(weights))
    length = max(float(lengths[best][0]), EPSILON)
    return np.asarray(halves[best][0] * (np.sqrt(weights[best]) / length), dtype=np.float64)


def discriminant_nmf(
    data: FloatArray,
    labels: IntArray,
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
    size = np.sqrt(max(float(data.mean()), EPSILON) / n_patterns)
    coefficients = size * (0.5 + rng.random((len(data), n_patterns)))
    components = size * (0.5 + rng.random((n_patterns, data.shape[1])))
    for _ in range(max_iter):
        before = coefficients
        coefficients = _update_coefficients(data, labels, coefficients, components, within, between)
        components = _update_components(data, coefficients, components)
        coefficients, components = _normalise_rows(coefficients, components)
        if np.linalg.norm(coefficients - before) < tol * np.linalg.norm(before):
            return DiscriminantFactors(coefficients, components, True)
    return DiscriminantFactors(coefficients, components, False)


def _update_coefficients(
    data: FloatArray, labels: IntArray, h: FloatArray, w: FloatArray, within: float, between: float
) -> FloatArray:
    """Multiplicative step for H (N, M), data term and both scatters."""
    above = data @ w.T + (within + between) * _broadcast_group_means(h, labels)
    below = h @ (w @ w.T) + within * h + between * h.mean(axis=0)
    return np.asarray(h * above / np.maximum(below, EPSILON), dtype=np.float64)


def _update_components(data: FloatArray, h: FloatArray, w: FloatArray) -> FloatArray:
    """Lee and Seung's multiplicative step for W (M, R)."""
    return np.asarray(w * (h.T @ data) / np.maximum((h.T @ h) @ w, EPSILON), dtype=np.float64)


def _broadcast_group_means(h: FloatArray, labels: IntArray) -> FloatArray:
    """Give everyone the mean of their group, (N, M) -> (N, M)."""
    means = np.stack([h[labels == group].mean(axis=0) for group in (0, 1)])
    return np.asarray(means[labels], dtype=np.float64)


def _normalise_rows(h: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale rows of W to length 1 and H with them, leaving HW as it is."""
    length = np.maximum(np.linalg.norm(w, axis=1), EPSILON)
    return h * length, w / length[:, None]

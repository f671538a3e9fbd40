"""Two variants of NMF that no maintained package offers: opNMF and DNMF.

Shape letters: N people, R regions, M patterns. The estimators are in
`benchmarks.suites.baselines.decompositions`.

References
----------
Yang Z, Oja E (2010). Linear and nonlinear projective nonnegative matrix factorization.
IEEE Trans Neural Netw 21(5). (opNMF, its equation for W)

Zafeiriou S et al. (2006). Exploiting discriminant information in nonnegative matrix
factorization. IEEE Trans Neural Netw 17(3). Kotsia I, Zafeiriou S, Pitas I (2007). IEEE
Trans Inf Forensics Secur 2(3). (DNMF, its penalty)

Pompili F et al. (2014). Two algorithms for orthogonal nonnegative matrix factorization.
Neurocomputing 141. (orthogonality as an assignment)
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray

_EPSILON = 1e-300
_MAX_HALVINGS = 12


class OrthogonalFactor(NamedTuple):
    """Result of `orthogonal_nmf`.

    Attributes
    ----------
    factor : ndarray of shape (R, M)
        W >= 0 with W'W = I.
    errors : ndarray
        Projection error after each iteration of the orthonormal stage; never grows.
    relaxed_errors : ndarray
        The same for the relaxed stage, which runs first.
    converged : bool
        Whether both stages stopped before ``max_iter``.
    """

    factor: FloatArray
    errors: FloatArray
    relaxed_errors: FloatArray
    converged: bool


class DiscriminantFactors(NamedTuple):
    """Result of `discriminant_nmf`.

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


def _compute_projection_error(gram: FloatArray, factor: FloatArray) -> float:
    """Return ||X - WW'X||^2 / ||X||^2 from XX' (R, R) and W (R, M)."""
    projected = factor.T @ gram @ factor
    total = float(np.trace(gram))
    error = total - 2 * np.trace(projected) + np.sum((factor.T @ factor) * projected)
    return float(error) / total


def orthogonal_nmf(
    gram: FloatArray, start: FloatArray, max_iter: int = 5000, tol: float = 1e-8
) -> OrthogonalFactor:
    """Find a nonnegative orthonormal W with a small ||X - WW'X|| (opNMF).

    There are two stages. The first applies the multiplicative update of Yang and Oja,
    damped where it would raise the error. On data with a strong common factor, such as
    brains, its fixed point is not orthonormal (columns overlap by 0.1 to 0.3), since
    nothing keeps two columns off the same region. The second stage keeps W'W = I
    exactly: every region belongs to the column that explains it best, and within its
    regions a column follows the same update, which is then the power iteration. Both
    halves of such a step minimise the error, so it falls until no region moves.

    Parameters
    ----------
    gram : ndarray of shape (R, R)
        XX', nonnegative and not all zero.
    start : ndarray of shape (R, M)
        Nonnegative, M <= R, for instance from `initialise_nndsvd`.
    max_iter : int
        Limit on the iterations of each stage.
    tol : float
        A stage stops when an iteration lowers the relative error by less.

    Returns
    -------
    OrthogonalFactor
    """
    factor = _rescale_factor(gram, start)
    factor, relaxed_errors, relaxed_converged = _minimise_error(
        gram, factor, _apply_damped_update, max_iter, tol
    )
    factor = _build_disjoint_factor(gram, factor, gram @ factor, factor.argmax(axis=1))
    factor, errors, converged = _minimise_error(
        gram, factor, _reassign_regions, max_iter, tol
    )
    return OrthogonalFactor(
        factor, errors, relaxed_errors, relaxed_converged and converged
    )


def _minimise_error(
    gram: FloatArray,
    factor: FloatArray,
    update: Callable[[FloatArray, FloatArray], FloatArray],
    max_iter: int,
    tol: float,
) -> tuple[FloatArray, FloatArray, bool]:
    """Apply an update until the error no longer falls; return W, the errors and whether
    it stopped before the limit.
    """
    errors = [_compute_projection_error(gram, factor)]
    for _ in range(max_iter):
        updated = update(gram, factor)
        error = _compute_projection_error(gram, updated)
        if error > errors[-1] - tol:
            return factor, np.array(errors), True
        factor = updated
        errors.append(error)
    return factor, np.array(errors), False


def _apply_damped_update(gram: FloatArray, factor: FloatArray) -> FloatArray:
    """Apply the multiplicative update of Yang and Oja, damped until it does not raise
    the error.
    """
    error = _compute_projection_error(gram, factor)
    ratio = _compute_update_ratio(gram, factor)
    for halving in range(_MAX_HALVINGS):
        updated = factor * ratio ** (0.5**halving)
        if _compute_projection_error(gram, updated) <= error:
            return updated
    return factor


def _compute_update_ratio(gram: FloatArray, factor: FloatArray) -> FloatArray:
    """Return the published factor of the update, (XX'W) / (WW'XX'W), and 1 where both
    are zero.
    """
    numerator = gram @ factor
    denominator = factor @ (factor.T @ numerator)
    return np.where(
        denominator > _EPSILON, numerator / np.maximum(denominator, _EPSILON), 1.0
    )


def _rescale_factor(gram: FloatArray, factor: FloatArray) -> FloatArray:
    """Multiply W by the number that minimises its projection error."""
    projected = factor.T @ gram @ factor
    squared_scale = np.trace(projected) / max(
        float(np.sum((factor.T @ factor) * projected)), _EPSILON
    )
    return factor * float(np.sqrt(squared_scale))


def _reassign_regions(gram: FloatArray, factor: FloatArray) -> FloatArray:
    """Assign each region to the column that explains it best, and refit the columns."""
    product = gram @ factor
    explained = _compute_explained_squares(factor, product)
    return _build_disjoint_factor(gram, factor, product, explained.argmax(axis=1))


def _compute_explained_squares(factor: FloatArray, product: FloatArray) -> FloatArray:
    """Return the sum of squares of region i that column k explains, (R, M); ``product``
    is XX'W.
    """
    strength = np.sum(factor * product, axis=0)
    return np.asarray(product**2 / np.maximum(strength, _EPSILON), dtype=np.float64)


def _build_disjoint_factor(
    gram: FloatArray, factor: FloatArray, product: FloatArray, column: IntArray
) -> FloatArray:
    """Return an orthonormal W with region i only in column[i], weighted by ``product``
    XX'W.
    """
    rows = np.arange(len(product))
    disjoint = np.zeros_like(product)
    disjoint[rows, column] = product[rows, column]
    unexplained = (
        np.diag(gram) - _compute_explained_squares(factor, product)[rows, column]
    )
    for empty in np.flatnonzero(~disjoint.any(axis=0)):
        region = _find_spare_region(disjoint, unexplained)
        disjoint[region] = 0.0
        disjoint[region, empty] = 1.0
    return np.asarray(disjoint / np.linalg.norm(disjoint, axis=0), dtype=np.float64)


def _find_spare_region(factor: FloatArray, unexplained: FloatArray) -> int:
    """Return the worst explained region that is not the only one of its column."""
    single = factor.astype(bool).sum(axis=0) == 1
    only_of_its_column = (factor.astype(bool) & single).any(axis=1)
    return int(np.argmax(np.where(only_of_its_column, -np.inf, unexplained)))


def initialise_nndsvd(
    data: FloatArray, n_patterns: int, rng: np.random.Generator
) -> FloatArray:
    """Compute a nonnegative start from the singular vectors (Boutsidis and Gallopoulos
    2008).

    Parameters
    ----------
    data : ndarray of shape (R, N)
        Nonnegative.
    n_patterns : int
    rng : numpy Generator
        Fills columns beyond the rank of `data`.

    Returns
    -------
    ndarray of shape (R, M)
    """
    left, singular_values, right = np.linalg.svd(data, full_matrices=False)
    rank = int(np.sum(singular_values > singular_values[0] * 1e-10))
    factor = rng.random((len(data), n_patterns)) / len(data)
    for k in range(min(rank, n_patterns)):
        factor[:, k] = np.sqrt(singular_values[k]) * _select_nonnegative_part(
            left[:, k], right[k]
        )
    return factor


def _select_nonnegative_part(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the positive or the negative part of a left singular vector, whichever has
    more weight.
    """
    parts = [(np.maximum(s * left, 0), np.maximum(s * right, 0)) for s in (1.0, -1.0)]
    lengths = [(np.linalg.norm(u), np.linalg.norm(v)) for u, v in parts]
    weights = [float(a * b) for a, b in lengths]
    best = int(np.argmax(weights))
    length = max(float(lengths[best][0]), _EPSILON)
    return np.asarray(
        parts[best][0] * (np.sqrt(weights[best]) / length), dtype=np.float64
    )


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
    """Factorise with coefficients that also separate two groups (DNMF).

    Minimises ||X - HW||^2 + within * tr(S_w) - between * tr(S_b) over H, W >= 0, where
    S_w and S_b are the scatter of the rows of H within and between groups. The rows of
    W have length 1; otherwise scaling would avoid the penalty. With P the averaging
    within groups and Q the averaging over all, tr(S_w) = tr(H'(I - P)H) and tr(S_b) =
    tr(H'(P - Q)H), so the terms with a minus, (within + between) PH, are in the
    numerator of the multiplicative update.

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
        Weights gamma and delta of the scatters; the objective is bounded from below for
        `between` < 1.
    max_iter : int
    tol : float
        Stops when the relative change of the coefficients is smaller.

    Returns
    -------
    DiscriminantFactors
    """
    scale = np.sqrt(max(float(data.mean()), _EPSILON) / n_patterns)
    coefficients = scale * (0.5 + rng.random((len(data), n_patterns)))
    components = scale * (0.5 + rng.random((n_patterns, data.shape[1])))
    for _ in range(max_iter):
        before = coefficients
        coefficients = _update_coefficients(
            data, labels, coefficients, components, within, between
        )
        components = _update_components(data, coefficients, components)
        coefficients, components = _normalise_rows(coefficients, components)
        if np.linalg.norm(coefficients - before) < tol * np.linalg.norm(before):
            return DiscriminantFactors(coefficients, components, True)
    return DiscriminantFactors(coefficients, components, False)


def _update_coefficients(
    data: FloatArray,
    labels: IntArray,
    h: FloatArray,
    w: FloatArray,
    within: float,
    between: float,
) -> FloatArray:
    """Apply the multiplicative update of H (N, M) with both scatters."""
    numerator = data @ w.T + (within + between) * _broadcast_group_means(h, labels)
    denominator = h @ (w @ w.T) + within * h + between * h.mean(axis=0)
    return np.asarray(
        h * numerator / np.maximum(denominator, _EPSILON), dtype=np.float64
    )


def _update_components(data: FloatArray, h: FloatArray, w: FloatArray) -> FloatArray:
    """Apply Lee and Seung's multiplicative update of W (M, R)."""
    return np.asarray(
        w * (h.T @ data) / np.maximum((h.T @ h) @ w, _EPSILON), dtype=np.float64
    )


def _broadcast_group_means(h: FloatArray, labels: IntArray) -> FloatArray:
    """Return for everyone the mean of their group, (N, M) -> (N, M)."""
    means = np.stack([h[labels == group].mean(axis=0) for group in (0, 1)])
    return np.asarray(means[labels], dtype=np.float64)


def _normalise_rows(h: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale the rows of W to length 1 and the columns of H so that HW stays
    the same.
    """
    length = np.maximum(np.linalg.norm(w, axis=1), _EPSILON)
    return h * length, w / length[:, None]

"""Rotation of the disease space: which of its bases holds the patterns.

The contrastive space has M directions, and every basis of it explains the patients' covariance equally well. FastICA
takes the basis with independent severities, which fails where severities are correlated. The likelihood of
`_compute_rotation_loss` assumes less about people (non-Gaussian severities with free marginals, free correlation and a
weak preference for independence) and more about the brain (patterns are sparse over regions).

Shape letters: N people, R regions, M patterns.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from rindices._typing import FloatArray

# Hyvarinen's (1998) weights: with them the two moments of `_negentropy_loss` approximate negentropy in nats.
ODD_MOMENT_WEIGHT = 36.0 / (8.0 * np.sqrt(3.0) - 9.0)
EVEN_MOMENT_WEIGHT = 24.0 / (16.0 * np.sqrt(3.0) - 27.0)


class LikelihoodWeights(NamedTuple):
    """Weights of the likelihood's terms relative to the non-Gaussianity of severities.

    Attributes
    ----------
    regions : float
        Of one region. Regions are correlated, so R of them hold less evidence than R independent ones.
    independence : float
        Of the independence of severities. Full ICA would use 1; diseases go together.
    """

    regions: float = 1 / 3
    independence: float = 1 / 30


class LossTerm(NamedTuple):
    """A loss and its gradient (M, M) with respect to the unmixing B, or those of many unmixings."""

    loss: Any
    gradient: FloatArray


def fit_fastica_unmixing(people: FloatArray, seed: int) -> FloatArray:
    """Return FastICA's unmixing (M, M): ``people @ unmixing`` has unit variance; people (N, M) are centred."""
    ica = FastICA(whiten="unit-variance", fun="logcosh", max_iter=1000, tol=1e-5, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # without convergence the last iterate is used
        ica.fit(people)
    return np.asarray(ica.components_.T)


def find_most_likely_basis(
    white: FloatArray, patterns: FloatArray, weights: LikelihoodWeights, starts: list[FloatArray]
) -> FloatArray:
    """Rotate patterns to their most likely basis, in which severities have unit variance.

    Parameters
    ----------
    white : (N, M)
        Patients' whitened severities.
    patterns : (R, M)
        Change of each region per unit of ``white``, in control standard deviations.
    weights : LikelihoodWeights
    starts : list of (M, M)
        Unmixings to start from. The most likely result is used.

    Returns
    -------
    (R, M)
        Rotated patterns.
    """
    n_patterns = patterns.shape[1]

    def compute_flat_loss(flat: FloatArray) -> tuple[float, FloatArray]:
        term = _compute_rotation_loss(flat.reshape(n_patterns, n_patterns), white, patterns, weights)
        return term.loss, term.gradient.ravel()

    fits = [minimize(compute_flat_loss, start.ravel(), jac=True, method="L-BFGS-B") for start in starts]
    unmixing = min(fits, key=lambda fit: float(fit.fun)).x.reshape(n_patterns, n_patterns)
    return np.asarray(patterns @ np.linalg.inv(unmixing / np.linalg.norm(unmixing, axis=1, keepdims=True)))


def draw_rotation_starts(patterns: FloatArray, number: int, rng: np.random.Generator) -> list[FloatArray]:
    """Return unmixings (M, M): the current basis of patterns (R, M), and ``number`` random orthogonal ones."""
    n_patterns = patterns.shape[1]
    size = np.sqrt((patterns**2).mean(axis=0))
    random = [np.linalg.qr(rng.standard_normal((n_patterns, n_patterns)))[0] * size.mean() for _ in range(number)]
    return [np.diag(size), *random]


def _compute_rotation_loss(
    unmixing: FloatArray, white: FloatArray, patterns: FloatArray, weights: LikelihoodWeights
) -> LossTerm:
    """Return the negative log-likelihood of an unmixing B (M, M) in nats, up to a constant, and its gradient.

    With s = B u the severities, u = ``white`` (N, M), and D = patterns B^-1 (R, M), the loss has three terms.

    - People: with free marginals and a Gaussian copula of free correlation, the part that depends on B is the
      negentropy of the marginals, -N sum_k J(s_k).
    - Independence: -N log |det corr(s)| / 2, the further term of full ICA.
    - Regions: entries of D are logistic, sum of 2 log cosh(D / 2) + R log |det B|.
    """
    sign, logdet = np.linalg.slogdet(unmixing)
    if sign == 0 or not np.isfinite(logdet):
        return LossTerm(np.inf, np.zeros_like(unmixing))
    inverse: FloatArray = np.linalg.inv(unmixing).astype(np.float64)
    terms = (
        (1.0, _negentropy_loss(unmixing, white)),
        (weights.independence * len(white), compute_dependence_loss(unmixing, inverse, logdet)),
        (weights.regions, compute_sparsity_loss(inverse, patterns, logdet)),
    )
    gradient = np.sum([weight * term.gradient for weight, term in terms], axis=0)
    return LossTerm(float(sum(weight * term.loss for weight, term in terms)), gradient)


def _negentropy_loss(unmixing: FloatArray, white: FloatArray) -> LossTerm:
    """Minus the summed negentropy of the severities' marginals."""
    norm = np.linalg.norm(unmixing, axis=1, keepdims=True)
    unit = unmixing / norm
    s = white @ unit.T
    bell = np.exp(-0.5 * s * s)
    odd_moment, even_moment = (s * bell).mean(axis=0), bell.mean(axis=0) - np.sqrt(0.5)
    slope = 2.0 * bell * (EVEN_MOMENT_WEIGHT * even_moment * s - ODD_MOMENT_WEIGHT * odd_moment * (1.0 - s * s))
    loss = -len(white) * float((ODD_MOMENT_WEIGHT * odd_moment**2 + EVEN_MOMENT_WEIGHT * even_moment**2).sum())
    return LossTerm(loss, (slope.T @ white - (slope * s).sum(axis=0)[:, None] * unit) / norm)


def compute_dependence_loss(unmixing: FloatArray, inverse: FloatArray, logdet: FloatArray | float) -> LossTerm:
    """Minus half the log determinant of the severities' correlation, per person; for many unmixings (..., M, M)."""
    norm = np.linalg.norm(unmixing, axis=-1, keepdims=True)
    gradient = unmixing / norm**2 - np.swapaxes(inverse, -1, -2)
    return LossTerm(np.log(norm).sum(axis=(-1, -2)) - logdet, gradient)


def compute_sparsity_loss(inverse: FloatArray, patterns: FloatArray, logdet: FloatArray | float) -> LossTerm:
    """Minus the log-likelihood of logistic pattern entries: small for sparse patterns; for inverses (..., M, M)."""
    rotated = patterns @ inverse
    half = 0.5 * np.abs(rotated)
    loss = 2.0 * (half + np.log1p(np.exp(-2.0 * half))).sum(axis=(-1, -2)) + len(patterns) * logdet
    transposed = np.swapaxes(inverse, -1, -2)
    slope = len(patterns) * np.eye(inverse.shape[-1]) - transposed @ (patterns.T @ np.tanh(0.5 * rotated))
    return LossTerm(loss, slope @ transposed)

"""Which basis of the disease space is the patterns: two criteria, independence alone and one likelihood.

The contrastive space holds M directions; any basis of it explains the patients' covariance equally well. FastICA takes
the basis with independent severities, which fails where severities are correlated. `rotation_loss` is one likelihood
that asks for less of the people (non-Gaussian severities with free marginals and free correlation, and only a leaning
to independence) and more of the brain (patterns that are sparse over regions).
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from rindices._typing import FloatArray

# Hyvarinen's (1998) weights, with which the two moments below approximate negentropy in nats.
_ODD_MOMENT_WEIGHT = 36.0 / (8.0 * np.sqrt(3.0) - 9.0)
_EVEN_MOMENT_WEIGHT = 24.0 / (16.0 * np.sqrt(3.0) - 27.0)


class LikelihoodWeights(NamedTuple):
    """How much a region, and a person's independence, count against a person's non-Gaussianity.

    Regions are correlated, so that R of them hold less than R independent pieces of evidence: a third each.
    Independence is a leaning only, a thirtieth of what full ICA would claim, since diseases go together.
    """

    regions: float = 1 / 3
    independence: float = 1 / 30


class _LossTerm(NamedTuple):
    """A loss and its gradient (M, M) with respect to the unmixing B."""

    loss: float
    gradient: FloatArray


def fit_fastica_unmixing(people: FloatArray, seed: int) -> FloatArray:
    """Return the unmixing (K, M) of FastICA (logcosh): ``centred people @ unmixing`` has unit variance.

    Parameters
    ----------
    people : (N, M)
        Patients in the contrastive space.
    seed : int
    """
    ica = FastICA(whiten="unit-variance", fun="logcosh", max_iter=1000, tol=1e-5, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last iterate is as good as any where none is better
        ica.fit(people)
    return np.asarray(ica.components_.T)


def find_most_likely_basis(
    white: FloatArray, patterns: FloatArray, evidence: LikelihoodWeights, starts: list[FloatArray]
) -> FloatArray:
    """Return the patterns (R, M) in their most likely basis, severities of unit variance.

    Parameters
    ----------
    white : (N, M)
        Patients' severities in the given basis, made white.
    patterns : (R, M)
        The given basis: one white unit's change of each region, in control standard deviations.
    evidence : Evidence
    starts : list of (M, M)
        Unmixings to start from; the most likely end wins.
    """
    width = patterns.shape[1]
    fits = [
        minimize(_compute_flat_loss, start.ravel(), args=(white, patterns, evidence), jac=True, method="L-BFGS-B")
        for start in starts
    ]
    unmixing = min(fits, key=lambda fit: float(fit.fun)).x.reshape(width, width)
    return np.asarray(patterns @ np.linalg.inv(unmixing / np.linalg.norm(unmixing, axis=1, keepdims=True)))


def draw_rotation_starts(patterns: FloatArray, number: int, rng: np.random.Generator) -> list[FloatArray]:
    """Return the basis as it is and ``number`` random orthogonal mixings of it, patterns of about unit size."""
    width = patterns.shape[1]
    size = np.sqrt((patterns**2).mean(axis=0))
    mixed = [np.linalg.qr(rng.standard_normal((width, width)))[0] * size.mean() for _ in range(number)]
    return [np.diag(size), *mixed]


def rotation_loss(
    unmixing: FloatArray, white: FloatArray, patterns: FloatArray, evidence: LikelihoodWeights
) -> _LossTerm:
    """Return the negative log-likelihood of an unmixing B (M, M) in nats, up to a constant, and its gradient.

    With s = B u the severities, u white, and D = patterns B^-1:

    - people: with free marginals and a Gaussian copula of free correlation, what depends on B is the negentropy of the
      marginals, -N sum_k J(s_k);
    - independence: -N log |det corr(s)| / 2, which full ICA adds to that, by its weight;
    - regions: entries of D are logistic, sum of 2 log cosh(D / 2) + R log |det B|, by its weight.
    """
    sign, logdet = np.linalg.slogdet(unmixing)
    if sign == 0 or not np.isfinite(logdet):
        return _LossTerm(np.inf, np.zeros_like(unmixing))
    inverse: FloatArray = np.linalg.inv(unmixing).astype(np.float64)
    parts = (
        (1.0, _negentropy_loss(unmixing, white)),
        (evidence.independence * len(white), _dependence_loss(unmixing, inverse, logdet)),
        (evidence.regions, _sparsity_loss(inverse, patterns, logdet)),
    )
    gradient = np.sum([weight * part.gradient for weight, part in parts], axis=0)
    return _LossTerm(sum(weight * part.loss for weight, part in parts), gradient)


def _compute_flat_loss(
    flat: FloatArray, white: FloatArray, patterns: FloatArray, evidence: LikelihoodWeights
) -> tuple[float, FloatArray]:
    width = patterns.shape[1]
    term = rotation_loss(flat.reshape(width, width), white, patterns, evidence)
    return term.loss, term.gradient.ravel()


def _negentropy_loss(unmixing: FloatArray, white: FloatArray) -> _LossTerm:
    """Minus the summed negentropy of the severities' marginals."""
    norm = np.linalg.norm(unmixing, axis=1, keepdims=True)
    unit = unmixing / norm
    s = white @ unit.T
    bell = np.exp(-0.5 * s * s)
    odd, even = (s * bell).mean(axis=0), bell.mean(axis=0) - np.sqrt(0.5)
    slope = 2.0 * bell * (_EVEN_MOMENT_WEIGHT * even * s - _ODD_MOMENT_WEIGHT * odd * (1.0 - s * s))
    loss = -len(white) * float((_ODD_MOMENT_WEIGHT * odd**2 + _EVEN_MOMENT_WEIGHT * even**2).sum())
    return _LossTerm(loss, (slope.T @ white - (slope * s).sum(axis=0)[:, None] * unit) / norm)


def _dependence_loss(unmixing: FloatArray, inverse: FloatArray, logdet: float) -> _LossTerm:
    """Minus half the log determinant of the severities' correlation, per person."""
    norm = np.linalg.norm(unmixing, axis=1, keepdims=True)
    return _LossTerm(float(np.log(norm).sum() - logdet), unmixing / norm**2 - inverse.T)


def _sparsity_loss(inverse: FloatArray, patterns: FloatArray, logdet: float) -> _LossTerm:
    """Minus the log-likelihood of logistic pattern entries: small for sparse patterns."""
    found = patterns @ inverse
    half = 0.5 * np.abs(found)
    loss = 2.0 * float((half + np.log1p(np.exp(-2.0 * half))).sum()) + len(patterns) * logdet
    pull = len(patterns) * np.eye(len(inverse)) - inverse.T @ patterns.T @ np.tanh(0.5 * found)
    return _LossTerm(loss, pull @ inverse.T)

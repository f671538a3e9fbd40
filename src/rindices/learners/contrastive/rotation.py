"""Patterns of the contrastive learner: the prior of severities, the rotation that it
implies, and sparse patterns.

Controls: e ~ N(0, C). Patients: D s + e with severities s of any mean and covariance
and sparse patterns D. The space of D is known from covariances; the rotation within it
is that under which severities have the prior's margins and patterns are sparse over
regions (`linear_start`). People enter only through their moments.

Shape letters: N people, R regions, M patterns. In all functions ``patterns`` is D and
``noise`` is C.
"""

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.special import ndtr
from scipy.stats import beta
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from rindices._typing import FloatArray

QUANTILE_GRID = np.linspace(0.0, 1.0, 201)
_UNIFORM_HALF_WIDTH = np.sqrt(
    3.0
)  # half the width of a uniform distribution, in standard deviations
_CORRELATION_SHRINKAGE = 0.98  # so that a Cholesky factor exists
_MIN_BETA_CONCENTRATION = (
    0.3  # of a + b; below it nearly everyone is at one of the ends
)
# Hyvarinen's (1998) weights: with them the two moments of `ContrastSums` approximate
# negentropy in nats.
ODD_MOMENT_WEIGHT = 36.0 / (8.0 * np.sqrt(3.0) - 9.0)
EVEN_MOMENT_WEIGHT = 24.0 / (16.0 * np.sqrt(3.0) - 27.0)
_MAX_CONDITION_NUMBER = 1e6
_MIN_EIGENVALUE_SHARE = (
    0.05  # of the largest eigenvalue, so that the severities' covariance stays positive
)


class SeverityPrior(NamedTuple):
    """Distribution of the severities s of M patterns.

    Attributes
    ----------
    quantiles : ndarray of shape (M, Q)
        q_k on `QUANTILE_GRID`.
    factor : ndarray of shape (M, M)
        L, lower triangular with rows of norm one: z = Phi(L e), e standard normal.
    """

    quantiles: FloatArray
    factor: FloatArray


def draw_from_copula(
    factor: FloatArray, number: int, rng: np.random.Generator
) -> FloatArray:
    """Draw z = Phi(L e) of ``number`` people, (N, M); L (M, M) is
    `SeverityPrior.factor`.
    """
    return np.asarray(ndtr(rng.standard_normal((number, len(factor))) @ factor.T))


def fit_prior_to_moments(mean: FloatArray, covariance: FloatArray) -> SeverityPrior:
    """Return the prior whose severities have about this mean (M,) and covariance (M,
    M).
    """
    sd = np.sqrt(np.diag(covariance))
    quantiles = np.stack(
        [_compute_beta_quantiles(m, s) for m, s in zip(mean, sd, strict=True)]
    )
    correlation = (
        np.clip(covariance / np.outer(sd, sd), -1.0, 1.0) * _CORRELATION_SHRINKAGE
    )
    np.fill_diagonal(correlation, 1.0)
    return SeverityPrior(quantiles, np.linalg.cholesky(correlation))


def _compute_beta_quantiles(mean: float, sd: float) -> FloatArray:
    """Return the quantiles on `QUANTILE_GRID` of a Beta on [0, upper] with this mean
    and standard deviation.
    """
    mean = max(mean, 1e-3 * sd)
    upper = max(mean + _UNIFORM_HALF_WIDTH * sd, 1.05 * mean)
    share, variance = mean / upper, (sd / upper) ** 2
    concentration = max(share * (1.0 - share) / variance - 1.0, _MIN_BETA_CONCENTRATION)
    return np.asarray(
        upper
        * beta.ppf(QUANTILE_GRID, share * concentration, (1.0 - share) * concentration)
    )


class LikelihoodWeights(NamedTuple):
    """Weights of the likelihood's terms relative to the non-Gaussianity of severities.

    Attributes
    ----------
    regions : float
        Of one region. Regions are correlated, so R of them hold less evidence than
        R independent ones.
    independence : float
        Of the independence of severities. Full ICA would use 1. Diseases go
        together.
    """

    regions: float = 1 / 3
    independence: float = 1 / 30


class LossTerm(NamedTuple):
    """A loss and its gradient (M, M) with respect to the unmixing B, or those of many
    unmixings.

    Attributes
    ----------
    loss : Any
    gradient : ndarray
    """

    loss: Any
    gradient: FloatArray


def fit_fastica_unmixing(people: FloatArray, seed: int) -> FloatArray:
    """Return FastICA's unmixing (M, M): ``people @ unmixing`` has unit variance; people
    (N, M) are centred.
    """
    ica = FastICA(
        whiten="unit-variance",
        fun="logcosh",
        max_iter=1000,
        tol=1e-5,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # without convergence the last iterate is used
        ica.fit(people)
    return np.asarray(ica.components_.T)


def draw_rotation_starts(
    patterns: FloatArray, number: int, rng: np.random.Generator
) -> list[FloatArray]:
    """Return unmixings (M, M): the current basis of patterns (R, M), and ``number``
    random orthogonal ones.
    """
    n_patterns = patterns.shape[1]
    size = np.sqrt((patterns**2).mean(axis=0))
    random = [
        np.linalg.qr(rng.standard_normal((n_patterns, n_patterns)))[0] * size.mean()
        for _ in range(number)
    ]
    return [np.diag(size), *random]


def add_pattern_terms(
    people: LossTerm,
    unmixing: FloatArray,
    logdet: FloatArray | float,
    patterns: FloatArray,
    number: int,
    weights: LikelihoodWeights,
) -> LossTerm:
    """Add the terms of independence and of regions to that of people; for many
    unmixings (..., M, M).
    """
    inverse: FloatArray = np.linalg.inv(unmixing).astype(np.float64)
    terms = (
        (weights.independence * number, _dependence_loss(unmixing, inverse, logdet)),
        (weights.regions, _sparsity_loss(inverse, patterns, logdet)),
    )
    for weight, term in terms:
        people = LossTerm(
            people.loss + weight * term.loss, people.gradient + weight * term.gradient
        )
    return people


def _dependence_loss(
    unmixing: FloatArray, inverse: FloatArray, logdet: FloatArray | float
) -> LossTerm:
    """Minus half the log determinant of the severities' correlation, per person; for
    many unmixings (..., M, M).
    """
    norm = np.linalg.norm(unmixing, axis=-1, keepdims=True)
    gradient = unmixing / norm**2 - np.swapaxes(inverse, -1, -2)
    return LossTerm(np.log(norm).sum(axis=(-1, -2)) - logdet, gradient)


def _sparsity_loss(
    inverse: FloatArray, patterns: FloatArray, logdet: FloatArray | float
) -> LossTerm:
    """Minus the log-likelihood of logistic pattern entries: small for sparse patterns;
    for inverses (..., M, M).
    """
    rotated = patterns @ inverse
    size = np.abs(rotated)
    decay = np.exp(
        -size
        # log cosh(x / 2) = |x| / 2 + log(1 + exp(-|x|)) - log 2, tanh(x / 2) its
        # derivative
    )
    loss = (size + 2.0 * np.log1p(decay)).sum(axis=(-1, -2)) + len(patterns) * logdet
    transposed, tanh = (
        np.swapaxes(inverse, -1, -2),
        np.copysign((1.0 - decay) / (1.0 + decay), rotated),
    )
    slope = len(patterns) * np.eye(inverse.shape[-1]) - transposed @ (patterns.T @ tanh)
    return LossTerm(loss, slope @ transposed)


def normalise_rows(unmixing: FloatArray) -> FloatArray:
    """Return an unmixing (M, M) with rows of length 1."""
    return np.asarray(unmixing / np.linalg.norm(unmixing, axis=1, keepdims=True))


class PeopleMoments(NamedTuple):
    """Sums over people: their number, x (R,) and x x' (R, R).

    Attributes
    ----------
    number : int
    total : ndarray
    products : ndarray
    """

    number: int
    total: FloatArray
    products: FloatArray

    @classmethod
    def compute(cls, people: FloatArray) -> Self:
        """Return the moments of people (N, R)."""
        return cls(len(people), people.sum(axis=0), people.T @ people)

    @property
    def mean(self) -> FloatArray:
        """Mean (R,)."""
        return np.asarray(self.total / max(self.number, 1))

    @property
    def second(self) -> FloatArray:
        """Mean (R, R) of x x'."""
        return np.asarray(self.products / max(self.number, 1))

    @property
    def covariance(self) -> FloatArray:
        """Covariance (R, R), divided by the number of people."""
        return np.asarray(self.second - np.outer(self.mean, self.mean))

    @property
    def scatter(self) -> FloatArray:
        """Sum (R, R) of products about the mean."""
        return np.asarray(self.number * self.covariance)

    def add(self, other: Self) -> Self:
        """Return the moments of both sets of people."""
        return self._replace(
            number=self.number + other.number,
            total=self.total + other.total,
            products=self.products + other.products,
        )

    def centre(self, point: FloatArray) -> Self:
        """Return the moments of the people, less a point (R,)."""
        cross = np.outer(self.total, point)
        products = (
            self.products - cross - cross.T + self.number * np.outer(point, point)
        )
        return self._replace(total=self.total - self.number * point, products=products)

    def project(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean (M,) and covariance (M, M) of people @ weights (R, M)."""
        return self.mean @ weights, weights.T @ self.covariance @ weights


def compute_severity_weights(patterns: FloatArray, noise: FloatArray) -> FloatArray:
    """Compute the weights of generalised least squares, C^-1 D (D' C^-1 D)^-1.

    Parameters
    ----------
    patterns : ndarray of shape (R, M)
    noise : ndarray of shape (R, R)

    Returns
    -------
    ndarray of shape (R, M)
        , severity = person @ weights.
    """
    x = np.linalg.solve(noise, patterns)
    return np.asarray(x @ np.linalg.inv(patterns.T @ x))


def estimate_severity_moments(
    patients: PeopleMoments, patterns: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Estimate the moments of the severities, with the variance of their estimation
    error subtracted.

    Parameters
    ----------
    patterns : ndarray of shape (R, M)
    noise : ndarray of shape (R, R)

    Returns
    -------
    tuple of ndarray
        Mean (M,). Covariance (M, M).
    """
    mean, covariance = patients.project(compute_severity_weights(patterns, noise))
    error = np.linalg.inv(patterns.T @ np.linalg.solve(noise, patterns))
    values, vectors = np.linalg.eigh(covariance - error)
    values = np.maximum(values, _MIN_EIGENVALUE_SHARE * max(float(values.max()), 1e-12))
    return mean, np.asarray(vectors * values @ vectors.T)


def refine_patterns(
    patients: PeopleMoments, patterns: FloatArray, noise: FloatArray, steps: int
) -> FloatArray:
    """Refine patterns by EM with a sparse Bayesian prior, D_jk ~ N(0, tau_jk^2), every
    tau learnt.

    The M step uses that errors of D are correlated between regions as in C: regions
    without disease predict the error of regions with disease.

    Parameters
    ----------
    patterns : ndarray of shape (R, M)
        Start.
    noise : ndarray of shape (R, R)
    steps : int
        Number of EM steps.

    Returns
    -------
    ndarray of shape (R, M)
        , refined patterns. The start, where EM lets a pattern vanish or two merge:
        then the data hold fewer patterns.
    """
    if not is_well_posed(patterns, noise):
        return patterns
    n, d = patients.number, patterns
    tau = np.repeat((d**2).mean(axis=0, keepdims=True), len(d), axis=0)
    mean, cov = estimate_severity_moments(patients, d, noise)
    noise_precision = np.linalg.inv(noise)
    for _ in range(steps):
        x = noise_precision @ d
        precision = np.linalg.inv(cov)
        posterior_cov = np.linalg.inv(d.T @ x + precision)
        weights: FloatArray = np.asarray(
            x @ posterior_cov
        )  # s = person @ weights + offset
        offset = mean @ precision @ posterior_cov
        projected, spread = patients.project(weights)
        mean = projected + offset
        cov = spread + posterior_cov
        inverse_gram = np.linalg.inv(n * (cov + np.outer(mean, mean)))
        products = n * (patients.second @ weights + np.outer(patients.mean, offset))
        d, tau = _shrink_patterns(
            products @ inverse_gram, np.diag(inverse_gram), tau, noise
        )
    return d if is_well_posed(d, noise) else patterns


def is_well_posed(patterns: FloatArray, noise: FloatArray) -> bool:
    """Return False where a pattern (R, M) has vanished or two have merged."""
    if not np.isfinite(patterns).all():
        return False
    gram = patterns.T @ np.linalg.solve(noise, patterns)
    size = np.sqrt(np.diag(gram))
    if not size.min() > size.max() / _MAX_CONDITION_NUMBER:
        return False
    return bool(np.linalg.cond(gram / np.outer(size, size)) < _MAX_CONDITION_NUMBER)


def _shrink_patterns(
    raw: FloatArray, error: FloatArray, tau: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of D and updated prior variances; column k of ``raw``
    has errors ``error[k] * C``.
    """
    d, variances = np.empty_like(raw), np.empty_like(tau)
    for k in range(raw.shape[1]):
        solution, diagonal = solve_with_diagonal(
            np.diag(tau[:, k]) + error[k] * noise, raw[:, k]
        )
        d[:, k] = solution * tau[:, k]
        variances[:, k] = d[:, k] ** 2 + np.maximum(
            tau[:, k] * (1.0 - diagonal * tau[:, k]), 0.0
        )
    return d, variances


def solve_with_diagonal(
    matrix: FloatArray, vector: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return A^-1 b (R,) and the diagonal (R,) of A^-1, for a positive definite A (R,
    R) and a vector b (R,).

    Both follow from the inverse of A's Cholesky factor, in a quarter of the time of the
    whole inverse.
    """
    root, failed = dpotrf(
        matrix.T, lower=True, clean=True
    )  # the transpose is in the order that LAPACK reads
    if failed:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    inverse, _ = dtrtri(root, lower=True, overwrite_c=True)
    return np.asarray(inverse @ vector @ inverse), np.einsum(
        "ij,ij->j", inverse, inverse
    )

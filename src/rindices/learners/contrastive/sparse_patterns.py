"""Factor model of the contrastive learner, and its sparse refinement.

Controls: e ~ N(0, C). Patients: D s + e with severities s of any mean and covariance and sparse patterns D. People
enter only through their moments, so the same arithmetic runs where people cannot be pooled.
Shape letters: N people, R regions, M patterns. In all functions ``patterns`` is D and ``noise`` is C.
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from rindices._typing import FloatArray

_MAX_CONDITION_NUMBER = 1e6
_MIN_EIGENVALUE_SHARE = 0.05  # of the largest eigenvalue, so that the severities' covariance stays positive


class PeopleMoments(NamedTuple):
    """Number of people, their mean (R,) and the mean (R, R) of x x'."""

    number: int
    mean: FloatArray
    second: FloatArray

    @classmethod
    def compute(cls, people: FloatArray) -> Self:
        """Return the moments of people (N, R)."""
        return cls(len(people), people.mean(axis=0), people.T @ people / len(people))

    @property
    def covariance(self) -> FloatArray:
        """Covariance (R, R), divided by the number of people."""
        return np.asarray(self.second - np.outer(self.mean, self.mean))

    def project(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean (M,) and covariance (M, M) of people @ weights (R, M)."""
        return self.mean @ weights, weights.T @ self.covariance @ weights


def compute_severity_weights(patterns: FloatArray, noise: FloatArray) -> FloatArray:
    """Compute the weights of generalised least squares, C^-1 D (D' C^-1 D)^-1.

    Parameters
    ----------
    patterns : (R, M)
    noise : (R, R)

    Returns
    -------
    (R, M)
        Severity = person @ weights.
    """
    x = np.linalg.solve(noise, patterns)
    return np.asarray(x @ np.linalg.inv(patterns.T @ x))


def estimate_severity_moments(
    patients: PeopleMoments, patterns: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Estimate the moments of the severities, with the variance of their estimation error subtracted.

    Parameters
    ----------
    patients : PeopleMoments
    patterns : (R, M)
    noise : (R, R)

    Returns
    -------
    mean : (M,)
    covariance : (M, M)
    """
    mean, covariance = patients.project(compute_severity_weights(patterns, noise))
    error = np.linalg.inv(patterns.T @ np.linalg.solve(noise, patterns))
    values, vectors = np.linalg.eigh(covariance - error)
    values = np.maximum(values, _MIN_EIGENVALUE_SHARE * max(float(values.max()), 1e-12))
    return mean, np.asarray(vectors * values @ vectors.T)


def refine_patterns(patients: PeopleMoments, patterns: FloatArray, noise: FloatArray, steps: int) -> FloatArray:
    """Refine patterns by EM with a sparse Bayesian prior, D_jk ~ N(0, tau_jk^2), every tau learnt.

    The M step uses that errors of D are correlated between regions as in C: regions without disease predict the error
    of regions with disease.

    Parameters
    ----------
    patients : PeopleMoments
    patterns : (R, M)
        Start.
    noise : (R, R)
    steps : int
        Number of EM steps.

    Returns
    -------
    (R, M)
        Refined patterns. The start, where EM lets a pattern vanish or two merge: then the data hold fewer patterns.
    """
    if not is_well_posed(patterns, noise):
        return patterns
    n, d = patients.number, patterns
    tau = np.repeat((d**2).mean(axis=0, keepdims=True), len(d), axis=0)
    mean, cov = estimate_severity_moments(patients, d, noise)
    for _ in range(steps):
        x = np.linalg.solve(noise, d)
        precision = np.linalg.inv(cov)
        posterior_cov = np.linalg.inv(d.T @ x + precision)
        weights: FloatArray = np.asarray(x @ posterior_cov)  # s = person @ weights + offset
        offset = mean @ precision @ posterior_cov
        projected, spread = patients.project(weights)
        mean = projected + offset
        cov = spread + posterior_cov
        inverse_gram = np.linalg.inv(n * (cov + np.outer(mean, mean)))
        products = n * (patients.second @ weights + np.outer(patients.mean, offset))
        d, tau = _shrink_patterns(products @ inverse_gram, np.diag(inverse_gram), tau, noise)
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


def compute_covariance(s: FloatArray) -> FloatArray:
    """Return the covariance (M, M) of columns (N, M), also for M = 1."""
    return np.atleast_2d(np.cov(s, rowvar=False, bias=True))


def _shrink_patterns(
    raw: FloatArray, error: FloatArray, tau: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of D and updated prior variances; column k of ``raw`` has errors ``error[k] * C``."""
    d, variances = np.empty_like(raw), np.empty_like(tau)
    for k in range(raw.shape[1]):
        solution, diagonal = solve_with_diagonal(np.diag(tau[:, k]) + error[k] * noise, raw[:, k])
        d[:, k] = solution * tau[:, k]
        variances[:, k] = d[:, k] ** 2 + np.maximum(tau[:, k] * (1.0 - diagonal * tau[:, k]), 0.0)
    return d, variances


def solve_with_diagonal(matrix: FloatArray, vector: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return A^-1 b (R,) and the diagonal (R,) of A^-1, for a positive definite A (R, R) and a vector b (R,).

    Both follow from the inverse of A's Cholesky factor, in a quarter of the time of the whole inverse.
    """
    root, failed = dpotrf(matrix.T, lower=True, clean=True)  # the transpose is in the order that LAPACK reads
    if failed:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    inverse, _ = dtrtri(root, lower=True, overwrite_c=True)
    return np.asarray(inverse @ vector @ inverse), np.einsum("ij,ij->j", inverse, inverse)

"""Distribution of severities among patients: bounded marginals and a Gaussian copula, fitted to two moments.

The paper draws z uniform and independent. Here z keeps uniform marginals, and the severity of pattern k is
s_k = q_k(z_k). q_k is the quantile function of a Beta distribution on [0, upper_k] with the mean and variance of the
patients' severities, and z has their correlation. Where severities are uniform and independent, q_k is linear and this
is the paper's choice. Shape letters: N people, M patterns, Q grid points.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta

from rindices._typing import FloatArray

QUANTILE_GRID = np.linspace(0.0, 1.0, 201)
_UNIFORM_HALF_WIDTH = np.sqrt(3.0)  # half the width of a uniform distribution, in standard deviations
_CORRELATION_SHRINKAGE = 0.98  # so that a Cholesky factor exists
_MIN_BETA_CONCENTRATION = 0.3  # of a + b; below it nearly everyone is at one of the ends


class SeverityPrior(NamedTuple):
    """Distribution of the severities s of M patterns.

    Attributes
    ----------
    quantiles : (M, Q)
        q_k on `QUANTILE_GRID`.
    factor : (M, M)
        L, lower triangular with rows of norm one: z = Phi(L e), e standard normal.
    """

    quantiles: FloatArray
    factor: FloatArray

    def draw(self, number: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw z (N, M) and severities (N, M) of ``number`` people."""
        z = draw_from_copula(self.factor, number, rng)
        return z, self.severities(z)

    def severities(self, z: FloatArray) -> FloatArray:
        """Return q_k(z_k), (N, M) -> (N, M)."""
        columns = [np.interp(z[:, k], QUANTILE_GRID, quantiles) for k, quantiles in enumerate(self.quantiles)]
        return np.stack(columns, axis=1)


def draw_from_copula(factor: FloatArray, number: int, rng: np.random.Generator) -> FloatArray:
    """Draw z = Phi(L e) of ``number`` people, (N, M); L (M, M) is `SeverityPrior.factor`."""
    return np.asarray(ndtr(rng.standard_normal((number, len(factor))) @ factor.T))


def fit_prior_to_moments(mean: FloatArray, covariance: FloatArray) -> SeverityPrior:
    """Return the prior whose severities have about this mean (M,) and covariance (M, M)."""
    sd = np.sqrt(np.diag(covariance))
    quantiles = np.stack([_compute_beta_quantiles(m, s) for m, s in zip(mean, sd, strict=True)])
    correlation = np.clip(covariance / np.outer(sd, sd), -1.0, 1.0) * _CORRELATION_SHRINKAGE
    np.fill_diagonal(correlation, 1.0)
    return SeverityPrior(quantiles, np.linalg.cholesky(correlation))


def make_independent_prior(mean: FloatArray, covariance: FloatArray) -> SeverityPrior:
    """Return the paper's prior, uniform and independent, scaled to this mean (M,) and covariance (M, M)."""
    upper = np.maximum(np.asarray(mean) + _UNIFORM_HALF_WIDTH * np.sqrt(np.diag(covariance)), 1e-12)
    return SeverityPrior(np.outer(upper, QUANTILE_GRID), np.eye(len(upper)))


def _compute_beta_quantiles(mean: float, sd: float) -> FloatArray:
    """Return the quantiles on `QUANTILE_GRID` of a Beta on [0, upper] with this mean and standard deviation."""
    mean = max(mean, 1e-3 * sd)
    upper = max(mean + _UNIFORM_HALF_WIDTH * sd, 1.05 * mean)
    share, variance = mean / upper, (sd / upper) ** 2
    concentration = max(share * (1.0 - share) / variance - 1.0, _MIN_BETA_CONCENTRATION)
    return np.asarray(upper * beta.ppf(QUANTILE_GRID, share * concentration, (1.0 - share) * concentration))

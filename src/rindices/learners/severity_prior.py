"""How severities are spread among patients: marginals on an interval and a Gaussian copula, from two moments.

The paper draws z uniform and independent. Here z keeps its uniform marginals, and the severity of pattern k is
s_k = q_k(z_k): q_k is the quantile function of a Beta distribution on [0, upper_k] with the mean and variance that the
patients' severities have, and z has their correlation. Where severities are uniform and independent, q_k is the
identity up to its unit and this is the paper's choice. Shape letters: N people, M patterns, Q grid points.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import beta

Floats = NDArray[np.float64]

GRID = np.linspace(0.0, 1.0, 201)
_WIDTH = np.sqrt(3.0)  # a uniform distribution ends so many standard deviations above its mean
_SHRINK = 0.98  # of correlations, so that a Cholesky factor exists
_LEAST = 0.3  # of a + b, below which nearly everyone is at one of the ends


class SeverityPrior(NamedTuple):
    """Distribution of the severities s of M patterns.

    Attributes
    ----------
    quantiles : (M, Q)
        q_k on `GRID`.
    factor : (M, M)
        L, lower triangular with rows of norm one: z = Phi(L e), e standard normal.
    """

    quantiles: Floats
    factor: Floats

    def draw(self, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return z (N, M) and severities (N, M) of so many people."""
        z = copula_draw(self.factor, number, rng)
        return z, self.severities(z)

    def severities(self, z: Floats) -> Floats:
        """q_k(z_k): (N, M) -> (N, M)."""
        columns = [np.interp(z[:, k], GRID, quantiles) for k, quantiles in enumerate(self.quantiles)]
        return np.stack(columns, axis=1)


def copula_draw(factor: Floats, number: int, rng: np.random.Generator) -> Floats:
    """Return z = Phi(L e) of so many people, (N, M); L (M, M) is `SeverityPrior.factor`."""
    return np.asarray(ndtr(rng.standard_normal((number, len(factor))) @ factor.T))


def prior_from_moments(mean: Floats, covariance: Floats) -> SeverityPrior:
    """Return the prior whose severities have about this mean (M,) and covariance (M, M)."""
    sd = np.sqrt(np.diag(covariance))
    quantiles = np.stack([_quantiles(m, s) for m, s in zip(mean, sd, strict=True)])
    correlation = np.clip(covariance / np.outer(sd, sd), -1.0, 1.0) * _SHRINK
    np.fill_diagonal(correlation, 1.0)
    return SeverityPrior(quantiles, np.linalg.cholesky(correlation))


def independent_prior(mean: Floats, covariance: Floats) -> SeverityPrior:
    """Return the paper's prior, uniform and independent, in the unit that fits the mean (M,) and covariance (M, M)."""
    upper = np.maximum(np.asarray(mean) + _WIDTH * np.sqrt(np.diag(covariance)), 1e-12)
    return SeverityPrior(np.outer(upper, GRID), np.eye(len(upper)))


def _quantiles(mean: float, sd: float) -> Floats:
    """Return the quantiles on `GRID` of a Beta on [0, upper] with this mean and standard deviation."""
    mean = max(mean, 1e-3 * sd)
    upper = max(mean + _WIDTH * sd, 1.05 * mean)
    share, variance = mean / upper, (sd / upper) ** 2
    weight = max(share * (1.0 - share) / variance - 1.0, _LEAST)
    return np.asarray(upper * beta.ppf(GRID, share * weight, (1.0 - share) * weight))

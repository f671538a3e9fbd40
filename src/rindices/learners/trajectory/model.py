"""Model of patterns that are curves, with its normal variation and severities.

Shape letters: R regions, M patterns, K steps.
"""

from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.severity_posterior import SeverityPosterior


class TrajectoryModel(NamedTuple):
    """Patterns as curves, normal variation, and the copula of the severities.

    Attributes
    ----------
    steps : (M, K, R)
        Change of each region in each step of z, in control standard deviations.
    noise : (R, R)
        C, the covariance of normal variation.
    correlation : (M, M)
        Of the Gaussian copula of z.
    common : (M, K)
        d, the common steps of each pattern.
    """

    steps: FloatArray
    noise: FloatArray
    correlation: FloatArray
    common: FloatArray

    @property
    def flat_steps(self) -> FloatArray:
        """The steps as (M * K, R)."""
        return self.steps.reshape(-1, self.steps.shape[2])

    def compute_weights(self) -> FloatArray:
        """Return C^-1 times the steps, (R, M * K)."""
        return np.asarray(np.linalg.solve(self.noise, self.flat_steps.T))

    def make_posterior(self) -> SeverityPosterior:
        """Return the posterior of the severities."""
        return SeverityPosterior.build(self.steps, self.compute_weights(), self.correlation)

"""Model of patterns that are curves, with its normal variation and severities.

Shape letters: R regions, M patterns, K steps, G points of z, T functions of z.
"""

from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.severity_points import make_point_basis, make_severity_points
from rindices.learners.severity_posterior import (
    BasisProducts,
    SeverityPosterior,
    compute_interacting_basis,
    make_basis_products,
)


class TrajectoryModel(NamedTuple):
    """Patterns as curves, normal variation, the copula of the severities, and how patterns interact.

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
    interaction : (M, M), optional
        Entry [k, m] is the relative increase of the change of pattern k at full severity of pattern m; None where the
        changes of the patterns add up.
    """

    steps: FloatArray
    noise: FloatArray
    correlation: FloatArray
    common: FloatArray
    interaction: FloatArray | None = None

    @property
    def flat_steps(self) -> FloatArray:
        """The steps as (M * K, R)."""
        return self.steps.reshape(-1, self.steps.shape[2])

    @property
    def point_basis(self) -> FloatArray:
        """Basis of the steps (G, M * K), times the growth of each pattern."""
        return compute_interacting_basis(len(self.steps), self.steps.shape[1], self.interaction)

    @property
    def basis_products(self) -> BasisProducts:
        """Products of `point_basis`."""
        return make_basis_products(len(self.steps), self.steps.shape[1], self.interaction)

    @property
    def functions(self) -> FloatArray:
        """Functions of z (G, T) whose expectations an M step needs.

        The basis without growth; where patterns interact, followed by the basis times each severity.
        """
        n_patterns, n_steps = self.steps.shape[:2]
        basis = make_point_basis(n_patterns, n_steps)
        if self.interaction is None:
            return basis
        return np.concatenate([basis, *(basis * z[:, None] for z in make_severity_points(n_patterns).T)], axis=1)

    def combine(self, expectations: FloatArray) -> FloatArray:
        """Return expectations of the functions (..., T) as those of the basis with growth (..., M * K)."""
        if self.interaction is None:
            return expectations
        n_patterns, n_steps = self.steps.shape[:2]
        parts = expectations.reshape(*expectations.shape[:-1], n_patterns + 1, n_patterns, n_steps)
        factors = np.concatenate([np.ones((1, n_patterns)), self.interaction.T])
        return np.asarray((parts * factors[:, :, None]).sum(axis=-3).reshape(*expectations.shape[:-1], -1))

    def compute_weights(self) -> FloatArray:
        """Return C^-1 times the steps, (R, M * K)."""
        return np.asarray(np.linalg.solve(self.noise, self.flat_steps.T))

    def make_posterior(self, weights: FloatArray | None = None) -> SeverityPosterior:
        """Return the posterior of the severities; ``weights`` (R, M * K), if they are known, are not computed again."""
        weights = self.compute_weights() if weights is None else weights
        return SeverityPosterior.build(self.steps, weights, self.correlation, self.interaction)

"""Posterior distribution of the severities of a person, given patterns that are curves.

A person's shifts x enter through the M * K numbers x @ C^-1 @ steps alone, so the sums over the points of z are short.
Shape letters: N people, R regions, M patterns, K steps, G points of z.
"""

from typing import NamedTuple, Self

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.severity_points import compute_log_copula, compute_step_basis, make_severity_points


class SeverityPosterior(NamedTuple):
    """Posterior of the severities on fixed points.

    Attributes
    ----------
    points : (G, M)
        z.
    basis : (G, M * K)
        How far each step has been taken at each point.
    offset : (G,)
        Log density of the prior, minus half the squared size of the change.
    """

    points: FloatArray
    basis: FloatArray
    offset: FloatArray

    @classmethod
    def build(cls, steps: FloatArray, weights: FloatArray, correlation: FloatArray) -> Self:
        """Build the posterior of a model.

        Parameters
        ----------
        steps : (M, K, R)
        weights : (R, M * K)
            C^-1 times the steps.
        correlation : (M, M)
            Of the copula.
        """
        n_patterns, n_steps, _ = steps.shape
        points = make_severity_points(n_patterns)
        basis = compute_step_basis(points, n_steps)
        gram = steps.reshape(n_patterns * n_steps, -1) @ weights
        half_size = 0.5 * ((basis @ gram) * basis).sum(axis=1)
        return cls(points, basis, compute_log_copula(correlation) - half_size)

    def compute_probabilities(self, numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each point and the log of their sum before normalisation.

        Parameters
        ----------
        numbers : (N, M * K)
            People's shifts @ weights.

        Returns
        -------
        probabilities : (N, G)
        log_sum : (N,)
            Log-likelihood of each person, relative to a control.
        """
        density = numbers @ self.basis.T
        density += self.offset
        top = density.max(axis=1, keepdims=True)
        density -= top
        np.exp(density, out=density)
        total = density.sum(axis=1, keepdims=True)
        density /= total
        return density, (top + np.log(total))[:, 0] - np.log(len(self.points))

    def compute_means(self, numbers: FloatArray) -> FloatArray:
        """Return the posterior means of the severities, (N, M * K) -> (N, M)."""
        return np.asarray(self.compute_probabilities(numbers)[0] @ self.points)

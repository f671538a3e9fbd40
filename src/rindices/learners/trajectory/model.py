"""The model: patterns as curves of severity, normal variation, and the copula.

A control is e ~ N(0, C). A patient is x = sum_m h_m(z_m) + e, with severities z_m in
[0, 1] and curves h_m of K straight pieces. ``docs/default.md`` explains the model in
words.

Shape letters: R regions, M patterns, K steps, G points of z, T functions, Q severities.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from scipy.linalg import cho_solve

from rindices._typing import FloatArray
from rindices.learners.inference import (
    SEVERITY_LEVELS,
    ContrastiveHead,
    InteractingHead,
    TrajectoryHead,
)
from rindices.learners.severity_posterior import (
    BasisProducts,
    SeverityPosterior,
    compute_interacting_basis,
    make_basis_products,
    make_point_basis,
    make_severity_points,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class TrajectoryModel:
    """Patterns as curves, normal variation, the copula of the severities, and how
    patterns interact.

    Attributes
    ----------
    steps : ndarray of shape (M, K, R)
        Change of each region in each step of z, in control standard deviations.
    noise : ndarray of shape (R, R)
        C, the covariance of normal variation.
    correlation : ndarray of shape (M, M)
        Of the Gaussian copula of z.
    common : ndarray of shape (M, K)
        d, the common steps of each pattern.
    interaction : ndarray of shape (M, M) or None
        Entry [k, m] is the relative increase of the change of pattern k at full
        severity of pattern m. None where the changes of the patterns add up.
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
    def patterns(self) -> FloatArray:
        """Change D of each region (M, R) per unit of the common steps d, where the
        steps of a pattern are d D'.
        """
        squares = (self.common**2).sum(axis=1)
        return np.asarray(
            (self.common[:, :, None] * self.steps).sum(axis=1) / squares[:, None]
        )

    @property
    def point_basis(self) -> FloatArray:
        """Basis of the steps (G, M * K), times the growth of each pattern."""
        return compute_interacting_basis(
            len(self.steps), self.steps.shape[1], self.interaction
        )

    @property
    def basis_products(self) -> BasisProducts:
        """Products of `point_basis`."""
        return make_basis_products(
            len(self.steps), self.steps.shape[1], self.interaction
        )

    @property
    def functions(self) -> FloatArray:
        """Functions of z (G, T) whose expectations an M step needs.

        The basis without growth; where patterns interact, followed by the basis times
        each severity.
        """
        return list_functions(*self.steps.shape[:2], self.interaction is not None)

    def combine(self, expectations: FloatArray) -> FloatArray:
        """Return expectations of the functions (..., T) as those of the basis with
        growth (..., M * K).
        """
        if self.interaction is None:
            return expectations
        n_patterns, n_steps = self.steps.shape[:2]
        parts = expectations.reshape(
            *expectations.shape[:-1], n_patterns + 1, n_patterns, n_steps
        )
        factors = np.concatenate([np.ones((1, n_patterns)), self.interaction.T])
        return np.asarray(
            (parts * factors[:, :, None])
            .sum(axis=-3)
            .reshape(*expectations.shape[:-1], -1)
        )

    @cached_property
    def noise_root(self) -> FloatArray:
        """Cholesky factor of C, (R, R)."""
        return np.asarray(np.linalg.cholesky(self.noise))

    @cached_property
    def precision(self) -> FloatArray:
        """C^-1, (R, R)."""
        return np.asarray(np.linalg.inv(self.noise))

    @cached_property
    def weights(self) -> FloatArray:
        """C^-1 times the steps, (R, M * K)."""
        return np.asarray(
            cho_solve((self.noise_root, True), self.flat_steps.T, check_finite=False)
        )

    @cached_property
    def posterior(self) -> SeverityPosterior:
        """Posterior of the severities."""
        return SeverityPosterior.build(
            self.steps, self.weights, self.correlation, self.interaction
        )


@cache
def list_functions(n_patterns: int, n_steps: int, interacting: bool) -> FloatArray:
    """Return the functions of z (G, T): the basis of the steps; where patterns
    interact, also times each severity.
    """
    basis = make_point_basis(n_patterns, n_steps)
    if not interacting:
        return basis
    return np.concatenate(
        [basis, *(basis * z[:, None] for z in make_severity_points(n_patterns).T)],
        axis=1,
    )


def make_trajectory_head(
    preparation: ContrastiveHead, model: TrajectoryModel
) -> tuple[TrajectoryHead, FloatArray]:
    """Return the head of a model, and its curves (Q, M, R) at `SEVERITY_LEVELS` in
    control standard deviations.

    Parameters
    ----------
    preparation : ContrastiveHead
        Prepares the people. Its weights are not used.
    """
    arrays = replace(preparation, weights=model.weights).to_arrays()
    arrays |= {
        "steps": model.steps,
        "correlation": model.correlation,
        "precision": model.precision,
    }
    if model.interaction is None:
        head = TrajectoryHead.from_arrays(arrays)
    else:
        head = InteractingHead.from_arrays(arrays | {"interaction": model.interaction})
    return head, head.compute_curves(np.array(SEVERITY_LEVELS))

"""EM of curves from sums over people, step by step: for people who cannot be pooled.

The M step is that of `expectation_maximisation`, with one difference: the shrinkage of normal variation is the one of
normally distributed people, which needs no fourth powers. Interactions between patterns are not fitted.

Shape letters: R regions, M patterns, K steps.
"""

from dataclasses import dataclass

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.contrastive.stepwise import MomentsBySet
from rindices.learners.normal_variation import shrink_normal_scatter
from rindices.learners.trajectory.expectation_maximisation import (
    MIN_GAIN,
    PATIENCE,
    RHO_BY_SHAPE,
    TrajectoryModel,
    compute_residual_scatter,
    initialise_variances,
    shrink_correlation,
    update_curves,
)

MAX_STEPS = 25
"""Largest number of M steps. Fits of pooled people may take 40; most end after fewer than 20."""


@dataclass
class CurveTask:
    """One fit of curves: a set of people, a shape, and when to end.

    name: of the set of people; moments: of all sets, by name and group; held_out_name: of the held-out people, who tell
    when to end; empty without any; n_iterations: number of M steps; the largest number if there are held-out patients.
    """

    name: str
    shape: str
    model: TrajectoryModel
    moments: MomentsBySet
    held_out_name: str = ""
    n_iterations: int = MAX_STEPS
    iteration: int = 0
    best_iteration: int = 0
    best_likelihood: float = -np.inf
    best_model: TrajectoryModel | None = None
    is_done: bool = False

    def __post_init__(self) -> None:
        self.variances = initialise_variances(self.model)

    @property
    def result(self) -> TrajectoryModel:
        """The model under which held-out patients are most likely, or the last one."""
        return self.model if self.best_model is None else self.best_model

    def take(self, cross: FloatArray, gram: FloatArray, normal: FloatArray, log_sum: float) -> None:
        """Compare the likelihood of held-out patients under the current model, then take an M step.

        cross (R, M * K): sum x E[b]' over patients; gram: sum E[b b']; normal (M, M): sum E[y y']; log_sum: summed
        log-likelihood of held-out patients, relative to controls.
        """
        if self.held_out_name:
            self._judge(log_sum)
        if not self.is_done:
            self._update(cross, gram, normal)

    def _judge(self, log_sum: float) -> None:
        held_out, noise = self.moments[self.held_out_name, "patients"], self.model.noise
        distance = float(np.trace(np.linalg.solve(noise, held_out.products)))
        half_log_determinant = float(np.log(np.diag(np.linalg.cholesky(noise))).sum())
        likelihood = (log_sum - 0.5 * distance) / max(held_out.number, 1) - half_log_determinant
        if not likelihood < self.best_likelihood + (MIN_GAIN if self.iteration else 0.0):
            self.best_iteration, self.best_likelihood, self.best_model = self.iteration, likelihood, self.model
        elif self.iteration - self.best_iteration >= PATIENCE:
            self.is_done = True
        self.is_done |= self.iteration >= self.n_iterations

    def _update(self, cross: FloatArray, gram: FloatArray, normal: FloatArray) -> None:
        controls, patients = self.moments[self.name, "controls"], self.moments[self.name, "patients"]
        model, self.variances = update_curves(self.model, self.variances, cross, gram, RHO_BY_SHAPE[self.shape])
        scatter = compute_residual_scatter(model, controls.products + patients.products, cross, gram)
        noise = shrink_normal_scatter(scatter, controls.number + patients.number)
        self.model = model._replace(noise=noise, correlation=shrink_correlation(normal))
        self.iteration += 1
        self.is_done = not self.held_out_name and self.iteration >= self.n_iterations

"""EM of the trajectory learner for many members at once: a round is one E step of all of them.

The M step is that of `rindices.learners.trajectory`, with one difference: the shrinkage of normal variation is the one
of normally distributed people, which needs no fourth powers. Interactions between patterns are not fitted.

Shape letters: R regions, M patterns, K steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rindices._typing import FloatArray
from rindices.federated import kinds
from rindices.federated.adjustment import shrink_normal_scatter
from rindices.federated.messages import pack_symmetric, unpack_symmetric
from rindices.federated.preparation import Preparation
from rindices.federated.rounds import Rounds
from rindices.federated.set_moments import MomentsBySet, SetMoments
from rindices.federated.subsets import SubsetPlan
from rindices.learners.trajectory.expectation_maximisation import (
    MIN_GAIN,
    PATIENCE,
    RHO_BY_SHAPE,
    TrajectoryModel,
    initialise_variances,
    shrink_correlation,
    update_common_steps,
    update_steps,
)

SHAPES = ("straight", "curved")
"""Shapes that are fitted across sites, the simpler one first."""
MAX_STEPS = 25
"""Largest number of M steps. Pooled fits may take 40; most end after fewer than 20."""


@dataclass
class CurveTask:
    """One fit of curves: a set of people, a shape, and when to end.

    name: of the set of people; held_out_name: of the held-out people, who tell when to end; empty without any;
    n_iterations: number of M steps; the largest number if there are held-out patients.
    """

    name: str
    shape: str
    model: TrajectoryModel
    controls: SetMoments
    patients: SetMoments
    held_out_name: str = ""
    held_out: SetMoments | None = None
    n_iterations: int = 0
    iteration: int = 0
    best_iteration: int = 0
    best_likelihood: float = -np.inf
    best_model: TrajectoryModel | None = None
    variances: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    is_done: bool = False

    @classmethod
    def begin(
        cls,
        name: str,
        shape: str,
        start: TrajectoryModel,
        moments: MomentsBySet,
        held_out_name: str = "",
        n_iterations: int = 0,
    ) -> "CurveTask":
        """Return a fit that begins at a model."""
        task = cls(
            *(name, shape, start, moments[name, "controls"], moments[name, "patients"], held_out_name),
            *(moments[held_out_name, "patients"] if held_out_name else None, n_iterations or MAX_STEPS),
        )
        task.variances = initialise_variances(start)
        return task

    @property
    def n_patterns(self) -> int:
        """M."""
        return len(self.model.steps)

    @property
    def result(self) -> TrajectoryModel:
        """The model under which held-out patients are most likely, or the last one."""
        return self.model if self.best_model is None else self.best_model

    def judge(self, log_sum: float) -> None:
        """Take the summed log-likelihood of held-out patients, relative to controls, under the current model."""
        if self.held_out is not None:
            likelihood = _compute_mean_likelihood(log_sum, self.held_out, self.model.noise)
            if not likelihood < self.best_likelihood + (MIN_GAIN if self.iteration else 0.0):
                self.best_iteration, self.best_likelihood, self.best_model = self.iteration, likelihood, self.model
            elif self.iteration - self.best_iteration >= PATIENCE:
                self.is_done = True
            self.is_done |= self.iteration >= self.n_iterations

    def update(self, cross: FloatArray, gram: FloatArray, normal: FloatArray) -> None:
        """Take one M step, from sum x E[b]' (R, M * K), sum E[b b'] and sum E[y y'] under the current model."""
        model, rho = self.model, RHO_BY_SHAPE[self.shape]
        if rho == 1.0:
            model = model._replace(common=update_common_steps(model, cross, gram))
        steps, self.variances = update_steps(model, self.variances, cross, gram, rho)
        model = model._replace(steps=steps)
        flat = model.flat_steps
        explained = cross @ flat
        scatter = self.controls.products + self.patients.products - explained - explained.T + flat.T @ gram @ flat
        noise = shrink_normal_scatter(scatter, self.controls.number + self.patients.number)
        self.model = model._replace(noise=noise, correlation=shrink_correlation(normal))
        self.iteration += 1
        self.is_done = self.held_out is None and self.iteration >= self.n_iterations


def fit_curves(rounds: Rounds, preparation: Preparation, plan: SubsetPlan, tasks: Sequence[CurveTask]) -> None:
    """Fit all tasks, in place, in as many rounds as the longest of them takes."""
    while active := [task for task in tasks if not task.is_done]:
        _take_step(rounds, preparation, plan, active)


def _take_step(rounds: Rounds, preparation: Preparation, plan: SubsetPlan, tasks: Sequence[CurveTask]) -> None:
    named: list[list[Any]] = [[task.name, task.held_out_name, task.n_patterns, task.shape] for task in tasks]
    groups, arrays = kinds.list_groups_of_tasks(named), preparation.to_arrays()
    for key, positions in groups.items():
        arrays |= _collect_parameters(key, [tasks[position] for position in positions])
    settings = {"plan": plan.to_dict(), "tasks": named, **preparation.to_settings()}
    total = rounds.ask(kinds.CURVES, settings, arrays).arrays
    for key, positions in groups.items():
        cross, likelihoods = total[f"cross.{key}"], total[f"likelihood.{key}"]
        grams, normals = (unpack_symmetric(total[f"{name}.{key}"]) for name in ("gram", "normal"))
        for k, position in enumerate(positions):
            task = tasks[position]
            task.judge(float(likelihoods[k]))
            if not task.is_done:
                task.update(cross[k], grams[k], normals[k])


def _collect_parameters(key: str, tasks: Sequence[CurveTask]) -> dict[str, FloatArray]:
    """Return the parameters of tasks of one shape and number of patterns; straight patterns have one direction each."""
    heads = collect_heads([task.model for task in tasks])
    if tasks[0].shape == "straight":
        directions = [_get_straight_direction(task.model) for task in tasks]
        heads |= {"weights": np.stack(directions), "common": np.stack([task.model.common for task in tasks])}
    heads["weights"] = heads["weights"].astype(np.float32)
    return {f"{name}.{key}": array for name, array in heads.items()}


def _get_straight_direction(model: TrajectoryModel) -> FloatArray:
    """Return C^-1 times the patterns (R, M), where the steps are common steps times patterns."""
    lengths = (model.common**2).sum(axis=1)
    patterns = np.einsum("mk,mkr->rm", model.common / lengths[:, None], model.steps)
    return np.asarray(np.linalg.solve(model.noise, patterns))


def collect_heads(models: Sequence[TrajectoryModel]) -> dict[str, FloatArray]:
    """Return what a site needs of T models: weights (T, R, M * K), and packed products and correlations."""
    weights = [model.compute_weights() for model in models]
    grams = [model.flat_steps @ each for model, each in zip(models, weights, strict=True)]
    return {
        "weights": np.stack(weights),
        "gram": pack_symmetric(np.stack([(gram + gram.T) / 2.0 for gram in grams])),
        "correlation": pack_symmetric(np.stack([model.correlation for model in models])),
    }


def _compute_mean_likelihood(log_sum: float, held_out: SetMoments, noise: FloatArray) -> float:
    """Return the mean log-likelihood of held-out patients: relative to controls, plus that of controls."""
    distance = float(np.trace(np.linalg.solve(noise, held_out.products)))
    half_log_determinant = float(np.log(np.diag(np.linalg.cholesky(noise))).sum())
    return (log_sum - 0.5 * distance) / max(held_out.number, 1) - half_log_determinant

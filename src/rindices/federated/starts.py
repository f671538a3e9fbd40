"""Linear starts of many members at once: the basis of each disease space, found in rounds.

The disease space, its refinement and the moments of the severities need moments of people alone. The basis maximises
the likelihood of `rindices.learners.contrastive.rotation`, whose first term is a sum over patients. Sites send this
term with its first and second derivatives, so the centre knows it near the current basis and takes Newton steps; a
round is one step of all members, starts and numbers of patterns.

Shape letters: R regions, M patterns, S starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rindices._typing import FloatArray
from rindices.federated import kinds
from rindices.federated.messages import unpack_symmetric
from rindices.federated.preparation import Preparation
from rindices.federated.rounds import Rounds
from rindices.federated.set_moments import MomentsBySet
from rindices.federated.subsets import SubsetPlan
from rindices.learners.contrastive.estimator import (
    N_EM_STEPS,
    N_RANDOM_STARTS,
    N_REFINEMENTS,
    LinearStart,
    order_by_strength,
    solve_contrastive_space,
)
from rindices.learners.contrastive.rotation import (
    EVEN_MOMENT_WEIGHT,
    ODD_MOMENT_WEIGHT,
    LikelihoodWeights,
    PeopleMoments,
    compute_dependence_loss,
    compute_severity_weights,
    compute_sparsity_loss,
    draw_rotation_starts,
    estimate_severity_moments,
    fit_prior_to_moments,
    refine_patterns,
)
from rindices.learners.trajectory.expectation_maximisation import TrajectoryModel
from rindices.learners.trajectory.members import make_trajectory_start

MAX_STEPS = (16, 8, 8)
"""Largest number of rounds of the first rotation and of the two after refinements."""
_FIRST_RADIUS, _MIN_RADIUS = 0.5, 1e-4  # of a step, relative to the length of a row of the unmixing
_N_STEPS_OF_ALL, _N_KEPT_STARTS = 4, 2  # steps after which only some starts go on
_TIE = 1e-4  # difference of log-likelihoods below which two starts found the same basis
_MIN_GAIN = 1e-7  # of the log-likelihood, at which a start has converged
_MAX_NEWTON_STEPS, _MIN_NEWTON_GAIN = 20, 1e-8  # on the centre, between two rounds
_STEP_SHARES = np.array([1.0, 0.5, 0.2, 0.05])
_WEIGHTS = LikelihoodWeights()
_MOMENT_WEIGHTS = np.array([ODD_MOMENT_WEIGHT, EVEN_MOMENT_WEIGHT])


class ContrastSums(NamedTuple):
    """Means of the two contrast functions of each direction, with derivatives.

    directions (M, M): unit vectors in the rows; values (M, 2); gradients (M, 2, M); curvatures (M, 2, M, M).
    """

    directions: FloatArray
    values: FloatArray
    gradients: FloatArray
    curvatures: FloatArray

    @classmethod
    def from_sums(cls, directions: FloatArray, sums: FloatArray, number: int) -> "ContrastSums":
        """Return the means of sums (M, 2 (1 + M + M (M + 1) / 2)) over a number of people."""
        n_patterns = len(directions)
        parts = (sums / number).reshape(n_patterns, 2, -1)
        values = parts[:, :, 0] - np.array([0.0, np.sqrt(0.5)])  # of a normal severity the even mean is sqrt(1 / 2)
        return cls(directions, values, parts[:, :, 1 : 1 + n_patterns], unpack_symmetric(parts[:, :, 1 + n_patterns :]))

    def extrapolate(self, unmixings: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return minus the negentropy per person (U,) at unmixings (U, M, M) nearby, and gradients (U, M, M)."""
        norm = np.linalg.norm(unmixings, axis=2, keepdims=True)
        unit = unmixings / norm
        step = unit - self.directions
        bent = np.einsum("kfij,ukj->ukfi", self.curvatures, step)
        values = self.values + np.einsum("ukfi,uki->ukf", self.gradients + 0.5 * bent, step)
        slope = -2.0 * np.einsum("f,ukf,ukfi->uki", _MOMENT_WEIGHTS, values, self.gradients + bent)
        tangent = (slope - (slope * unit).sum(axis=2, keepdims=True) * unit) / norm
        return -(values**2 @ _MOMENT_WEIGHTS).sum(axis=1), tangent


@dataclass
class _BasisSearch:
    """Trust-region Newton steps from one start."""

    unmixing: FloatArray  # (M, M), the best so far
    candidate: FloatArray
    loss: float = np.inf
    sums: ContrastSums | None = None
    radius: float = _FIRST_RADIUS
    is_done: bool = False

    def update(self, sums: FloatArray, number: int, patterns: FloatArray) -> None:
        """Take the sums at the candidate, and choose the next one."""
        contrast = ContrastSums.from_sums(_normalise(self.candidate), sums, number)
        loss = float(_compute_losses(self.candidate[None], contrast, number, patterns)[0][0])
        gain = self.loss - loss
        if gain > -_MIN_GAIN:  # at the optimum, rounding decides on the sign
            self.unmixing, self.loss, self.sums = self.candidate, loss, contrast
            self.radius = min(1.0, 2.0 * self.radius)
        else:
            self.radius *= 0.25
        if abs(gain) < _MIN_GAIN or self.radius < _MIN_RADIUS:
            self.is_done = True
        elif self.sums is not None:
            self.candidate = _find_candidate(self.unmixing, self.sums, number, patterns, self.radius)


@dataclass
class StartTask:
    """One linear start: a set of people and a number of patterns.

    name: of the set; patterns (R, M); noise (R, R); patients: about the mean of the controls; centre (R,): mean of the
    controls.
    """

    name: str
    n_patterns: int
    patterns: FloatArray
    noise: FloatArray
    patients: PeopleMoments
    centre: FloatArray
    rotated: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    linear_map: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    offset: FloatArray = field(default_factory=lambda: np.zeros(0))
    searches: list[_BasisSearch] = field(default_factory=list)

    @classmethod
    def begin(cls, name: str, n_patterns: int, moments: MomentsBySet) -> "StartTask":
        """Find the disease space of a set of people."""
        controls, patients = moments[name, "controls"], moments[name, "patients"]
        noise = controls.estimate_covariance()
        shift = patients.mean - controls.mean
        patterns, _ = solve_contrastive_space(noise, patients.estimate_covariance(), shift, n_patterns)
        return cls(name, n_patterns, patterns, noise, patients.centre(controls.mean), controls.mean)

    @property
    def is_done(self) -> bool:
        """Whether all starts have converged."""
        return all(search.is_done for search in self.searches)

    def begin_rotation(self, n_random_starts: int, rng: np.random.Generator) -> None:
        """Whiten the severities and draw the starts; see `_rotate_patterns` of the contrastive learner."""
        weights = compute_severity_weights(self.patterns, self.noise)
        mean, covariance = self.patients.project(weights)
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, 1e-12 * max(float(values.max()), 1e-300))
        root = vectors * np.sqrt(values) @ vectors.T
        self.rotated, inverse = self.patterns @ root, np.linalg.inv(root)
        self.linear_map = weights @ inverse
        self.offset = mean @ inverse + self.centre @ self.linear_map
        starts = draw_rotation_starts(self.rotated, n_random_starts, rng) if self.n_patterns > 1 else []
        self.searches = [_BasisSearch(start, start) for start in starts]

    def keep_best_starts(self) -> None:
        """Go on with the most likely starts alone."""
        remaining, kept = list(self.searches), list[_BasisSearch]()
        while remaining and len(kept) < _N_KEPT_STARTS:
            kept.append(_find_most_likely(remaining))
            remaining = [search for search in remaining if search is not kept[-1]]
        self.searches = kept

    def end_rotation(self) -> None:
        """Take the most likely basis, with a positive mean of patients, strongest pattern first."""
        rotated = self.rotated
        if self.searches:
            unmixing = _find_most_likely(self.searches).unmixing
            rotated = rotated @ np.linalg.inv(_normalise(unmixing))
        mean = self.patients.mean @ compute_severity_weights(rotated, self.noise)
        rotated = rotated * np.where(mean < 0, -1.0, 1.0)
        self.patterns = np.asarray(rotated[:, order_by_strength(rotated, self.noise)])

    def make_model(self) -> TrajectoryModel:
        """Return the linear model as curves."""
        prior = fit_prior_to_moments(*estimate_severity_moments(self.patients, self.patterns, self.noise))
        return make_trajectory_start(LinearStart(self.patterns, self.noise, prior))


def fit_starts(
    rounds: Rounds,
    preparation: Preparation,
    plan: SubsetPlan,
    moments: MomentsBySet,
    sets: Sequence[str],
    numbers: Sequence[int],
) -> dict[tuple[str, int], TrajectoryModel]:
    """Return the linear start of each set of people and number of patterns.

    sets: names of the sets; numbers: numbers of patterns.
    """
    tasks = [StartTask.begin(name, number, moments) for name in sets for number in numbers]
    rngs = [np.random.default_rng([plan.seed, 11, k]) for k in range(len(tasks))]
    for stage in range(N_REFINEMENTS + 1):
        for task, rng in zip(tasks, rngs, strict=True):
            if stage:
                task.patterns = refine_patterns(task.patients, task.patterns, task.noise, N_EM_STEPS)
            task.begin_rotation(0 if stage else N_RANDOM_STARTS, rng)
        for step in range(MAX_STEPS[stage]):
            active = [task for task in tasks if not task.is_done]
            if not active:
                break
            if step == _N_STEPS_OF_ALL:
                for task in active:
                    task.keep_best_starts()
            _take_step(rounds, preparation, plan, active)
        for task in tasks:
            task.end_rotation()
    return {(task.name, task.n_patterns): task.make_model() for task in tasks}


def _take_step(rounds: Rounds, preparation: Preparation, plan: SubsetPlan, tasks: Sequence[StartTask]) -> None:
    """Ask for the sums at the candidates of all tasks, and let each search go on."""
    named: list[list[Any]] = [[task.name, "", task.n_patterns] for task in tasks]
    groups = kinds.list_groups_of_tasks(named)
    arrays = preparation.to_arrays()
    for key, positions in groups.items():
        members = [tasks[position] for position in positions]
        arrays[f"map.{key}"] = np.stack([task.linear_map for task in members]).astype(np.float32)
        arrays[f"offset.{key}"] = np.stack([task.offset for task in members])
        arrays[f"directions.{key}"] = np.stack(
            [[_normalise(search.candidate) for search in task.searches] for task in members]
        )
    settings = {"plan": plan.to_dict(), "tasks": named, **preparation.to_settings()}
    total = rounds.ask(kinds.ROTATION, settings, arrays)
    for key, positions in groups.items():
        for position, sums in zip(positions, total.arrays[f"sums.{key}"], strict=True):
            task = tasks[position]
            for search, own in zip(task.searches, sums, strict=True):
                if not search.is_done:
                    search.update(own, task.patients.number, task.rotated)


def _find_most_likely(searches: Sequence[_BasisSearch]) -> _BasisSearch:
    """Return the most likely search; of those that are equal but for rounding, the first."""
    best = min(search.loss for search in searches)
    return next(search for search in searches if search.loss <= best + _TIE)


def _normalise(unmixing: FloatArray) -> FloatArray:
    return np.asarray(unmixing / np.linalg.norm(unmixing, axis=1, keepdims=True))


def _compute_losses(
    unmixings: FloatArray, contrast: ContrastSums, number: int, patterns: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the negative log-likelihood (U,) of unmixings (U, M, M) and its gradients, by derivatives known nearby."""
    sign, logdet = np.linalg.slogdet(unmixings)
    is_singular = (sign == 0) | ~np.isfinite(logdet)
    unmixings = np.where(is_singular[:, None, None], np.eye(len(contrast.directions)), unmixings)
    logdet = np.where(is_singular, 0.0, logdet)
    inverse = np.asarray(np.linalg.inv(unmixings))
    loss, gradient = contrast.extrapolate(unmixings)
    dependence = compute_dependence_loss(unmixings, inverse, logdet)
    sparsity = compute_sparsity_loss(inverse, patterns, logdet)
    weights = (_WEIGHTS.independence * number, _WEIGHTS.regions)
    total = number * loss + weights[0] * dependence.loss + weights[1] * sparsity.loss
    gradient = number * gradient + weights[0] * dependence.gradient + weights[1] * sparsity.gradient
    return np.where(is_singular, np.inf, total), gradient


def _find_candidate(
    unmixing: FloatArray, contrast: ContrastSums, number: int, patterns: FloatArray, radius: float
) -> FloatArray:
    """Return the most likely unmixing (M, M) within a radius, by derivatives at the present one (Newton steps)."""
    limit = radius * np.linalg.norm(unmixing, axis=1, keepdims=True)
    size = unmixing.size
    offsets = np.concatenate([np.eye(size), -np.eye(size)]).reshape(-1, *unmixing.shape)
    width = 1e-5 * float(np.linalg.norm(unmixing)) / np.sqrt(size)
    current = unmixing
    for _ in range(_MAX_NEWTON_STEPS):
        points = np.concatenate([current[None], current + width * offsets])
        losses, gradients = _compute_losses(points, contrast, number, patterns)
        flat = gradients.reshape(len(points), -1)
        curvature = (flat[1 : size + 1] - flat[size + 1 :]) / (2.0 * width)
        values, vectors = np.linalg.eigh((curvature + curvature.T) / 2.0)
        values = np.maximum(np.abs(values), 1e-6 * np.abs(values).max())
        step = (vectors / values @ (vectors.T @ -flat[0])).reshape(unmixing.shape)
        trials = np.clip(current + _STEP_SHARES[:, None, None] * step, unmixing - limit, unmixing + limit)
        trial_losses = _compute_losses(trials, contrast, number, patterns)[0]
        best = int(np.argmin(trial_losses))
        if abs(losses[0] - trial_losses[0]) < _MIN_NEWTON_GAIN:  # the last step is taken whatever rounding says
            return np.asarray(trials[0])
        if not trial_losses[best] < losses[0]:
            break
        current = trials[best]
    return np.asarray(current)

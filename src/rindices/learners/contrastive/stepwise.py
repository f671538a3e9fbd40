"""The linear start from sums over people, step by step: for people who cannot be pooled.

The disease space, its refinement and the moments of the severities need moments of people alone. The basis maximises
the likelihood of `rotation`, whose first term is a sum over patients. This term is summed together with its first and
second derivatives, so that the likelihood is known near the current basis, and Newton steps can be taken.

Shape letters: R regions, M patterns, S starts, U unmixings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.contrastive.estimator import (
    N_EM_STEPS,
    LinearStart,
    compute_covariance_root,
    orient_patterns,
    solve_contrastive_space,
)
from rindices.learners.contrastive.rotation import (
    EVEN_MOMENT_WEIGHT,
    ODD_MOMENT_WEIGHT,
    LikelihoodWeights,
    LossTerm,
    PeopleMoments,
    add_pattern_terms,
    compute_severity_weights,
    draw_rotation_starts,
    estimate_severity_moments,
    fit_prior_to_moments,
    normalise_rows,
    refine_patterns,
)
from rindices.learners.normal_variation import add_ridge, shrink_scatter

_FIRST_RADIUS, _MIN_RADIUS = 0.5, 1e-4  # of a Newton step, relative to the length of a row of the unmixing
_TIE = 1e-4  # difference of log-likelihoods below which two starts found the same basis
_MIN_GAIN = 1e-7  # of the log-likelihood, at which a start has converged
_MAX_NEWTON_STEPS, _MIN_NEWTON_GAIN = 20, 1e-8  # between two sums over people
_STEP_SHARES = np.array([1.0, 0.5, 0.2, 0.05])
_MOMENT_WEIGHTS = np.array([ODD_MOMENT_WEIGHT, EVEN_MOMENT_WEIGHT])
_N_KEPT_STARTS = 2


class SetMoments(NamedTuple):
    """Sums over a set of people: their number, x (R,), x x' (R, R), |x|^2 x (R,) and |x|^4."""

    number: int
    total: FloatArray
    products: FloatArray
    weighted: FloatArray
    fourth: float

    @property
    def mean(self) -> FloatArray:
        """Mean (R,)."""
        return np.asarray(self.total / max(self.number, 1))

    @property
    def scatter(self) -> FloatArray:
        """Products (R, R) about the mean."""
        return np.asarray(self.products - self.number * np.outer(self.mean, self.mean))

    def subtract(self, other: Self) -> "SetMoments":
        """Return the sums over the people who are not in the other set, a part of this one."""
        return SetMoments(
            self.number - other.number,
            self.total - other.total,
            self.products - other.products,
            self.weighted - other.weighted,
            self.fourth - other.fourth,
        )

    def estimate_covariance(self) -> FloatArray:
        """Return the Ledoit-Wolf covariance (R, R); equal to that of `rindices.learners.normal_variation`."""
        mean, length = self.mean, float(self.mean @ self.mean)
        fourth = (
            self.fourth
            + 4.0 * float(mean @ self.products @ mean)
            + self.number * length**2
            - 4.0 * float(mean @ self.weighted)
            + 2.0 * length * float(np.trace(self.products))
            - 4.0 * length * float(mean @ self.total)
        )
        return add_ridge(shrink_scatter(self.scatter, fourth, self.number))

    def centre(self, point: FloatArray) -> PeopleMoments:
        """Return mean and second moment of the people, less a point (R,)."""
        cross = np.outer(self.mean, point)
        second = self.products / self.number - cross - cross.T + np.outer(point, point)
        return PeopleMoments(self.number, self.mean - point, second)


MomentsBySet = Mapping[tuple[str, str], SetMoments]
"""Moments by the name of a set and the group, ``controls`` or ``patients``."""


class ContrastSums(NamedTuple):
    """Means over patients of the two contrast functions s exp(-s^2 / 2) and exp(-s^2 / 2), with derivatives.

    directions (M, M): unit vectors in the rows; values (M, 2); gradients (M, 2, M); curvatures (M, 2, M, M).
    """

    directions: FloatArray
    values: FloatArray
    gradients: FloatArray
    curvatures: FloatArray

    def extrapolate(self, unmixings: FloatArray) -> LossTerm:
        """Return minus the negentropy per person (U,) at unmixings (U, M, M) nearby, and gradients (U, M, M)."""
        norm = np.linalg.norm(unmixings, axis=2, keepdims=True)
        unit = unmixings / norm
        step = unit - self.directions
        bent = np.einsum("kfij,ukj->ukfi", self.curvatures, step)
        even_mean = np.array([0.0, np.sqrt(0.5)])  # of a normal severity
        values = self.values - even_mean + np.einsum("ukfi,uki->ukf", self.gradients + 0.5 * bent, step)
        slope = -2.0 * np.einsum("f,ukf,ukfi->uki", _MOMENT_WEIGHTS, values, self.gradients + bent)
        tangent = (slope - (slope * unit).sum(axis=2, keepdims=True) * unit) / norm
        return LossTerm(-(values**2 @ _MOMENT_WEIGHTS).sum(axis=1), tangent)

    def compute_losses(self, unmixings: FloatArray, number: int, patterns: FloatArray) -> LossTerm:
        """Return the negative log-likelihood (U,) of unmixings (U, M, M) nearby and its gradients (U, M, M)."""
        sign, logdet = np.linalg.slogdet(unmixings)
        is_singular = (sign == 0) | ~np.isfinite(logdet)
        unmixings = np.where(is_singular[:, None, None], np.eye(len(self.directions)), unmixings)
        loss, gradient = self.extrapolate(unmixings)
        people, logdet = LossTerm(number * loss, number * gradient), np.where(is_singular, 0.0, logdet)
        term = add_pattern_terms(people, unmixings, logdet, patterns, number, LikelihoodWeights())
        return LossTerm(np.where(is_singular, np.inf, term.loss), term.gradient)

    def find_candidate(self, unmixing: FloatArray, number: int, patterns: FloatArray, radius: float) -> FloatArray:
        """Return the most likely unmixing (M, M) within a radius, by derivatives at the present one (Newton steps)."""
        limit = radius * np.linalg.norm(unmixing, axis=1, keepdims=True)
        size = unmixing.size
        offsets = np.concatenate([np.eye(size), -np.eye(size)]).reshape(-1, *unmixing.shape)
        width = 1e-5 * float(np.linalg.norm(unmixing)) / np.sqrt(size)
        current = unmixing
        for _ in range(_MAX_NEWTON_STEPS):
            points = np.concatenate([current[None], current + width * offsets])
            losses, gradients = self.compute_losses(points, number, patterns)
            flat = gradients.reshape(len(points), -1)
            curvature = (flat[1 : size + 1] - flat[size + 1 :]) / (2.0 * width)
            values, vectors = np.linalg.eigh((curvature + curvature.T) / 2.0)
            values = np.maximum(np.abs(values), 1e-6 * np.abs(values).max())
            step = (vectors / values @ (vectors.T @ -flat[0])).reshape(unmixing.shape)
            trials = np.clip(current + _STEP_SHARES[:, None, None] * step, unmixing - limit, unmixing + limit)
            trial_losses = self.compute_losses(trials, number, patterns).loss
            best = int(np.argmin(trial_losses))
            if abs(losses[0] - trial_losses[0]) < _MIN_NEWTON_GAIN:  # the last step is taken whatever rounding says
                return np.asarray(trials[0])
            if not trial_losses[best] < losses[0]:
                break
            current = trials[best]
        return np.asarray(current)


@dataclass
class BasisSearch:
    """Trust-region Newton steps from one start: unmixings (M, M), the best so far and the next one to be summed at."""

    unmixing: FloatArray
    candidate: FloatArray
    loss: float = np.inf
    sums: ContrastSums | None = None
    radius: float = _FIRST_RADIUS
    is_done: bool = False

    def update(self, sums: ContrastSums, number: int, patterns: FloatArray) -> None:
        """Take the sums at the candidate over a number of patients, and choose the next one."""
        loss = float(sums.compute_losses(self.candidate[None], number, patterns).loss[0])
        gain = self.loss - loss
        if gain > -_MIN_GAIN:  # at the optimum, rounding decides on the sign
            self.unmixing, self.loss, self.sums = self.candidate, loss, sums
            self.radius = min(1.0, 2.0 * self.radius)
        else:
            self.radius *= 0.25
        if abs(gain) < _MIN_GAIN or self.radius < _MIN_RADIUS:
            self.is_done = True
        elif self.sums is not None:
            self.candidate = self.sums.find_candidate(self.unmixing, number, patterns, self.radius)


def find_most_likely_search(searches: Sequence[BasisSearch]) -> BasisSearch:
    """Return the most likely search; of those that are equal but for rounding, the first."""
    best = min(search.loss for search in searches)
    return next(search for search in searches if search.loss <= best + _TIE)


class StartTask:
    """One linear start: a set of people and a number of patterns.

    name: of the set; patterns (R, M); noise (R, R); patients: about the mean of the controls; centre (R,): mean of the
    controls.
    """

    def __init__(self, name: str, n_patterns: int, moments: MomentsBySet, rng: np.random.Generator) -> None:
        controls, patients = moments[name, "controls"], moments[name, "patients"]
        self.name, self.n_patterns, self._rng = name, n_patterns, rng
        self.centre, self.patients = controls.mean, patients.centre(controls.mean)
        self.noise, covariance = controls.estimate_covariance(), patients.estimate_covariance()
        self.patterns, _ = solve_contrastive_space(self.noise, covariance, self.patients.mean, n_patterns)
        self.searches: list[BasisSearch] = []

    @property
    def is_done(self) -> bool:
        """Whether all starts have converged."""
        return all(search.is_done for search in self.searches)

    def refine(self) -> None:
        """Refine the patterns by EM."""
        self.patterns = refine_patterns(self.patients, self.patterns, self.noise, N_EM_STEPS)

    def begin_rotation(self, n_random_starts: int) -> None:
        """Whiten the severities and draw the starts; see `_rotate_patterns` of the estimator."""
        weights = compute_severity_weights(self.patterns, self.noise)
        mean, covariance = self.patients.project(weights)
        root = compute_covariance_root(covariance)
        self.rotated, inverse = self.patterns @ root, np.linalg.inv(root)
        self.linear_map = weights @ inverse
        self.offset = mean @ inverse + self.centre @ self.linear_map
        starts = draw_rotation_starts(self.rotated, n_random_starts, self._rng) if self.n_patterns > 1 else []
        self.searches = [BasisSearch(start, start) for start in starts]

    def keep_best_starts(self) -> None:
        """Go on with the most likely starts alone."""
        remaining, self.searches = self.searches, []
        while remaining and len(self.searches) < _N_KEPT_STARTS:
            self.searches.append(find_most_likely_search(remaining))
            remaining = [search for search in remaining if search is not self.searches[-1]]

    def update(self, values: FloatArray, gradients: FloatArray, curvatures: FloatArray) -> None:
        """Take the sums at the candidates: (S, M, 2), (S, M, 2, M), (S, M, 2, M, M); see `ContrastSums`."""
        number = self.patients.number
        for k, search in enumerate(self.searches):
            if not search.is_done:
                means = [array[k] / number for array in (values, gradients, curvatures)]
                search.update(ContrastSums(normalise_rows(search.candidate), *means), number, self.rotated)

    def end_rotation(self) -> None:
        """Take the most likely basis, with a positive mean of patients, strongest pattern first."""
        rotated = self.rotated
        if self.searches:
            rotated = rotated @ np.linalg.inv(normalise_rows(find_most_likely_search(self.searches).unmixing))
        self.patterns = orient_patterns(rotated, self.noise, self.patients.mean)

    def make_start(self) -> LinearStart:
        """Return the solved linear model."""
        prior = fit_prior_to_moments(*estimate_severity_moments(self.patients, self.patterns, self.noise))
        return LinearStart(self.patterns, self.noise, prior)

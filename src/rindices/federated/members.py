"""Fit the members of a federated study and the halves of their people, all at once: moments, linear starts, curves.

The disease space, its refinement and the moments of the severities need moments of people alone. The basis is found by
Newton steps (`rindices.learners.contrastive.rotation.BasisSearch`); a round is one step of all members, starts and
numbers of patterns. Then a round is one E step of all of them. The M step is that of `rindices.learners.trajectory`,
with one difference: the shrinkage of normal variation is the one of normally distributed people, which needs no fourth
powers. Interactions between patterns are not fitted.

Shape letters: R regions, M patterns, K steps, S starts, T models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import FloatArray
from rindices.federated import kinds
from rindices.federated.messages import pack_symmetric, unpack_symmetric
from rindices.federated.rounds import PreparedRounds
from rindices.federated.subsets import GROUPS, name_half, name_held_out, name_member
from rindices.learners.contrastive.estimator import (
    N_EM_STEPS,
    N_RANDOM_STARTS,
    N_REFINEMENTS,
    LinearStart,
    compute_covariance_root,
    orient_patterns,
    solve_contrastive_space,
)
from rindices.learners.contrastive.rotation import (
    BasisSearch,
    ContrastSums,
    PeopleMoments,
    compute_severity_weights,
    draw_rotation_starts,
    estimate_severity_moments,
    find_most_likely_search,
    fit_prior_to_moments,
    normalise_rows,
    refine_patterns,
)
from rindices.learners.normal_variation import add_ridge, shrink_normal_scatter, shrink_scatter
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
from rindices.learners.trajectory.members import make_trajectory_start

SHAPES = ("straight", "curved")
"""Shapes that are fitted across sites, the simpler one first."""
MAX_CURVE_STEPS = 25
"""Largest number of M steps. Pooled fits may take 40; most end after fewer than 20."""
MAX_ROTATION_STEPS = (16, 8, 8)
"""Largest number of rounds of the first rotation and of the two after refinements."""
_N_STEPS_OF_ALL, _N_KEPT_STARTS = 4, 2  # steps after which only some starts go on


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
        return SetMoments(*(own - each for own, each in zip(self, other, strict=True)))

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
"""Moments by the name of a set and the group."""


def ask_for_moments(rounds: PreparedRounds) -> MomentsBySet:
    """Ask for the moments of all sets.

    Those of held-out people and of second halves are differences, unless members see a part of the people alone.
    """
    plan, members = rounds.plan, range(rounds.plan.members)
    names = ["all", *(name_member(k) for k in members), *(name_half(k, 0) for k in members)]
    if plan.is_limited:
        names += [*(name_held_out(k) for k in members), *(name_half(k, 1) for k in members)]
    sets = [(name, group) for name in names for group in GROUPS]
    total = rounds.ask(kinds.MOMENTS, {"sets": [list(each) for each in sets]})
    arrays = total.arrays
    products = unpack_symmetric(arrays["products"])
    moments = {
        (name, group): SetMoments(
            total.counts[f"{name}/{group}"],
            *(arrays["sum"][k], products[k], arrays["weighted"][k], float(arrays["fourth"][k])),
        )
        for k, (name, group) in enumerate(sets)
    }
    for group in GROUPS if not plan.is_limited else ():
        everyone = moments["all", group]
        for k in members:
            moments[name_held_out(k), group] = everyone.subtract(moments[name_member(k), group])
            moments[name_half(k, 1), group] = everyone.subtract(moments[name_half(k, 0), group])
    return moments


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

    def begin_rotation(self, n_random_starts: int) -> None:
        """Whiten the severities and draw the starts; see `_rotate_patterns` of the contrastive learner."""
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

    def update(self, sums: FloatArray) -> None:
        """Take the sums at the candidates, (S, M, 2 (1 + M + M (M + 1) / 2))."""
        number, n_patterns = self.patients.number, self.n_patterns
        for search, each in zip(self.searches, sums / number, strict=True):
            if not search.is_done:
                parts = each.reshape(n_patterns, 2, -1)
                curvatures = unpack_symmetric(parts[:, :, 1 + n_patterns :])
                derivatives = (parts[:, :, 0], parts[:, :, 1 : 1 + n_patterns], curvatures)
                search.update(ContrastSums(normalise_rows(search.candidate), *derivatives), number, self.rotated)

    def end_rotation(self) -> None:
        """Take the most likely basis, with a positive mean of patients, strongest pattern first."""
        rotated = self.rotated
        if self.searches:
            rotated = rotated @ np.linalg.inv(normalise_rows(find_most_likely_search(self.searches).unmixing))
        self.patterns = orient_patterns(rotated, self.noise, self.patients.mean)

    def make_model(self) -> TrajectoryModel:
        """Return the linear model as curves."""
        prior = fit_prior_to_moments(*estimate_severity_moments(self.patients, self.patterns, self.noise))
        return make_trajectory_start(LinearStart(self.patterns, self.noise, prior))


def fit_starts(
    rounds: PreparedRounds, moments: MomentsBySet, sets: Sequence[str], numbers: Sequence[int]
) -> dict[tuple[str, int], TrajectoryModel]:
    """Return the linear start of each set of people and number of patterns."""
    pairs = [(name, number) for name in sets for number in numbers]
    rngs = [np.random.default_rng([rounds.plan.seed, 11, k]) for k in range(len(pairs))]
    tasks = [StartTask(*pair, moments, rng) for pair, rng in zip(pairs, rngs, strict=True)]
    for stage in range(N_REFINEMENTS + 1):
        for task in tasks:
            if stage:
                task.patterns = refine_patterns(task.patients, task.patterns, task.noise, N_EM_STEPS)
            task.begin_rotation(0 if stage else N_RANDOM_STARTS)
        for step in range(MAX_ROTATION_STEPS[stage]):
            active = [task for task in tasks if not task.is_done]
            if not active:
                break
            if step == _N_STEPS_OF_ALL:
                for task in active:
                    task.keep_best_starts()
            _rotate_starts(rounds, active)
        for task in tasks:
            task.end_rotation()
    return {(task.name, task.n_patterns): task.make_model() for task in tasks}


def _rotate_starts(rounds: PreparedRounds, tasks: Sequence[StartTask]) -> None:
    """Ask for the sums at the candidates of all tasks, and let each search go on."""

    def get_arrays(positions: list[int]) -> dict[str, FloatArray]:
        chosen = [tasks[position] for position in positions]
        directions = [[normalise_rows(search.candidate) for search in task.searches] for task in chosen]
        return {
            "map": np.stack([task.linear_map for task in chosen]).astype(np.float32),
            "offset": np.stack([task.offset for task in chosen]),
            "directions": np.array(directions),
        }

    named = [[task.name, "", task.n_patterns] for task in tasks]
    for task, sums in zip(tasks, rounds.ask_for_tasks(kinds.ROTATION, named, get_arrays), strict=True):
        task.update(sums["sums"])


@dataclass
class CurveTask:
    """One fit of curves: a set of people, a shape, and when to end.

    name: of the set of people; moments: of all sets; held_out_name: of the held-out people, who tell when to end; empty
    without any; n_iterations: number of M steps; the largest number if there are held-out patients.
    """

    name: str
    shape: str
    model: TrajectoryModel
    moments: MomentsBySet = field(repr=False)
    held_out_name: str = ""
    n_iterations: int = MAX_CURVE_STEPS
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

    def take(self, sums: Mapping[str, FloatArray]) -> None:
        """Take the sums under the current model: compare the likelihood of held-out patients, then take an M step."""
        if self.held_out_name:
            self._judge(float(sums["likelihood"]))
        if not self.is_done:
            self._update(sums["cross"], *(unpack_symmetric(sums[name]) for name in ("gram", "normal")))

    def _judge(self, log_sum: float) -> None:
        """Take the summed log-likelihood of held-out patients, relative to controls."""
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
        """Take one M step, from sum x E[b]' (R, M * K), sum E[b b'] and sum E[y y'] under the current model."""
        controls, patients = (self.moments[self.name, group] for group in GROUPS)
        model, self.variances = update_curves(self.model, self.variances, cross, gram, RHO_BY_SHAPE[self.shape])
        scatter = compute_residual_scatter(model, controls.products + patients.products, cross, gram)
        noise = shrink_normal_scatter(scatter, controls.number + patients.number)
        self.model = model._replace(noise=noise, correlation=shrink_correlation(normal))
        self.iteration += 1
        self.is_done = not self.held_out_name and self.iteration >= self.n_iterations


def fit_curves(rounds: PreparedRounds, tasks: Sequence[CurveTask]) -> None:
    """Fit all tasks, in place, in as many rounds as the longest of them takes."""
    while active := [task for task in tasks if not task.is_done]:
        named = [[task.name, task.held_out_name, len(task.model.steps), task.shape] for task in active]
        sums = rounds.ask_for_tasks(
            kinds.CURVES, named, lambda positions, active=active: _collect_parameters([active[k] for k in positions])
        )
        for task, own in zip(active, sums, strict=True):
            task.take(own)


def _collect_parameters(tasks: Sequence[CurveTask]) -> dict[str, FloatArray]:
    """Return the parameters of tasks of one shape and number of patterns; straight patterns have one direction each."""
    heads = collect_heads([task.model for task in tasks])
    if tasks[0].shape == "straight":
        directions = [_get_straight_direction(task.model) for task in tasks]
        heads |= {"weights": np.stack(directions), "common": np.stack([task.model.common for task in tasks])}
    return heads | {"weights": heads["weights"].astype(np.float32)}


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

"""Ensemble members of the trajectory learner, and their choice between straight, curved and interacting patterns.

Each member is fitted to its own random four fifths of controls and of patients. The likelihood of the patients that it
has not seen tells which shape, and which number of patterns, describes other people best.

Shape letters: S members, N people, R regions, M patterns, K steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.contrastive.estimator import initialise_contrastive_head
from rindices.learners.contrastive.linear_start import LinearStart, fit_linear_start
from rindices.learners.contrastive.severity_prior import QUANTILE_GRID
from rindices.learners.ensemble import (
    SHAPES,
    HeldOutLikelihood,
    Member,
    SplitHalfAgreement,
    choose_shape,
    compute_split_half_agreement,
)
from rindices.learners.inference import SEVERITY_LEVELS, ContrastiveHead, InteractingHead, TrajectoryHead
from rindices.learners.missing_cells import complete_people
from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.severity_points import N_STEPS
from rindices.learners.subsampling import SUBSAMPLE_SHARE, Subsample, draw_subsample, split_into_halves
from rindices.learners.trajectory.expectation_maximisation import TrajectoryFit, fit_trajectories
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.threads import limit_blas_threads

MAX_INTERACTING_PATTERNS = 4
"""Largest number of patterns for which interactions are tried."""
_PATH_BY_SHAPE = {"straight": ("straight",), "curved": ("curved",), "interacting": ("curved", "interacting")}
_MIN_STEP_SHARE = 0.02  # of the mean step, at the start


def fit_trajectory_members(
    people: PreparedPeople,
    n_patterns: int,
    numbers: Sequence[int],
    seed: int,
    shape: str = "auto",
    evidence: bool = True,
) -> list[Member]:
    """Fit members, each on its own random four fifths of controls and of patients.

    Parameters
    ----------
    people : PreparedPeople
    n_patterns : int
        M.
    numbers : sequence of int
        Numbers of the members.
    seed : int
        Members of one number see the same people, whatever the number of patterns.
    shape : {'auto', 'straight', 'curved', 'interacting'}
        ``auto``: the shape under which the patients that members have not seen are more likely, on average.
    evidence : bool
        Whether to measure the agreement of fits on disjoint halves.

    Returns
    -------
    list of Member
    """
    cohort = _ShiftedPeople(people, n_patterns)
    shapes = _list_shapes(n_patterns) if shape == "auto" else _PATH_BY_SHAPE[shape]
    rngs = [np.random.default_rng([seed, number]) for number in numbers]
    fits = [_fit_shapes(cohort, draw_subsample(people.y, SUBSAMPLE_SHARE, rng), shapes, rng) for rng in rngs]
    chosen = choose_shape([_get_held_out(fit, shapes[0]) for fit in fits]) if shape == "auto" else shape
    members = []
    for number, rng, fit in zip(numbers, rngs, fits, strict=True):
        head, curves = cohort.make_head(fit[chosen].model)
        n_iterations = {shape: max(1, fit[shape].n_iterations) for shape in _PATH_BY_SHAPE[chosen]}
        halves = _measure_split_half_agreement(cohort, n_iterations, rng) if evidence else None
        members.append(Member(number, TrainingOutcome.CONVERGED, 0, head, curves, halves, _get_held_out(fit, chosen)))
    return members


class _ShiftedPeople:
    """People as shifts, and the head that makes them.

    Linear starts need all cells: those that are missing are drawn. EM uses the measured cells alone.
    """

    def __init__(self, people: PreparedPeople, n_patterns: int) -> None:
        self.values, self.y, self.reference = people.X, people.y, people.reference
        self.n_patterns = n_patterns
        completed = complete_people(people.X, people.y, np.random.default_rng(0))
        self.head: ContrastiveHead = initialise_contrastive_head(completed, people.y == 1, n_patterns, straighten=True)
        self.shifts, self.completed = self.head.prepare(people.X), self.head.prepare(completed)

    def fit_start(self, subsample: Subsample, rng: np.random.Generator) -> LinearStart:
        """Return the linear model of the people of a subsample."""
        seed = int(rng.integers(2**31 - 1))
        return fit_linear_start(
            self.completed, self.y, subsample, self.n_patterns, "contrastive", "controls", seed, self.reference
        )

    @limit_blas_threads()
    def fit(
        self, subsample: Subsample, start: TrajectoryModel, shape: str, n_iterations: int | None = None
    ) -> TrajectoryFit:
        """Fit patterns of a shape to the people of a subsample; without a number, the others tell when to end."""
        shifts, y = self.shifts[subsample.seen], self.y[subsample.seen]
        target = ReferenceTarget.choose(self.completed[subsample.seen][y == 0], self.reference)
        held_out = None if n_iterations else self.shifts[subsample.unseen][self.y[subsample.unseen] == 1]
        return fit_trajectories(
            shifts[y == 0],
            shifts[y == 1],
            start,
            shape,
            target,
            held_out,
            n_iterations,
        )

    def make_head(self, model: TrajectoryModel) -> tuple[TrajectoryHead, FloatArray]:
        """Return the head of a model, and its curves (Q, M, R) at `SEVERITY_LEVELS` in control standard deviations."""
        return make_trajectory_head(self.head, model)


def make_trajectory_head(preparation: ContrastiveHead, model: TrajectoryModel) -> tuple[TrajectoryHead, FloatArray]:
    """Return the head of a model, and its curves (Q, M, R) at `SEVERITY_LEVELS` in control standard deviations.

    Parameters
    ----------
    preparation : ContrastiveHead
        Prepares the people; its weights are not used.
    model : TrajectoryModel
    """
    arrays = replace(preparation, weights=model.compute_weights()).to_arrays()
    precision = np.asarray(np.linalg.inv(model.noise))
    arrays |= {"steps": model.steps, "correlation": model.correlation, "precision": precision}
    if model.interaction is None:
        head = TrajectoryHead(**arrays)
    else:
        head = InteractingHead(**arrays, interaction=model.interaction)
    return head, head.compute_curves(np.array(SEVERITY_LEVELS))


def make_trajectory_start(start: LinearStart) -> TrajectoryModel:
    """Return a linear model as curves: each pattern times the steps of its severity's quantiles."""
    levels = np.linspace(0.0, 1.0, N_STEPS + 1)
    quantiles = np.stack([np.interp(levels, QUANTILE_GRID, row) for row in start.prior.quantiles])
    common = np.diff(quantiles, axis=1)
    common = np.maximum(common, _MIN_STEP_SHARE * common.mean(axis=1, keepdims=True))
    correlation = start.prior.factor @ start.prior.factor.T
    return TrajectoryModel(common[:, :, None] * start.patterns.T[:, None, :], start.noise, correlation, common)


def _fit_shapes(
    cohort: _ShiftedPeople, subsample: Subsample, shapes: Sequence[str], rng: np.random.Generator
) -> dict[str, TrajectoryFit]:
    """Return the fit of each shape to the people of a subsample; interacting patterns start from curved ones."""
    start, fits = make_trajectory_start(cohort.fit_start(subsample, rng)), dict[str, TrajectoryFit]()
    for shape in shapes:
        fits[shape] = cohort.fit(subsample, fits["curved"].model if shape == "interacting" else start, shape)
    return fits


def _list_shapes(n_patterns: int) -> tuple[str, ...]:
    """Return the shapes that are compared; interactions need at least two patterns, and points that are few."""
    return SHAPES if 1 < n_patterns <= MAX_INTERACTING_PATTERNS else SHAPES[:2]


def _get_held_out(fit: dict[str, TrajectoryFit], shape: str) -> HeldOutLikelihood:
    """Return the likelihood of held-out patients of a member of a shape, by each shape that was fitted."""
    return HeldOutLikelihood(shape, *(fit[name].held_out if name in fit else None for name in SHAPES))


def _measure_split_half_agreement(
    cohort: _ShiftedPeople, n_iterations: Mapping[str, int], rng: np.random.Generator
) -> SplitHalfAgreement:
    """Return the agreement, on all patients, of two fits that have no person in common.

    ``n_iterations`` has the number of M steps of each shape that is fitted, one after the other.
    """
    patients, indices = cohort.values[cohort.y == 1], []
    for half in split_into_halves(cohort.y, rng):
        model = make_trajectory_start(cohort.fit_start(half, rng))
        for shape, number in n_iterations.items():
            model = cohort.fit(half, model, shape, number).model
        indices.append(cohort.make_head(model)[0].infer(patients))
    return compute_split_half_agreement(*indices)

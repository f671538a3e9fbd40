"""Ensemble members of the trajectory learner, and their choice between straight, curved and interacting patterns.

Each member is fitted to its own random four fifths of controls and of patients. The likelihood of the patients that it
has not seen tells which shape, and which number of patterns, describes other people best.

Shape letters: S members, N people, R regions, M patterns, K steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.learners.contrastive.estimator import initialise_contrastive_head
from rindices.learners.contrastive.linear_start import LinearStart, fit_linear_start
from rindices.learners.ensemble import (
    MIN_INTERACTION_GAIN,
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
from rindices.learners.subsampling import SUBSAMPLE_SHARE, Subsample, draw_subsample, split_into_halves
from rindices.learners.trajectory.coupling import (
    MemberCoupling,
    choose_coupling,
    fit_coupled,
    make_trend_start,
    prepare_visit_shifts,
)
from rindices.learners.trajectory.expectation_maximisation import TrajectoryFit, fit_trajectories
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.sums import compute_log_likelihood
from rindices.learners.trajectory.visits import VisitRows, compute_common_steps, fit_visits
from rindices.threads import limit_blas_threads

MAX_INTERACTING_PATTERNS = 4
"""Largest number of patterns for which interactions are tried."""
_PATH_BY_SHAPE = {"straight": ("straight",), "curved": ("curved",), "interacting": ("curved", "interacting")}
_MIN_FIRST_GAIN = 0.5 * MIN_INTERACTION_GAIN  # of the first member, for interactions to be tried in the others


def fit_trajectory_members(
    people: PreparedPeople,
    n_patterns: int,
    numbers: Sequence[int],
    seed: int,
    shape: str = "auto",
    evidence: bool = True,
    coupled: bool | None = None,
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
    coupled : bool, optional
        Whether to couple repeat visits in straight patterns (`coupling`). By default, if patients that members have not
        seen are then more likely. Without trends, or with few people who have several visits, the mean of visits is
        fitted.

    Returns
    -------
    list of Member
    """
    cohort = _ShiftedPeople(people, n_patterns)
    shapes = _list_shapes(n_patterns) if shape == "auto" else _PATH_BY_SHAPE[shape]
    rngs = [np.random.default_rng([seed, number]) for number in numbers]
    starts = [_MemberStart.draw(cohort, rng) for rng in rngs]
    if cohort.visits is not None:
        starts = _choose_coupling(cohort, starts, coupled)
    fits: list[dict[str, TrajectoryFit]] = []
    for start in starts:
        fits.append(_fit_shapes(cohort, start, shapes))
        if shape == "auto" and not _gains_by_interactions(fits[0]):
            shapes = SHAPES[:2]
    chosen = choose_shape([_get_held_out(fit, shapes[0]) for fit in fits]) if shape == "auto" else shape
    members = []
    for number, rng, start, fit in zip(numbers, rngs, starts, fits, strict=True):
        is_coupled = None if start.coupled is None else start.coupled and chosen == "straight"
        head, curves = cohort.make_head(start.add_retest_noise(fit[chosen].model))
        n_iterations = {shape: max(1, fit[shape].n_iterations) for shape in _PATH_BY_SHAPE[chosen]}
        halves = _measure_split_half_agreement(cohort, start, n_iterations, rng) if evidence else None
        held_out = _get_held_out(fit, chosen)._replace(coupled=is_coupled, coupling_gain=start.coupling_gain)
        members.append(Member(number, TrainingOutcome.CONVERGED, 0, head, curves, halves, held_out))
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
        self.visits = prepare_visit_shifts(people, self.head)

    def fit_start(self, subsample: Subsample, rng: np.random.Generator) -> LinearStart:
        """Return the linear model of the people of a subsample."""
        seed = int(rng.integers(2**31 - 1))
        return fit_linear_start(
            self.completed, self.y, subsample, self.n_patterns, "contrastive", "controls", seed, self.reference
        )

    def select_visits(self, rows: IntArray, label: int) -> VisitRows:
        """Return levels and trends of the people of a group among some rows."""
        assert self.visits is not None
        return self.visits.select(self.shifts, rows[self.y[rows] == label])

    def choose_target(self, subsample: Subsample) -> ReferenceTarget | None:
        """Return the reference with the weight that suits the controls of a subsample."""
        controls = subsample.seen[self.y[subsample.seen] == 0]
        return ReferenceTarget.choose(self.completed[controls], self.reference)

    @limit_blas_threads()
    def fit(
        self, subsample: Subsample, start: TrajectoryModel, shape: str, n_iterations: int | None = None
    ) -> TrajectoryFit:
        """Fit patterns of a shape to the people of a subsample; without a number, the others tell when to end."""
        shifts, y = self.shifts[subsample.seen], self.y[subsample.seen]
        target = self.choose_target(subsample)
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

    @limit_blas_threads()
    def fit_coupling(self, subsample: Subsample, start: TrajectoryModel) -> MemberCoupling:
        """Fit all visits with the straight patterns of the mean of visits, and with coupled ones."""
        level = self.fit(subsample, start, "straight")
        controls, patients = (self.select_visits(subsample.seen, label) for label in (0, 1))
        held_out, target = self.select_visits(subsample.unseen, 1), self.choose_target(subsample)
        mean = fit_visits(controls, patients, level.model, target, held_out, coupled=False)
        coupled, from_trends = fit_coupled(controls, patients, level.model, target, held_out)
        return MemberCoupling(mean, coupled, from_trends, level.n_iterations)

    def fit_coupled_half(
        self, half: Subsample, start: TrajectoryModel, n_iterations: int, from_trends: bool
    ) -> TrajectoryModel:
        """Return the coupled patterns of half of the people."""
        controls, patients = (self.select_visits(half.seen, label) for label in (0, 1))
        if from_trends:
            start = make_trend_start(controls, patients, start)
        return fit_visits(controls, patients, start, self.choose_target(half), None, n_iterations).model.level

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
    common = compute_common_steps(start.prior)
    correlation = start.prior.factor @ start.prior.factor.T
    return TrajectoryModel(common[:, :, None] * start.patterns.T[:, None, :], start.noise, correlation, common)


class _MemberStart(NamedTuple):
    """People and start of a member.

    Attributes
    ----------
    subsample : Subsample
    model : TrajectoryModel
        Where EM begins.
    straight : TrajectoryFit, optional
        Straight patterns, if they are fitted already.
    coupled : bool, optional
        Whether the patterns are those of coupled visits; None without repeat visits.
    coupling_gain : float, optional
        See `HeldOutLikelihood`.
    from_trends : bool
        Whether coupled patterns started from the trends.
    missing_noise : (R, R), optional
        Part of the noise of one visit that the mean of visits lacks.
    """

    subsample: Subsample
    model: TrajectoryModel
    straight: TrajectoryFit | None = None
    coupled: bool | None = None
    coupling_gain: float | None = None
    from_trends: bool = False
    missing_noise: FloatArray | None = None

    @classmethod
    def draw(cls, cohort: _ShiftedPeople, rng: np.random.Generator) -> Self:
        """Draw the people of a member, and fit its linear start."""
        subsample = draw_subsample(cohort.y, SUBSAMPLE_SHARE, rng)
        return cls(subsample, make_trajectory_start(cohort.fit_start(subsample, rng)))

    def take_coupling(self, coupling: MemberCoupling, coupled: bool, cohort: _ShiftedPeople) -> Self:
        """Return the member with the straight patterns of coupled visits, or of the mean of visits."""
        visit_fit = coupling.coupled if coupled else coupling.mean
        level, rows = visit_fit.model.level, self.subsample.unseen
        held_out = compute_log_likelihood(cohort.shifts[rows[cohort.y[rows] == 1]], level)
        n_iterations = visit_fit.n_iterations if coupled else coupling.n_level_iterations
        assert cohort.visits is not None
        return self._replace(
            straight=TrajectoryFit(level, n_iterations, float(held_out.mean()) if len(held_out) else float("nan")),
            coupled=coupled,
            coupling_gain=coupling.gain,
            from_trends=coupling.from_trends,
            missing_noise=cohort.visits.get_missing_noise(visit_fit.model),
        )

    def add_retest_noise(self, model: TrajectoryModel) -> TrajectoryModel:
        """Return a model of the mean of visits as one of a single visit, for people who are seen once."""
        return model if self.missing_noise is None else model._replace(noise=model.noise + self.missing_noise)


def _choose_coupling(
    cohort: _ShiftedPeople, starts: Sequence[_MemberStart], coupled: bool | None
) -> list[_MemberStart]:
    """Return the members with their patterns of repeat visits, coupled if held-out patients are then more likely."""
    couplings = [cohort.fit_coupling(start.subsample, start.model) for start in starts]
    coupled = choose_coupling(couplings) if coupled is None else coupled
    return [start.take_coupling(each, coupled, cohort) for start, each in zip(starts, couplings, strict=True)]


def _fit_shapes(cohort: _ShiftedPeople, start: _MemberStart, shapes: Sequence[str]) -> dict[str, TrajectoryFit]:
    """Return the fit of each shape to the people of a member; interacting patterns start from curved ones.

    Only straight patterns are coupled. In patterns that unfold, the regions that change between two visits depend on
    the severity, so these are fitted to the mean of visits.
    """
    fits = dict[str, TrajectoryFit]()
    for shape in shapes:
        if shape == "straight" and start.straight is not None:
            fits[shape] = start.straight
        else:
            model = fits["curved"].model if shape == "interacting" else start.model
            fits[shape] = cohort.fit(start.subsample, model, shape)
    return fits


def _list_shapes(n_patterns: int) -> tuple[str, ...]:
    """Return the shapes that are compared; interactions need at least two patterns, and points that are few."""
    return SHAPES if 1 < n_patterns <= MAX_INTERACTING_PATTERNS else SHAPES[:2]


def _gains_by_interactions(fit: Mapping[str, TrajectoryFit]) -> bool:
    """Return whether a member's held-out patients gain by interactions; if the first one's do not, no other tries."""
    if "interacting" not in fit:
        return False
    return fit["interacting"].held_out - max(fit[shape].held_out for shape in SHAPES[:2]) > _MIN_FIRST_GAIN


def _get_held_out(fit: dict[str, TrajectoryFit], shape: str) -> HeldOutLikelihood:
    """Return the likelihood of held-out patients of a member of a shape, by each shape that was fitted."""
    return HeldOutLikelihood.from_values(shape, {name: each.held_out for name, each in fit.items()})


def _measure_split_half_agreement(
    cohort: _ShiftedPeople, start: _MemberStart, n_iterations: Mapping[str, int], rng: np.random.Generator
) -> SplitHalfAgreement:
    """Return the agreement, on all patients, of two fits that have no person in common.

    ``n_iterations`` has the number of M steps of each shape that is fitted, one after the other. Visits are coupled
    first if those of the member are, and patterns are straight.
    """
    patients, indices = cohort.values[cohort.y == 1], []
    for half in split_into_halves(cohort.y, rng):
        model = make_trajectory_start(cohort.fit_start(half, rng))
        if start.coupled and start.straight is not None and "straight" in n_iterations:
            model = cohort.fit_coupled_half(half, model, max(1, start.straight.n_iterations), start.from_trends)
        else:
            for shape, number in n_iterations.items():
                model = cohort.fit(half, model, shape, number).model
        indices.append(cohort.make_head(model)[0].infer(patients))
    return compute_split_half_agreement(*indices)

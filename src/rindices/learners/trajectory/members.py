"""``DiseaseTrajectories``: its ensemble members, and their choice between straight, curved and interacting patterns.

Each member is fitted to its own four fifths of controls and of patients (`subsampling`). The likelihood of the patients
that members have not seen tells when EM ends, and which shape and which number of patterns describe other people best.
These choices are the same for all members of a set.

Shape letters: S members, N people, R regions, M patterns, K steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import InputError
from rindices.learners.base import Learner, RandomState
from rindices.learners.contrastive.estimator import LinearStart, fit_linear_start, initialise_contrastive_head
from rindices.learners.ensemble import (
    MIN_INTERACTION_GAIN,
    SHAPES,
    HeldOutLikelihood,
    Member,
    SplitHalfAgreement,
    TrainingOutcome,
    choose_shape,
    is_clear_gain,
)
from rindices.learners.inference import SEVERITY_LEVELS, ContrastiveHead, InteractingHead, MemberHead, TrajectoryHead
from rindices.learners.missing_cells import complete_people
from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.prepared_people import PreparedPeople, Subsample, round_members
from rindices.learners.trajectory.expectation_maximisation import (
    MAX_ITERATIONS,
    TrajectoryFit,
    TrajectoryModel,
    TrajectoryProblem,
    compute_log_likelihood,
    fit_trajectories,
)
from rindices.learners.trajectory.visits import (
    MIN_COUPLING_GAIN,
    VisitFit,
    VisitProblem,
    VisitRows,
    compute_common_steps,
    fit_coupled,
    fit_visits,
    make_trend_start,
    prepare_visit_shifts,
)
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.selection.agreement import agreement
from rindices.selection.choose import find_agreeing_members
from rindices.threads import limit_blas_threads

MAX_INTERACTING_PATTERNS = 4
"""Largest number of patterns for which interactions are tried."""
_PATH_BY_SHAPE = {"straight": ("straight",), "curved": ("curved",), "interacting": ("curved", "interacting")}
_MIN_FIRST_GAIN = 0.5 * MIN_INTERACTION_GAIN  # of the first member, for interactions to be tried in all


def fit_trajectory_members(
    people: Sequence[PreparedPeople],
    n_patterns: int,
    numbers: Sequence[int],
    seed: int,
    shape: str = "auto",
    evidence: bool = True,
    coupled: bool | None = None,
) -> list[Member]:
    """Fit members, each on its own four fifths of controls and of patients.

    people: of each member; n_patterns: M; numbers: numbers of the members; shape: ``auto``: the shape under which the
    patients that members have not seen are more likely, on average; evidence: whether to measure the agreement of fits
    on disjoint halves; coupled: whether to couple repeat visits in straight patterns (`coupling`). By default, if
    patients that members have not seen are then more likely. Without trends, or with few people who have several
    visits, the mean of visits is fitted.
    """
    rngs = [np.random.default_rng([seed, number]) for number in numbers]
    shifted = [_ShiftedPeople(each, n_patterns) for each in people]
    starts = [_MemberStart(each, each.fit_start(each.subsample, rng)) for each, rng in zip(shifted, rngs, strict=True)]
    if starts[0].people.visits is not None:
        starts = _choose_coupling(starts, coupled)
    # interactions need at least two patterns, and points that are few
    shapes = SHAPES if 1 < n_patterns <= MAX_INTERACTING_PATTERNS else SHAPES[:2]
    fits = _fit_shapes(starts, shapes if shape == "auto" else _PATH_BY_SHAPE[shape])
    chosen = choose_shape([_get_held_out(fit, SHAPES[0]) for fit in fits]) if shape == "auto" else shape
    members = []
    for number, rng, start, fit in zip(numbers, rngs, starts, fits, strict=True):
        is_coupled = None if start.coupled is None else start.coupled and chosen == "straight"
        head, curves = make_trajectory_head(start.people.head, start.add_retest_noise(fit[chosen].model))
        n_iterations = {shape: max(1, fit[shape].n_iterations) for shape in _PATH_BY_SHAPE[chosen]}
        halves = _measure_split_half_agreement(start, n_iterations, rng) if evidence else None
        held_out = _get_held_out(fit, chosen)._replace(coupled=is_coupled, coupling_gain=start.coupling_gain)
        steps = fit[chosen].n_iterations
        members.append(Member(number, TrainingOutcome.CONVERGED, steps, head, curves, halves, held_out))
    return members


class _ShiftedPeople:
    """People of a member as shifts, and the head that makes them, learnt from the people that the member has seen.

    Linear starts need all cells: those that are missing are drawn. EM uses the measured cells alone.
    """

    def __init__(self, people: PreparedPeople, n_patterns: int) -> None:
        self.values, self.y, self.reference = people.X, people.y, people.reference
        self.subsample, self.n_patterns = people.subsample, n_patterns
        rows = self.subsample.seen
        self.head: ContrastiveHead = initialise_contrastive_head(
            self._complete(rows)[rows], self.y[rows] == 1, n_patterns, straighten=True
        )
        self.shifts = self.head.prepare(people.X)
        self.visits = prepare_visit_shifts(people, self.head)

    def _complete(self, rows: IntArray) -> FloatArray:
        """Return everyone (N, R), with the missing cells of some rows drawn from what these people tell."""
        if not np.isnan(self.values[rows]).any():
            return self.values
        completed = self.values.copy()
        completed[rows] = complete_people(self.values[rows], self.y[rows], np.random.default_rng(0))
        return completed

    def fit_start(self, subsample: Subsample, rng: np.random.Generator) -> TrajectoryModel:
        """Return the linear model of the people of a subsample, as curves."""
        seed, completed = int(rng.integers(2**31 - 1)), self.head.prepare(self._complete(subsample.seen))
        return make_trajectory_start(
            fit_linear_start(completed, self.y, subsample, self.n_patterns, seed, self.reference)
        )

    def select(self, rows: IntArray, label: int) -> FloatArray:
        """Return the shifts (N, R) of the people of a group among some rows."""
        return np.asarray(self.shifts[rows[self.y[rows] == label]])

    def select_visits(self, rows: IntArray, label: int) -> VisitRows:
        """Return levels and trends of the people of a group among some rows."""
        assert self.visits is not None
        return self.visits.select(self.shifts, rows[self.y[rows] == label])

    def choose_target(self, subsample: Subsample) -> ReferenceTarget | None:
        """Return the reference with the weight that suits the controls of a subsample."""
        if self.reference is None:
            return None
        controls = subsample.seen[self.y[subsample.seen] == 0]
        return ReferenceTarget.choose(self.head.prepare(self._complete(subsample.seen)[controls]), self.reference)

    def pose(self, start: TrajectoryModel, half: Subsample | None = None) -> TrajectoryProblem:
        """Return the problem of EM for the people of the member, where the others tell when to end, or of a half."""
        subsample = half or self.subsample
        controls, patients = (self.select(subsample.seen, label) for label in (0, 1))
        held_out = self.select(subsample.unseen, 1) if half is None else None
        return TrajectoryProblem(controls, patients, start, self.choose_target(subsample), held_out)

    def pose_visits(self, start: TrajectoryModel, half: Subsample | None = None) -> VisitProblem:
        """Return the same for all visits."""
        subsample = half or self.subsample
        controls, patients = (self.select_visits(subsample.seen, label) for label in (0, 1))
        held_out = self.select_visits(subsample.unseen, 1) if half is None else None
        return VisitProblem(controls, patients, start, self.choose_target(subsample), held_out)


def make_trajectory_head(preparation: ContrastiveHead, model: TrajectoryModel) -> tuple[TrajectoryHead, FloatArray]:
    """Return the head of a model, and its curves (Q, M, R) at `SEVERITY_LEVELS` in control standard deviations.

    preparation: prepares the people; its weights are not used.
    """
    arrays = replace(preparation, weights=model.compute_weights()).to_arrays()
    precision = np.asarray(np.linalg.inv(model.noise))
    arrays |= {"steps": model.steps, "correlation": model.correlation, "precision": precision}
    if model.interaction is None:
        head = TrajectoryHead(**arrays)
    else:
        head = InteractingHead(**arrays, interaction=model.interaction)
    return head, head.compute_curves(np.array(SEVERITY_LEVELS))


def compute_head_likelihood(head: MemberHead, prepared: FloatArray) -> FloatArray:
    """Return the log-likelihood (N,) of prepared patients (N, R) under the model of a head, up to a constant."""
    assert isinstance(head, TrajectoryHead)
    noise = np.asarray(np.linalg.inv(head.precision))
    model = TrajectoryModel(head.steps, noise, head.correlation, head.steps.mean(axis=2), head.get_interaction())
    return compute_log_likelihood(head.prepare(prepared), model)


def make_trajectory_start(start: LinearStart) -> TrajectoryModel:
    """Return a linear model as curves: each pattern times the steps of its severity's quantiles."""
    common = compute_common_steps(start.prior)
    correlation = start.prior.factor @ start.prior.factor.T
    return TrajectoryModel(common[:, :, None] * start.patterns.T[:, None, :], start.noise, correlation, common)


class _MemberStart(NamedTuple):
    """People and start of a member.

    model: where EM begins; straight: straight patterns, if they are fitted already; coupled: whether the patterns are
    those of coupled visits; None without repeat visits; coupling_gain: see `HeldOutLikelihood`; from_trends: whether
    coupled patterns started from the trends; missing_noise (R, R): part of the noise of one visit that the mean of
    visits lacks.
    """

    people: _ShiftedPeople
    model: TrajectoryModel
    straight: TrajectoryFit | None = None
    coupled: bool | None = None
    coupling_gain: float | None = None
    from_trends: bool = False
    missing_noise: FloatArray | None = None

    def take_visits(self, fit: VisitFit) -> Self:
        """Return the member with the straight patterns of a fit to all visits."""
        level, visits = fit.model.level, self.people.visits
        held_out = compute_log_likelihood(self.people.select(self.people.subsample.unseen, 1), level)
        straight = TrajectoryFit(level, fit.n_iterations, float(held_out.mean()) if len(held_out) else float("nan"))
        assert visits is not None
        return self._replace(straight=straight, missing_noise=visits.retest_share * fit.model.retest_noise)

    def add_retest_noise(self, model: TrajectoryModel) -> TrajectoryModel:
        """Return a model of the mean of visits as one of a single visit, for people who are seen once."""
        return model if self.missing_noise is None else model._replace(noise=model.noise + self.missing_noise)


@limit_blas_threads()
def _choose_coupling(starts: Sequence[_MemberStart], coupled: bool | None) -> list[_MemberStart]:
    """Return the members with their patterns of repeat visits, coupled if held-out patients are then more likely."""
    levels = fit_trajectories([start.people.pose(start.model) for start in starts], "straight")
    problems = [start.people.pose_visits(level.model) for start, level in zip(starts, levels, strict=True)]
    means, (fits, from_trends) = fit_visits(problems, coupled=False), fit_coupled(problems)
    gains = np.array([fit.held_out - mean.held_out for fit, mean in zip(fits, means, strict=True)])
    coupled = is_clear_gain(gains, MIN_COUPLING_GAIN) if coupled is None else coupled
    if not coupled:  # the patterns are those of the levels
        fits = [mean._replace(n_iterations=level.n_iterations) for mean, level in zip(means, levels, strict=True)]
    return [
        start.take_visits(fit)._replace(coupled=coupled, coupling_gain=float(gain), from_trends=from_trends)
        for start, fit, gain in zip(starts, fits, gains, strict=True)
    ]


@limit_blas_threads()
def _fit_shapes(starts: Sequence[_MemberStart], shapes: Sequence[str]) -> list[dict[str, TrajectoryFit]]:
    """Return the fit of each shape to the people of each member; interacting patterns start from curved ones.

    Only straight patterns are coupled. In patterns that unfold, the regions that change between two visits depend on
    the severity, so these are fitted to the mean of visits. Where all shapes are compared, interactions are given up
    if the held-out patients of the first member do not gain by them.
    """
    fits: list[dict[str, TrajectoryFit]] = [{} for _ in starts]
    for shape in shapes:
        before = [
            fit["curved"].model if shape == "interacting" else start.model
            for start, fit in zip(starts, fits, strict=True)
        ]
        problems = [start.people.pose(model) for start, model in zip(starts, before, strict=True)]
        if shape == "interacting" and len(shapes) == len(SHAPES) and len(starts) > 1:
            (trial,) = fit_trajectories(problems[:1], shape)
            if trial.held_out - max(fits[0][other].held_out for other in SHAPES[:2]) <= _MIN_FIRST_GAIN:
                break
        given = [start.straight for start in starts if shape == "straight" and start.straight is not None]
        for fit, result in zip(fits, given or fit_trajectories(problems, shape), strict=True):
            fit[shape] = result
    return fits


def _get_held_out(fit: dict[str, TrajectoryFit], shape: str) -> HeldOutLikelihood:
    """Return the likelihood of held-out patients of a member of a shape, by each shape that was fitted."""
    return HeldOutLikelihood.from_values(shape, {name: each.held_out for name, each in fit.items()})


@limit_blas_threads()
def _measure_split_half_agreement(
    start: _MemberStart, n_iterations: Mapping[str, int], rng: np.random.Generator
) -> SplitHalfAgreement:
    """Return the agreement, on all patients, of two fits that have no person in common.

    ``n_iterations`` has the number of M steps of each shape that is fitted, one after the other. Visits are coupled
    first if those of the member are, and patterns are straight.
    """
    people, indices = start.people, []
    for half in Subsample.draw_halves(people.y, rng):
        model = people.fit_start(half, rng)
        if start.coupled and start.straight is not None and "straight" in n_iterations:
            problem = people.pose_visits(model, half)
            if start.from_trends:
                problem = problem._replace(start=make_trend_start(problem.controls, problem.patients, model))
            model = fit_visits([problem], max(1, start.straight.n_iterations))[0].model.level
        else:
            for shape, number in n_iterations.items():
                model = fit_trajectories([people.pose(model, half)], shape, number)[0].model
        indices.append(make_trajectory_head(people.head, model)[0].infer(people.values[people.y == 1]))
    return agreement(*indices)[:3]


class DiseaseTrajectories(Learner):
    """Severities of disease patterns that are curves: each region changes at its own stage.

    The model is solved by maximum likelihood. R-indices are posterior means of the severities z, from 0 to 1, averaged
    over members that are fitted to four fifths of the people each.

    Parameters
    ----------
    n_patterns : int, default=3
        M.
    random_state : int, RandomState or None, default=None
        Seed of the members' people.
    members : int, default=5
        Number of members, rounded up to whole sets of five folds.
    shape : {'auto', 'straight', 'curved', 'interacting'}, default='auto'
        Straight: all regions of a pattern change together. Curved: each in its own stage. Interacting: straight, and
        the change of a pattern also depends on the severities of the others. ``auto`` chooses by the likelihood of
        people that members have not seen.
    reference : array-like of shape (R, R), default=None
        Correlations of the regions in a reference population of healthy people.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region at full severity, in control standard deviations; atrophy is negative.
    trajectories_ : ndarray of shape (Q, M, R)
        Change of each region at the severities 0.25, 0.5, 0.75 and 1.
    shape_ : str
        The shape that was chosen.
    members_ : list of Member
    consensus_ : list of tuple
        Each member that agrees, and the order of its patterns that matches ``patterns_``.
    n_iter_ : int
        Largest number of EM steps of a member.
    converged_ : bool
        Whether every member ended before the largest number of steps.
    n_features_in_ : int
        R.

    Examples
    --------
    >>> r = DiseaseTrajectories(n_patterns=3, random_state=0).fit(X, y).transform(X)  # doctest: +SKIP
    """

    def __init__(
        self,
        n_patterns: int = 3,
        random_state: RandomState = None,
        members: int = 5,
        shape: str = "auto",
        reference: FloatArray | None = None,
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.members = members
        self.shape = shape
        self.reference = reference

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        if self.shape not in ("auto", *SHAPES):
            raise InputError(f"shape is {self.shape!r}; give one of auto, {', '.join(SHAPES)}.")
        if not isinstance(self.members, int | np.integer) or self.members < 1:
            raise InputError(f"members is {self.members!r}; give a whole number from 1.")
        people = PreparedPeople(self._prepare(regions), patient.astype(np.intp), self.reference)
        numbers, seed = range(round_members(self.members)), self._draw_seed()
        self.members_ = fit_trajectory_members(
            people.deal_to_members(numbers, seed), int(self.n_patterns), numbers, seed, self.shape, evidence=False
        )
        indices = np.stack([member.head.infer(people.X[patient]) for member in self.members_])
        consensus = find_agreeing_members(indices)
        self.consensus_ = [
            (self.members_[k], order) for k, order in zip(consensus.agreeing, consensus.orders, strict=True)
        ]
        held_out = self.members_[0].held_out
        assert held_out is not None
        self.shape_ = held_out.shape
        self.n_iter_ = max(member.steps for member in self.members_)
        self.converged_ = self.n_iter_ < MAX_ITERATIONS[self.shape_]
        self.trajectories_ = np.mean([member.patterns[:, order] for member, order in self.consensus_], axis=0)
        self.patterns_ = self.trajectories_[SEVERITY_LEVELS.index(1.0)]

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return np.asarray(CONTROL_MEAN + CONTROL_SD * self._z_scores(regions))

    def _compute_log_likelihood(self, prepared: FloatArray) -> FloatArray:
        """Average over the members that agree."""
        heads = [member.head for member, _ in self.consensus_]
        return np.asarray(np.mean([compute_head_likelihood(head, prepared) for head in heads], axis=0))

    def _infer(self, prepared: FloatArray) -> FloatArray:
        return np.asarray(np.mean([member.head.infer(prepared)[:, order] for member, order in self.consensus_], axis=0))

"""``DiseaseTrajectories``: its ensemble members, and their choice between straight, curved and interacting patterns.

Each member is fitted to its own four fifths of controls and of patients (`subsampling`). The likelihood of the patients
that members have not seen tells when EM ends, and which shape and which number of patterns describe other people best.
These choices are the same for all members of a set.

Shape letters: S members, N people, R regions, M patterns, K steps.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import InputError
from rindices.learners.base import Learner, RandomState, is_whole_number
from rindices.learners.contrastive.estimator import initialise_contrastive_head
from rindices.learners.contrastive.linear_start import (
    GroupMoments,
    LinearStart,
    PeopleInMemory,
    fit_linear_start,
)
from rindices.learners.contrastive.whole_cohort_start import (
    compute_group_loss,
    fit_whole_cohort_start,
    is_whole_cohort_taken,
    sum_group_losses,
)
from rindices.learners.ensemble import (
    MIN_INTERACTION_GAIN,
    SHAPES,
    STARTS,
    HeldOutLikelihood,
    Member,
    TrainingOutcome,
    choose_shape,
    is_clear_gain,
)
from rindices.learners.inference import SEVERITY_LEVELS, ContrastiveHead, InteractingHead, MemberHead, TrajectoryHead
from rindices.learners.missing_cells import complete_people
from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.people_source import HALVES, PeopleSet, PeopleSource, Question, Totals
from rindices.learners.prepared_people import PreparedPeople, Subsample, round_members, split_by_folds
from rindices.learners.trajectory.expectation_maximisation import (
    MAX_ITERATIONS,
    TrajectoryFit,
    TrajectoryModel,
    TrajectoryProblem,
    compute_log_likelihood,
    compute_log_ratio,
    fit_trajectories,
)
from rindices.learners.trajectory.visits import (
    MIN_COUPLING_GAIN,
    VisitProblem,
    VisitRows,
    compute_common_steps,
    fit_coupled,
    fit_visits,
    make_trend_start,
    prepare_visit_shifts,
)
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.selection.agreement import IndexMoments
from rindices.selection.choose import find_agreeing_members
from rindices.threads import limit_blas_threads

MAX_INTERACTING_PATTERNS = 4
"""Largest number of patterns for which interactions are tried."""
_PATH_BY_SHAPE = {"straight": ("straight",), "curved": ("curved",), "interacting": ("curved", "interacting")}
_MIN_FIRST_GAIN = 0.5 * MIN_INTERACTION_GAIN  # of the first member, for interactions to be tried in all


@limit_blas_threads()
def fit_trajectory_members(
    people: Sequence[PreparedPeople],
    n_patterns: int,
    numbers: Sequence[int],
    seed: int,
    shape: str = "auto",
    coupled: bool | None = None,
    start: str = "auto",
) -> list[Member]:
    """Fit members, each on its own four fifths of controls and of patients.

    people: of each member; n_patterns: M; numbers: numbers of the members; shape: ``auto``: the shape under which the
    patients that members have not seen are more likely, on average; coupled: whether to couple repeat visits in
    straight patterns (`visits`). By default, if patients that members have not seen are then more likely. Without
    trends, or with few people who have several visits, the mean of visits is fitted. start: one of `STARTS`; ``auto``:
    see `fit_from_best_start`.
    """
    source = MemberPeople.prepare(people, numbers, n_patterns)
    own = [source.members[number] for number in numbers]

    def fit_visits_of(problems: Sequence[TrajectoryProblem]) -> _VisitFits | None:
        return None if own[0].visits is None else _choose_coupling(own, problems, source, coupled)

    fitted = fit_from_best_start(source, numbers, n_patterns, seed, shape, start, fit_visits_of)
    members, visits = [], fitted.visits
    for k, (number, model) in enumerate(zip(numbers, fitted.models, strict=True)):
        held_out = fitted.describe_held_out(k)
        if visits is not None:
            model = replace(model, noise=model.noise + visits.missing_noise[k])
            held_out = held_out._replace(
                coupled=visits.coupled and fitted.shape == "straight",
                coupling_gain=visits.gains[k],
                from_trends=visits.from_trends,
            )
        members.append(make_member(number, own[k].head, model, fitted.steps[k], held_out))
    return members


def make_member(
    number: int, preparation: ContrastiveHead, model: TrajectoryModel, steps: int, held_out: HeldOutLikelihood
) -> Member:
    """Return the member of a fitted model; ``preparation`` prepares its people."""
    head, curves = make_trajectory_head(preparation, prepare_for_reading(model, held_out.start))
    return Member(number, TrainingOutcome.CONVERGED, steps, head, curves, None, held_out)


@limit_blas_threads()
def compare_trajectory_halves(people: Sequence[PreparedPeople], members: Sequence[Member], seed: int) -> list[Member]:
    """Return the members with evidence: the agreement, on all patients, of two fits that have no person in common.

    people, members: of a whole set of folds. The patterns of the fits have the shape of the members, and EM takes as
    many steps.
    """
    numbers, n_patterns = [member.number for member in members], members[0].patterns.shape[1]
    source = MemberPeople.prepare(people, numbers, n_patterns)
    compared = []
    for member in members:
        own, held_out, indices = source.members[member.number], member.held_out, []
        assert held_out is not None
        for half in HALVES:
            name, rng = PeopleSet(member.number, half), make_generator(seed, member.number, n_patterns, half)
            if held_out.coupled:
                start = fit_start(source, name, n_patterns, rng, held_out.start)
                problem = own.pose_visits(make_trajectory_start(start), half)
                if held_out.from_trends:
                    problem = problem._replace(
                        start=make_trend_start(problem.controls, problem.patients, problem.start)
                    )
                level = fit_visits([problem], max(1, member.steps))[0].model.level
                model = prepare_for_reading(level, held_out.start)
            else:
                model = fit_half(source, name, n_patterns, held_out, member.steps, rng)
            indices.append(make_trajectory_head(own.head, model)[0].infer(own.values[own.y == 1]))
        compared.append(member._replace(evidence=IndexMoments.compute(indices).compare(0, 1)[:3]))
    return compared


def make_generator(seed: int, number: int, n_patterns: int, part: str = "seen") -> np.random.Generator:
    """Return the generator of the starts of a fit."""
    return np.random.default_rng([seed, number, n_patterns, ("seen", *HALVES).index(part)])


def fit_start(
    people: PeopleSource, own: PeopleSet, n_patterns: int, rng: np.random.Generator, start: str = STARTS[0]
) -> LinearStart:
    """Return the linear model of a set of people from which EM begins, by the name of the start."""
    if start == "whole-cohort":
        return fit_whole_cohort_start(people, own, n_patterns)
    return fit_linear_start(people, own, n_patterns, rng)


def pose_problems(
    people: PeopleSource, numbers: Sequence[int], n_patterns: int, seed: int, start: str = STARTS[0]
) -> list[TrajectoryProblem]:
    """Return the problems of EM of members: their people, and the linear models from which EM begins."""
    sets = [PeopleSet(number, "seen") for number in numbers]
    starts = people.run_together(
        [
            partial(fit_start, people, each, n_patterns, make_generator(seed, each.member, n_patterns), start)
            for each in sets
        ]
    )
    return [
        TrajectoryProblem(own, make_trajectory_start(start), start.target, PeopleSet(own.member, "unseen"))
        for own, start in zip(sets, starts, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class GroupLossQuestion(Question[float]):
    """Asks for the group loss of a set of people under a model; NaN where it lacks controls or patients."""

    people: PeopleSet
    model: TrajectoryModel

    def sum_in_memory(self, people: PeopleInMemory) -> float:
        """Return the group loss of the people of a member."""
        ratios = [compute_log_ratio(people.select(self.people.part, label), self.model) for label in (0, 1)]
        losses = [sum_group_losses(each, bool(label)) for label, each in enumerate(ratios)]
        return compute_group_loss(*losses, *map(len, ratios))


class MemberFits(NamedTuple):
    """Fits of a set of members from one start.

    start: one of `STARTS`; shape: the shape of all members; fits: of each member by shape; visits: of people with
    repeat visits; contrastive_loss, whole_cohort_loss (S,): group loss of each member by both starts; None where they
    were not compared.
    """

    start: str
    shape: str
    fits: list[dict[str, TrajectoryFit]]
    visits: "_VisitFits | None" = None
    contrastive_loss: FloatArray | None = None
    whole_cohort_loss: FloatArray | None = None

    @property
    def models(self) -> list[TrajectoryModel]:
        """Fitted model of each member."""
        return [fit[self.shape].model for fit in self.fits]

    @property
    def steps(self) -> list[int]:
        """Number of M steps of each member."""
        return [fit[self.shape].n_iterations for fit in self.fits]

    def describe_held_out(self, member: int) -> HeldOutLikelihood:
        """Return the likelihood of held-out patients of a member, and the group losses of its held-out people."""
        held_out = get_held_out(self.fits[member], self.shape)._replace(start=self.start)
        if self.contrastive_loss is None or self.whole_cohort_loss is None:
            return held_out
        losses = [float(each[member]) for each in (self.contrastive_loss, self.whole_cohort_loss)]
        first, second = (loss if np.isfinite(loss) else None for loss in losses)
        return held_out._replace(contrastive_loss=first, whole_cohort_loss=second)


FitVisits = Callable[[Sequence[TrajectoryProblem]], "_VisitFits | None"]
"""Fits straight patterns to all visits of the people of members; none without repeat visits."""


def fit_from_best_start(
    people: PeopleSource,
    numbers: Sequence[int],
    n_patterns: int,
    seed: int,
    shape: str = "auto",
    start: str = "auto",
    fit_visits: FitVisits = lambda problems: None,
) -> MemberFits:
    """Fit members from the start by which people whom they have not seen are better told apart; or from a given one.

    The whole-cohort start is taken if its group loss is lower than that of the contrastive start, as
    `is_whole_cohort_taken` says, both before EM and after. Its patterns before EM cost hardly anything, and on diffuse
    patterns EM hardly changes them. So EM from the second start is only run where it is likely to be taken.
    """

    def fit_all(problems: Sequence[TrajectoryProblem], name: str) -> MemberFits:
        visits = fit_visits(problems)
        straight = None if visits is None else visits.straight
        chosen, fits = fit_and_choose(people, problems, shape, n_patterns, straight)
        return MemberFits(name, chosen, fits, visits)

    def sum_losses(problems: Sequence[TrajectoryProblem], models: Sequence[TrajectoryModel]) -> FloatArray:
        unseen = [PeopleSet(problem.people.member, "unseen") for problem in problems]
        return np.array(people.sum_each([GroupLossQuestion(*each) for each in zip(unseen, models, strict=True)]))

    first, second = STARTS
    if start != "auto":
        return fit_all(pose_problems(people, numbers, n_patterns, seed, start), start)
    problems = pose_problems(people, numbers, n_patterns, seed, first)
    fitted = fit_all(problems, first)
    try:
        problems = pose_problems(people, numbers, n_patterns, seed, second)
    except InputError:  # patients do not vary more than controls
        return fitted
    losses = sum_losses([*problems, *problems], [*fitted.models, *(each.start for each in problems)])
    own, other = np.split(losses, 2)
    if is_whole_cohort_taken(own, other):
        refitted = fit_all(problems, second)
        other = sum_losses(problems, refitted.models)
        if is_whole_cohort_taken(own, other):
            fitted = refitted
    return fitted._replace(contrastive_loss=own, whole_cohort_loss=other)


def prepare_for_reading(model: TrajectoryModel, start: str) -> TrajectoryModel:
    """Return the model by which people are read: with independent severities, if it is of the whole-cohort start.

    The correlation that is learnt among patients would draw the indices of diffuse patterns together.
    """
    return replace(model, correlation=np.eye(len(model.correlation))) if start == "whole-cohort" else model


def list_shapes(shape: str, n_patterns: int) -> tuple[str, ...]:
    """Return the shapes to fit; interactions need at least two patterns, and points that are few."""
    if shape != "auto":
        return _PATH_BY_SHAPE[shape]
    return SHAPES if 1 < n_patterns <= MAX_INTERACTING_PATTERNS else SHAPES[:2]


def fit_shapes(
    people: PeopleSource,
    problems: Sequence[TrajectoryProblem],
    shapes: Sequence[str],
    straight: Sequence[TrajectoryFit] | None = None,
) -> list[dict[str, TrajectoryFit]]:
    """Return the fit of each shape to the people of each member; interacting patterns start from curved ones.

    Where all shapes are compared, interactions are given up if the held-out patients of the first member do not gain by
    them. ``straight`` are straight patterns, if they are fitted already, as those of coupled visits. In patterns that
    unfold, the regions that change between two visits depend on the severity, so these are fitted to the mean of
    visits.
    """
    additive = [shape for shape in shapes if shape != "interacting" and (shape != "straight" or straight is None)]
    results = people.run_together([partial(fit_trajectories, people, problems, shape) for shape in additive])
    by_shape = dict(zip(additive, results, strict=True))
    if straight is not None and "straight" in shapes:
        by_shape["straight"] = list(straight)
    if "interacting" in shapes:
        problems = [each._replace(start=fit.model) for each, fit in zip(problems, by_shape["curved"], strict=True)]
        gain = np.inf
        if len(shapes) == len(SHAPES) and len(problems) > 1:
            (trial,) = fit_trajectories(people, problems[:1], "interacting")
            gain = trial.held_out - max(by_shape[other][0].held_out for other in SHAPES[:2])
        if gain > _MIN_FIRST_GAIN:
            by_shape["interacting"] = fit_trajectories(people, problems, "interacting")
    return [{shape: by_shape[shape][k] for shape in shapes if shape in by_shape} for k in range(len(problems))]


def fit_and_choose(
    people: PeopleSource,
    problems: Sequence[TrajectoryProblem],
    shape: str,
    n_patterns: int,
    straight: Sequence[TrajectoryFit] | None = None,
) -> tuple[str, list[dict[str, TrajectoryFit]]]:
    """Return the shape that a set of members has, and the fits of each member; see `fit_shapes`."""
    fits = fit_shapes(people, problems, list_shapes(shape, n_patterns), straight)
    chosen = choose_shape([get_held_out(fit, SHAPES[0]) for fit in fits]) if shape == "auto" else shape
    return chosen, fits


def fit_half(
    people: PeopleSource,
    half: PeopleSet,
    n_patterns: int,
    held_out: HeldOutLikelihood,
    steps: int,
    rng: np.random.Generator,
) -> TrajectoryModel:
    """Fit patterns to half of the people, with the start and the shape of a member, and as many steps of EM."""
    start = fit_start(people, half, n_patterns, rng, held_out.start)
    model = make_trajectory_start(start)
    # members of diffuse patterns often take no step; others whose likelihood never rose are compared after one
    is_final = not steps and held_out.start == "whole-cohort"
    for each in () if is_final else _PATH_BY_SHAPE[held_out.shape]:
        number = max(1, min(steps, MAX_ITERATIONS[each]))
        (fit,) = fit_trajectories(people, [TrajectoryProblem(half, model, start.target)], each, number)
        model = fit.model
    return prepare_for_reading(model, held_out.start)


class _ShiftedPeople:
    """People of a member as shifts, and the head that makes them, learnt from the people that the member has seen.

    Linear starts need all cells: those that are missing are drawn. EM uses the measured cells alone.
    """

    def __init__(self, people: PreparedPeople, halves: tuple[Subsample, Subsample] | None, n_patterns: int) -> None:
        self.values, self.y, self.reference = people.X, people.y, people.reference
        self.rows = dict(zip(("seen", "unseen"), people.subsample, strict=True))
        if halves is not None:
            self.rows |= {name: half.seen for name, half in zip(HALVES, halves, strict=True)}
        rows = self.rows["seen"]
        self.head: ContrastiveHead = initialise_contrastive_head(
            self._complete(rows)[rows], self.y[rows] == 1, n_patterns, straighten=True
        )
        self.shifts = self.head.prepare(people.X)
        self.visits = prepare_visit_shifts(people, self.head)
        self._moments: dict[str, tuple[GroupMoments, FloatArray]] = {}

    def _complete(self, rows: IntArray) -> FloatArray:
        """Return everyone (N, R), with the missing cells of some rows drawn from what these people tell."""
        if not np.isnan(self.values[rows]).any():
            return self.values
        completed = self.values.copy()
        completed[rows] = complete_people(self.values[rows], self.y[rows], np.random.default_rng(0))
        return completed

    def select(self, part: str, label: int) -> FloatArray:
        """Return the shifts (N, R) of the people of a group among a part."""
        rows = self.rows[part]
        return np.asarray(self.shifts[rows[self.y[rows] == label]])

    def select_visits(self, part: str, label: int) -> VisitRows:
        """Return levels and trends of the people of a group among a part."""
        assert self.visits is not None
        rows = self.rows[part]
        return self.visits.select(self.shifts, rows[self.y[rows] == label])

    def compute_moments(self, part: str) -> GroupMoments:
        """Return the moments of a part; missing cells are drawn."""
        return self._summarise(part)[0]

    def complete_patients(self, part: str) -> FloatArray:
        """Return the shifts (N, R) of the patients of a part; missing cells are drawn."""
        return self._summarise(part)[1]

    def _summarise(self, part: str) -> tuple[GroupMoments, FloatArray]:
        if part not in self._moments:
            rows = self.rows[part]
            people = self.head.prepare(self._complete(rows)[rows])
            controls, patients = (people[self.y[rows] == label] for label in (0, 1))
            target = ReferenceTarget.choose(controls, self.reference)
            self._moments[part] = GroupMoments.compute(controls, patients, target), patients
        return self._moments[part]

    def pose_visits(self, start: TrajectoryModel, part: str = "seen") -> VisitProblem:
        """Return the problem of EM for all visits of a part; where it is the member's, the others tell when to end."""
        controls, patients = (self.select_visits(part, label) for label in (0, 1))
        held_out = self.select_visits("unseen", 1) if part == "seen" else None
        return VisitProblem(controls, patients, start, self.compute_moments(part).target, held_out)


class MemberPeople(PeopleSource):
    """The people of some members, in memory.

    members: by their numbers.
    """

    def __init__(self, members: dict[int, _ShiftedPeople]) -> None:
        self.members = members

    @classmethod
    def prepare(cls, people: Sequence[PreparedPeople], numbers: Sequence[int], n_patterns: int) -> Self:
        """Prepare the people of each member."""
        halves = split_by_folds(people)
        return cls(
            {
                number: _ShiftedPeople(own, half, n_patterns)
                for number, own, half in zip(numbers, people, halves, strict=True)
            }
        )

    def sum_each(self, questions: Sequence[Question[Totals]]) -> list[Totals]:
        """Return the totals that each question asks for."""
        return [question.sum_in_memory(self.members[question.people.member]) for question in questions]


def make_trajectory_head(preparation: ContrastiveHead, model: TrajectoryModel) -> tuple[TrajectoryHead, FloatArray]:
    """Return the head of a model, and its curves (Q, M, R) at `SEVERITY_LEVELS` in control standard deviations.

    preparation: prepares the people; its weights are not used.
    """
    arrays = replace(preparation, weights=model.weights).to_arrays()
    arrays |= {"steps": model.steps, "correlation": model.correlation, "precision": model.precision}
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


class _VisitFits(NamedTuple):
    """Straight patterns of members with repeat visits.

    straight: fits of all members; coupled: whether they are those of coupled visits; gains: gain in the log-likelihood
    of all visits per held-out patient by coupling them; from_trends: whether coupled patterns started from the trends;
    missing_noise (R, R): part of the noise of one visit that the mean of visits lacks, for people who are seen once.
    """

    straight: list[TrajectoryFit]
    coupled: bool
    gains: list[float]
    from_trends: bool
    missing_noise: list[FloatArray]


def _choose_coupling(
    people: Sequence[_ShiftedPeople],
    problems: Sequence[TrajectoryProblem],
    source: MemberPeople,
    coupled: bool | None,
) -> _VisitFits:
    """Return the patterns of repeat visits, coupled if held-out patients are then more likely."""
    levels = fit_trajectories(source, problems, "straight")
    posed = [own.pose_visits(level.model) for own, level in zip(people, levels, strict=True)]
    means, (fits, from_trends) = fit_visits(posed, coupled=False), fit_coupled(posed)
    gains = np.array([fit.held_out - mean.held_out for fit, mean in zip(fits, means, strict=True)])
    coupled = is_clear_gain(gains, MIN_COUPLING_GAIN) if coupled is None else coupled
    if not coupled:  # the patterns are those of the levels
        fits = [mean._replace(n_iterations=level.n_iterations) for mean, level in zip(means, levels, strict=True)]
    straight, missing = [], []
    for own, fit in zip(people, fits, strict=True):
        assert own.visits is not None
        held_out = compute_log_likelihood(own.select("unseen", 1), fit.model.level)
        mean = float(held_out.mean()) if len(held_out) else float("nan")
        straight.append(TrajectoryFit(fit.model.level, fit.n_iterations, mean))
        missing.append(own.visits.retest_share * fit.model.retest_noise)
    return _VisitFits(straight, coupled, gains.tolist(), from_trends, missing)


def get_held_out(fit: Mapping[str, TrajectoryFit], shape: str) -> HeldOutLikelihood:
    """Return the likelihood of held-out patients of a member of a shape, by each shape that was fitted."""
    return HeldOutLikelihood.from_values(shape, {name: each.held_out for name, each in fit.items()})


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
    start : {'auto', 'contrastive', 'whole-cohort'}, default='auto'
        Where fits begin. Contrastive: at the patterns of `ContrastiveICA`, which change few regions. Whole-cohort: at
        patterns along the large axes of normal variation. ``auto`` chooses by how well patients and controls whom
        members have not seen are distinguished.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region at full severity, in control standard deviations; atrophy is negative.
    trajectories_ : ndarray of shape (Q, M, R)
        Change of each region at the severities 0.25, 0.5, 0.75 and 1.
    shape_ : str
        The shape that was chosen.
    start_ : str
        The start that was taken.
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
        start: str = "auto",
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.members = members
        self.shape = shape
        self.reference = reference
        self.start = start

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        if self.shape not in ("auto", *SHAPES):
            raise InputError(f"shape is {self.shape!r}; give one of auto, {', '.join(SHAPES)}.")
        if self.start not in ("auto", *STARTS):
            raise InputError(f"start is {self.start!r}; give one of auto, {', '.join(STARTS)}.")
        if not is_whole_number(self.members) or self.members < 1:
            raise InputError(f"members is {self.members!r}; give a whole number from 1.")
        people = PreparedPeople(self._prepare(regions), patient.astype(np.intp), self.reference)
        numbers, seed = range(round_members(self.members)), self._draw_seed()
        self.members_ = fit_trajectory_members(
            people.deal_to_members(numbers, seed),
            int(self.n_patterns),
            numbers,
            seed,
            self.shape,
            start=self.start,
        )
        indices = [member.head.infer(people.X[patient]) for member in self.members_]
        consensus = find_agreeing_members(IndexMoments.compute(indices))
        self.consensus_ = [
            (self.members_[k], order) for k, order in zip(consensus.agreeing, consensus.orders, strict=True)
        ]
        held_out = self.members_[0].held_out
        assert held_out is not None
        self.shape_, self.start_ = held_out.shape, held_out.start
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

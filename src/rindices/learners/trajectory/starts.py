"""Where the fits begin: at the patterns of the contrastive learner, of the whole
cohort, or at some of both.

Shape letters: S members, R regions, M patterns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import InputError
from rindices.learners.contrastive.linear_start import (
    LinearStart,
    PeopleInMemory,
    fit_linear_start,
)
from rindices.learners.contrastive.mixed_start import (
    fit_mixed_start,
    has_local_patterns,
)
from rindices.learners.contrastive.whole_cohort_start import (
    compute_group_loss,
    fit_whole_cohort_start,
    is_whole_cohort_taken,
    sum_group_losses,
)
from rindices.learners.ensemble import (
    DIFFUSE_STARTS,
    STARTS,
    HeldOutLikelihood,
)
from rindices.learners.people_source import HALVES, PeopleSet, PeopleSource, Question
from rindices.learners.trajectory.coupling import VisitFits
from rindices.learners.trajectory.em import TrajectoryFit, TrajectoryProblem
from rindices.learners.trajectory.expectation import compute_log_ratio
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.settings import DEFAULT_EM_SETTINGS, EMSettings
from rindices.learners.trajectory.shapes import fit_and_choose, get_held_out
from rindices.learners.trajectory.visits import compute_common_steps


def make_generator(
    seed: int, number: int, n_patterns: int, part: str = "seen"
) -> np.random.Generator:
    """Return the generator of the starts of a fit."""
    return np.random.default_rng(
        [seed, number, n_patterns, ("seen", *HALVES).index(part)]
    )


def fit_start(
    people: PeopleSource,
    own: PeopleSet,
    n_patterns: int,
    rng: np.random.Generator,
    start: str = STARTS[0],
) -> LinearStart:
    """Return the linear model of a set of people from which EM begins, by the name of
    the start.
    """
    if start == "whole-cohort":
        return fit_whole_cohort_start(people, own, n_patterns)
    if start == "mixed":
        return fit_mixed_start(people, own, n_patterns, rng)
    return fit_linear_start(people, own, n_patterns, rng)


def make_trajectory_start(
    start: LinearStart, settings: EMSettings = DEFAULT_EM_SETTINGS
) -> TrajectoryModel:
    """Return a linear model as curves: each pattern times the steps of its severity's
    quantiles.
    """
    common = compute_common_steps(start.prior, settings)
    correlation = start.prior.factor @ start.prior.factor.T
    return TrajectoryModel(
        steps=common[:, :, None] * start.patterns.T[:, None, :],
        noise=start.noise,
        correlation=correlation,
        common=common,
    )


def prepare_for_reading(model: TrajectoryModel, start: str) -> TrajectoryModel:
    """Return the model by which people are read: with independent severities, if it is
    of a start with diffuse patterns.

    The correlation that is learnt among patients would draw the indices of diffuse
    patterns together.
    """
    return (
        replace(model, correlation=np.eye(len(model.correlation)))
        if start in DIFFUSE_STARTS
        else model
    )


def pose_problems(
    people: PeopleSource,
    numbers: Sequence[int],
    n_patterns: int,
    seed: int,
    start: str = STARTS[0],
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> list[TrajectoryProblem]:
    """Return the problems of EM of members: their people, and the linear models from
    which EM begins.
    """
    sets = [PeopleSet(number, "seen") for number in numbers]
    starts = people.run_together(
        [
            partial(
                fit_start,
                people,
                each,
                n_patterns,
                make_generator(seed, each.member, n_patterns),
                start,
            )
            for each in sets
        ]
    )
    return [
        TrajectoryProblem(
            people=own,
            start=make_trajectory_start(start, settings),
            target=start.target,
            held_out=PeopleSet(own.member, "unseen"),
        )
        for own, start in zip(sets, starts, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class GroupLossQuestion(Question[float]):
    """Asks for the group loss of a set of people under a model; NaN where it lacks
    controls or patients.

    Attributes
    ----------
    people : PeopleSet
    model : TrajectoryModel
    """

    people: PeopleSet
    model: TrajectoryModel

    def sum_in_memory(self, people: PeopleInMemory) -> float:
        """Return the group loss of the people of a member."""
        ratios = [
            compute_log_ratio(people.select(self.people.part, label), self.model)
            for label in (0, 1)
        ]
        losses = [
            sum_group_losses(each, bool(label)) for label, each in enumerate(ratios)
        ]
        return compute_group_loss(*losses, *map(len, ratios))


@dataclass(frozen=True, kw_only=True)
class MemberFits:
    """Fits of a set of members from one start.

    Attributes
    ----------
    start : str
        One of `STARTS`.
    shape : str
        The shape of all members.
    fits : list of dict
        Of each member by shape.
    visits : VisitFits or None
        Of people with repeat visits.
    contrastive_loss, whole_cohort_loss, mixed_loss : ndarray of shape (S,) or None
        Group loss of each member by each start. None where they were not compared.
    """

    start: str
    shape: str
    fits: list[dict[str, TrajectoryFit]]
    visits: "VisitFits | None" = None
    contrastive_loss: FloatArray | None = None
    whole_cohort_loss: FloatArray | None = None
    mixed_loss: FloatArray | None = None

    @property
    def models(self) -> list[TrajectoryModel]:
        """Fitted model of each member."""
        return [fit[self.shape].model for fit in self.fits]

    @property
    def steps(self) -> list[int]:
        """Number of M steps of each member."""
        return [fit[self.shape].n_iterations for fit in self.fits]

    def describe_held_out(self, member: int) -> HeldOutLikelihood:
        """Return the likelihood of held-out patients of a member, and the group losses
        of its held-out people.
        """
        held_out = replace(
            get_held_out(self.fits[member], self.shape), start=self.start
        )
        return replace(
            held_out,
            contrastive_loss=_get_loss(self.contrastive_loss, member),
            whole_cohort_loss=_get_loss(self.whole_cohort_loss, member),
            mixed_loss=_get_loss(self.mixed_loss, member),
        )


def _get_loss(losses: FloatArray | None, member: int) -> float | None:
    """Return the group loss of a member; None where it is not known."""
    return (
        None
        if losses is None or not np.isfinite(losses[member])
        else float(losses[member])
    )


FitVisits = Callable[[Sequence[TrajectoryProblem]], "VisitFits | None"]
"""Fits proportional patterns to all visits of the people of members; none without
repeat visits.
"""


def _sum_group_losses(
    people: PeopleSource,
    problems: Sequence[TrajectoryProblem],
    models: Sequence[TrajectoryModel],
) -> FloatArray:
    """Return the group loss of each model in the people whom its member has not seen.

    It is equation 5, see `compute_group_loss`.
    """
    unseen = [PeopleSet(problem.people.member, "unseen") for problem in problems]
    pairs = zip(unseen, models, strict=True)
    return np.array(people.sum_each([GroupLossQuestion(*each) for each in pairs]))


def fit_from_best_start(
    people: PeopleSource,
    numbers: Sequence[int],
    n_patterns: int,
    seed: int,
    shape: str = "auto",
    start: str = "auto",
    fit_visits: FitVisits = lambda problems: None,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> MemberFits:
    """Fit members from the start by which people whom they have not seen are better
    told apart; or from a given one.

    The whole-cohort start is taken if its group loss is lower than that of the
    contrastive start, as `is_whole_cohort_taken` says, both before EM and after. Its
    patterns before EM cost hardly anything, and on diffuse patterns EM hardly changes
    them. So EM from the second start is only run where it is likely to be taken.

    Of the whole-cohort start, if it is given, the group loss is computed as well,
    because fits on halves agree on its patterns even where labels mean nothing.

    Where patterns of the contrastive start are local (`has_local_patterns`), the mixed
    start takes the place of the whole-cohort start, which would lose them. Normal
    variation is that of controls in both it and the contrastive start, so the smaller
    group loss after EM decides between these two.
    """

    def fit_all(problems: Sequence[TrajectoryProblem], name: str) -> MemberFits:
        visits = fit_visits(problems)
        proportional = None if visits is None else visits.proportional
        details = proportional, settings
        chosen, fits = fit_and_choose(people, problems, shape, n_patterns, *details)
        return MemberFits(start=name, shape=chosen, fits=fits, visits=visits)

    sum_losses = partial(_sum_group_losses, people)
    first, second, third = STARTS
    pose = partial(pose_problems, people, numbers, n_patterns, seed, settings=settings)
    if start != "auto":
        problems = pose(start)
        fitted = fit_all(problems, start)
        if start != second:
            return fitted
        return replace(fitted, whole_cohort_loss=sum_losses(problems, fitted.models))
    problems = pose(first)
    fitted = fit_all(problems, first)
    local = has_local_patterns([each.start.patterns.T for each in problems])
    try:
        problems = pose(second)
    except InputError:  # patients do not vary more than controls
        return fitted
    losses = sum_losses(
        [*problems, *problems], [*fitted.models, *(each.start for each in problems)]
    )
    own, other = np.split(losses, 2)
    fitted = replace(fitted, contrastive_loss=own, whole_cohort_loss=other)
    if not is_whole_cohort_taken(own, other):
        return fitted
    if local:
        try:
            problems = pose(third)
        except InputError:
            return fitted
        refitted = fit_all(problems, third)
        mixed = sum_losses(problems, refitted.models)
        taken = refitted if mixed.mean() < own.mean() else fitted
        return replace(
            taken, contrastive_loss=own, whole_cohort_loss=other, mixed_loss=mixed
        )
    refitted = fit_all(problems, second)
    other = sum_losses(problems, refitted.models)
    taken = refitted if is_whole_cohort_taken(own, other) else fitted
    return replace(taken, contrastive_loss=own, whole_cohort_loss=other)

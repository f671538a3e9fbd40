"""Ensemble members of the method ``trajectories``.

Each member is fitted to its own four fifths of controls and of patients
(`subsampling`). The likelihood of held-out patients tells when EM ends, and which shape
and which number of patterns describe other people best. These choices are the same for
all members of a set.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from rindices.learners.ensemble import HeldOutLikelihood, Member, TrainingOutcome
from rindices.learners.inference import ContrastiveHead
from rindices.learners.people_source import HALVES, PeopleSet, PeopleSource
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.trajectory.coupling import (
    VisitFits,
    choose_coupling,
    make_trend_start,
)
from rindices.learners.trajectory.em import TrajectoryProblem, fit_trajectories
from rindices.learners.trajectory.model import TrajectoryModel, make_trajectory_head
from rindices.learners.trajectory.people import MemberPeople
from rindices.learners.trajectory.settings import DEFAULT_EM_SETTINGS, EMSettings
from rindices.learners.trajectory.shapes import PATH_BY_SHAPE
from rindices.learners.trajectory.starts import (
    fit_from_best_start,
    fit_start,
    make_generator,
    make_trajectory_start,
    prepare_for_reading,
)
from rindices.learners.trajectory.visits import fit_visits
from rindices.selection.agreement import IndexMoments
from rindices.threads import limit_blas_threads


@limit_blas_threads()
def fit_trajectory_members(
    people: Sequence[PreparedPeople],
    n_patterns: int,
    numbers: Sequence[int],
    seed: int,
    shape: str = "auto",
    coupled: bool | None = None,
    start: str = "auto",
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> list[Member]:
    """Fit members, each on its own four fifths of controls and of patients.

    Parameters
    ----------
    people : sequence of PreparedPeople
        Of each member.
    n_patterns : int
        M.
    numbers : sequence of int
        Numbers of the members.
    shape : str
        ``auto``: the shape under which the patients that members have not seen are
        more likely, on average.
    coupled : bool or None
        Whether to couple repeat visits in proportional patterns (`visits`). By default,
        if patients that members have not seen are then more likely. Without trends,
        or with few people who have several visits, the mean of visits is fitted.
    start : str
        One of `STARTS`. ``auto``: see `fit_from_best_start`.
    """
    source = MemberPeople.prepare(people, numbers, n_patterns)
    own = [source.members[number] for number in numbers]

    def fit_visits_of(problems: Sequence[TrajectoryProblem]) -> VisitFits | None:
        return (
            None
            if own[0].visits is None
            else choose_coupling(own, problems, source, coupled, settings)
        )

    fitted = fit_from_best_start(
        source, numbers, n_patterns, seed, shape, start, fit_visits_of, settings
    )
    members, visits = [], fitted.visits
    for k, (number, model) in enumerate(zip(numbers, fitted.models, strict=True)):
        held_out = fitted.describe_held_out(k)
        if visits is not None:
            model = replace(model, noise=model.noise + visits.missing_noise[k])
            held_out = replace(
                held_out,
                coupled=visits.coupled and fitted.shape == "proportional",
                coupling_gain=visits.gains[k],
                from_trends=visits.from_trends,
            )
        members.append(
            make_member(number, own[k].head, model, fitted.steps[k], held_out)
        )
    return members


def make_member(
    number: int,
    preparation: ContrastiveHead,
    model: TrajectoryModel,
    steps: int,
    held_out: HeldOutLikelihood,
) -> Member:
    """Return the member of a fitted model; ``preparation`` prepares its people."""
    head, curves = make_trajectory_head(
        preparation, prepare_for_reading(model, held_out.start)
    )
    return Member(
        number=number,
        outcome=TrainingOutcome.CONVERGED,
        steps=steps,
        head=head,
        patterns=curves,
        evidence=None,
        held_out=held_out,
    )


@limit_blas_threads()
def compare_trajectory_halves(
    people: Sequence[PreparedPeople],
    members: Sequence[Member],
    seed: int,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
    only: Collection[int] | None = None,
) -> list[Member]:
    """Return the members with evidence: the agreement, on all patients, of two fits
    that have no person in common.

    Parameters
    ----------
    people : sequence of PreparedPeople
        Of a whole set of folds. The patterns of the fits have the shape of the
        members, and EM takes as many steps.
    members : sequence of Member
        Of a whole set of folds. The patterns of the fits have the shape of the
        members, and EM takes as many steps.
    only : collection of int, optional
        Numbers of the members to compare. Left out, all.
    """
    numbers, n_patterns = (
        [member.number for member in members],
        members[0].patterns.shape[1],
    )
    source = MemberPeople.prepare(people, numbers, n_patterns, only)
    compared = []
    for member in members:
        if only is not None and member.number not in only:
            continue
        own, held_out, indices = source.members[member.number], member.held_out, []
        assert held_out is not None
        for half in HALVES:
            name, rng = (
                PeopleSet(member.number, half),
                make_generator(seed, member.number, n_patterns, half),
            )
            if held_out.coupled:
                start = fit_start(source, name, n_patterns, rng, held_out.start)
                problem = own.pose_visits(make_trajectory_start(start, settings), half)
                if held_out.from_trends:
                    problem = replace(
                        problem,
                        start=make_trend_start(
                            problem.controls, problem.patients, problem.start, settings
                        ),
                    )
                level = fit_visits([problem], max(1, member.steps), settings=settings)[
                    0
                ].model.level
                model = prepare_for_reading(level, held_out.start)
            else:
                model = fit_half(
                    source, name, n_patterns, held_out, member.steps, rng, settings
                )
            indices.append(
                make_trajectory_head(own.head, model)[0].infer(own.values[own.y == 1])
            )
        compared.append(
            replace(
                member, evidence=IndexMoments.compute(indices).compare(0, 1).numbers
            )
        )
    return compared


def fit_half(
    people: PeopleSource,
    half: PeopleSet,
    n_patterns: int,
    held_out: HeldOutLikelihood,
    steps: int,
    rng: np.random.Generator,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> TrajectoryModel:
    """Fit patterns to half of the people, with the start and the shape of a member, and
    as many steps of EM.
    """
    start = fit_start(people, half, n_patterns, rng, held_out.start)
    model = make_trajectory_start(start, settings)
    # members of diffuse patterns often take no step; others whose likelihood never rose
    # are compared after one
    is_final = not steps and held_out.start == "whole-cohort"
    for each in () if is_final else PATH_BY_SHAPE[held_out.shape]:
        number = max(1, min(steps, settings.get_max_steps(each)))
        problem = TrajectoryProblem(people=half, start=model, target=start.target)
        (fit,) = fit_trajectories(people, [problem], each, number, settings)
        model = fit.model
    return prepare_for_reading(model, held_out.start)

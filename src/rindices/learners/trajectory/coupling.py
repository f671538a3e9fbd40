"""Whether proportional patterns are coupled to the change between repeat visits.

They are if that makes the visits of held-out patients clearly more likely.

Shape letters: N people, R regions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.base import handle_zeros_in_scale
from rindices.learners.contrastive.estimator import solve_people
from rindices.learners.ensemble import is_clear_gain
from rindices.learners.trajectory.em import (
    TrajectoryFit,
    TrajectoryProblem,
    fit_trajectories,
)
from rindices.learners.trajectory.expectation import compute_log_likelihood
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.people import MemberPeople, ShiftedPeople
from rindices.learners.trajectory.settings import DEFAULT_EM_SETTINGS, EMSettings
from rindices.learners.trajectory.visits import (
    VisitFit,
    VisitProblem,
    VisitRows,
    fit_visits,
    make_proportional_model,
)

MIN_COUPLING_GAIN = 0.3
"""Gain in the log-likelihood of all visits per held-out patient that coupling must
bring.

In simulated cohorts of seeds 900 to 902 it was below 0.2 where severities hardly moved
and coupling did not help, and above 0.8 where it did.
"""


@dataclass(frozen=True, kw_only=True)
class VisitFits:
    """Proportional patterns of members with repeat visits.

    Attributes
    ----------
    proportional : list of TrajectoryFit
        Fits of all members.
    coupled : bool
        Whether they are those of coupled visits.
    gains : list of float
        Gain in the log-likelihood of all visits per held-out patient by coupling
        them.
    from_trends : bool
        Whether coupled patterns started from the trends.
    missing_noise : list of ndarray of shape (R, R)
        Part of the noise of one visit that the mean of visits lacks, for people who
        are seen once.
    """

    proportional: list[TrajectoryFit]
    coupled: bool
    gains: list[float]
    from_trends: bool
    missing_noise: list[FloatArray]


def choose_coupling(
    people: Sequence[ShiftedPeople],
    problems: Sequence[TrajectoryProblem],
    source: MemberPeople,
    coupled: bool | None,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> VisitFits:
    """Return the patterns of repeat visits, coupled if held-out patients are then more
    likely.
    """
    levels = fit_trajectories(source, problems, "proportional", settings=settings)
    posed = [
        own.pose_visits(level.model) for own, level in zip(people, levels, strict=True)
    ]
    means = fit_visits(posed, coupled=False, settings=settings)
    fits, from_trends = fit_coupled(posed, settings)
    gains = np.array(
        [fit.held_out - mean.held_out for fit, mean in zip(fits, means, strict=True)]
    )
    coupled = is_clear_gain(gains, MIN_COUPLING_GAIN) if coupled is None else coupled
    if not coupled:  # the patterns are those of the levels
        fits = [
            mean._replace(n_iterations=level.n_iterations)
            for mean, level in zip(means, levels, strict=True)
        ]
    proportional, missing = [], []
    for own, fit in zip(people, fits, strict=True):
        assert own.visits is not None
        held_out = compute_log_likelihood(own.select("unseen", 1), fit.model.level)
        mean = float(held_out.mean()) if len(held_out) else float("nan")
        proportional.append(TrajectoryFit(fit.model.level, fit.n_iterations, mean))
        missing.append(own.visits.retest_share * fit.model.retest_noise)
    return VisitFits(
        proportional=proportional,
        coupled=coupled,
        gains=gains.tolist(),
        from_trends=from_trends,
        missing_noise=missing,
    )


def fit_coupled(
    problems: Sequence[VisitProblem], settings: EMSettings = DEFAULT_EM_SETTINGS
) -> tuple[list[VisitFit], bool]:
    """Fit coupled patterns from the patterns of the levels and from those of the
    trends, and return the likelier fits.

    The start from the levels was fitted to the levels of these patients, so the
    likelihood of the held-out ones counts as much. All members have the same kind of
    start.

    Parameters
    ----------
    problems : sequence of VisitProblem
        One per member, with the proportional model of the levels as start.

    Returns
    -------
    tuple
        Fits. from_trends: whether they started from the trends.
    """
    fits = fit_visits(problems, settings=settings)
    try:
        starts = [
            make_trend_start(each.controls, each.patients, each.start, settings)
            for each in problems
        ]
    except np.linalg.LinAlgError:  # the trends hold fewer patterns
        return fits, False
    others = fit_visits(
        [
            replace(each, start=start)
            for each, start in zip(problems, starts, strict=True)
        ],
        settings=settings,
    )
    patients = [each.patients for each in problems]
    first, second = (
        np.mean(
            [
                f.model.compute_log_likelihood(own) + f.held_out
                for f, own in zip(group, patients, strict=True)
            ]
        )
        for group in (fits, others)
    )
    return (others, True) if second > first else (fits, False)


def make_trend_start(
    controls: VisitRows,
    patients: VisitRows,
    level: TrajectoryModel,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> TrajectoryModel:
    """Return a proportional model of the levels with patterns of the trends alone, by
    the contrastive learner.
    """
    scale = handle_zeros_in_scale(controls.trend.std(axis=0))
    start = solve_people(
        controls.trend / scale, patients.trend / scale, len(level.steps), seed=0
    )
    return make_proportional_model(
        (start.patterns * scale[:, None]).T,
        level.noise,
        np.nan_to_num(patients.level),
        settings,
    )

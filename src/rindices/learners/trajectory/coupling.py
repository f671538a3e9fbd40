"""Coupling of repeat visits in the members of the trajectory learner.

Where disease moves, trends tell the patterns apart far better than levels do (`visits`). A member is fitted with
patterns of the mean of visits and with coupled ones, the latter from two starts: the patterns of the levels, and those
of the trends alone. The start is chosen by the likelihood of all visits of seen and of held-out patients. Whether to
couple is chosen by the likelihood of all visits of patients that members have not seen.

Shape letters: S members, N people, R regions, M patterns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.learners.base import handle_zeros_in_scale
from rindices.learners.contrastive.estimator import fit_contrastive_likelihood
from rindices.learners.inference import ShiftHead
from rindices.learners.missing_cells import complete_people
from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.visits import VisitFit, VisitModel, VisitRows, fit_visits, make_straight_model

MIN_COUPLING_GAIN = 0.3
"""Gain in the log-likelihood of all visits per held-out patient that coupling must bring. In simulated cohorts of seeds
900 to 902 it was below 0.2 where severities hardly moved and coupling did not help, and above 0.8 where it did."""
MIN_FOLLOWED = 20
"""Fewest controls, and fewest patients, with several visits from whom trends are learnt."""
_SQRT2 = np.sqrt(2.0)


class VisitShifts(NamedTuple):
    """Trends of people as shifts.

    Attributes
    ----------
    trend : (N, R)
        Without missing cells, except that people with one visit have NaN everywhere.
    retest_share : float
        Part of the retest noise of one visit that the mean of visits lacks: 1 - mean(1 / n).
    """

    trend: FloatArray
    retest_share: float

    def select(self, levels: FloatArray, rows: IntArray) -> VisitRows:
        """Return the rows of some people, with their levels of (N, R)."""
        trend = self.trend[rows]
        return VisitRows(levels[rows], trend[~np.isnan(trend).all(axis=1)])

    def get_missing_noise(self, model: VisitModel) -> FloatArray:
        """Return the part (R, R) of the noise of one visit that the mean of visits lacks."""
        return np.asarray(self.retest_share * model.retest_noise)


def prepare_visit_shifts(people: PreparedPeople, head: ShiftHead) -> VisitShifts | None:
    """Return the trends of people as shifts; None where hardly anyone has several visits."""
    if people.trend is None or people.n_visits is None:
        return None
    followed = ~np.isnan(people.trend).all(axis=1)
    if np.bincount(people.y[followed], minlength=2).min() < MIN_FOLLOWED:
        return None
    levels, trend = people.X[followed], people.trend[followed]
    shifts = np.full_like(people.trend, np.nan)
    # with two visits, level -+ trend / sqrt(2) are the visits
    changes = (head.prepare(levels + trend / _SQRT2) - head.prepare(levels - trend / _SQRT2)) / _SQRT2
    shifts[followed] = complete_people(changes, people.y[followed], np.random.default_rng(0))
    return VisitShifts(shifts, float(1.0 - np.mean(1.0 / people.n_visits)))


class MemberCoupling(NamedTuple):
    """Fits of a member to all visits.

    Attributes
    ----------
    mean : VisitFit
        With the patterns of the mean of visits.
    coupled : VisitFit
    from_trends : bool
        Whether coupled patterns started from the trends.
    n_level_iterations : int
        Number of M steps of the patterns of the mean of visits.
    """

    mean: VisitFit
    coupled: VisitFit
    from_trends: bool
    n_level_iterations: int

    @property
    def gain(self) -> float:
        """Gain in the log-likelihood of all visits per held-out patient."""
        return self.coupled.held_out - self.mean.held_out


def choose_coupling(members: Sequence[MemberCoupling]) -> bool:
    """Return whether coupling makes held-out patients more likely: by `MIN_COUPLING_GAIN` and two standard errors."""
    gains = np.array([member.gain for member in members])
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
    return bool(gains.mean() > max(MIN_COUPLING_GAIN, 2.0 * float(error)))


def fit_coupled(
    controls: VisitRows,
    patients: VisitRows,
    level: TrajectoryModel,
    target: ReferenceTarget | None,
    held_out: VisitRows,
) -> tuple[VisitFit, bool]:
    """Fit coupled patterns from the patterns of the levels and from those of the trends, and return the likelier fit.

    The start from the levels was fitted to the levels of these patients, so the likelihood of the held-out ones counts
    as much.

    Parameters
    ----------
    controls, patients, target, held_out
        See `fit_visits`.
    level : TrajectoryModel
        Straight model of the levels.

    Returns
    -------
    fit : VisitFit
    from_trends : bool
        Whether it started from the trends.
    """
    fit = fit_visits(controls, patients, level, target, held_out)
    try:
        start = make_trend_start(controls, patients, level)
    except np.linalg.LinAlgError:  # the trends hold fewer patterns
        return fit, False
    other = fit_visits(controls, patients, start, target, held_out)
    values = [each.model.compute_log_likelihood(patients) + each.held_out for each in (fit, other)]
    return (other, True) if values[1] > values[0] else (fit, False)


def make_trend_start(controls: VisitRows, patients: VisitRows, level: TrajectoryModel) -> TrajectoryModel:
    """Return a straight model of the levels with patterns of the trends alone, by the contrastive learner."""
    scale = handle_zeros_in_scale(controls.trend.std(axis=0))
    solution = fit_contrastive_likelihood(controls.trend / scale, patients.trend / scale, len(level.steps), seed=0)
    return make_straight_model((solution.patterns * scale[:, None]).T, level.noise, np.nan_to_num(patients.level))

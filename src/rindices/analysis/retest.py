"""Retest error of R-indices from the visits of controls, and the smallest change that exceeds it."""

from dataclasses import dataclass

import numpy as np

from rindices.analysis.slopes import IndexVisits

CONFIDENCE = 0.95
"""Share of people without change whose measured change stays below the smallest change."""


@dataclass(frozen=True)
class RetestError:
    """Variation of an R-index between visits of people who do not change.

    Attributes
    ----------
    people, visits : int
        That the error was estimated from: controls with two visits or more.
    noise : float
        Standard deviation of a visit about the person's level and the common change per year. It includes true
        differences of change between controls, so that it is not too small.
    correlation : float
        Intraclass correlation: the share of the variance of a visit that lies between people.
    smallest_change : float
        Change between two visits that 5 % of people without change exceed, up or down.
    """

    people: int
    visits: int
    noise: float
    correlation: float
    smallest_change: float


def estimate_retest_error(controls: IndexVisits) -> RetestError | None:
    """Estimate the retest error of an R-index.

    Parameters
    ----------
    controls : IndexVisits
        Visits of controls.

    Returns
    -------
    RetestError or None
        None if fewer than three controls have two visits.
    """
    from scipy.stats import t as student

    trends = controls.fit_lines()
    used = trends.is_repeated
    n_people, n_visits = int(used.sum()), int(trends.visits[used].sum())
    freedom = n_visits - n_people - 1
    if n_people < 3:
        return None
    slope, spread = trends.slope[used, 0], trends.spread[used]
    common = spread @ slope / spread.sum()
    within = float((trends.residual[used, 0] + spread * (slope - common) ** 2).sum()) / freedom
    number = trends.visits[used]
    centre = controls.time.mean()
    level = np.array(
        [
            (controls.values - common * (controls.time - centre))[controls.person == row].mean()
            for row in np.flatnonzero(used)
        ]
    )
    between = max(float(level.var(ddof=1)) - within * float((1 / number).mean()), 0.0)
    smallest = float(student.ppf((1 + CONFIDENCE) / 2, freedom)) * np.sqrt(2 * within)
    return RetestError(n_people, n_visits, float(np.sqrt(within)), between / (between + within), float(smallest))

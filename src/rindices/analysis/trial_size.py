"""Size of a trial of a treatment that slows the change of an R-index."""

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import AnalysisError


def compute_trial_size(
    slope: float,
    slope_variance: float,
    noise_variance: float,
    schedule: FloatArray,
    slowing: float = 0.3,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """Return the number of people per arm for a two-sided comparison of mean slopes.

    Each arm has n people with visits at the same times t. The variance of a least-squares slope is the variance between
    slopes plus the noise variance over sum (t - mean t)^2, and

        n = 2 (z_(1 - alpha / 2) + z_power)^2 variance / (slowing * slope)^2.

    Parameters
    ----------
    slope : float
        Mean change per year that the treatment slows.
    slope_variance, noise_variance : float
        Between the slopes of people, and of a visit.
    schedule : (visits,)
        Times of the visits in years.
    slowing : float
        Share of the change that the treatment prevents.
    power, alpha : float
        Of the test.

    Returns
    -------
    float
        People per arm who complete the trial, rounded up; infinite if there is no change.

    Raises
    ------
    AnalysisError
        If shares are not between 0 and 1, or the schedule has fewer than two times.
    """
    from scipy.special import ndtri

    for name, value in (("slowing", slowing), ("power", power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise AnalysisError(f"{name} {value:g} is not between 0 and 1: give a share such as 0.3.")
    if len(np.unique(schedule)) < 2:
        raise AnalysisError("a trial needs visits at two times or more: give more years and visits.")
    if slope == 0:
        return np.inf
    variance = slope_variance + noise_variance / float(((schedule - schedule.mean()) ** 2).sum())
    quantiles = float(ndtri(1 - alpha / 2) + ndtri(power))
    return float(np.ceil(2 * quantiles**2 * variance / (slowing * slope) ** 2))

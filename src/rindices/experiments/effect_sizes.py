"""Effect sizes of simulated patterns: from Cohen's d of a region to the share of volume that it loses, and back.

Cohen's d is the mean difference between patients and controls in a region of a pattern, in standard deviations of the
controls after adjustment. A loss of 10 % is many standard deviations of a cortical thickness and few of a ventricle.
Shape letters: R regions, C covariates.
"""

from collections.abc import Sequence

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import SimulationError
from rindices.experiments.reference import HealthyGenerator
from rindices.experiments.tasks import SimulationTask
from rindices.preprocess.residualise import Residualiser

_N_DRAWN = 2_000
_MAX_RATE = 0.95  # share of volume that a region can lose


def estimate_relative_sd(generator: HealthyGenerator, covariates: Sequence[str], seed: int = 0) -> FloatArray:
    """Return the standard deviation of each region of healthy people, as a share of its mean.

    Parameters
    ----------
    generator : HealthyGenerator
        Draws the people.
    covariates : sequence of str
        Covariates to adjust for.
    seed : int

    Returns
    -------
    (R,)
    """
    volumes, drawn = generator.draw(_N_DRAWN, np.random.default_rng([seed, 9]))
    missing = [name for name in covariates if name not in drawn]
    if missing:
        raise SimulationError(f"there is no covariate {missing[0]}: there is {', '.join(drawn)}.")
    logs = np.log(volumes.to_numpy(dtype=float))
    adjusted = Residualiser.fit(logs, drawn[list(covariates)]).transform(logs, drawn[list(covariates)])
    return np.asarray(adjusted.std(axis=0))


def convert_d_to_rates(d: float, relative_sd: FloatArray, task: SimulationTask) -> FloatArray:
    """Return the share of volume (R,) that each region must lose at severity 1 for an effect of d.

    Parameters
    ----------
    d : float
        Cohen's d of a region of a pattern.
    relative_sd : (R,)
        From `estimate_relative_sd`.
    task : SimulationTask
        Its distribution of severities.

    Returns
    -------
    (R,)
        At most 0.95.
    """
    return np.minimum(d * relative_sd / _compute_mean_severity(task), _MAX_RATE)


def convert_rate_to_d(rate: float, relative_sd: FloatArray, task: SimulationTask) -> FloatArray:
    """Return Cohen's d (R,) of regions that lose this share at severity 1; see `convert_d_to_rates`."""
    return np.asarray(rate * _compute_mean_severity(task) / relative_sd)


def _compute_mean_severity(task: SimulationTask) -> float:
    first, second = task.beta
    return first / (first + second)

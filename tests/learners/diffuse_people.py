"""People who differ by two diffuse factors, which lie along the large axes of normal
variation.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

import rindices as ri
from rindices.tables.cohort import Cohort

N_REGIONS = 60


class DiffusePeople(NamedTuple):
    """People as shifts (N, R), who is a patient (N,), true severities of patients (N,
    2) and true patterns (2, R).
    """

    shifts: np.ndarray
    y: np.ndarray
    severities: np.ndarray
    patterns: np.ndarray


def simulate_diffuse_people(
    seed: int = 0, n_controls: int = 60, n_patients: int = 180
) -> DiffusePeople:
    """Draw severities that are independent in the whole cohort: patients have the
    first, the second, or both.

    The patterns are two mixtures of the two largest axes of normal variation. Patients
    also vary more than controls along a few small axes, as real patients do: there
    their variance is larger in proportion, though small.
    """
    rng = np.random.default_rng([seed, 59])
    axes = np.linalg.qr(
        np.random.default_rng(59).standard_normal((N_REGIONS, N_REGIONS))
    )[0]
    variances = 0.3 + 8.0 / np.arange(1, N_REGIONS + 1) ** 1.5
    patterns = (
        -3.2
        * np.stack([axes[:, 0] + axes[:, 1], axes[:, 0] - axes[:, 1]])
        * np.sqrt(variances[0] / 2.0)
    )
    y = np.repeat([0, 1], [n_controls, n_patients])
    has = np.stack(
        [np.arange(n_patients) % 3 != 1, np.arange(n_patients) % 3 != 2], axis=1
    )
    severities = np.where(has, rng.uniform(size=has.shape), 0.0)
    noise = rng.standard_normal((len(y), N_REGIONS)) * np.sqrt(variances)
    noise[n_controls:, -3:] *= 4.0
    shifts = noise @ axes.T
    shifts[n_controls:] += severities @ patterns
    return DiffusePeople(shifts, y, severities, patterns)


def simulate_mixed_people(
    seed: int = 0, n_controls: int = 70, n_patients: int = 240
) -> DiffusePeople:
    """Draw patients who have a diffuse pattern, one of three regions, or both, with
    severities that are independent in the whole cohort.

    Patients also vary more than controls along another large axis, which the
    whole-cohort start takes for a pattern.
    """
    rng = np.random.default_rng([seed, 60])
    axes = np.linalg.qr(
        np.random.default_rng(60).standard_normal((N_REGIONS, N_REGIONS))
    )[0]
    variances = 0.3 + 8.0 / np.arange(1, N_REGIONS + 1) ** 1.5
    patterns = np.zeros((2, N_REGIONS))
    patterns[0] = -4.0 * axes[:, 0] * np.sqrt(variances[0])
    patterns[1, :3] = -2.5
    y = np.repeat([0, 1], [n_controls, n_patients])
    has = np.stack(
        [np.arange(n_patients) % 3 != 1, np.arange(n_patients) % 3 != 2], axis=1
    )
    severities = np.where(has, rng.uniform(size=has.shape), 0.0)
    noise = rng.standard_normal((len(y), N_REGIONS)) * np.sqrt(variances)
    noise[n_controls:, 1] *= 2.0
    shifts = noise @ axes.T
    shifts[n_controls:] += severities @ patterns
    return DiffusePeople(shifts, y, severities, patterns)


def make_diffuse_cohort(people: DiffusePeople) -> Cohort:
    """Return the people as a cohort with positive volumes, whose logarithms are the
    shifts.
    """
    volumes = pd.DataFrame(
        1000.0 * np.exp(0.03 * people.shifts),
        columns=[f"region-{k}" for k in range(N_REGIONS)],
    )
    table = volumes.assign(
        participant_id=[f"p{k:03d}" for k in range(len(volumes))],
        group=np.where(people.y, "AD", "CN"),
    )
    return ri.read_cohort(
        table, group="group", controls="CN", patients="AD", covariates="none"
    )

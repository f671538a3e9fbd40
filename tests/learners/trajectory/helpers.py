"""A small cohort with two patterns that unfold, whose truth is known."""

from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray

N_REGIONS = 30


class UnfoldingCohort(NamedTuple):
    """Shifts (N, R), labels (N,), severities (patients, 2) and the onset of each region of each pattern (2, 10)."""

    shifts: FloatArray
    y: IntArray
    z: FloatArray
    onsets: FloatArray
    regions: tuple[range, range] = (range(10), range(8, 18))


def simulate_unfolding(
    last_onset: float = 0.8, seed: int = 0, n_controls: int = 150, n_patients: int = 400, interaction: float = 0.0
):
    """Return a cohort in which regions change from their onset on; with 0, all regions change together.

    The change of the first pattern is multiplied by 1 + interaction times the severity of the second.
    """
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(N_REGIONS, 3))
    noise = loadings @ loadings.T / 4 + 0.5 * np.eye(N_REGIONS)
    shifts = rng.multivariate_normal(np.zeros(N_REGIONS), noise, n_controls + n_patients)
    z = rng.random((n_patients, 2))
    onsets = np.stack([np.linspace(0, last_onset, 10)] * 2)
    cohort = UnfoldingCohort(shifts, np.repeat([0, 1], [n_controls, n_patients]), z, onsets)
    growths = np.stack([1 + interaction * z[:, 1], np.ones(n_patients)])
    for severity, growth, onset, regions in zip(z.T, growths, onsets, cohort.regions, strict=True):
        expressed = np.clip((severity[:, None] - onset) / (1 - onset), 0, 1)
        shifts[n_controls:, regions] -= 3.0 * growth[:, None] * expressed
    return cohort

"""A small cohort with two patterns that unfold, whose truth is known."""

from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.learners.people_source import PeopleSet, PeopleSource
from rindices.learners.trajectory.em import TrajectoryProblem, fit_trajectories
from rindices.learners.trajectory.expectation import CurveSums
from rindices.learners.trajectory.settings import DEFAULT_EM_SETTINGS

N_REGIONS = 30
RETEST_SD = 0.15


class UnfoldingCohort(NamedTuple):
    """Shifts (N, R), labels (N,), severities (patients, 2) and the onset of each region
    of each pattern (2, 10).
    """

    shifts: FloatArray
    y: IntArray
    z: FloatArray
    onsets: FloatArray
    regions: tuple[range, range] = (range(10), range(8, 18))


def simulate_unfolding(
    last_onset: float = 0.8,
    seed: int = 0,
    n_controls: int = 150,
    n_patients: int = 400,
    interaction: float = 0.0,
):
    """Return a cohort in which regions change from their onset on; with 0, all regions
    change together.

    The change of the first pattern is multiplied by 1 + interaction times the severity
    of the second.
    """
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(N_REGIONS, 3))
    noise = loadings @ loadings.T / 4 + 0.5 * np.eye(N_REGIONS)
    shifts = rng.multivariate_normal(
        np.zeros(N_REGIONS), noise, n_controls + n_patients
    )
    z = rng.random((n_patients, 2))
    onsets = np.stack([np.linspace(0, last_onset, 10)] * 2)
    cohort = UnfoldingCohort(
        shifts, np.repeat([0, 1], [n_controls, n_patients]), z, onsets
    )
    growths = np.stack([1 + interaction * z[:, 1], np.ones(n_patients)])
    for severity, growth, onset, regions in zip(
        z.T, growths, onsets, cohort.regions, strict=True
    ):
        expressed = np.clip((severity[:, None] - onset) / (1 - onset), 0, 1)
        shifts[n_controls:, regions] -= 3.0 * growth[:, None] * expressed
    return cohort


class FollowedCohort(NamedTuple):
    """Visits of people (V, R), their person (V,) and time (V,), labels (N,) and the
    patients' first severities.
    """

    visits: FloatArray
    person: IntArray
    times: FloatArray
    y: IntArray
    z: FloatArray
    patterns: FloatArray


def simulate_followed(
    growth: float, seed: int = 0, n_controls: int = 60, n_patients: int = 80
) -> FollowedCohort:
    """Return people with one to three visits at uneven times; severities grow by up to
    ``growth`` until the last.
    """
    rng = np.random.default_rng(seed)
    n_people, patterns = n_controls + n_patients, np.zeros((2, N_REGIONS))
    patterns[0, :10], patterns[1, 8:18] = -1.5, -1.5
    loadings = rng.normal(size=(N_REGIONS, 3))
    noise = loadings @ loadings.T / 4 + 0.5 * np.eye(N_REGIONS)
    anatomy = rng.multivariate_normal(np.zeros(N_REGIONS), noise, n_people)
    n_visits = rng.choice([1, 2, 3], n_people, p=[0.1, 0.3, 0.6])
    person = np.repeat(np.arange(n_people), n_visits)
    times = np.concatenate([np.sort(rng.random(number)) for number in n_visits])
    z, rates = (
        rng.random((n_patients, 2)) * (1 - growth),
        rng.random((n_patients, 2)) * growth,
    )
    visits = anatomy[person] + RETEST_SD * rng.normal(size=(len(person), N_REGIONS))
    is_ill = person >= n_controls
    patient = person[is_ill] - n_controls
    visits[is_ill] += (z[patient] + rates[patient] * times[is_ill, None]) @ patterns
    return FollowedCohort(
        visits, person, times, np.repeat([0, 1], [n_controls, n_patients]), z, patterns
    )


def fit_people(
    shape,
    start,
    controls,
    patients,
    held_out=None,
    n_iterations=None,
    settings=DEFAULT_EM_SETTINGS,
):
    """Fit a shape to people in arrays, from a start."""
    others = None if held_out is None else PeopleSet(0, "unseen")
    problem = TrajectoryProblem(
        people=PeopleSet(0, "seen"), start=start, held_out=others
    )

    class People(PeopleSource):
        def sum_each(self, questions):
            return [
                CurveSums.compute(question.model, controls, patients, held_out)
                for question in questions
            ]

    (fit,) = fit_trajectories(People(), [problem], shape, n_iterations, settings)
    return fit

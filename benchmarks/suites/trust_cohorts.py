"""Cohorts that could mislead: no disease, groups that differ in age, site or spread, a
batch effect in patients.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pandas as pd

from rindices._typing import FloatArray
from rindices.experiments.simulate import SimulatedCohort, simulate_cohort
from rindices.experiments.tasks import TASKS, SimulationTask, make_task_with_patterns
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.cohort import GROUP, SITE, Cohort

# log odds of being a patient per standard deviation of age above the mean, half below
# it
AGE_LOG_ODDS = 1.2
N_SITES, SITE_LOG_ODDS = (
    5,
    1.5,
)  # difference in log odds of being a patient between the first and the last site
PATIENT_SPREAD = 1.2  # ratio of the standard deviations of patients and controls
BATCH_SHARES = (0.1, 0.3)  # share of patients in another batch
BATCH_SHIFT = 0.5  # standard deviation of the shift of a region, as for a site
ALIKE_SEVERITY = 0.3  # of all patients of a cohort in which patients are alike
PATTERN_COUNTS = (1, 2, 3, 5)


@dataclass(frozen=True)
class NullCohortSpec:
    """A cohort in which patients are controls, and how labels depend on age
    and site.
    """

    n_controls: int
    n_patients: int
    sites: int = 0
    older: bool = False
    wider: bool = False


NULL_COHORTS = MappingProxyType(
    {
        "492 + 900": NullCohortSpec(492, 900),
        "150 + 200": NullCohortSpec(150, 200),
        "site effects, sites unequal in patients": NullCohortSpec(
            492, 900, sites=N_SITES
        ),
        "patients older, age adjusted": NullCohortSpec(492, 900, older=True),
        "patients vary more in all directions": NullCohortSpec(492, 900, wider=True),
    }
)


def simulate_null_cohort(kind: str, seed: int) -> Cohort:
    """Simulate a cohort without disease."""
    spec = NULL_COHORTS[kind]
    task = replace(
        TASKS["null"], n_controls=spec.n_controls, n_patients=spec.n_patients
    )
    cohort = simulate_cohort(task, seed, sites=spec.sites).cohort
    rng = np.random.default_rng([seed, 10])
    odds = np.zeros(len(cohort))
    if spec.older:
        age = cohort.covariates["age"].to_numpy(dtype=float)
        years = (age - age.mean()) / age.std()
        odds += AGE_LOG_ODDS * np.where(years > 0, years, years / 2)
    if spec.sites:
        odds += (
            SITE_LOG_ODDS
            / (spec.sites - 1)
            * cohort.people[SITE].str.removeprefix("site").astype(float).to_numpy()
        )
    patients = np.argsort(odds + rng.gumbel(size=len(odds)))[::-1][: spec.n_patients]
    labels = np.full(len(cohort), CONTROL, dtype=object)
    labels[patients] = PATIENT
    relabelled = replace(cohort, people=cohort.people.assign(**{GROUP: labels}))
    return _widen_patient_spread(relabelled) if spec.wider else relabelled


def _widen_patient_spread(cohort: Cohort) -> Cohort:
    """Increase the residual variation of patients' log volumes, given the
    covariates.
    """
    logs = np.log(cohort.volumes.to_numpy(dtype=float))
    covariates = cohort.covariates.assign(
        icv=np.log(cohort.covariates["icv"].astype(float))
    )
    design = (
        pd.get_dummies(covariates, drop_first=True)
        .astype(float)
        .assign(one=1.0)
        .to_numpy()
    )
    expected = design @ np.linalg.lstsq(design, logs, rcond=None)[0]
    stretch = np.where(cohort.is_patient, PATIENT_SPREAD, 1.0)[:, None]
    return replace(
        cohort,
        volumes=pd.DataFrame(
            np.exp(expected + stretch * (logs - expected)), columns=cohort.regions
        ),
    )


def make_pattern_task(number: int, rate: float) -> SimulationTask:
    """Return the basic task with another number of patterns and loss."""
    return replace(make_task_with_patterns(number), rate=rate)


def simulate_alike_cohort(rate: float, seed: int) -> Cohort:
    """Simulate patients who have all lost the same share of the regions of the basic
    task's first pattern.
    """
    cohort = simulate_cohort(TASKS["null"], seed).cohort
    affected = np.isin(cohort.regions, TASKS["basic"].patterns[0])
    share = np.where(np.outer(cohort.is_patient, affected), ALIKE_SEVERITY * rate, 0.0)
    return replace(cohort, volumes=cohort.volumes * (1.0 - share))


def simulate_batch_cohort(
    seed: int, task: SimulationTask, share: float, shift: float = BATCH_SHIFT
) -> tuple[SimulatedCohort, FloatArray]:
    """Simulate a cohort with some patients in another batch.

    Returns
    -------
    simulated : SimulatedCohort
    batch : (patients,)
        1 for patients of the other batch, otherwise 0.
    """
    simulated = simulate_cohort(task, seed)
    rng = np.random.default_rng([seed, 11])
    cohort = simulated.cohort
    batch = rng.uniform(size=cohort.n_patients) < share
    volumes = cohort.volumes.to_numpy(dtype=float).copy()
    shifted = volumes[cohort.is_patient]
    shifted[batch] += rng.normal(0, shift, size=volumes.shape[1]) * volumes[
        cohort.is_control
    ].std(axis=0)
    volumes[cohort.is_patient] = np.maximum(shifted, 1.0)
    frame = pd.DataFrame(volumes, columns=cohort.regions)
    return replace(simulated, cohort=replace(cohort, volumes=frame)), batch.astype(
        float
    )

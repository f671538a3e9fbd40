"""Misleading cohorts differ from plain ones as they should."""

import numpy as np

import rindices as ri
from benchmarks.suites.trust_cohorts import (
    NULL_COHORTS,
    simulate_batch_cohort,
    simulate_null_cohort,
)
from rindices.experiments.tasks import TASKS
from rindices.tables.cohort import SITE


def test_null_cohorts_differ_in_age_site_or_spread() -> None:
    older = simulate_null_cohort("patients older, age adjusted", 0)
    age = older.covariates["age"].to_numpy(dtype=float)
    assert 5 < age[older.is_patient].mean() - age[older.is_control].mean() < 12
    sites = simulate_null_cohort("site effects, sites unequal in patients", 0)
    share = sites.people.assign(ill=sites.is_patient).groupby(SITE)["ill"].mean()
    assert share["site5"] > share["site1"] + 0.2
    for kind, spec in NULL_COHORTS.items():
        cohort = simulate_null_cohort(kind, 1)
        assert (cohort.n_controls, cohort.n_patients) == (
            spec.n_controls,
            spec.n_patients,
        )
    wider, same = (
        simulate_null_cohort("patients vary more in all directions", 0),
        simulate_null_cohort("492 + 900", 0),
    )
    logs = [
        np.log(cohort.volumes.to_numpy())[cohort.is_patient].std(axis=0).mean()
        for cohort in (wider, same)
    ]
    assert 1.05 < logs[0] / logs[1] < 1.25


def test_a_batch_shifts_only_its_patients() -> None:
    simulated, batch = simulate_batch_cohort(0, TASKS["basic"], 0.3)
    plain = ri.simulate_cohort("basic", 0).cohort
    shifted = (
        np.abs(simulated.cohort.volumes.to_numpy() - plain.volumes.to_numpy()).sum(
            axis=1
        )
        > 0
    )
    np.testing.assert_array_equal(shifted[simulated.cohort.is_patient], batch == 1)
    assert not shifted[simulated.cohort.is_control].any()
    assert 0.25 < batch.mean() < 0.35

"""Cohorts with linear effects of age and sex."""

import numpy as np
import pandas as pd

from rindices.tables.cohort import Cohort

N_REGIONS = 12


def make_cohort(
    n_people: int = 200,
    seed: int = 0,
    patient_shift: float = 0.0,
    covariates: pd.DataFrame | None = None,
) -> Cohort:
    """Return a cohort in which controls and patients take turns."""
    rng = np.random.default_rng(seed)
    if covariates is None:
        covariates = pd.DataFrame(
            {
                "age": rng.uniform(40, 80, n_people),
                "sex": rng.choice(["F", "M"], n_people).astype(object),
            }
        )
    volumes = 3000 + rng.normal(0, 100, size=(n_people, N_REGIONS))
    if "age" in covariates:
        volumes -= 7 * covariates["age"].to_numpy()[:, None]
    if "sex" in covariates:
        volumes += 90 * (covariates["sex"] == "M").to_numpy()[:, None]
    group = np.array(["control", "patient"] * (n_people // 2), dtype=object)
    volumes[group == "patient"] += patient_shift
    people = pd.DataFrame(
        {"participant_id": [f"p{k:03d}" for k in range(n_people)], "group": group}
    )
    return Cohort(
        volumes=pd.DataFrame(volumes, columns=[f"r{k}" for k in range(N_REGIONS)]),
        people=people,
        covariates=covariates,
    )

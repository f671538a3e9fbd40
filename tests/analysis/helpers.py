"""Tables of R-indices, and of regions, variables and visits of the same people."""

import numpy as np
import pandas as pd

N_PEOPLE = 120


def make_clinical_tables(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return R-indices, and clinical variables with missing values in another order of
    rows.
    """
    rng = np.random.default_rng(seed)
    ids = [f"sub-{k:03d}" for k in range(N_PEOPLE)]
    indices = pd.DataFrame(rng.uniform(size=(N_PEOPLE, 2)), columns=["r1", "r2"])
    indices.insert(0, "participant_id", ids)
    age = rng.uniform(50, 80, N_PEOPLE)
    clinical = pd.DataFrame(
        {
            "participant_id": ids,
            "age": age,
            "sex": rng.choice(["F", "M"], N_PEOPLE),
            "memory": -2 * indices["r1"] + 0.05 * age + rng.normal(size=N_PEOPLE),
            "carrier": np.where(
                indices["r2"] + rng.normal(0, 0.5, N_PEOPLE) > 0.5, "yes", "no"
            ),
        }
    )
    clinical.loc[3:20, "memory"] = np.nan
    clinical.loc[30:33, "carrier"] = None
    return indices, clinical.sample(frac=1, random_state=seed).reset_index(drop=True)


def make_visits(
    people: int, visits: int, noise: float = 0.03, seed: int = 0
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return visits at uneven times with noise, and the true change per year (N, 2)."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(0.02, 0.03, size=(people, 2))
    years = 60 + np.sort(rng.uniform(0, 6, size=(people, visits)), axis=1)
    base = rng.uniform(0, 1, size=(people, 1, 2))
    values = (
        base
        + slopes[:, None] * (years - 60)[..., None]
        + rng.normal(0, noise, size=(people, visits, 2))
    )
    frame = pd.DataFrame(
        {
            "participant_id": np.repeat([f"p{k:04d}" for k in range(people)], visits),
            "session_id": np.tile([f"ses-{k}" for k in range(visits)], people),
            "r1": values[..., 0].ravel(),
            "r1_low": 0.0,
            "r2": values[..., 1].ravel(),
            "age": years.ravel(),
        }
    )
    return frame, slopes


def make_two_groups(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return R-indices and regions of 60 controls and 60 patients, who differ in r1 and
    in two regions.
    """
    rng = np.random.default_rng(seed)
    ids = [f"p{k:03d}" for k in range(N_PEOPLE)]
    is_patient = np.arange(N_PEOPLE) % 2 == 1
    indices = pd.DataFrame(
        {"participant_id": ids, "group": np.where(is_patient, "patient", "control")}
    )
    indices["r1"] = rng.normal(0, 0.3, N_PEOPLE) + is_patient * 0.3
    indices["r2"] = rng.normal(0, 0.3, N_PEOPLE)
    losses = 250 * (is_patient[:, None] & (np.arange(8) < 2))
    regions = pd.DataFrame(rng.normal(3000, 200, (N_PEOPLE, 8)) - losses).add_prefix(
        "v"
    )
    regions.insert(0, "participant_id", ids)
    return indices, regions.sample(frac=1, random_state=seed)


def make_subgroup_tables(
    people: int = 400, n_regions: int = 15, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return R-indices, regions and covariates of 150 controls and of patients who lose
    five regions with r1.
    """
    rng = np.random.default_rng(seed)
    ids = [f"p{k:03d}" for k in range(people)]
    indices = pd.DataFrame(rng.uniform(size=(people, 2)), columns=["r1", "r2"])
    indices.insert(0, "group", np.where(np.arange(people) < 150, "control", "patient"))
    indices.insert(0, "participant_id", ids)
    age = rng.uniform(50, 80, people)
    covariates = pd.DataFrame(
        {"participant_id": ids, "age": age, "sex": rng.choice(["F", "M"], people)}
    )
    values = rng.normal(3000, 200, (people, n_regions)) - 5 * age[:, None]
    values[150:, :5] -= 400 * indices["r1"].to_numpy()[150:, None]
    regions = pd.DataFrame(values, columns=[f"region{k}" for k in range(n_regions)])
    regions.insert(0, "participant_id", ids)
    return (
        indices,
        regions.sample(frac=1, random_state=seed),
        covariates.sample(frac=1, random_state=seed + 1),
    )

"""Simulated people of unequal sites, as tables."""

from pathlib import Path

import numpy as np
import pandas as pd

SIZES = {
    "site-1": (64, 60),
    "site-2": (75, 90),
    "site-3": (60, 62),
    "site-4": (110, 130),
}
"""Controls and patients of each site."""
STUDY = """[data]
volumes = "volumes.csv"
participants = "participants.tsv"
group = "group"
covariates = ["age", "sex"]
"""


def simulate_site(
    name: str, n_controls: int, n_patients: int, n_regions: int = 10, seed: int = 0
) -> pd.DataFrame:
    """Return people with two patterns of atrophy, each in half of the regions, and a
    shift of the scanner.
    """
    number = int(name.rpartition("-")[2])
    rng, n = np.random.default_rng([seed, number]), n_controls + n_patients
    is_patient = np.arange(n) >= n_controls
    age, sex = rng.uniform(40, 80, n).round(1), rng.integers(2, size=n)
    severity = is_patient[:, None] * rng.uniform(0, 1, (n, 2))
    loading = np.repeat(np.eye(2), [n_regions // 2, n_regions - n_regions // 2], axis=0)
    log = (
        8.0
        - 0.25 * severity @ loading.T
        - 0.003 * (age[:, None] - 60)
        + 0.05 * sex[:, None]
    )
    log += 0.02 * number + rng.normal(0, 0.06, (n, n_regions))
    table = pd.DataFrame(np.exp(log), columns=[f"region_{k}" for k in range(n_regions)])
    table.insert(0, "participant_id", [f"sub-{number}{k:04d}" for k in range(n)])
    groups = np.where(is_patient, "patient", "control")
    return table.assign(group=groups, age=age, sex=np.where(sex, "F", "M"))


def remove_cells(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Return people of whom three in a hundred cells of regions are missing."""
    rng, regions = np.random.default_rng(seed), table.filter(like="region")
    return table.assign(**regions.mask(rng.random(regions.shape) < 0.03))


def write_site(folder: Path, table: pd.DataFrame) -> Path:
    """Write the tables and the study file of a site; return the study file."""
    folder.mkdir(parents=True, exist_ok=True)
    regions = [name for name in table if str(name).startswith("region")]
    table[["participant_id", *regions]].to_csv(folder / "volumes.csv", index=False)
    table[["participant_id", "group", "age", "sex"]].to_csv(
        folder / "participants.tsv", sep="\t", index=False
    )
    (folder / "study.toml").write_text(STUDY)
    return folder / "study.toml"


def write_visits(folder: Path, table: pd.DataFrame) -> Path:
    """Write the tables of a site whose people have a second visit; return the study
    file.
    """
    study = write_site(folder, table)
    volumes = pd.read_csv(folder / "volumes.csv")
    later = volumes.filter(like="region") * 0.99
    visits = [
        volumes.assign(session_id="ses-1"),
        volumes.assign(session_id="ses-2", **later),
    ]
    pd.concat(visits).to_csv(folder / "volumes.csv", index=False)
    return study

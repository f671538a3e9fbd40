"""Tables of R-indices, and of regions, variables, visits and images of the same people."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter

N_PEOPLE = 120
IMAGE_SHAPE = (24, 28, 22)
IMAGE_AFFINE = np.array([[4.0, 0, 0, -46], [0, 4, 0, -60], [0, 0, 4, -40], [0, 0, 0, 1]])
BLOB_CENTRE = (8, 14, 10)


def make_clinical_tables(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return R-indices, and clinical variables with missing values in another order of rows."""
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
            "carrier": np.where(indices["r2"] + rng.normal(0, 0.5, N_PEOPLE) > 0.5, "yes", "no"),
        }
    )
    clinical.loc[3:20, "memory"] = np.nan
    clinical.loc[30:33, "carrier"] = None
    return indices, clinical.sample(frac=1, random_state=seed).reset_index(drop=True)


def make_visits(people: int, visits: int, noise: float = 0.03, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return visits at uneven times with noise, and the true change per year (N, 2)."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(0.02, 0.03, size=(people, 2))
    years = 60 + np.sort(rng.uniform(0, 6, size=(people, visits)), axis=1)
    base = rng.uniform(0, 1, size=(people, 1, 2))
    values = base + slopes[:, None] * (years - 60)[..., None] + rng.normal(0, noise, size=(people, visits, 2))
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
    """Return R-indices and regions of 60 controls and 60 patients, who differ in r1 and in two regions."""
    rng = np.random.default_rng(seed)
    ids = [f"p{k:03d}" for k in range(N_PEOPLE)]
    is_patient = np.arange(N_PEOPLE) % 2 == 1
    indices = pd.DataFrame({"participant_id": ids, "group": np.where(is_patient, "patient", "control")})
    indices["r1"] = rng.normal(0, 0.3, N_PEOPLE) + is_patient * 0.3
    indices["r2"] = rng.normal(0, 0.3, N_PEOPLE)
    losses = 250 * (is_patient[:, None] & (np.arange(8) < 2))
    regions = pd.DataFrame(rng.normal(3000, 200, (N_PEOPLE, 8)) - losses).add_prefix("v")
    regions.insert(0, "participant_id", ids)
    return indices, regions.sample(frac=1, random_state=seed)


def make_subgroup_tables(
    people: int = 400, n_regions: int = 15, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return R-indices, regions and covariates of 150 controls and of patients who lose five regions with r1."""
    rng = np.random.default_rng(seed)
    ids = [f"p{k:03d}" for k in range(people)]
    indices = pd.DataFrame(rng.uniform(size=(people, 2)), columns=["r1", "r2"])
    indices.insert(0, "group", np.where(np.arange(people) < 150, "control", "patient"))
    indices.insert(0, "participant_id", ids)
    age = rng.uniform(50, 80, people)
    covariates = pd.DataFrame({"participant_id": ids, "age": age, "sex": rng.choice(["F", "M"], people)})
    values = rng.normal(3000, 200, (people, n_regions)) - 5 * age[:, None]
    values[150:, :5] -= 400 * indices["r1"].to_numpy()[150:, None]
    regions = pd.DataFrame(values, columns=[f"region{k}" for k in range(n_regions)])
    regions.insert(0, "participant_id", ids)
    return indices, regions.sample(frac=1, random_state=seed), covariates.sample(frac=1, random_state=seed + 1)


def make_blob() -> np.ndarray:
    """Return the voxels that patients lose."""
    grid = np.stack(np.meshgrid(*(np.arange(size) for size in IMAGE_SHAPE), indexing="ij"), axis=-1)
    return ((grid - np.array(BLOB_CENTRE)) ** 2).sum(axis=-1) <= 3**2


def write_images(folder: Path, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write images of 30 controls and 30 patients who lose a blob with r1; return R-indices and paths."""
    import nibabel

    rng = np.random.default_rng(seed)
    ids = [f"sub-{k:02d}" for k in range(60)]
    indices = pd.DataFrame({"participant_id": ids, "group": ["control"] * 30 + ["patient"] * 30})
    indices["r1"] = np.r_[np.zeros(30), np.full(3, 0.2), np.full(7, 0.55), np.full(20, 0.9)]
    indices["r2"] = np.r_[np.zeros(30), rng.uniform(0, 0.39, 30)]
    brain = np.zeros(IMAGE_SHAPE, dtype=bool)
    brain[3:-3, 3:-3, 3:-3] = True
    paths = []
    for person, severity in zip(ids, indices["r1"], strict=True):
        noise = gaussian_filter(rng.normal(size=IMAGE_SHAPE), 1.0)
        image = brain * (0.6 + 0.05 * noise / noise.std() - 0.15 * severity * make_blob())
        nibabel.save(nibabel.Nifti1Image(image.astype(np.float32), IMAGE_AFFINE), folder / f"{person}.nii.gz")
        paths.append(str(folder / f"{person}.nii.gz"))
    return indices, pd.DataFrame({"participant_id": ids, "image": paths}).sample(frac=1, random_state=seed)

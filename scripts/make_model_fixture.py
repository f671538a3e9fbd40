"""Write test fixtures of model files: one small model of each kind, and its R-indices.

Usage: ``python scripts/make_model_fixture.py tests/model/fixtures`` where the file
format changes.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import rindices as ri
from rindices.tables.cohort import Cohort

REGIONS = 12
BRIEF = {
    "max_steps": 20,
    "min_steps": 20,
    "reconstruction_bar": 1e3,
    "monotonicity_bar": 1e3,
}


def small_cohort() -> Cohort:
    """Return sixty people with twelve regions and two patterns."""
    rng = np.random.default_rng(0)
    volumes = rng.normal(3000, 200, size=(60, REGIONS))
    volumes[30:, :4] -= rng.uniform(0, 900, size=(30, 1))
    volumes[30:, 4:8] -= rng.uniform(0, 900, size=(30, 1))
    people = pd.DataFrame(
        {
            "participant_id": [f"p{k:02d}" for k in range(60)],
            "group": ["control"] * 30 + ["patient"] * 30,
        }
    )
    covariates = pd.DataFrame(
        {
            "age": rng.uniform(50, 80, 60),
            "sex": rng.choice(["F", "M"], 60).astype(object),
        }
    )
    return Cohort(
        volumes=pd.DataFrame(volumes, columns=[f"r{k}" for k in range(REGIONS)]),
        people=people,
        covariates=covariates,
        source="table",
        unit="mm3",
    )


def main(folder: Path) -> None:
    """Write a model of each kind and its R-indices."""
    folder.mkdir(parents=True, exist_ok=True)
    for method, changes in (
        ("trajectories", {}),
        ("contrastive", {}),
        ("surreal-gan", BRIEF),
    ):
        members = 1 if method == "surreal-gan" else 2
        weight = 0.2 if method == "surreal-gan" else None
        model = ri.fit(
            small_cohort(),
            2,
            method=method,
            members=members,
            orthogonality=weight,
            method_settings=changes,
        )
        model.save(folder / f"{method}.safetensors")
        model.apply(small_cohort()).to_csv(folder / f"{method}.csv", index=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

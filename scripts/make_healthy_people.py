"""Compute what the published models know of healthy people, from the IXI table of MUSE
volumes.

Usage: ``python scripts/make_healthy_people.py ../shared/data``

Writes ``src/rindices/exchange/data/NAME.npz`` for both models: summary figures alone.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import rindices as ri
from rindices.exchange.healthy import (
    calibrate_with_healthy_people,
    pack_healthy_people,
)
from rindices.exchange.importers import PUBLISHED_MODELS, import_published

OUT = Path(__file__).parents[1] / "src" / "rindices" / "exchange" / "data"


def read_ixi(data: Path) -> ri.Cohort:
    """Return the healthy people of IXI with age, sex and intracranial volume."""
    people = pd.read_csv(data / "ixi" / "demographics.csv")
    people = people.rename(columns={"Age": "age", "Sex": "sex"})
    return ri.read_cohort(
        data / "ixi" / "volumes.csv", people, covariates=["age", "sex", "icv"]
    )


def main(data: Path) -> None:
    """Write the figures of both models."""
    cohort = read_ixi(data)
    for name in PUBLISHED_MODELS:
        path = data / "upstream" / f"{name}.saved_model"
        model = import_published(path, name, with_healthy_people=False)
        calibrated = calibrate_with_healthy_people(model, cohort, "IXI")
        out = OUT / f"{name}.npz"
        np.savez_compressed(out, **pack_healthy_people(calibrated))
        print(f"{out.name}: {len(cohort)} people, {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

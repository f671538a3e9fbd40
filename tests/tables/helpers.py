"""Small tables, and shorthands for reading them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from rindices.tables.options import make_options
from rindices.tables.readers import make_request
from rindices.tables.validate import ValidationResult, validate_table

N = 60
"""People of `make_table` and `make_people`."""
PARCELS = ["bankssts", "cuneus", "entorhinal", "fusiform", "insula", "precuneus"]
STRUCTURES = [
    "Left-Thalamus",
    "Right-Thalamus",
    "Left-Hippocampus",
    "Right-Hippocampus",
    "Left-Amygdala",
    "Brain-Stem",
]


def validate_files(
    volumes: object, participants: object = None, **options: object
) -> ValidationResult:
    """Validate files with the options of `rindices.read_cohort`; errors are in the
    result.
    """
    reports_missing = options.get("on_missing", "report") == "report"
    if reports_missing:
        options.pop("on_missing", None)
    request = make_request(volumes, participants, make_options(**options))  # type: ignore[arg-type]
    return validate_table(
        replace(
            request,
            reports_missing=reports_missing,
            searches_blocks="on_suspect" in options,
        )
    )


def write_table(frame: pd.DataFrame, path: Path, sep: str = ",") -> Path:
    """Write a table without its index and return the path."""
    frame.to_csv(path, sep=sep, index=False)
    return path


def list_messages(result: ValidationResult, severity: str | None = None) -> str:
    """Return the problems of a severity, one per line."""
    return "\n".join(
        str(problem)
        for problem in result.problems
        if severity in (None, str(problem.severity))
    )


def make_people(**columns: object) -> pd.DataFrame:
    """Return participants: 30 controls, 30 patients."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "participant_id": [f"sub-{k:03d}" for k in range(1, N + 1)],
            "age": rng.uniform(50, 80, N),
        }
    )
    return frame.assign(
        sex=["F", "M"] * (N // 2), diagnosis=["CN"] * 30 + ["AD"] * 30
    ).assign(**columns)


def make_table(ids: object = None, **columns: object) -> pd.DataFrame:
    """Return a table of 20 regions without any known layout."""
    rng = np.random.default_rng(0)
    names = [f"sub-{k:03d}" for k in range(1, N + 1)] if ids is None else ids
    regions = {f"roi{k}": rng.normal(2000 + 400 * k, 150, N) for k in range(20)}
    return pd.DataFrame({"participant_id": names, **regions, **columns})


def aseg(people: int = 30, icv: str = "EstimatedTotalIntraCranialVol") -> pd.DataFrame:
    """Return a table as asegstats2table writes it."""
    rng = np.random.default_rng(0)
    columns = {
        name: rng.normal(5000, 500, people)
        for name in [
            *STRUCTURES,
            "Left-Lateral-Ventricle",
            "MaskVol",
            "BrainSegVol",
            "Left-WM-hypointensities",
            icv,
        ]
    }
    return pd.DataFrame(
        {"Measure:volume": [f"sub-{k:02d}" for k in range(people)], **columns}
    )


def aparc(
    side: str, people: int = 30, measure: str = "volume", seed: int = 0
) -> pd.DataFrame:
    """Return the table of a hemisphere as aparcstats2table writes it."""
    rng = np.random.default_rng(seed)
    level, spread = (2500, 250) if measure == "volume" else (2.5, 0.2)
    columns = {
        f"{side}_{name}_{measure}": rng.normal(level, spread, people)
        for name in PARCELS
    }
    ids = [f"sub-{k:02d}" for k in range(people)]
    return pd.DataFrame(
        {
            f"{side}.aparc.{measure}": ids,
            **columns,
            "eTIV": rng.normal(1.5e6, 1e5, people),
        }
    )

"""Tables of real patients, read as a user reads them, for benchmarks on real disease.

The tables are public and are not part of the package; their sources are in ``docs/patients.md``.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd

from rindices.errors import SimulationError
from rindices.tables.cohort import SESSION, Cohort
from rindices.tables.readers import read_cohort


def list_patient_tables(data: Path | None) -> dict[str, Callable[[], Cohort]]:
    """Return functions that read the tables of real patients, by name.

    Parameters
    ----------
    data : Path, optional
        Folder with ``psychosis``, ``autism``, ``depression`` and ``openneuro``.
    """
    if data is None or not data.is_dir():
        raise SimulationError(f"the suite patients needs their tables, and {data or 'no folder'} is none: use --data.")
    return {
        "psychosis": partial(_read_psychosis, data, None),
        "psychosis-thickness": partial(_read_psychosis, data, "thickness"),
        "autism": partial(_read_autism, data, ()),
        "autism-ventricles": partial(_read_autism, data, ("ventricles",)),
        "depression": partial(_read_depression, data),
        "schizophrenia": partial(_read_schizophrenia, data),
    }


def _read_psychosis(data: Path, measure: str | None) -> Cohort:
    """Return the first visit of the early-psychosis study."""
    cohort = read_cohort(
        data / "psychosis" / "LNM_data.csv",
        id="sub_id",
        session="visit",
        group="group",
        controls="control",
        patients="patient",
        covariates=["age", "sex", "EstimatedTotalIntraCranialVol"],
        measure=measure,
    )
    return cohort.take((cohort.people[SESSION].astype(str) == "1").to_numpy())


def _read_autism(data: Path, include: tuple[str, ...]) -> Cohort:
    """Return ABIDE I; its intracranial volume is faulty, so the supratentorial volume is the head size."""
    stats = data / "autism" / "stats"
    return read_cohort(
        [stats / "aseg_table.tsv", stats / "lh.aparc_table_volume.tsv", stats / "rh.aparc_table_volume.tsv"],
        data / "autism" / "Phenotypic_V1_0b_preprocessed1.csv",
        participants_id="FILE_ID",
        group="DX_GROUP",
        controls="2",
        patients="1",
        covariates=["AGE_AT_SCAN", "SEX", "SupraTentorialVol"],
        site="SITE_ID",
        include=include,
        on_missing="drop",
    )


def _read_depression(data: Path) -> Cohort:
    return read_cohort(
        data / "depression" / "openneuro_main.csv",
        group="group",
        controls="HC",
        patients="MDD",
        covariates=["age", "sex"],
        site="site",
        measure="thickness",
    )


def _read_schizophrenia(data: Path) -> Cohort:
    """Return the rows of one data set of a table that holds many."""
    table = pd.read_csv(data / "openneuro" / "openneuro_freesurfer.csv")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ds000115.csv"
        table[table["dataset"] == "ds000115"].to_csv(path, index=False)
        return read_cohort(
            path, group="group", controls=["CON", "CON-SIB"], patients="SCZ", covariates=["age", "sex", "eTIV"]
        )

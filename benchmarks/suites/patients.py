"""Tables of real patients, read as a user reads them, for benchmarks on real disease.

The tables are public and are not part of the package; their sources are in
``docs/patients.md``.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from rindices._typing import FloatArray
from rindices.errors import SimulationError
from rindices.model.normal_reference import NormalReference
from rindices.tables.cohort import ID, SESSION, Cohort
from rindices.tables.readers import read_cohort

PSYCHOSIS_COVARIATES = ["age", "sex", "EstimatedTotalIntraCranialVol"]


@dataclass(frozen=True, eq=False)
class PatientTable:
    """A table of patients and controls, and what else is known of the same people.

    Attributes
    ----------
    cohort : Cohort
        Controls and patients, one scan each.
    second_visit : Cohort, optional
        The same people, in the same order, at a later visit.
    clinical : (N,), optional
        A clinical score of each person; not a number where it is missing.
    clinical_name : str
    reference : NormalReference, optional
        Healthy people of other sites with the same measures.
    """

    cohort: Cohort
    second_visit: Cohort | None = None
    clinical: FloatArray | None = None
    clinical_name: str = ""
    reference: NormalReference | None = None


def list_patient_tables(data: Path | None) -> dict[str, Callable[[], PatientTable]]:
    """Return functions that read the tables of real patients, by name.

    Parameters
    ----------
    data : Path, optional
        Folder with ``psychosis``, ``autism``, ``depression`` and ``openneuro``. Healthy
        people for a reference are read from ``fcon1000`` beside it, if they are there.
    """
    if data is None or not data.is_dir():
        what = (
            f"the suite patients needs their tables, and {data or 'no folder'} is none"
        )
        raise SimulationError(
            f"{what}: python -m benchmarks suite --suite patients --data FOLDER"
        )
    return {
        "psychosis": partial(_read_psychosis, data, None),
        "psychosis-thickness": partial(_read_psychosis, data, "thickness"),
        "autism": partial(_read_autism, data, ()),
        "autism-ventricles": partial(_read_autism, data, ("ventricles",)),
        "depression": partial(_read_depression, data),
        "schizophrenia": lambda: PatientTable(read_schizophrenia_cohort(data)),
    }


def read_psychosis_visits(data: Path, measure: str | None = None) -> Cohort:
    """Return both visits of the early-psychosis study."""
    return read_cohort(
        data / "psychosis" / "LNM_data.csv",
        id="sub_id",
        session="visit",
        group="group",
        controls="control",
        patients="patient",
        covariates=PSYCHOSIS_COVARIATES,
        measure=measure,
    )


def read_schizophrenia_cohort(data: Path, measure: str | None = None) -> Cohort:
    """Return the rows of one data set of a table that holds many."""
    table = pd.read_csv(data / "openneuro" / "openneuro_freesurfer.csv")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ds000115.csv"
        table[table["dataset"] == "ds000115"].to_csv(path, index=False)
        names, controls = ["age", "sex", "eTIV"], ["CON", "CON-SIB"]
        return read_cohort(
            path,
            group="group",
            controls=controls,
            patients="SCZ",
            covariates=names,
            measure=measure,
        )


def _read_psychosis(data: Path, measure: str | None) -> PatientTable:
    """Return the first visit of the early-psychosis study, with the second one."""
    both = read_psychosis_visits(data, measure)
    first, second = (
        both.take((both.people[SESSION].astype(str) == visit).to_numpy())
        for visit in ("1", "2")
    )
    if list(first.people[ID]) != list(second.people[ID]):
        raise SimulationError(
            "the two visits of the psychosis table are not of the same people."
        )
    healthy = data.parent / "fcon1000" / "fcon1000.csv"
    reference = None
    if healthy.is_file():
        people = read_cohort(
            healthy,
            id="sub_id",
            covariates=PSYCHOSIS_COVARIATES,
            site="site",
            measure=measure,
            on_missing="drop",
        )
        reference = NormalReference.fit(people, healthy.name)
    return PatientTable(first, second, reference=reference)


PHENOTYPES = "Phenotypic_V1_0b_preprocessed1.csv"


def read_autism_measures(
    data: Path, kinds: Sequence[str], include: Sequence[str] = ()
) -> Cohort:
    """Return ABIDE I with the kinds of cortical measures, and all of the subcortical
    table.
    """
    stats = data / "autism" / "stats"
    parcels = [
        stats / f"{side}.aparc_table_{kind}.tsv"
        for side in ("lh", "rh")
        for kind in kinds
    ]
    return read_cohort(
        [stats / "aseg_table.tsv", *parcels],
        data / "autism" / PHENOTYPES,
        participants_id="FILE_ID",
        group="DX_GROUP",
        controls="2",
        patients="1",
        covariates=["AGE_AT_SCAN", "SEX", "SupraTentorialVol"],
        site="SITE_ID",
        include=include,
        on_missing="drop",
    )


def _read_autism(data: Path, include: tuple[str, ...]) -> PatientTable:
    """Return ABIDE I; its intracranial volume is faulty, so the supratentorial volume
    is the head size.
    """
    cohort, phenotypes = (
        read_autism_measures(data, ("volume",), include),
        data / "autism" / PHENOTYPES,
    )
    scores = (
        pd.read_csv(phenotypes)
        .drop_duplicates("FILE_ID")
        .set_index("FILE_ID")["ADOS_TOTAL"]
        .replace(-9999, np.nan)
    )
    clinical = scores.reindex(cohort.people[ID]).to_numpy(dtype=float)
    return PatientTable(cohort, clinical=clinical, clinical_name="ADOS")


def _read_depression(data: Path) -> PatientTable:
    return PatientTable(
        read_cohort(
            data / "depression" / "openneuro_main.csv",
            group="group",
            controls="HC",
            patients="MDD",
            covariates=["age", "sex"],
            site="site",
            measure="thickness",
        )
    )

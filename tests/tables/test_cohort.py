"""The fingerprint of a cohort changes with the data that training uses, and with nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import rindices as ri
from tests.tables.helpers import write_table


def read(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> ri.Cohort:
    return ri.read_cohort(
        write_table(volumes, tmp_path / "v.csv"),
        write_table(participants, tmp_path / "p.csv"),
        group="diagnosis",
        controls="CN",
        patients=["AD"],
        covariates=["age", "sex"],
    )


def test_regions_and_groups(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> None:
    cohort = read(tmp_path, volumes, participants)
    assert (len(cohort), cohort.n_regions, cohort.n_controls, cohort.n_patients) == (40, 139, 20, 20)
    assert repr(cohort) == "<Cohort: 40 people, 20 controls, 20 patients, 139 regions (dlmuse, mm3)>"
    visits = replace(cohort, people=cohort.people.assign(participant_id=cohort.people["participant_id"].iloc[0]))
    assert repr(visits).startswith("<Cohort: 40 scans of 1 people, 1 controls, 1 patients, 139 regions")
    assert cohort.people["group"].tolist() == ["control", "patient"] * 20
    codes = [int(name.removeprefix("MUSE_")) for name in cohort.regions]
    assert codes == sorted(codes)


def test_people_are_selected_by_mask_or_position(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    cohort = read(tmp_path, volumes, participants)
    patients = cohort.take(cohort.is_patient)
    assert (len(patients), patients.n_controls) == (20, 0)
    by_position = cohort.take(np.flatnonzero(cohort.is_patient)[::-1])
    assert by_position.fingerprint() == patients.fingerprint()


def test_the_fingerprint_changes_with_the_data(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    first = read(tmp_path, volumes, participants).fingerprint()
    assert read(tmp_path, volumes, participants.assign(weight=70)).fingerprint() == first
    changed = volumes.copy()
    changed.loc[0, "47"] = np.nextafter(changed.loc[0, "47"], np.inf)
    assert read(tmp_path, changed, participants).fingerprint() != first
    older = participants.assign(age=participants["age"] + 1)
    assert read(tmp_path, volumes, older).fingerprint() != first
    swapped = participants.assign(diagnosis=["AD", "CN"] * 20)
    assert read(tmp_path, volumes, swapped).fingerprint() != first

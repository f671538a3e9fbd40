"""A cohort's fingerprint changes with what training sees, and with nothing else."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from tests.tables.helpers import write


def read(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> ri.Cohort:
    return ri.read_cohort(
        write(volumes, tmp_path / "v.csv"),
        write(participants, tmp_path / "p.csv"),
        group="diagnosis",
        controls="CN",
        patients=["AD"],
        covariates=["age", "sex"],
    )


def test_what_a_cohort_holds(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> None:
    cohort = read(tmp_path, volumes, participants)
    assert (len(cohort), cohort.n_regions, cohort.n_controls, cohort.n_patients) == (40, 139, 20, 20)
    assert repr(cohort) == "<Cohort: 40 people, 20 controls, 20 patients, 139 regions (dlmuse, mm3)>"
    assert cohort.people["group"].tolist() == ["control", "patient"] * 20
    codes = [int(name.removeprefix("MUSE_")) for name in cohort.regions]
    assert codes == sorted(codes)


def test_take(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> None:
    cohort = read(tmp_path, volumes, participants)
    patients = cohort.take(cohort.is_patient)
    assert (len(patients), patients.n_controls) == (20, 0)
    by_place = cohort.take(np.flatnonzero(cohort.is_patient)[::-1])
    assert by_place.fingerprint() == patients.fingerprint()


def test_fingerprint(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> None:
    first = read(tmp_path, volumes, participants).fingerprint()
    assert read(tmp_path, volumes, participants.assign(weight=70)).fingerprint() == first
    changed = volumes.copy()
    changed.loc[0, "47"] = np.nextafter(changed.loc[0, "47"], np.inf)
    assert read(tmp_path, changed, participants).fingerprint() != first
    older = participants.assign(age=participants["age"] + 1)
    assert read(tmp_path, volumes, older).fingerprint() != first
    swapped = participants.assign(diagnosis=["AD", "CN"] * 20)
    assert read(tmp_path, volumes, swapped).fingerprint() != first


def test_errors_are_raised_together(tmp_path: Path, volumes: pd.DataFrame) -> None:
    path = write(volumes.assign(**{"47": np.nan, "48": -volumes["48"]}), tmp_path / "v.csv")
    with pytest.raises(ri.TableError, match="MUSE_47") as caught:
        ri.read_cohort(path, covariates=["age"])
    assert len(caught.value.problems) == 3

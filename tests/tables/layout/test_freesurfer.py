"""Structures of FreeSurfer and SynthSeg are classified by name."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.tables.helpers import (
    aseg,
    validate_files,
    write_table,
)


@pytest.mark.parametrize("icv", ["EstimatedTotalIntraCranialVol", "IntraCranialVol", "eTIV"])
def test_aseg_with_each_name_of_the_intracranial_volume(tmp_path: Path, icv: str) -> None:
    result = validate_files(write_table(aseg(icv=icv), tmp_path / "aseg.tsv", "\t"))
    assert (result.format, result.regions, result.icv) == ("aseg", 6, icv)
    assert result.aside == {"ventricle": 1, "composite": 2, "no tissue": 1}


def synthseg(people: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = ["left cerebral white matter", "left cerebral cortex", "left thalamus", "left ventral DC", "brain-stem"]
    aside = ["left lateral ventricle", "csf"]
    ids = [f"sub-{k:02d}_T1w.nii.gz" for k in range(people)]
    volumes = {name: rng.normal(9000, 500, people) for name in names + aside}
    return pd.DataFrame({"": ids, "total intracranial": rng.normal(1.5e6, 1e5, people), **volumes})


def test_synthseg_with_an_empty_first_header_and_stray_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "vol.csv"
    text = synthseg().to_csv(index=False, lineterminator="\n")
    path.write_bytes(text.replace("\n", "\r\r\n").encode())
    people = pd.DataFrame({"participant_id": [f"sub-{k:02d}" for k in range(30)], "age": range(30)})
    result = validate_files(path, write_table(people, tmp_path / "p.tsv", "\t"), covariates=["age", "icv"])
    assert (result.format, result.people, result.regions) == ("synthseg", 30, 5)
    assert (result.icv, result.aside) == ("total intracranial", {"ventricle": 2})
    assert result.cohort is not None
    assert result.cohort.covariates["age"].tolist() == list(range(30))


def test_the_whole_cortex_is_a_composite_if_there_are_parcels(tmp_path: Path) -> None:
    frame = synthseg().assign(**{"ctx-lh-insula": np.linspace(6000, 7000, 30)})
    result = validate_files(write_table(frame, tmp_path / "vol.csv"))
    assert (result.regions, result.aside) == (5, {"ventricle": 2, "composite": 1})


def test_the_thalamus_has_one_name_in_all_versions(tmp_path: Path) -> None:
    names = {"Left-Thalamus": "Left-Thalamus-Proper", "Right-Thalamus": "Right-Thalamus-Proper"}
    result = [
        validate_files(write_table(frame, tmp_path / "a.txt", "\t")).region_names
        for frame in (aseg(), aseg().rename(columns=names))
    ]
    assert result[0] == result[1]

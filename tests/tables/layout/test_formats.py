"""Each layout is detected from the header of a table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.errors import ProblemCode
from tests.tables.helpers import (
    PARCELS,
    N,
    list_messages,
    make_table,
    validate_files,
    write_table,
)


def test_ixi_is_a_dlmuse_table(shared: Path) -> None:
    result = validate_files(shared / "ixi/volumes.csv", shared / "ixi/demographics.csv")
    assert (result.format, result.people, result.regions, result.icv) == ("dlmuse", 291, 139, "702")
    assert result.covariates == ("Age", "Sex", "icv")
    assert (result.unit, result.aside) == ("mm3", {"ventricle": 6, "composite": 114})
    assert {str(p.severity) for p in result.problems} <= {"note"}


def test_the_nichart_demo_is_a_dlmuse_table(shared: Path) -> None:
    result = validate_files(shared / "nichart_demo/DLMUSE_Volumes.csv", shared / "nichart_demo/participants.csv")
    assert (result.format, result.people, result.regions) == ("dlmuse", 23, 139)
    assert {str(p.severity) for p in result.problems} <= {"note"}


def test_the_sample_of_the_authors_is_a_surrealgan_table(shared: Path) -> None:
    result = validate_files(shared / "upstream/sample_roi.csv")
    assert (result.format, result.people, result.regions) == ("surrealgan", 1500, 100)
    assert (result.controls, result.patients) == (600, 900)
    assert {str(p.severity) for p in result.problems} <= {"note"}


def test_fcon1000_is_a_freesurfer_table(shared: Path) -> None:
    result = validate_files(shared / "fcon1000/fcon1000.csv", site="site", covariates=["age", "sex", "icv"])
    assert (result.format, result.people, result.regions, result.sites) == ("freesurfer", 1078, 169, 23)
    assert (result.icv, result.unit) == ("EstimatedTotalIntraCranialVol", "mixed")
    warnings = {p.code: p.offenders for p in result.problems if p.severity != "note"}
    assert warnings.pop(ProblemCode.EQUAL_ROWS) == ("ICBM_sub10582", "ICBM_sub41546")  # one person under two ids
    assert len(warnings.pop(ProblemCode.SMALL_HEAD_SIZES)) == 24  # eTIV below the volume of the brain
    assert not warnings
    assert result.cohort is not None
    assert len(result.cohort) == 1078
    assert result.cohort.volumes.isna().any(axis=1).sum() == 2  # people with a thickness of 0.0: absent, not zero


def test_thickness_of_enigma_is_not_a_volume(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"{side}_{name}_thickavg" for side in "LR" for name in PARCELS]
    frame = pd.DataFrame({"SubjID": range(20), **{name: rng.normal(2.5, 0.2, 20) for name in names}})
    path = write_table(frame, tmp_path / "thick.csv")
    result = validate_files(path)
    assert result.format == "enigma"
    assert "thickness, not volume" in list_messages(result, "error")
    assert validate_files(path, measure="thickness").ok


def test_volumes_of_enigma(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = ["LLatVent", "RLatVent", "Lthal", "Rthal", "Lhippo", "Rhippo", "Lamyg", "Ramyg"]
    frame = pd.DataFrame({"SubjID": range(20), **{name: rng.normal(4000, 300, 20) for name in names}})
    result = validate_files(write_table(frame.assign(ICV=1.5e6), tmp_path / "land.csv"))
    assert (result.format, result.regions, result.icv, result.aside) == ("enigma", 6, "ICV", {"ventricle": 2})


def test_numeric_columns_of_an_unknown_table_are_regions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"name": [f"p{k}" for k in range(40)], "Age": 60, "gender": "F", "dx": ["HC", "SZ"] * 20})
    frame = frame.assign(**{f"area{k}": rng.normal(3000 + 500 * k, 200, 40) for k in range(6)})
    result = validate_files(write_table(frame, tmp_path / "t.csv", ";"))
    assert (result.format, result.regions, result.controls, result.patients) == ("table", 6, 20, 20)


@pytest.mark.parametrize(
    "column",
    [
        "Age_at_MRI",
        "PTEDUCAT",
        "CDRSB",
        "ADAS11",
        "IMAGEUID",
        "Years_bl",
        "31-0.0",
        "21003-2.0",
        "ST30SA",
        "WholeBrain",
    ],
)
def test_columns_about_people_are_not_regions(tmp_path: Path, column: str) -> None:
    result = validate_files(write_table(make_table(**{column: np.linspace(60, 3000, N)}), tmp_path / "v.csv"))
    assert result.regions == 20
    assert column not in result.region_names


def test_codes_are_not_regions(tmp_path: Path) -> None:
    result = validate_files(write_table(make_table(Maternal=[0, 1] * 30, arm=[1, 2, 3] * 20), tmp_path / "v.csv"))
    assert (result.regions, result.aside) == (20, {"few whole numbers": 2})


def test_numbered_regions_of_another_atlas_are_not_muse(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"ID": [f"p{k}" for k in range(N)], **{f"ROI_{k}": rng.normal(3000, 99, N) for k in range(1, 200)}}
    )
    assert validate_files(write_table(frame, tmp_path / "v.csv")).format == "table"


def test_covariate_files_of_enigma_are_participants(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = [f"e{k}" for k in range(N)]
    names = ["LLatVent", "RLatVent", "Lthal", "Rthal", "Lhippo", "Rhippo", "Lamyg", "Ramyg"]
    volumes = pd.DataFrame({"SubjID": ids, **{name: rng.normal(4000, 300, N) for name in names}, "ICV": 1.5e6})
    people = pd.DataFrame({"SubjID": ids, "Dx": [0] * 30 + [1] * 30, "Age": rng.uniform(20, 60, N), "Sex": [1, 2] * 30})
    people = people.assign(Site1=[1, 0, 0] * 20, Site2=[0, 1, 0] * 20, AO=[np.nan] * 30 + [25.0] * 30)
    paths = write_table(volumes, tmp_path / "LandRvolumes.csv"), write_table(people, tmp_path / "Covariates.csv")
    result = validate_files(*paths, group="Dx", controls=["0"], covariates=["Age", "Sex", "Site1", "Site2"])
    assert result.ok, list_messages(result, "error")
    assert (result.format, result.controls, result.patients, result.regions) == ("enigma", 30, 30, 6)
    alone = validate_files(paths[1])
    assert "If it describes participants, give it with --participants" in list_messages(alone, "error")

"""Names of FreeSurfer, and folders of its subjects."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.tables.helpers import (
    aseg,
    list_messages,
    validate_files,
    write_table,
)


@pytest.mark.parametrize(
    "icv", ["EstimatedTotalIntraCranialVol", "IntraCranialVol", "eTIV"]
)
def test_aseg_with_each_name_of_the_intracranial_volume(
    tmp_path: Path, icv: str
) -> None:
    result = validate_files(write_table(aseg(icv=icv), tmp_path / "aseg.tsv", "\t"))
    assert (result.format, result.regions, result.icv) == ("aseg", 6, icv)
    assert result.aside == {"ventricle": 1, "composite": 2, "no tissue": 1}


def synthseg(people: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = [
        "left cerebral white matter",
        "left cerebral cortex",
        "left thalamus",
        "left ventral DC",
        "brain-stem",
    ]
    aside = ["left lateral ventricle", "csf"]
    ids = [f"sub-{k:02d}_T1w.nii.gz" for k in range(people)]
    volumes = {name: rng.normal(9000, 500, people) for name in names + aside}
    return pd.DataFrame(
        {"": ids, "total intracranial": rng.normal(1.5e6, 1e5, people), **volumes}
    )


def test_synthseg_with_an_empty_first_header_and_stray_carriage_returns(
    tmp_path: Path,
) -> None:
    path = tmp_path / "vol.csv"
    text = synthseg().to_csv(index=False, lineterminator="\n")
    path.write_bytes(text.replace("\n", "\r\r\n").encode())
    people = pd.DataFrame(
        {"participant_id": [f"sub-{k:02d}" for k in range(30)], "age": range(30)}
    )
    result = validate_files(
        path, write_table(people, tmp_path / "p.tsv", "\t"), covariates=["age", "icv"]
    )
    assert (result.format, result.people, result.regions) == ("synthseg", 30, 5)
    assert (result.icv, result.aside) == ("total intracranial", {"ventricle": 2})
    assert result.cohort is not None
    assert result.cohort.covariates["age"].tolist() == list(range(30))


def test_the_whole_cortex_is_a_composite_if_there_are_parcels(tmp_path: Path) -> None:
    frame = synthseg().assign(**{"ctx-lh-insula": np.linspace(6000, 7000, 30)})
    result = validate_files(write_table(frame, tmp_path / "vol.csv"))
    assert (result.regions, result.aside) == (5, {"ventricle": 2, "composite": 1})


def test_the_thalamus_has_one_name_in_all_versions(tmp_path: Path) -> None:
    names = {
        "Left-Thalamus": "Left-Thalamus-Proper",
        "Right-Thalamus": "Right-Thalamus-Proper",
    }
    result = [
        validate_files(write_table(frame, tmp_path / "a.txt", "\t")).region_names
        for frame in (aseg(), aseg().rename(columns=names))
    ]
    assert result[0] == result[1]


STATS = """# Title Segmentation Statistics
# Measure Mask, MaskVol, Mask Volume, 1612345.0, mm^3
{etiv}# ColHeaders Index SegId NVoxels Volume_mm3 StructName normMean
1   4  6000  6000.5  Left-Lateral-Ventricle 30.0
2  10  7000  {thalamus}  Left-Thalamus 80.0
3  49  7000  7100.0  Right-Thalamus 80.0
4  17  4000  4100.0  Left-Hippocampus 80.0
5  53  4000  4200.0  Right-Hippocampus 80.0
6 2035 6000  6500.0  ctx-lh-insula 80.0
"""


@pytest.mark.parametrize("name", ["aseg+DKT.stats", "aseg.stats"])
def test_each_subject_folder_is_a_row(tmp_path: Path, name: str) -> None:
    for k in range(3):
        stats = tmp_path / f"sub-{k}" / "stats"
        stats.mkdir(parents=True)
        (stats / name).write_text(STATS.format(etiv="", thalamus=7000.0 + k))
    (tmp_path / "fsaverage").mkdir()
    result = validate_files(tmp_path)
    assert (result.format, result.people, result.regions) == ("fastsurfer", 3, 5)
    assert result.icv is None  # MaskVol is not eTIV
    assert result.cohort is not None
    assert result.cohort.volumes["Left-Thalamus"].tolist() == [7000.0, 7001.0, 7002.0]


def test_the_intracranial_volume_is_read_from_the_header(tmp_path: Path) -> None:
    stats = tmp_path / "sub-1" / "stats"
    stats.mkdir(parents=True)
    etiv = "# Measure EstimatedTotalIntraCranialVol, eTIV, Estimated Total Intracranial Volume, 1500000.5, mm^3\n"
    (stats / "aseg+DKT.stats").write_text(STATS.format(etiv=etiv, thalamus=7000.0))
    result = validate_files(tmp_path, covariates=["icv"])
    assert result.cohort is not None
    assert result.cohort.covariates["icv"].tolist() == [1500000.5]


def write_stats(folder: Path, subject: str, *names: str) -> None:
    stats = folder / subject / "stats"
    stats.mkdir(parents=True)
    for name in names:
        (stats / name).write_text(STATS.format(etiv="", thalamus=7000.0))


def test_the_file_that_is_read_is_named(tmp_path: Path) -> None:
    for k in range(3):
        write_stats(
            tmp_path,
            f"sub-{k}",
            "aseg+DKT.VINN.stats",
            "aseg.VINN.stats",
            "cerebellum.CerebNet.stats",
        )
    messages = list_messages(validate_files(tmp_path), "note")
    assert (
        "stats/aseg+DKT.VINN.stats is read, not aseg.VINN.stats, cerebellum.CerebNet.stats"
        in messages
    )


def test_people_with_another_file_are_named(tmp_path: Path) -> None:
    for k in range(3):
        write_stats(tmp_path, f"sub-{k}", "aseg+DKT.stats" if k else "aseg.stats")
    messages = list_messages(validate_files(tmp_path), "warning")
    assert (
        "people have different stats files: aseg.stats of 1 person, aseg+DKT.stats of 2 people"
        in messages
    )
    assert "Make stats/aseg+DKT.stats for all" in messages


def test_a_folder_without_stats_files_is_refused_with_a_cure(tmp_path: Path) -> None:
    write_stats(tmp_path, "sub-0", "cerebellum.CerebNet.stats")
    messages = list_messages(validate_files(tmp_path), "error")
    assert "no subject folder with stats/aseg+DKT.stats. Give a folder" in messages


def test_a_cut_stats_file_is_refused_by_its_person(tmp_path: Path) -> None:
    for k in range(2):
        write_stats(tmp_path, f"sub-{k}", "aseg.stats")
    file = tmp_path / "sub-1" / "stats" / "aseg.stats"
    file.write_text(file.read_text()[:-15])
    messages = list_messages(validate_files(tmp_path), "error")
    assert "1 stats file is empty or cut: sub-1. Run the segmentation" in messages

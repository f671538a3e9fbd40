"""Folders of subjects are read from their stats files."""

from pathlib import Path

import pytest

from tests.tables.helpers import list_messages, validate_files

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
        write_stats(tmp_path, f"sub-{k}", "aseg+DKT.VINN.stats", "aseg.VINN.stats", "cerebellum.CerebNet.stats")
    messages = list_messages(validate_files(tmp_path), "note")
    assert "stats/aseg+DKT.VINN.stats is read, not aseg.VINN.stats, cerebellum.CerebNet.stats" in messages


def test_people_with_another_file_are_named(tmp_path: Path) -> None:
    for k in range(3):
        write_stats(tmp_path, f"sub-{k}", "aseg+DKT.stats" if k else "aseg.stats")
    messages = list_messages(validate_files(tmp_path), "warning")
    assert "people have different stats files: aseg.stats of 1 person, aseg+DKT.stats of 2 people" in messages
    assert "Make stats/aseg+DKT.stats for all" in messages


def test_a_folder_without_stats_files_is_refused_with_a_cure(tmp_path: Path) -> None:
    write_stats(tmp_path, "sub-0", "cerebellum.CerebNet.stats")
    messages = list_messages(validate_files(tmp_path), "error")
    assert "no subject folder with stats/aseg+DKT.stats was found. Give the folder" in messages


def test_a_cut_stats_file_is_refused_by_its_person(tmp_path: Path) -> None:
    for k in range(2):
        write_stats(tmp_path, f"sub-{k}", "aseg.stats")
    file = tmp_path / "sub-1" / "stats" / "aseg.stats"
    file.write_text(file.read_text()[:-15])
    messages = list_messages(validate_files(tmp_path), "error")
    assert "1 stats file is empty or cut: sub-1. Run the segmentation" in messages

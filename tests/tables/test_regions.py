"""Regions are read as numbers, and the intracranial volume with them."""

from pathlib import Path

import pandas as pd

from tests.tables.helpers import (
    aparc,
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)


def test_zero_means_missing_in_freesurfer_tables(tmp_path: Path) -> None:
    left = aparc("lh")
    left.loc[3, "lh_insula_volume"] = 0.0
    path = write_table(left, tmp_path / "lh.txt", "\t")
    assert "sub-03" in list_messages(validate_files(path, on_missing="error"), "error")
    dropped = validate_files(path, on_missing="drop").cohort
    assert dropped is not None
    assert len(dropped) == 29


def test_a_region_in_two_columns_is_refused(tmp_path: Path, volumes: pd.DataFrame) -> None:
    doubled = pd.concat(
        [volumes.add_prefix("DL_MUSE_Volume_"), volumes.iloc[:, 2:].add_prefix("H_DL_MUSE_Volume_")], axis=1
    )
    result = validate_files(write_table(doubled.rename(columns={"DL_MUSE_Volume_ID": "MRID"}), tmp_path / "v.csv"))
    assert "in two columns: DL_MUSE_Volume_23, H_DL_MUSE_Volume_23" in list_messages(result, "error")


def test_the_intracranial_volume_may_come_from_the_participants(tmp_path: Path) -> None:
    participants = make_people(EstimatedTotalIntraCranialVol=1.5e6)
    paths = write_table(make_table(), tmp_path / "v.csv"), write_table(participants, tmp_path / "p.csv")
    assert validate_files(*paths, covariates=["icv"]).ok

"""Tables become cohorts, or a list of all their problems."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.tables.helpers import (
    N,
    aseg,
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)


def test_intensities_are_not_volumes(tmp_path: Path) -> None:
    path = write_table(
        aseg(N).rename(columns={"Measure:volume": "Measure:mean"}),
        tmp_path / "aseg.txt",
        "\t",
    )
    assert "regions are mean, not volume" in list_messages(
        validate_files(path), "error"
    )


def test_a_group_that_is_empty_after_dropping_is_an_error(tmp_path: Path) -> None:
    participants = make_people()
    participants.loc[30:, "age"] = np.nan
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(participants, tmp_path / "p.csv"),
    )
    assert "no patient is left" in list_messages(
        validate_files(
            *paths, group="diagnosis", covariates=["age"], on_missing="drop"
        ),
        "error",
    )


def test_repeated_scans_give_a_warning(tmp_path: Path) -> None:
    doubled = pd.concat([make_table().assign(session_id=f"ses-0{k}") for k in (1, 2)])
    assert "60 people have 120 scans" in list_messages(
        validate_files(write_table(doubled, tmp_path / "v.csv")), "warning"
    )


def test_people_with_other_labels_are_not_checked(tmp_path: Path) -> None:
    participants = make_people()
    participants.loc[5, ["age", "diagnosis"]] = [np.nan, "MCI"]
    scans = make_table()
    scans.loc[5, "roi3"] = -1.0
    paths = (
        write_table(scans, tmp_path / "v.csv"),
        write_table(participants, tmp_path / "p.csv"),
    )
    options = {
        "group": "diagnosis",
        "controls": "CN",
        "patients": "AD",
        "covariates": ["age"],
        "on_missing": "error",
    }
    cohort = validate_files(*paths, **options).cohort
    assert cohort is not None
    assert len(cohort) == N - 1


@pytest.mark.parametrize("option", ["id", "session"])
def test_misspelt_columns_are_errors(tmp_path: Path, option: str) -> None:
    result = validate_files(
        write_table(make_table(), tmp_path / "v.csv"), **{option: "Participant"}
    )
    assert f"there is no column 'Participant' for --{option}" in list_messages(
        result, "error"
    )


def test_missing_regions_are_named(tmp_path: Path) -> None:
    frame = make_table()
    frame.loc[:4, "roi7"] = np.nan
    assert "a missing region (roi7 5 times)" in list_messages(
        validate_files(write_table(frame, tmp_path / "v.csv"), on_missing="error"),
        "error",
    )

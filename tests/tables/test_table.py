"""Tables have ids, and several tables are joined by id."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.errors import ProblemCode
from tests.tables.helpers import (
    N,
    aparc,
    aseg,
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)


@pytest.mark.parametrize("sep", ["\t", ",", " ", ";"])
def test_two_hemispheres_are_joined_by_id(tmp_path: Path, sep: str) -> None:
    left, right = aparc("lh"), aparc("rh", seed=1)
    shuffled = right.sample(frac=1, random_state=0)
    result = validate_files(
        [
            write_table(left, tmp_path / "lh.txt", sep),
            write_table(shuffled, tmp_path / "rh.txt", sep),
        ]
    )
    assert (result.format, result.regions, result.icv) == ("aparc", 12, "eTIV")
    assert result.cohort is not None
    np.testing.assert_allclose(
        result.cohort.volumes["rh_insula_volume"], right["rh_insula_volume"]
    )


def test_several_sessions_in_one_hemisphere_are_refused(tmp_path: Path) -> None:
    """Which of them belongs to the other hemisphere is not known; the last one was
    taken.
    """
    right = pd.concat(
        [aparc("rh").assign(session_id=session) for session in ("1", "2")]
    )
    paths = [
        write_table(aparc("lh"), tmp_path / "lh.txt"),
        write_table(right, tmp_path / "rh.txt"),
    ]
    assert "rh.txt has several sessions a person" in list_messages(
        validate_files(paths), "error"
    )


def test_aparc_and_aseg_are_joined(tmp_path: Path) -> None:
    paths = [
        write_table(aparc("lh"), tmp_path / "lh.txt", "\t"),
        write_table(aparc("rh", seed=1), tmp_path / "rh.txt", "\t"),
        write_table(aseg(), tmp_path / "aseg.txt", "\t"),
    ]
    result = validate_files(paths)
    assert (result.format, result.regions) == ("freesurfer", 18)
    assert result.ok


def test_row_numbers_of_pandas_are_not_ids(tmp_path: Path) -> None:
    frame = aseg(N).assign(
        **{"Measure:volume": [f"sub-{k:03d}" for k in range(1, N + 1)]}
    )
    frame.to_csv(tmp_path / "v.csv")  # with the index
    result = validate_files(
        tmp_path / "v.csv",
        write_table(make_people(), tmp_path / "p.tsv", "\t"),
        covariates=["age"],
    )
    assert result.format == "aseg"
    assert result.cohort is not None
    np.testing.assert_allclose(result.cohort.covariates["age"], make_people()["age"])


def test_row_numbers_alone_are_refused(tmp_path: Path) -> None:
    make_table().drop(columns="participant_id").to_csv(tmp_path / "v.csv")
    assert "no column of ids" in list_messages(
        validate_files(tmp_path / "v.csv"), "error"
    )


def test_two_id_columns_that_mean_different_people_are_refused(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(N)
    participants = make_people(participant_id=range(1, N + 1)).rename(
        columns={"participant_id": "id"}
    )
    participants.insert(1, "subject_id", [f"{k + 1:03d}" for k in order])
    paths = (
        write_table(make_table(range(1, N + 1)), tmp_path / "v.csv"),
        write_table(participants, tmp_path / "p.csv"),
    )
    assert "mean different people" in list_messages(validate_files(*paths), "error")
    assert validate_files(*paths, id="subject_id").cohort is not None


def test_ids_that_count_the_rows_give_a_warning(tmp_path: Path) -> None:
    paths = (
        write_table(make_table(range(1, N + 1)), tmp_path / "v.csv"),
        write_table(make_people(), tmp_path / "p.csv"),
    )
    assert "not row numbers" in list_messages(validate_files(*paths), "warning")


def test_the_id_column_that_fits_is_used(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    people = participants.rename(columns={"participant_id": "MRID"})
    people.insert(0, "subject_id", range(1000, 1040))
    result = validate_files(
        write_table(volumes, tmp_path / "v.csv"),
        write_table(people, tmp_path / "p.csv"),
        covariates=["age"],
    )
    assert result.ok


def test_socio_economic_status_is_not_a_session(tmp_path: Path) -> None:
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(make_people(SES=[1, 2, 3, 4] * 15), tmp_path / "p.csv"),
    )
    cohort = validate_files(*paths, covariates=["age"]).cohort
    assert cohort is not None
    assert "session_id" not in cohort.people


def test_people_of_one_table_alone_are_counted_and_named(tmp_path: Path) -> None:
    left, right = aparc("lh"), aparc("rh").iloc[2:]
    paths = [
        write_table(left, tmp_path / "lh.txt", "\t"),
        write_table(right, tmp_path / "rh.txt", "\t"),
    ]
    problem = next(
        p for p in validate_files(paths).problems if p.code is ProblemCode.UNMATCHED_IDS
    )
    assert problem.offenders == ("sub-00", "sub-01")
    assert (
        "0 people are only here, 2 people of lh.txt are not here: sub-00, sub-01"
        in str(problem)
    )

"""Participants are joined by id and session, and their groups and covariates are
checked.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.conftest import muse_volumes, participants_of
from tests.tables.helpers import (
    N,
    aseg,
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)


def test_ids_without_prefix_are_matched_with_a_note(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    bare = participants.assign(
        participant_id=participants["participant_id"].str.removeprefix("sub-")
    )
    result = validate_files(
        write_table(volumes, tmp_path / "v.csv"),
        write_table(bare, tmp_path / "p.csv"),
        covariates=["age"],
    )
    assert result.cohort is not None
    np.testing.assert_array_equal(result.cohort.covariates["age"], participants["age"])
    assert "40 ids were matched one to one though spelt differently" in list_messages(
        result, "note"
    )


def test_ambiguous_ids_are_refused(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    ids = participants["participant_id"]
    doubled = pd.concat(
        [participants.assign(participant_id=ids + suffix) for suffix in ("_T1", "_T1w")]
    )
    result = validate_files(
        write_table(volumes, tmp_path / "v.csv"),
        write_table(doubled, tmp_path / "p.csv"),
    )
    assert "fit more than one person" in list_messages(result, "error")


def test_sessions_are_joined(tmp_path: Path) -> None:
    first, second = muse_volumes(seed=0), muse_volumes(seed=1)
    both = pd.concat(
        [first.assign(session_id="ses-1"), second.assign(session_id="ses-2")]
    )
    people = pd.concat(
        [
            participants_of(first).assign(session_id=s, age=a)
            for s, a in (("ses-1", 60), ("ses-2", 65))
        ]
    )
    paths = (
        write_table(both.sample(frac=1, random_state=1), tmp_path / "v.csv"),
        write_table(people, tmp_path / "p.tsv", "\t"),
    )
    cohort = validate_files(*paths, covariates=["age"]).cohort
    assert cohort is not None
    assert cohort.people["session_id"].tolist() == ["ses-1", "ses-2"] * 40
    assert cohort.covariates["age"].tolist() == [60, 65] * 40
    np.testing.assert_allclose(cohort.volumes["MUSE_47"][1::2], second["47"])


def test_sessions_in_file_names_are_joined(
    tmp_path: Path, volumes: pd.DataFrame
) -> None:
    named = volumes.assign(ID=[f"sub-{k:02d}_ses-01_T1w.nii.gz" for k in range(40)])
    people = pd.DataFrame(
        {
            "participant_id": [f"sub-{k:02d}" for k in range(40)],
            "session_id": "ses-01",
            "age": range(30, 70),
        }
    )
    cohort = validate_files(
        write_table(named, tmp_path / "v.csv"),
        write_table(people, tmp_path / "p.tsv", "\t"),
        covariates=["age"],
    ).cohort
    assert cohort is not None
    assert cohort.covariates["age"].tolist() == list(range(30, 70))


def test_several_sessions_need_a_session_in_both_tables(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    people = pd.concat(
        [participants.assign(session_id="1"), participants.assign(session_id="2")]
    )
    result = validate_files(
        write_table(volumes, tmp_path / "v.csv"),
        write_table(people, tmp_path / "p.csv"),
    )
    assert "several sessions a person" in list_messages(result, "error")


def test_ages_in_ranges_are_refused(tmp_path: Path) -> None:
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(make_people(age="22-25"), tmp_path / "p.csv"),
    )
    assert "age is text" in list_messages(
        validate_files(*paths, covariates=["age"]), "error"
    )


@pytest.mark.parametrize("code", [-9, 999, 150])
def test_impossible_ages_are_refused(tmp_path: Path, code: int) -> None:
    participants = make_people()
    participants.loc[3, "age"] = code
    result = validate_files(
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(participants, tmp_path / "p.csv"),
        covariates=["age"],
    )
    assert f"{code} for sub-004" in list_messages(result, "error")


def test_codes_for_missing_give_a_warning(tmp_path: Path) -> None:
    participants = make_people(bmi=np.linspace(20, 30, N))
    participants.loc[3, "bmi"] = 999
    result = validate_files(
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(participants, tmp_path / "p.csv"),
        covariates=["bmi"],
    )
    assert "codes for missing: 999 for sub-004" in list_messages(result, "warning")


def test_impossible_head_sizes_are_refused(tmp_path: Path) -> None:
    frame = aseg(N)
    frame.loc[2, "EstimatedTotalIntraCranialVol"] = 0
    path = write_table(frame, tmp_path / "aseg.txt", "\t")
    assert "1 person has no icv: sub-02" in list_messages(
        validate_files(path, covariates=["icv"], on_missing="error"), "error"
    )
    participants = make_people(TIV=[1.5e6] * 59 + [1500.0])
    result = validate_files(
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(participants, tmp_path / "p.csv"),
        covariates=["icv"],
    )
    assert "icv cannot be: 1500 for sub-060" in list_messages(result, "error")


def test_site_numbers_are_categories(tmp_path: Path) -> None:
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(make_people(site=[10, 20, 30] * 20), tmp_path / "p.csv"),
    )
    assert validate_files(*paths, covariates=["site"]).kinds == {"site": "3 categories"}


def test_two_spellings_of_a_category_give_a_warning(tmp_path: Path) -> None:
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(make_people(sex=["M", "m", "Male", "F"] * 15), tmp_path / "p.csv"),
    )
    assert "spelt twice: M, Male, m" in list_messages(
        validate_files(*paths, covariates=["sex"]), "warning"
    )


def test_covariates_are_found_in_any_case_and_are_not_regions(tmp_path: Path) -> None:
    frame = make_table(Bodymass=np.linspace(20, 30, N))
    result = validate_files(
        write_table(frame, tmp_path / "v.csv"), covariates=["bodymass"]
    )
    assert (result.regions, result.kinds) == (20, {"bodymass": "number"})


def test_suggestions_keep_their_spelling(tmp_path: Path) -> None:
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(make_people(DXgrp="A"), tmp_path / "p.csv"),
    )
    assert "Did you mean 'DXgrp'?" in list_messages(
        validate_files(*paths, group="DXgr"), "error"
    )


def test_groups_in_words_are_preferred_to_numbers(tmp_path: Path) -> None:
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(make_people(group=[0, 1] * 30), tmp_path / "p.csv"),
    )
    result = validate_files(*paths)
    assert "groups are read from column 'diagnosis'" in list_messages(result)
    assert (result.controls, result.patients) == (30, 30)

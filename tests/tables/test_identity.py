"""People are joined by id and session, never by row order."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rindices.tables.validation.ids import match_ids, normalise_id
from tests.conftest import muse_volumes, participants_of
from tests.tables.helpers import look, texts, write


@pytest.mark.parametrize(
    "spelling",
    ["sub-007", "007", "sub-007_T1w.nii.gz", "/data/x/sub-007_T1.nii", "C:\\mri\\sub-007-T1", "7", "SUB-007"],
)
def test_core(spelling: str) -> None:
    assert normalise_id(spelling) == "7"


def test_loose_matches_are_one_to_one() -> None:
    found = match_ids(["sub-01", "sub-02", "03_T1"], ["01", "02_T1w", "03"])
    assert found.pairs == {"sub-01": "01", "sub-02": "02_T1w", "03_T1": "03"}
    assert match_ids(["01", "1"], ["sub-01"]).ambiguous == ["01", "1"]
    assert match_ids(["sub-01"], ["01", "1"]).ambiguous == ["sub-01"]
    assert match_ids(["01"], ["01", "sub-01"]).pairs == {"01": "01"}  # exact comes first


def test_an_exact_match_is_not_given_away() -> None:
    """A loose twin of somebody who is matched exactly must not get the same row."""
    found = match_ids(["sub-01", "sub-01_T1"], ["sub-01"])
    assert found.pairs == {"sub-01": "sub-01"}
    assert found.ambiguous == ["sub-01_T1"]


def test_prefix_is_said(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> None:
    bare = participants.assign(participant_id=participants["participant_id"].str.removeprefix("sub-"))
    result = look(write(volumes, tmp_path / "v.csv"), write(bare, tmp_path / "p.csv"), covariates=["age"])
    assert result.cohort is not None
    np.testing.assert_array_equal(result.cohort.covariates["age"], participants["age"])
    assert "40 ids were matched one to one though spelt differently" in texts(result, "note")


def test_ambiguous_ids_are_refused(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> None:
    ids = participants["participant_id"]
    twice = pd.concat([participants.assign(participant_id=ids + suffix) for suffix in ("_T1", "_T1w")])
    result = look(write(volumes, tmp_path / "v.csv"), write(twice, tmp_path / "p.csv"))
    assert "fit more than one person" in texts(result, "error")


def test_the_id_column_that_fits_is_taken(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> None:
    people = participants.rename(columns={"participant_id": "MRID"})
    people.insert(0, "subject_id", range(1000, 1040))
    result = look(write(volumes, tmp_path / "v.csv"), write(people, tmp_path / "p.csv"), covariates=["age"])
    assert result.ok


def test_sessions_are_joined(tmp_path: Path) -> None:
    first, second = muse_volumes(seed=0), muse_volumes(seed=1)
    both = pd.concat([first.assign(session_id="ses-1"), second.assign(session_id="ses-2")])
    people = pd.concat([participants_of(first).assign(session_id=s, age=a) for s, a in (("ses-1", 60), ("ses-2", 65))])
    paths = write(both.sample(frac=1, random_state=1), tmp_path / "v.csv"), write(people, tmp_path / "p.tsv", "\t")
    cohort = look(*paths, covariates=["age"]).cohort
    assert cohort is not None
    assert cohort.people["session_id"].tolist() == ["ses-1", "ses-2"] * 40
    assert cohort.covariates["age"].tolist() == [60, 65] * 40
    np.testing.assert_allclose(cohort.volumes["MUSE_47"][1::2], second["47"])


def test_sessions_in_file_names(tmp_path: Path, volumes: pd.DataFrame) -> None:
    named = volumes.assign(ID=[f"sub-{k:02d}_ses-01_T1w.nii.gz" for k in range(40)])
    people = pd.DataFrame(
        {"participant_id": [f"sub-{k:02d}" for k in range(40)], "session_id": "ses-01", "age": range(40)}
    )
    cohort = look(write(named, tmp_path / "v.csv"), write(people, tmp_path / "p.tsv", "\t"), covariates=["age"]).cohort
    assert cohort is not None
    assert cohort.covariates["age"].tolist() == list(range(40))


def test_several_sessions_and_no_word_which(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> None:
    people = pd.concat([participants.assign(session_id="1"), participants.assign(session_id="2")])
    result = look(write(volumes, tmp_path / "v.csv"), write(people, tmp_path / "p.csv"))
    assert "several sessions a person" in texts(result, "error")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_rows_and_columns_changes_nothing(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("shuffled")
    volumes = muse_volumes()
    participants = participants_of(volumes).assign(scanner=["a", "b"] * 20)
    asked = {"group": "diagnosis", "controls": "CN", "covariates": ["age", "sex", "icv"], "site": "scanner"}

    def read(v: pd.DataFrame, p: pd.DataFrame) -> object:
        cohort = look(write(v, folder / "v.csv"), write(p, folder / "p.tsv", "\t"), **asked).cohort
        assert cohort is not None
        return cohort

    def shuffled(frame: pd.DataFrame) -> pd.DataFrame:
        columns = frame.sample(frac=1, axis=1, random_state=seed)
        return columns.sample(frac=1, random_state=seed + 1 if seed < 2**32 - 1 else 0)

    before, after = read(volumes, participants), read(shuffled(volumes), shuffled(participants))
    assert before.fingerprint() == after.fingerprint()  # type: ignore[attr-defined]
    pd.testing.assert_frame_equal(before.volumes, after.volumes)  # type: ignore[attr-defined]
    pd.testing.assert_frame_equal(before.people, after.people)  # type: ignore[attr-defined]
    pd.testing.assert_frame_equal(before.covariates, after.covariates)  # type: ignore[attr-defined]

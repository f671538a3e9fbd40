"""Ids are matched exactly, or one to one by their normalised form."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.tables.checks.ids import match_ids, normalise_id
from tests.tables.helpers import (
    N,
    aparc,
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)


@pytest.mark.parametrize(
    "spelling",
    [
        "sub-007",
        "007",
        "sub-007_T1w.nii.gz",
        "/data/x/sub-007_T1.nii",
        "C:\\mri\\sub-007-T1",
        "7",
        "SUB-007",
    ],
)
def test_spellings_of_an_id_have_one_normalised_form(spelling: str) -> None:
    assert normalise_id(spelling) == "7"


def test_inexact_matches_are_one_to_one() -> None:
    result = match_ids(["sub-01", "sub-02", "03_T1"], ["01", "02_T1w", "03"])
    assert result.pairs == {"sub-01": "01", "sub-02": "02_T1w", "03_T1": "03"}
    assert match_ids(["01", "1"], ["sub-01"]).ambiguous == ["01", "1"]
    assert match_ids(["sub-01"], ["01", "1"]).ambiguous == ["sub-01"]
    assert match_ids(["01"], ["01", "sub-01"]).pairs == {
        "01": "01"
    }  # exact comes first


def test_an_exact_match_is_not_used_twice() -> None:
    """A loose twin of somebody who is matched exactly must not get the same row."""
    result = match_ids(["sub-01", "sub-01_T1"], ["sub-01"])
    assert result.pairs == {"sub-01": "sub-01"}
    assert result.ambiguous == ["sub-01_T1"]


def test_ids_can_be_paths(tmp_path: Path) -> None:
    left = aparc("lh").assign(
        **{"lh.aparc.volume": [f"/data/fs/sub-{k:02d}/" for k in range(30)]}
    )
    people = pd.DataFrame(
        {"participant_id": [f"sub-{k:02d}" for k in range(30)], "age": range(30)}
    )
    result = validate_files(
        write_table(left, tmp_path / "lh.txt", "\t"),
        write_table(people, tmp_path / "p.tsv", "\t"),
        covariates=["age"],
    )
    assert result.cohort is not None
    assert result.cohort.covariates["age"].tolist() == list(range(30))
    assert "spelt differently" in list_messages(result, "note")


def test_sessions_spelt_differently_are_matched(tmp_path: Path) -> None:
    scans = make_table([f"sub-{k:03d}_ses-01_T1w" for k in range(1, N + 1)])
    paths = (
        write_table(scans, tmp_path / "v.csv"),
        write_table(make_people(session_id="1"), tmp_path / "p.tsv", "\t"),
    )
    cohort = validate_files(*paths, covariates=["age"]).cohort
    assert cohort is not None
    np.testing.assert_allclose(cohort.covariates["age"], make_people()["age"])

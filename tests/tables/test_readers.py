"""Files are read into cohorts that do not depend on their order or format."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rindices as ri
from rindices.tables.cohort import Cohort
from tests.conftest import muse_volumes, participants_of
from tests.tables.helpers import (
    validate_files,
    write_table,
)


def test_parquet_and_csv_give_the_same_cohort(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    volumes.to_parquet(tmp_path / "v.parquet")
    participants.to_parquet(tmp_path / "p.parquet")
    text_paths = (write_table(volumes, tmp_path / "v.csv"), write_table(participants, tmp_path / "p.tsv", "\t"))
    options = {"group": "diagnosis", "covariates": ["age", "sex", "icv"]}
    fingerprints = [
        validate_files(*paths, **options).cohort.fingerprint()  # type: ignore[union-attr]
        for paths in (text_paths, (tmp_path / "v.parquet", tmp_path / "p.parquet"))
    ]
    assert fingerprints[0] == fingerprints[1]


def read_tables_with_sites(volumes: pd.DataFrame, participants: pd.DataFrame, folder: Path) -> Cohort:
    options = {"group": "diagnosis", "controls": "CN", "covariates": ["age", "sex", "icv"], "site": "scanner"}
    paths = write_table(volumes, folder / "v.csv"), write_table(participants, folder / "p.tsv", "\t")
    cohort = validate_files(*paths, **options).cohort
    assert cohort is not None
    return cohort


@cache
def read_in_order(folder: Path) -> Cohort:
    volumes = muse_volumes()
    return read_tables_with_sites(volumes, participants_of(volumes).assign(scanner=["a", "b"] * 20), folder)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_rows_and_columns_changes_nothing(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    volumes = muse_volumes()
    participants = participants_of(volumes).assign(scanner=["a", "b"] * 20)

    def shuffled(frame: pd.DataFrame) -> pd.DataFrame:
        columns = frame.sample(frac=1, axis=1, random_state=seed)
        return columns.sample(frac=1, random_state=seed + 1 if seed < 2**32 - 1 else 0)

    before = read_in_order(folder)
    after = read_tables_with_sites(shuffled(volumes), shuffled(participants), folder)
    assert before.fingerprint() == after.fingerprint()
    pd.testing.assert_frame_equal(before.volumes, after.volumes)
    pd.testing.assert_frame_equal(before.people, after.people)
    pd.testing.assert_frame_equal(before.covariates, after.covariates)


def test_all_errors_are_raised_together(tmp_path: Path, volumes: pd.DataFrame) -> None:
    path = write_table(volumes.assign(**{"47": np.nan, "48": -volumes["48"]}), tmp_path / "v.csv")
    with pytest.raises(ri.TableError, match="MUSE_47") as caught:
        ri.read_cohort(path, covariates=["age"])
    assert len(caught.value.problems) == 3

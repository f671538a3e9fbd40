"""Rows that go by without being examined give what an examination gives; all others are examined."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.errors import TableError
from rindices.experiments.tasks import TASKS
from rindices.tables.io.chunks import ChunkSize, OpenedTable, split_into_chunks
from rindices.tables.table import ColumnRoles
from rindices.tables.validation.validate import TableRequest, ValidationResult

pytest.importorskip("pyarrow")
HEAD, PEOPLE, ROWS = 200, 600, 100
ODD = 450  # a row behind the first ones


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    made = ri.simulate_cohort(replace(TASKS["tiny"], n_controls=PEOPLE - 100, n_patients=100), seed=1).cohort
    return pd.concat([made.people[["participant_id"]], made.covariates, made.volumes], axis=1)


def judged(opening: OpenedTable, path: Path) -> "list[ValidationResult] | str":
    try:
        return [one for piece in split_into_chunks(path, ChunkSize()) for one in opening.judge(piece, ROWS)]
    except TableError as error:
        return str(error)


def both_ways(
    frame: pd.DataFrame, path: Path
) -> "tuple[OpenedTable, list[ValidationResult] | str, list[ValidationResult] | str]":
    frame.to_parquet(path, index=False)
    roles = ColumnRoles(covariates=("age", "sex", "icv"))
    request = TableRequest((path,), None, roles, measure="any", on_missing="error", find_groups=False)
    opening = OpenedTable.of(path, request, HEAD)
    regions = opening.validation.cohort.regions if opening.validation.cohort else ()
    opening = opening.select_regions(regions)
    return opening, judged(opening, path), judged(replace(opening, plain=None), path)


def same(left: ValidationResult, right: ValidationResult) -> None:
    assert left.keys == right.keys
    assert left.cohort is not None
    assert right.cohort is not None
    pd.testing.assert_frame_equal(left.cohort.volumes, right.cohort.volumes, check_dtype=False, check_column_type=False)
    for name in ("people", "covariates"):
        old, new = getattr(left.cohort, name), getattr(right.cohort, name)
        assert list(old) == list(new)
        for column in old:
            assert old[column].tolist() == new[column].tolist()
    assert (left.cohort.unit, left.cohort.source) == (right.cohort.unit, right.cohort.source)


def put(column: str, value: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame[column] = frame[column].astype("object") if isinstance(value, str) or value is None else frame[column]
        frame.loc[ODD, column] = value
        return frame

    return change


FINE: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "as it is": lambda frame: frame,
    "single precision": lambda frame: frame.astype({name: np.float32 for name in frame if name.startswith("MUSE")}),
    "whole numbers": lambda frame: frame.assign(MUSE_47=frame["MUSE_47"].round().astype(int)),
    "ids are numbers": lambda frame: frame.assign(participant_id=np.arange(PEOPLE) + 10**17),
    "ids with blanks": lambda frame: frame.assign(participant_id=" " + frame["participant_id"].astype(str) + " "),
    "sex as a number": lambda frame: frame.assign(sex=(frame["sex"] == "M").astype(int)),
    "columns in another order": lambda frame: frame[list(frame)[::-1]],
    "names with blanks": lambda frame: frame.rename(columns={"MUSE_47": " MUSE_47 ", "age": "age "}),
    "two columns that differ in case": lambda frame: frame.assign(Age=frame["age"] + 3, SEX="F"),
    "a little older than the first": put("age", 71.5),
}
ODDITIES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "no id": put("participant_id", None),
    "an empty id": put("participant_id", "  "),
    "an id twice": lambda frame: put("participant_id", frame.loc[ODD - 1, "participant_id"])(frame),
    "a missing volume": put("MUSE_47", np.nan),
    "an infinite volume": put("MUSE_47", np.inf),
    "a negative volume": put("MUSE_47", -1.0),
    "a volume of 0": put("MUSE_47", 0.0),
    "a missing age": put("age", np.nan),
    "an age of nobody": put("age", 200.0),
    "a code for missing": put("age", 99.0),
    "an icv of 0": put("icv", 0.0),
    "an infinite icv": put("icv", np.inf),
    "a missing sex": put("sex", None),
    "an unknown sex": put("sex", "X"),
    "a sex with blanks": put("sex", " F"),
}


@pytest.mark.parametrize("name", FINE)
def test_plain_rows_are_read_as_the_door_reads_them(name: str, people: pd.DataFrame, tmp_path: Path) -> None:
    opening, swift, slow = both_ways(FINE[name](people.copy()), tmp_path / "people.parquet")
    assert opening.plain is not None
    assert isinstance(swift, list)
    assert isinstance(slow, list)
    assert sum(len(one.keys) for one in swift) == PEOPLE
    assert [one.format for one in swift] == [None] * len(swift)  # none was examined
    for left, right in zip(swift, slow, strict=True):
        same(left, right)


@pytest.mark.parametrize("name", ODDITIES)
def test_rows_with_anything_odd_are_examined(name: str, people: pd.DataFrame, tmp_path: Path) -> None:
    _, swift, slow = both_ways(ODDITIES[name](people.copy()), tmp_path / "people.parquet")
    if isinstance(swift, str) or isinstance(slow, str):
        assert swift == slow
        return
    assert [one.format is None for one in swift] == [place != ODD // ROWS for place in range(len(swift))]
    for left, right in zip(swift, slow, strict=True):
        same(left, right)
    assert swift[ODD // ROWS].problems == slow[ODD // ROWS].problems


@pytest.mark.parametrize("asked", [{"roles": ColumnRoles(site="sex")}, {"find_groups": True}])
def test_tables_that_are_joined_or_labelled_are_examined(
    asked: dict[str, object], people: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "people.parquet"
    people.to_parquet(path, index=False)
    request = TableRequest((path,), None, ColumnRoles(), measure="any", find_groups=False)
    for more, plain in (({}, True), (asked, False)):
        opening = OpenedTable.of(path, replace(request, **more), HEAD)
        assert (opening.select_regions(["MUSE_47", "MUSE_48"]).plain is not None) == plain


def test_numbers_that_are_written_as_categories_are_examined(people: pd.DataFrame, tmp_path: Path) -> None:
    frame = people.assign(MUSE_47=people["MUSE_47"].astype(str).astype("category"))
    _, swift, slow = both_ways(frame, tmp_path / "people.parquet")
    assert isinstance(swift, list)
    for left, right in zip(swift, slow, strict=True):
        same(left, right)

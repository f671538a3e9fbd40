"""R-indices are written in full or not at all, in every format."""

import contextlib
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from rindices.apply.tables import (
    describe_columns,
    join_parts,
    open_part_file,
    write_indices,
)
from rindices.errors import ModelError

INDICES = pd.DataFrame({"participant_id": ["a", "b"], "r1": [0.25, 1.5]})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_result_that_cannot_be_finished_leaves_the_old_one(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"r{suffix}"
    write_indices(INDICES, path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def fill_the_disk(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fill_the_disk)
    with pytest.raises(ModelError, match="No space left on device"):
        write_indices(INDICES * 2, path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"r\.xlsx"):
        write_indices(INDICES, tmp_path / "r.xlsx")


def test_a_data_dictionary_of_another_table_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"mine": 1}')
    write_indices(INDICES, tmp_path / "r.csv")
    assert (tmp_path / "r.json").read_text() == '{"mine": 1}'


def test_every_column_is_described() -> None:
    columns = [
        "participant_id",
        "session_id",
        "r1",
        "r1_low",
        "r1_high",
        "outlier_score",
        "outside_training_range",
        "outside_because",
    ]
    descriptions = describe_columns(columns)
    assert list(descriptions) == columns
    assert descriptions["r1_low"]["Description"].startswith("Lower end")


def test_a_part_that_cannot_be_finished_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(writer: pq.ParquetWriter, table: object) -> None:
        raise OSError(28, "No space left on device")

    for failing in (False, True):
        with monkeypatch.context() as patch, contextlib.suppress(OSError):
            if failing:
                patch.setattr(pq.ParquetWriter, "write_table", full)
            with open_part_file(tmp_path / f"{failing}.parquet") as append_rows:
                append_rows(pd.DataFrame({"r1": [1.0]}))
    assert [path.name for path in tmp_path.iterdir()] == ["False.parquet"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_parts_are_joined_in_order(suffix: str, tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"participant_id": list("abcdef"), "r1": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
    )
    paths = [tmp_path / f"{name}{suffix}" for name in ("first", "second")]
    for number, path in enumerate(paths):
        with open_part_file(path) as append_rows:
            append_rows(table.iloc[3 * number : 3 * number + 1])
            append_rows(table.iloc[3 * number + 1 : 3 * number + 3])
    out = tmp_path / f"out{suffix}"
    with pytest.raises(ModelError, match=r"7 people should be in .* and 6 are"):
        join_parts(paths, out, list(table), people=7)
    assert not out.exists()
    join_parts(paths, out, list(table), people=6)
    joined = (
        pd.read_parquet(out)
        if suffix == ".parquet"
        else pd.read_csv(out, sep="," if suffix == ".csv" else "\t")
    )
    assert joined.astype({"participant_id": object}).equals(
        table.astype({"participant_id": object})
    )
    assert out.with_suffix(".json").exists() == (suffix != ".parquet")

"""Parquet tables are read in memory and in batches, whatever their row groups."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.errors import Findings, ProblemCode, TableError
from rindices.tables.io.parquet import is_parquet, open_parquet, read_batches, read_parquet

pytest.importorskip("pyarrow")
TABLE = pd.DataFrame({"id": [f"p{k}" for k in range(50)], " a ": range(50), "b": [k / 7 for k in range(50)]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    TABLE.to_parquet(tmp_path / "t.parquet", index=False, row_group_size=12)
    return tmp_path / "t.parquet"


def test_parquet_is_known_by_its_suffix() -> None:
    assert is_parquet(Path("a.PARQUET"))
    assert is_parquet(Path("a.pq"))
    assert not is_parquet(Path("parquet.csv"))


@pytest.mark.parametrize("rows", [1, 12, 13, 40, 50, 60])
def test_the_first_rows_are_those_of_the_table(rows: int, path: Path) -> None:
    frame = read_parquet(path, 10, Findings(), rows)
    pd.testing.assert_frame_equal(frame, read_parquet(path, 10, Findings()).head(rows))
    assert list(frame) == ["id", "a", "b"]


@pytest.mark.parametrize("rows", [1, 5, 12, 100])
def test_batches_hold_the_requested_rows_and_columns(rows: int, path: Path) -> None:
    batches = list(read_batches(path, ["b", "a"], range(1, 4), rows))
    assert max(map(len, batches)) <= rows
    expected = TABLE.rename(columns=str.strip)[["b", "a"]].iloc[12:48].reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.concat(batches, ignore_index=True), expected)


def test_regions_of_a_batch_are_one_block_of_floats(tmp_path: Path) -> None:
    table = TABLE.assign(c=np.float32(0.1), d=pd.array([None, *range(49)], dtype="Int64"), e="text")
    table.to_parquet(tmp_path / "t.parquet", index=False)
    (batch,) = read_batches(tmp_path / "t.parquet", ["b", "c", "d", "e", "id"], range(1), 50, {"b", "c", "d", "e"})
    assert list(batch) == ["e", "id", "b", "c", "d"]
    regions = batch.iloc[:, 2:]
    assert np.shares_memory(regions.to_numpy(), batch["b"].to_numpy())
    expected = table[["b", "c", "d"]].astype(float)
    pd.testing.assert_frame_equal(regions, expected)
    assert batch["e"].tolist() == ["text"] * 50


def test_a_named_index_becomes_a_column(tmp_path: Path) -> None:
    TABLE.set_index("id").to_parquet(tmp_path / "t.parquet")
    assert list(read_parquet(tmp_path / "t.parquet", 10, Findings())) == ["id", "a", "b"]


def test_too_many_columns_are_refused(path: Path) -> None:
    findings = Findings()
    with pytest.raises(TableError, match="3 columns; at most 2"):
        read_parquet(path, 2, findings)
    assert [problem.code for problem in findings] == [ProblemCode.TOO_MANY_COLUMNS]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"id,a\n1,2\n", b"PAR1" + bytes(50) + b"PAR1"])
def test_a_damaged_file_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(content)
    for read in (lambda: read_parquet(path, 10, Findings()), lambda: open_parquet(path)):
        with pytest.raises(TableError, match=r"t\.parquet: this is not a readable parquet file"):
            read()


def test_a_file_cut_within_its_rows_is_refused(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    for read in (lambda: read_parquet(path, 10, Findings()), lambda: list(read_batches(path, ["id"], range(4), 10))):
        with pytest.raises(TableError, match="not a readable parquet file"):
            read()

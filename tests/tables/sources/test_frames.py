"""Tables of text, parquet and Excel become frames."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.errors import Findings, ProblemCode, TableError
from rindices.tables.sources import lines
from rindices.tables.sources.frames import (
    is_parquet,
    open_parquet,
    read_batches,
    read_parquet,
)
from tests.conftest import muse_volumes, participants_of
from tests.tables.helpers import (
    N,
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)


def test_ids_keep_leading_zeros(tmp_path: Path) -> None:
    frame = muse_volumes().assign(ID=[f"{k:04d}" for k in range(40)])
    result = validate_files(write_table(frame, tmp_path / "v.csv"))
    assert result.cohort is not None
    assert result.cohort.people["participant_id"].tolist() == [
        f"{k:04d}" for k in range(40)
    ]


def test_n_a_means_missing(tmp_path: Path, volumes: pd.DataFrame) -> None:
    people = participants_of(volumes)
    people["age"] = people["age"].astype(object)
    people.loc[4, "age"] = "n/a"
    path = write_table(people, tmp_path / "participants.tsv", "\t")
    result = validate_files(
        write_table(volumes, tmp_path / "v.csv"),
        path,
        covariates=["age"],
        on_missing="error",
    )
    assert "1 person has no age: sub-004" in list_messages(result, "error")


def test_blanks_after_separators_are_skipped(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    participants.loc[2, "age"] = np.nan
    text = participants.to_csv(index=False, na_rep="n/a").replace(",", ", ")
    (tmp_path / "p.csv").write_text(text)
    result = validate_files(
        write_table(volumes, tmp_path / "v.csv"),
        tmp_path / "p.csv",
        covariates=["age", "sex"],
        group="diagnosis",
    )
    assert "1 person has no age: sub-002" in list_messages(result)
    assert (result.controls, result.patients) == (20, 20)


def test_empty_rows_comments_and_the_separator_line_of_excel_are_skipped(
    tmp_path: Path,
) -> None:
    text = make_table().to_csv(index=False, sep=";")
    (tmp_path / "v.csv").write_text(
        "sep=;\n# exported today\n" + text + ";" * 20 + "\n" + ";" * 20 + "\n"
    )
    result = validate_files(tmp_path / "v.csv")
    assert (result.people, result.regions) == (N, 20)


def test_ids_as_floats_and_long_ids_are_read_exactly(tmp_path: Path) -> None:
    floats = make_people(participant_id=[f"{k}.0" for k in range(100, 160)])
    paths = (
        write_table(make_table(range(100, 160)), tmp_path / "v.csv"),
        write_table(floats, tmp_path / "p.csv"),
    )
    assert validate_files(*paths, covariates=["age"]).people == N
    long = [10**17 + k for k in range(N)]
    make_table(long).to_parquet(tmp_path / "v.parquet")
    cohort = validate_files(tmp_path / "v.parquet").cohort
    assert cohort is not None
    assert cohort.people["participant_id"].tolist() == [str(name) for name in long]


def test_none_is_a_label_and_not_missing(tmp_path: Path) -> None:
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(make_people(diagnosis=["None", "AD"] * 30), tmp_path / "p.csv"),
    )
    result = validate_files(*paths, group="diagnosis", controls="None")
    assert (result.controls, result.patients) == (30, 30)


pytest.importorskip("pyarrow")
TABLE = pd.DataFrame(
    {
        "id": [f"p{k}" for k in range(50)],
        " a ": range(50),
        "b": [k / 7 for k in range(50)],
    }
)


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
    frame = read_parquet(path, Findings(), rows)
    pd.testing.assert_frame_equal(frame, read_parquet(path, Findings()).head(rows))
    assert list(frame) == ["id", "a", "b"]


@pytest.mark.parametrize("rows", [1, 5, 12, 100])
def test_batches_hold_the_requested_rows_and_columns(rows: int, path: Path) -> None:
    batches = list(read_batches(path, ["b", "a"], range(1, 4), rows))
    assert max(map(len, batches)) <= rows
    expected = (
        TABLE.rename(columns=str.strip)[["b", "a"]].iloc[12:48].reset_index(drop=True)
    )
    pd.testing.assert_frame_equal(pd.concat(batches, ignore_index=True), expected)


def test_regions_of_a_batch_are_one_block_of_floats(tmp_path: Path) -> None:
    table = TABLE.assign(
        c=np.float32(0.1), d=pd.array([None, *range(49)], dtype="Int64"), e="text"
    )
    table.to_parquet(tmp_path / "t.parquet", index=False)
    (batch,) = read_batches(
        tmp_path / "t.parquet",
        ["b", "c", "d", "e", "id"],
        range(1),
        50,
        {"b", "c", "d", "e"},
    )
    assert list(batch) == ["e", "id", "b", "c", "d"]
    regions = batch.iloc[:, 2:]
    assert np.shares_memory(regions.to_numpy(), batch["b"].to_numpy())
    expected = table[["b", "c", "d"]].astype(float)
    pd.testing.assert_frame_equal(regions, expected)
    assert batch["e"].tolist() == ["text"] * 50


def test_a_named_index_becomes_a_column(tmp_path: Path) -> None:
    TABLE.set_index("id").to_parquet(tmp_path / "t.parquet")
    assert list(read_parquet(tmp_path / "t.parquet", Findings())) == ["id", "a", "b"]


def test_too_many_columns_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = Findings()
    monkeypatch.setattr(lines, "MAX_COLUMNS", 2)
    with pytest.raises(TableError, match="3 columns; at most 2"):
        read_parquet(path, findings)
    assert [problem.code for problem in findings] == [ProblemCode.TOO_MANY_COLUMNS]


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"id,a\n1,2\n", b"PAR1" + bytes(50) + b"PAR1"]
)
def test_a_damaged_file_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(content)
    for read in (
        lambda: read_parquet(path, Findings(where=path.name)),
        lambda: open_parquet(path),
    ):
        with pytest.raises(
            TableError, match=r"t\.parquet: this is not a readable parquet file"
        ):
            read()


def test_a_file_cut_within_its_rows_is_refused(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    for read in (
        lambda: read_parquet(path, Findings()),
        lambda: list(read_batches(path, ["id"], range(4), 10)),
    ):
        with pytest.raises(TableError, match="not a readable parquet file"):
            read()

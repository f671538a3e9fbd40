"""Parts of a result are complete or missing, and joined in order."""

import contextlib
from pathlib import Path

import pandas as pd
import pytest

from rindices.apply.part_writer import PartWriter, join_parts, open_part
from rindices.errors import ModelError


def test_a_part_that_cannot_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(writer: PartWriter) -> None:
        raise OSError(28, "No space left on device")

    for failing in (False, True):
        with monkeypatch.context() as patch, contextlib.suppress(OSError):
            if failing:
                patch.setattr(PartWriter, "write_row_group", full)
            with open_part(tmp_path / f"{failing}.parquet") as writer:
                writer.write(pd.DataFrame({"r1": [1.0]}))
    assert [path.name for path in tmp_path.iterdir()] == ["False.parquet"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_parts_are_joined_in_order(suffix: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"participant_id": list("abcdef"), "r1": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]})
    paths = [tmp_path / f"{name}{suffix}" for name in ("first", "second")]
    for number, path in enumerate(paths):
        with open_part(path) as writer:
            writer.write(table.iloc[3 * number : 3 * number + 1])
            writer.write(table.iloc[3 * number + 1 : 3 * number + 3])
    out = tmp_path / f"out{suffix}"
    with pytest.raises(ModelError, match=r"7 people should be in .* and 6 are"):
        join_parts(paths, out, writer.columns, people=7)
    assert not out.exists()
    join_parts(paths, out, writer.columns, people=6)
    joined = pd.read_parquet(out) if suffix == ".parquet" else pd.read_csv(out, sep="," if suffix == ".csv" else "\t")
    assert joined.astype({"participant_id": object}).equals(table.astype({"participant_id": object}))
    assert out.with_suffix(".json").exists() == (suffix != ".parquet")

"""R-indices are written in full or not at all, in every format."""

from pathlib import Path

import pandas as pd
import pytest

from rindices.apply.tables import describe_columns, write_indices
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
    columns = ["participant_id", "session_id", "r1", "r1_low", "r1_high", "unusual", "novel", "novel_because"]
    descriptions = describe_columns(columns)
    assert list(descriptions) == columns
    assert descriptions["r1_low"]["Description"].startswith("Lower end")

"""Tables are written with a data dictionary, and unwritable files give one readable error."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.analysis.write import as_records, write_table
from rindices.errors import AnalysisError

TABLE = pd.DataFrame({"index": ["r1", "r2"], "p": [0.5, np.nan], "n": pd.array([3, pd.NA], dtype="Int64")})
DESCRIPTIONS = {"index": "R-index", "p": "p-value", "n": "People"}


def test_table_and_dictionary_are_written(tmp_path: Path) -> None:
    write_table(TABLE, tmp_path / "new" / "table.tsv", DESCRIPTIONS, {"seed": 3})
    assert (tmp_path / "new" / "table.tsv").read_text() == "index\tp\tn\nr1\t0.5\t3\nr2\tn/a\tn/a\n"
    dictionary = json.loads((tmp_path / "new" / "table.json").read_text())
    assert dictionary["p"] == {"Description": "p-value"}
    assert dictionary["GeneratedBy"]["seed"] == 3
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"table.tsv", "table.json"}


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AnalysisError, match=r"cannot write .*table\.tsv .*: give another folder with --out"):
        write_table(TABLE, tmp_path / "file" / "table.tsv", DESCRIPTIONS, {})


def test_records_have_null_for_missing_numbers() -> None:
    assert as_records(TABLE) == [{"index": "r1", "p": 0.5, "n": 3}, {"index": "r2", "p": None, "n": None}]

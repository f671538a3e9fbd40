"""The command associate."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices.analysis.associate import associate_indices
from rindices.cli.main import app
from tests.analysis.helpers import N_PEOPLE, make_clinical_tables


def get_row(table: pd.DataFrame, index: str, variable: str) -> pd.Series:
    return table[(table["index"] == index) & (table["variable"] == variable)].iloc[0]


def test_tables_are_joined_by_id_and_results_equal_the_function(tmp_path: Path) -> None:
    indices, clinical = make_clinical_tables()
    indices.to_csv(tmp_path / "r_indices.tsv", sep="\t", index=False)
    clinical = clinical.rename(columns={"participant_id": "ID"})
    clinical["ID"] = clinical["ID"].str.removeprefix("sub-")  # spelt differently, and in another order
    clinical["tau"] = np.where(clinical.index == 5, "<80", (clinical["age"] * 3).round(2).astype(str))
    clinical.to_csv(tmp_path / "clinical.csv", index=False)
    arguments = ["associate", str(tmp_path / "r_indices.tsv"), str(tmp_path / "clinical.csv")]
    done = CliRunner().invoke(app, [*arguments, "--covariates", "age", "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert "'<80' for sub-" in done.stderr
    assert (value["people"], value["covariates"]) == ("patients", ["age"])
    written = pd.read_csv(tmp_path / "out/associations.tsv", sep="\t", na_values="n/a", keep_default_na=False)
    expected = associate_indices(*make_clinical_tables(), covariates=["age"])
    for index in ("r1", "r2"):
        for name in ("n", "correlation", "p", "low", "high"):
            assert get_row(written, index, "memory")[name] == pytest.approx(get_row(expected, index, "memory")[name])
    assert get_row(written, "r1", "tau")["n"] == N_PEOPLE - 1
    assert get_row(written, "r1", "carrier")["level"] == "yes"
    dictionary = json.loads((tmp_path / "out/associations.json").read_text())
    assert set(written.columns) <= set(dictionary)
    assert len(value["results"]) == len(written)

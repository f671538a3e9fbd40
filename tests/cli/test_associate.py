"""The command associate."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices.analysis.associate import associate_indices
from rindices.cli.main import app
from rindices.errors import AnalysisError
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


def test_codes_for_missing_never_enter_a_correlation(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = [f"s{k}" for k in range(60)]
    r1 = rng.random(60)
    score = 20 + 10 * r1 + rng.normal(0, 1, 60)
    indices = pd.DataFrame({"participant_id": ids, "group": "patient", "r1": r1})
    clinical = pd.DataFrame({"participant_id": ids, "ados": np.where(np.arange(60) < 6, -9999, score)})
    clinical["iq"] = np.where(np.arange(60) < 3, -4, rng.integers(70, 130, 60))
    clinical["change"] = rng.integers(-3, 4, 60)
    indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    clinical.to_csv(tmp_path / "c.csv", index=False)
    arguments = [
        "associate",
        str(tmp_path / "r.tsv"),
        str(tmp_path / "c.csv"),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, AnalysisError)
    message = str(done.exception)
    assert "9 cells in 2 columns may stand for missing: ados (-9999 in 6 cells), iq (-4 in 3 cells)" in message
    assert "--missing-codes -9999,-4" in message
    done = CliRunner().invoke(app, [*arguments, "--missing-codes", "-9999,-4"])
    rows = {row["variable"]: row for row in json.loads(done.stdout)["results"]}
    assert (rows["ados"]["n"], rows["iq"]["n"], rows["change"]["n"]) == (54, 57, 60)
    assert rows["ados"]["correlation"] > 0.8
    only_change = CliRunner().invoke(app, [*arguments, "--variables", "change"])
    assert only_change.exit_code == 0
    as_they_are = CliRunner().invoke(app, [*arguments, "--missing-codes", "none"])
    assert abs({row["variable"]: row for row in json.loads(as_they_are.stdout)["results"]}["ados"]["correlation"]) < 0.5

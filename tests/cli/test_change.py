"""The command change."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from rindices.analysis.change import change_per_year
from rindices.cli.main import app
from rindices.errors import AnalysisError
from tests.analysis.helpers import make_visits
from tests.analysis.test_change_models import make_group_visits


def test_the_time_is_joined_by_person_and_session(tmp_path: Path) -> None:
    frame, _ = make_visits(40, 3)
    frame.drop(columns="age").to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    sessions = frame[["participant_id", "session_id", "age"]].sample(frac=1, random_state=0)
    sessions.to_csv(tmp_path / "s.tsv", sep="\t", index=False)
    arguments = ["change", str(tmp_path / "r.tsv"), "--participants", str(tmp_path / "s.tsv"), "--json"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert (value["people"], value["visits"], value["noise_from"]) == (40, 120, "scatter about lines")
    table = pd.read_csv(tmp_path / "out" / "change.tsv", sep="\t")
    expected = change_per_year(frame, "age").table
    pd.testing.assert_frame_equal(table[list(expected)], expected, check_dtype=False)
    assert not (tmp_path / "out" / "change_groups.tsv").exists()
    assert (tmp_path / "out" / "change.png").stat().st_size > 10_000
    assert value["indices"]["r1"]["above_zero"] == int((expected["r1_per_year_low"] > 0).sum())


def test_a_code_for_missing_is_no_age(tmp_path: Path) -> None:
    visits = pd.DataFrame(
        {
            "participant_id": [f"s{k // 3}" for k in range(60)],
            "session_id": [str(k % 3) for k in range(60)],
            "r1": np.linspace(0, 1, 60) + np.tile([0, 0.1, 0.25], 20),
            "age": 50.0 + np.arange(60) // 3 + np.arange(60) % 3,
        }
    )
    visits.loc[4, "age"] = -9999
    visits.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    arguments = ["change", str(tmp_path / "r.tsv"), "--out", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, AnalysisError)
    assert "age (-9999 in 1 cell)" in str(done.exception)
    done = CliRunner().invoke(app, [*arguments, "--missing-codes", "-9999"])
    assert json.loads(done.stdout)["visits"] == 59


def test_groups_are_compared_and_earlier_tables_removed(tmp_path: Path) -> None:
    frame = make_group_visits(people=24).rename(columns={"group": "diagnosis"})
    frame["diagnosis"] = frame["diagnosis"].map({"control": "CN", "patient": "AD"})
    frame[["participant_id", "session_id", "r1"]].to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    frame.drop(columns=["r1", "r1_low", "r2"]).to_csv(tmp_path / "s.tsv", sep="\t", index=False)
    arguments = ["change", str(tmp_path / "r.tsv"), "--participants", str(tmp_path / "s.tsv"), "--json"]
    arguments += ["--out", str(tmp_path / "out")]
    groups = ["--group", "diagnosis", "--controls", "CN", "--covariates", "age,sex"]
    done = CliRunner().invoke(app, [*arguments, *groups])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    table = pd.read_csv(tmp_path / "out" / "change_groups.tsv", sep="\t")
    assert table["p"].iloc[0] == value["groups"][0]["p"]
    assert value["groups"][0]["p"] < 0.001
    dictionary = json.loads((tmp_path / "out" / "change_groups.json").read_text())
    assert dictionary["GeneratedBy"]["covariates"] == ["age", "sex"]
    assert {"change_retest.tsv", "change_trial.tsv", "change_groups.png"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert not list((tmp_path / "out").glob("change_groups*"))

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
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
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

"""The command simulate."""

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.errors import SimulationError, TableError


def call(*arguments: str) -> object:
    return CliRunner().invoke(app, ["simulate", *arguments])


def test_json_has_the_counts_and_files_are_written(tmp_path: Path) -> None:
    done = call("--task", "tiny", "--seed", "2", "--sites", "3", "--out", str(tmp_path / "demo"), "--json")
    value = json.loads(done.stdout)  # type: ignore[attr-defined]
    assert (value["people"], value["controls"], value["patients"], value["patterns"]) == (180, 80, 100, 3)
    assert pd.read_csv(tmp_path / "demo" / "participants.tsv", sep="\t")["site"].nunique() == 3
    assert len(pd.read_csv(tmp_path / "demo" / "truth.tsv", sep="\t")) == 100


def test_staged_tasks_have_their_onsets(tmp_path: Path) -> None:
    assert call("--task", "staged", "--out", str(tmp_path / "demo")).exit_code == 0  # type: ignore[attr-defined]
    onsets = pd.read_csv(tmp_path / "demo" / "onsets.tsv", sep="\t")
    patterns = pd.read_csv(tmp_path / "demo" / "patterns.tsv", sep="\t")
    assert list(onsets.columns) == ["pattern", "region", "onset"]
    for name, group in onsets.groupby("pattern"):
        assert set(group.region) == set(patterns.region[patterns[name] > 0])
        assert (group.onset.min(), group.onset.max()) == (0.0, 0.6)


def test_wrong_names_and_unclear_groups_are_refused(tmp_path: Path) -> None:
    unknown = call("--task", "tny", "--out", str(tmp_path))
    assert isinstance(unknown.exception, SimulationError)  # type: ignore[attr-defined]
    assert "did you mean 'tiny'" in str(unknown.exception)  # type: ignore[attr-defined]
    assert call("--task", "tiny", "--out", str(tmp_path / "demo")).exit_code == 0  # type: ignore[attr-defined]
    table = pd.read_csv(tmp_path / "demo" / "volumes.csv").copy()
    table["diagnosis"] = ["well", "ill"] * (len(table) // 2)
    table.to_csv(tmp_path / "table.csv", index=False)
    healthy = ["--controls", str(tmp_path / "table.csv"), "--out", str(tmp_path / "new")]
    unclear = call(*healthy)
    assert isinstance(unclear.exception, TableError)  # type: ignore[attr-defined]
    assert "--group COLUMN --label LABEL" in str(unclear.exception)  # type: ignore[attr-defined]
    done = call(*healthy, "--group", "diagnosis", "--label", "well", "--json")
    assert json.loads(done.stdout)["people"] == 90  # type: ignore[attr-defined]


@pytest.mark.parametrize("option", [("--seed", "x"), ("--sites", "-1")])
def test_wrong_usage_exits_2(option: tuple[str, str], tmp_path: Path) -> None:
    assert call(*option, "--out", str(tmp_path)).exit_code == 2  # type: ignore[attr-defined]


def test_visits_are_written_by_session(tmp_path: Path) -> None:
    done = call("--task", "tiny", "--visits", "3", "--out", str(tmp_path / "demo"), "--json")
    value = json.loads(done.stdout)  # type: ignore[attr-defined]
    truth = pd.read_csv(tmp_path / "demo" / "truth.tsv", sep="\t")
    assert list(truth.columns) == ["participant_id", "session_id", "s1", "s2", "s3"]
    assert value["people"] == 180
    assert value["visits"] == len(pd.read_csv(tmp_path / "demo" / "sessions.tsv", sep="\t"))
    refused = call("--task", "tiny", "--visits", "3", "--sites", "2", "--out", str(tmp_path / "demo"))
    assert "--sites and --visits cannot be combined" in str(refused.exception)  # type: ignore[attr-defined]

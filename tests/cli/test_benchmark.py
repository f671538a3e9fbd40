"""The command benchmark."""

import json
from pathlib import Path

from typer.testing import CliRunner

from rindices.cli.main import app


def test_json_has_the_documented_keys_and_files_are_written(tmp_path: Path) -> None:
    arguments = "benchmark --suite stress --tasks tiny --learners nmf --cohorts 2 --folds 0 --workers 1 --json --out"
    done = CliRunner().invoke(app, [*arguments.split(), str(tmp_path)])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert set(value) == {"results", "summary"}
    expected = {"task", "learner", "cohort_seed", "pattern_c_index", "per_pattern", "agreement", "seconds"}
    assert expected <= set(value["results"][0])
    assert {"task", "learner", "mean", "se", "n"} <= set(value["summary"][0])
    assert json.loads((tmp_path / "results.json").read_text()) == value
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "table.md", "figure.png", "runs"}

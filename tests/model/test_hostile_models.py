"""A sample of altered models and checkpoints on the command line; all of them in benchmarks/hostile_models.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_sample(tmp_path: Path, models: int, checkpoints: int, programs: int) -> None:
    pytest.importorskip("resource")
    numbers = ["--models", str(models), "--checkpoints", str(checkpoints), "--subprocesses", str(programs)]
    command = [sys.executable, "-m", "benchmarks.hostile_models", *numbers, "--workers", "1"]
    command += ["--out", str(tmp_path / "table.md")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    result = json.loads(done.stdout)
    assert result["faults"] == 0
    assert sum(row["tried"] for row in result["rows"]) == models + checkpoints + programs
    assert sum(row.get("refused", 0) for row in result["rows"]) > (models + checkpoints) / 2
    assert max(result["memory"].values()) < 1_000


def test_a_sample_of_altered_files(tmp_path: Path) -> None:
    run_sample(tmp_path, 3, 1, 0)


@pytest.mark.slow
def test_many_altered_files(tmp_path: Path) -> None:
    run_sample(tmp_path, 5_000, 500, 50)

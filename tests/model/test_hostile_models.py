"""Altered models and checkpoints on the command line, by
benchmarks/hostile_models.py.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_many_altered_files(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    numbers = [
        "--models",
        "5000",
        "--checkpoints",
        "500",
        "--subprocesses",
        "50",
        "--workers",
        "1",
    ]
    command = [
        sys.executable,
        "-m",
        "benchmarks.hostile_models",
        *numbers,
        "--out",
        str(tmp_path / "table.md"),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    result = json.loads(done.stdout)
    assert result["faults"] == 0
    assert sum(row["tried"] for row in result["rows"]) == 5_550
    assert sum(row.get("refused", 0) for row in result["rows"]) > 5_500 / 2
    assert max(result["memory"].values()) < 1_000

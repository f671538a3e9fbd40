"""A sample of altered tables on the command line; all of them in benchmarks/altered_tables.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run_sample(tmp_path: Path, tables: int) -> None:
    script = BENCHMARKS / "altered_tables.py"
    if not script.is_file():
        pytest.skip("the benchmarks are not beside the tests")
    command = [sys.executable, str(script), "--tables", str(tables), "--out", str(tmp_path / "table.md")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    result = json.loads(done.stdout)
    assert result["failures"] == 0
    assert result["accepted"] > tables / 5
    assert result["refused"] > tables / 5


def test_a_sample_of_altered_tables(tmp_path: Path) -> None:
    run_sample(tmp_path, 30)


@pytest.mark.slow
def test_many_altered_tables(tmp_path: Path) -> None:
    run_sample(tmp_path, 5_000)


@pytest.mark.slow
def test_oddities_in_a_larger_table(tmp_path: Path) -> None:
    script = BENCHMARKS / "odd_rows.py"
    if not script.is_file():
        pytest.skip("the benchmarks are not beside the tests")
    sizes = ["--rows", "12000", "--oddities", "100", "--max-ratio", "inf"]
    command = [sys.executable, str(script), *sizes, "--folder", str(tmp_path), "--out", str(tmp_path / "table.md")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    assert "Every oddity was read as it is meant or named" in (tmp_path / "table.md").read_text("utf-8")

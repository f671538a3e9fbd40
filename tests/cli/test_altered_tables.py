"""A sample of altered tables on the command line; all of them in
benchmarks/altered_tables.py.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
ROOT = Path(__file__).parents[2]


def run_benchmark(name: str, tmp_path: Path, *options: str) -> str:
    """Run a benchmark with its table in ``tmp_path``; return what it prints."""
    command = [
        sys.executable,
        "-m",
        f"benchmarks.{name}",
        *options,
        "--out",
        str(tmp_path / "table.md"),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    return done.stdout


def run_sample(tmp_path: Path, tables: int) -> None:
    result = json.loads(
        run_benchmark("altered_tables", tmp_path, "--tables", str(tables))
    )
    assert result["failures"] == 0
    assert result["accepted"] > tables / 5
    assert result["refused"] > tables / 5


def test_a_sample_of_altered_tables(tmp_path: Path) -> None:
    run_sample(tmp_path, 12)


def run_misleading_tables(tmp_path: Path, tables: int) -> None:
    printed = run_benchmark("misleading_tables", tmp_path, "--tables", str(tables))
    assert json.loads(printed) == {"tables": tables, "people": 60, "silent": 0}


def test_no_misleading_table_is_used_in_silence(tmp_path: Path) -> None:
    run_misleading_tables(tmp_path, 8)


@pytest.mark.slow
def test_no_misleading_table_of_many_is_used_in_silence(tmp_path: Path) -> None:
    run_misleading_tables(tmp_path, 2_000)


@pytest.mark.slow
def test_many_altered_tables(tmp_path: Path) -> None:
    run_sample(tmp_path, 5_000)


@pytest.mark.slow
def test_oddities_in_a_larger_table(tmp_path: Path) -> None:
    sizes = ["--rows", "12000", "--oddities", "100", "--max-ratio", "inf"]
    run_benchmark("odd_rows", tmp_path, *sizes, "--folder", str(tmp_path))
    assert "Every oddity was read as it is meant or named" in (
        tmp_path / "table.md"
    ).read_text("utf-8")

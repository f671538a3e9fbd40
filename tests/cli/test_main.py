"""The program prints its version and keeps its exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import rindices
from rindices.cli.main import app


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_version_and_help() -> None:
    assert invoke("--version").stdout == f"rindices {rindices.__version__}\n"
    for command in ("check", "simulate"):
        assert "Example: rindices" in invoke(command, "--help").stdout


def test_the_help_of_fit_fits_on_one_screen_and_begins_with_what_most_people_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = invoke("fit", "--help").stdout.splitlines()
    assert len(lines) <= 66
    first, *_ = "\n".join(lines).partition("Options")[2].partition("╰")
    words = {word for word in first.split() if word.startswith("--")}
    needed = "--out --participants --group --controls --patients --covariates --site --patterns --seed --dry-run"
    assert words == {*needed.split(), "--help"}


def test_wrong_usage_is_2() -> None:
    assert invoke("check").exit_code == 2
    assert invoke("simulate", "--seed", "x", "--out", "y").exit_code == 2


def test_the_program_itself_exits_with_1(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from rindices.cli.main import run; run()",
            "check",
            str(tmp_path / "none.csv"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "none.csv: there is no such file." in done.stderr
    assert "Traceback" not in done.stderr

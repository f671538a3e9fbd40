"""Commands print JSON alone on standard output, and keep their exit codes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rindices
from rindices.cli.main import app


def invoke(*arguments: str) -> object:
    return CliRunner().invoke(app, list(arguments))


def test_version_and_help() -> None:
    assert invoke("--version").stdout == f"rindices {rindices.__version__}\n"  # type: ignore[attr-defined]
    for command in ("check", "simulate"):
        assert "Example: rindices" in invoke(command, "--help").stdout  # type: ignore[attr-defined]


def test_wrong_usage_is_2() -> None:
    assert invoke("check").exit_code == 2  # type: ignore[attr-defined]
    assert invoke("simulate", "--seed", "x", "--out", "y").exit_code == 2  # type: ignore[attr-defined]


def test_check_json_has_the_promised_keys(tmp_path: Path) -> None:
    assert invoke("simulate", "--task", "tiny", "--out", str(tmp_path)).exit_code == 0  # type: ignore[attr-defined]
    done = invoke(
        "check", str(tmp_path / "volumes.csv"), "--participants", str(tmp_path / "participants.tsv"), "--json"
    )
    value = json.loads(done.stdout)  # type: ignore[attr-defined]
    assert {"format", "people", "controls", "patients", "regions", "covariates", "problems"} <= set(value)
    assert (value["format"], value["people"], value["controls"], value["patients"]) == ("dlmuse", 180, 80, 100)
    assert set(value["problems"][0]) == {"severity", "what", "where", "cure"}


def test_check_json_of_a_broken_file_is_json_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("")
    done = invoke("check", str(tmp_path / "t.csv"), "--json")
    assert done.exit_code == 1  # type: ignore[attr-defined]
    assert json.loads(done.stdout)["problems"][0]["what"] == "the file is empty"  # type: ignore[attr-defined]


def test_simulate_on_own_controls_keeps_sites(tmp_path: Path, shared: Path) -> None:
    table = str(shared / "fcon1000/fcon1000.csv")
    done = invoke("simulate", "--controls", table, "--site", "site", "--out", str(tmp_path), "--json")
    value = json.loads(done.stdout)  # type: ignore[attr-defined]
    assert (value["people"], value["patterns"]) == (1076, 3)
    assert "site" in (tmp_path / "participants.tsv").read_text().splitlines()[0].split("\t")


def test_unwritable_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    program = "from rindices.cli.main import run; run()"
    arguments = [sys.executable, "-c", program, "simulate", "--task", "tiny", "--out", str(tmp_path / "file" / "x")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot write to" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["torch", "scipy.stats", "sklearn"])
def test_import_is_light(module: str) -> None:
    program = f"import sys, rindices; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_fit_with_two_members_has_an_agreement_without_interval(tmp_path: Path) -> None:
    assert invoke("simulate", "--task", "tiny", "--out", str(tmp_path)).exit_code == 0  # type: ignore[attr-defined]
    tables = [str(tmp_path / "volumes.csv"), "--participants", str(tmp_path / "participants.tsv"), "--group", "group"]
    how = ["--patterns", "3", "--members", "2", "--recipe", "contrastive", "--workers", "1"]
    done = invoke("fit", *tables, *how, "--out", str(tmp_path / "out"))
    assert done.exit_code == 0  # type: ignore[attr-defined]
    agreement = next(line for line in done.stdout.splitlines() if line.startswith("agreement"))  # type: ignore[attr-defined]
    assert re.fullmatch(r"agreement +0\.\d{3}, disjoint halves", agreement)


def test_fit_writes_a_report_and_report_writes_it_again(tmp_path: Path) -> None:
    assert invoke("simulate", "--task", "tiny", "--out", str(tmp_path)).exit_code == 0  # type: ignore[attr-defined]
    table, people, out = tmp_path / "volumes.csv", tmp_path / "participants.tsv", tmp_path / "out"
    options = ["--group", "group", "--recipe", "contrastive", "--patterns", "2", "--members", "4", "--out", str(out)]
    done = invoke("fit", str(table), "--participants", str(people), *options, "--json")
    assert json.loads(done.stdout)["report"] == str(out / "report.html")  # type: ignore[attr-defined]
    first = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    again = invoke("report", str(out), "--json")
    assert json.loads(again.stdout) == {"report": str(out / "report.html"), "bytes": len(first)}  # type: ignore[attr-defined]
    assert (out / "report.html").read_bytes() == first
    assert (out / "patterns.tsv").read_text().count("\n") == 1 + 2 * 4 * 139

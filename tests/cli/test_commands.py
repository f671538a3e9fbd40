"""Commands print JSON alone on standard output, and keep their exit codes."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
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
    assert {"severity", "what", "where", "cure", "code", "offenders"} <= set(value["problems"][0])


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


@pytest.fixture(scope="module")
def study_with_warnings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a study whose warnings name participants: unmatched, renamed, incomplete, out of range."""
    folder = tmp_path_factory.mktemp("study")
    assert invoke("simulate", "--task", "tiny", "--out", str(folder)).exit_code == 0  # type: ignore[attr-defined]
    volumes = pd.read_csv(folder / "volumes.csv")
    people = pd.read_csv(folder / "participants.tsv", sep="\t")
    people["participant_id"] = range(1, len(people) + 1)  # sub-001 in the table of volumes
    people.loc[people.index[-1], "age"] = people["age"].max() + 9.0
    people.loc[people.index[-2], "sex"] = None
    volumes.iloc[3, 2] = 0.0
    people.to_csv(folder / "participants.tsv", sep="\t", index=False)
    volumes.iloc[:, :70].to_csv(folder / "first.csv", index=False)
    volumes.iloc[2:, [0, *range(70, volumes.shape[1])]].to_csv(folder / "second.csv", index=False)
    tables = [str(folder / name) for name in ("first.csv", "second.csv")]
    options = ["--group", "group", "--covariates", "age,sex", "--on-missing", "drop", "--recipe", "contrastive"]
    options += ["--patterns", "2", "--members", "2", "--workers", "1", "--out", str(folder / "out")]
    done = invoke("fit", *tables, "--participants", str(folder / "participants.tsv"), *options)
    assert done.exit_code == 0, done.output  # type: ignore[attr-defined]
    assert "sub-001" in done.output  # type: ignore[attr-defined]
    return folder / "out"


def test_the_report_names_no_participant(study_with_warnings: Path) -> None:
    page = (study_with_warnings / "report.html").read_text()
    assert "outside the controls&#39; range of age" in page
    assert "2 people of first.csv are not here" in page
    assert "only count 1, 2, 3" in page
    assert re.findall(r"sub-\d+", page) == []


def test_offenders_are_data_in_cohort_json(study_with_warnings: Path) -> None:
    problems = json.loads((study_with_warnings / "cohort.json").read_text())["problems"]
    offenders = {problem["code"]: problem["offenders"] for problem in problems}
    assert offenders["unmatched_ids"] == ["sub-001", "sub-002"]
    assert offenders["zero_volumes"] == ["sub-004"]


def test_a_study_from_before_problems_had_codes_is_reported(study_with_warnings: Path, tmp_path: Path) -> None:
    out = shutil.copytree(study_with_warnings, tmp_path / "out")
    cohort = json.loads((out / "cohort.json").read_text())
    keys = ("severity", "what", "where", "cure")
    cohort["problems"] = [{key: problem[key] for key in keys} for problem in cohort["problems"]]
    (out / "cohort.json").write_text(json.dumps(cohort))
    assert invoke("report", str(out)).exit_code == 0  # type: ignore[attr-defined]
    page = (out / "report.html").read_text()
    assert re.search(r"Reading the table gave \d+ warnings: see cohort.json", page)
    assert re.findall(r"sub-\d+", page) == []

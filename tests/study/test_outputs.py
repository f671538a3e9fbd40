"""Files of a study: what an earlier one left is removed."""

import json
import shutil
from pathlib import Path

import pytest

import rindices as ri
from rindices.experiments.simulate import write_cohort
from rindices.study.outputs import OUTPUT_FILES
from tests.study.helpers import run


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("null")
    write_cohort(ri.simulate_cohort("null", seed=0), folder)
    return folder


def test_a_null_cohort_is_no_failure(nothing: Path) -> None:
    table, people = nothing / "volumes.csv", nothing / "participants.tsv"
    options = ["--participants", people, "--group", "group", "--covariates", "age,sex,icv"]
    out = nothing / "out"
    options += ["--out", out]
    out.mkdir()
    for name in OUTPUT_FILES:
        (out / name).write_text("of an earlier study")
    done = run("fit", table, *options, report=True)
    assert done.returncode == 0, done.stderr
    assert "no disease pattern found" in done.stdout
    left = sorted(path.name for path in out.iterdir() if path.is_file())
    assert left == ["cohort.json", "report.html", "selection.json", "study.toml"]
    page = (out / "report.html").read_text("utf-8")
    assert "<h1>No disease pattern found: out</h1>" in page
    assert "of an earlier study" not in page
    selection = json.loads((out / "selection.json").read_text())
    assert selection["chosen"] is None
    assert selection["number_of_patterns"]["by_test"] == 0
    told = json.loads(run("fit", table, *options, "--json", report=True).stdout)
    assert (told["n_patterns"], told["model"]) == (0, None)
    assert told["number_of_patterns"] == selection["number_of_patterns"]
    assert told["report"] == str(out / "report.html")
    assert (out / "report.html").read_text("utf-8") == page
    (out / "report.html").unlink()
    assert run("report", out).returncode == 0
    assert (out / "report.html").read_text("utf-8") == page


def test_a_failed_study_leaves_no_old_answer(folder: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    options = ["--recipe", "paper", "--max-steps", 20, "--patterns", 2, "--orthogonality", "0.1", "--members", 2]
    done = run("fit", folder / "study.toml", "--out", out, *options)
    assert done.returncode == 1
    assert "0 of 2 members converged" in done.stderr
    assert not (out / "model.safetensors").exists()
    assert not (out / "r_indices.tsv").exists()
    assert json.loads((out / "selection.json").read_text())["chosen"] is None

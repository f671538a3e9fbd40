"""Files of a study: what an earlier one left is removed."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from rindices.experiments.simulate import write_cohort
from rindices.experiments.tasks import TASKS
from rindices.learners.ensemble import Member, TrainingOutcome, fit_linear_members
from rindices.learners.prepared_people import PreparedPeople
from rindices.study.methods import METHODS, MemberSet, StudyMethod
from rindices.study.write import OUTPUT_FILES
from tests.cohorts import simulate_few_regions
from tests.study.helpers import run


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("null")
    write_cohort(
        simulate_few_regions(replace(TASKS["null"], n_controls=80, n_patients=100), 0),
        folder,
    )
    return folder


@pytest.mark.usefixtures("no_pictures")
def test_a_null_cohort_is_no_failure(nothing: Path) -> None:
    table, people = nothing / "volumes.csv", nothing / "participants.tsv"
    options = [
        "--participants",
        people,
        "--group",
        "group",
        "--covariates",
        "age,sex,icv",
    ]
    out = nothing / "out"
    options += ["--out", out]
    out.mkdir()
    for name in OUTPUT_FILES:
        (out / name).write_text("of an earlier study")
    done = run("fit", table, *options, report=True)
    assert done.returncode == 0, done.stderr
    assert "no difference between patients and controls was detected" in done.stdout
    assert "with a power of 80%" in done.stderr
    left = sorted(path.name for path in out.iterdir() if path.is_file())
    files = [
        "cohort.json",
        "dataset_description.json",
        "effects.json",
        "effects.tsv",
        "findings.json",
        "report.html",
    ]
    assert left == [*files, "selection.json", "study.toml"]
    page = (out / "report.html").read_text("utf-8")
    assert "<h1>No difference detected in " in page
    assert "of an earlier study" not in page
    selection = json.loads((out / "selection.json").read_text())
    assert selection["chosen"] is None
    assert selection["number_of_patterns"]["by_test"] == 0
    told = json.loads(run("fit", table, *options, "--json", report=True).stdout)
    assert (told["n_patterns"], told["model"]) == (0, None)
    assert told["number_of_patterns"] == selection["number_of_patterns"]
    assert (told["finding"], told["difference"]) == (
        "no_difference",
        selection["difference"] | {"detected": False},
    )
    assert told["report"] == str(out / "report.html")
    assert (out / "report.html").read_text("utf-8") == page
    (out / "report.html").unlink()
    assert run("report", out).returncode == 0
    assert (out / "report.html").read_text("utf-8") == page


class Failing(StudyMethod):
    """Proportional patterns whose members end before they have converged."""

    name = "failing"
    description = "a toy"

    def train_members(
        self,
        people: Sequence[PreparedPeople],
        work: MemberSet,
        checkpoint: Path | None,
        on_event: object = None,
    ) -> list[Member]:
        members = fit_linear_members(
            people, work.point.n_patterns, work.numbers, work.seed
        )
        return [
            replace(member, outcome=TrainingOutcome.STEP_LIMIT) for member in members
        ]


@pytest.mark.usefixtures("no_pictures")
def test_patterns_that_do_not_converge_end_as_a_mean_difference(
    folder: Path, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "failing", Failing())
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    options = ["--method", "failing", "--patterns", 2, "--members", 5]
    done = run("fit", folder / "study.toml", "--out", out, *options, report=True)
    assert done.returncode == 0, done.stderr
    assert (
        "patterns were tried and are not stable: 2 (0 of 5 members converged)"
        in done.stderr
    )
    selection = json.loads((out / "selection.json").read_text())
    assert selection["finding"] == "mean_difference"
    assert [candidate["stable"] for candidate in selection["grid"]] == [False]
    assert list(
        pd.read_csv(out / "r_indices.tsv", sep="\t").filter(regex=r"^r\d$")
    ) == ["r1"]
    page = (out / "report.html").read_text("utf-8")
    assert "Patterns were tried and are not stable: 2 patterns" in page
    assert "0 of 5 members converged" in page

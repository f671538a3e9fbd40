"""``rindices fit --method surreal-gan``: a study ends with its own finding or with an
error.
"""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from rindices.experiments.simulate import write_cohort
from rindices.experiments.tasks import TASKS
from rindices.report.page import write_report
from tests.cohorts import simulate_few_regions
from tests.report.helpers import get_text
from tests.study.helpers import run

COLUMNS = ["--group", "group", "--covariates", "age,sex,icv"]
GAN = [
    "--method",
    "surreal-gan",
    "--orthogonality",
    "0.2",
    "--members",
    2,
    "--workers",
    1,
]


def make_table(folder: Path, *, is_null: bool) -> list[object]:
    task = replace(TASKS["null"], n_controls=80, n_patients=100) if is_null else "tiny"
    write_cohort(simulate_few_regions(task, seed=1), folder)
    return [
        folder / "volumes.csv",
        "--participants",
        folder / "participants.tsv",
        *COLUMNS,
    ]


def test_the_test_of_difference_comes_first(tmp_path: Path) -> None:
    """Without a difference nothing is trained, and that is a result."""
    table, out = make_table(tmp_path, is_null=True), tmp_path / "out"
    done = run("fit", *table, *GAN, "--max-steps", 40, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "no difference between patients and controls was detected" in done.stderr
    assert (
        json.loads((out / "findings.json").read_text("utf-8"))["finding"]
        == "no_difference"
    )
    assert not (out / "model.safetensors").exists()
    assert not list(out.glob("runs/[!.]*.safetensors"))


@pytest.mark.parametrize(
    "words", [[], pytest.param(["--json"], marks=pytest.mark.slow)]
)
def test_members_that_fail_are_an_error_of_one_line(
    tmp_path: Path, words: list[str]
) -> None:
    table, out = make_table(tmp_path, is_null=False), tmp_path / "out"
    command = ["fit", *table, *GAN, "--patterns", 2, "--max-steps", 40, "--out", out]
    done = run(*command, *words)
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert (
        "none of 5 members of surreal-gan converged in 40 steps, so there is no model. Raise the number of steps: "
        in error
    )
    written = {path.name for path in out.iterdir()}
    assert written >= {"training.tsv", "members.tsv", "failure.json", "effects.tsv"}
    assert not written & {
        "model.safetensors",
        "r_indices.tsv",
        "networks.safetensors",
        "selection.json",
    }
    members = pd.read_csv(out / "members.tsv", sep="\t")
    assert members["outcome"].tolist() == ["step limit"] * 5
    assert not members["used"].any()
    page = get_text(write_report(out).read_text("utf-8"))
    assert (
        "None of 5 members of surreal-gan converged in 40 steps, so there is no model. Nobody has an R-index."
        in page
    )
    assert "Raise the number of steps: --max-steps" in page
    assert (
        "fit: 2 patterns, lambda 0.2: start, step 0 of 4,800, 5 of 5 members in training"
        in done.stderr
    )
    if words:
        assert json.loads(done.stdout)["problems"][0]["what"] in error
    cure = re.search(r": (--max-steps \d+)$", error)
    assert cure is not None
    again = run(
        *command, *shlex.split(cure[1]), "--dry-run"
    )  # the last of an option that is given twice counts
    assert again.returncode == 0, again.stderr


STUDY = """
[data]
volumes = "volumes.csv"
participants = "participants.tsv"
group = "group"
covariates = ["age", "sex", "icv"]
[model]
method = "surreal-gan-published"
members = 2
orthogonality = [0.1, 0.4]
method_settings = { min_steps = 40, max_steps = 40, reconstruction_bar = 1e3, monotonicity_bar = 1e3 }
[run]
workers = 1
"""


def test_the_published_method_goes_on_where_nothing_differs_and_says_so(
    tmp_path: Path,
) -> None:
    """All numbers of patterns and all lambdas are trained; the model is one member;
    nothing is called a finding.
    """
    make_table(tmp_path, is_null=True)
    (tmp_path / "study.toml").write_text(STUDY, "utf-8")
    out = tmp_path / "out"
    done = run("fit", tmp_path / "study.toml", "--out", out)
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"^difference +no difference between patients and controls was detected",
        done.stdout,
        re.M,
    )
    assert re.search(r"^members +1 of 2 used$", done.stdout, re.M)
    selection = json.loads((out / "selection.json").read_text("utf-8"))
    settings = {
        (each["setting"]["n_patterns"], each["setting"]["orthogonality"])
        for each in selection["grid"]
    }
    assert settings == {
        (number, weight) for number in (2, 3, 4) for weight in (0.1, 0.4)
    }
    assert selection["chosen"]["agreement"]["concordance"] == max(
        each["agreement"]["concordance"] for each in selection["grid"]
    )
    members = pd.read_csv(out / "members.tsv", sep="\t")
    assert members["used"].sum() == 1
    assert pd.read_csv(out / "patterns.tsv", sep="\t")["low"].isna().all()
    page = get_text(write_report(out).read_text("utf-8"))
    assert "No difference between patients and controls was detected" in page
    assert "so everything below may be due to chance" in page
    assert "in standard deviations of controls; the largest are named" in page
    assert "distinguish these patients" not in page


@pytest.mark.slow
def test_networks_are_trained_on_the_device_that_is_named(tmp_path: Path) -> None:
    """``cpu:0`` is another name of the only device that is here."""
    table, out = make_table(tmp_path, is_null=False), tmp_path / "out"
    short = [*table, *GAN, "--patterns", 2, "--max-steps", 40, "--out", out]
    done = run("fit", *short, "--device", "gpu")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "error: device is 'gpu', which torch does not know: give 'cpu', or 'cuda' or 'mps'."
    )
    done = run("fit", *table, "--device", "cuda", "--out", out)
    assert "the method trajectories has no device" in re.sub(
        r"[\s│]+", " ", done.stderr
    )
    run("fit", *short, "--device", "cpu:0")
    named = {path.name for path in out.glob("runs/*.safetensors")}
    assert named
    run("fit", *short)
    assert len(list(out.glob("runs/*.safetensors"))) == 2 * len(named)

"""The command reproduce."""

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from tests.cohorts import simulate_few_regions


@pytest.mark.slow
def test_halves_are_fitted_as_the_study_says_and_a_second_run_resumes(
    tmp_path: Path,
) -> None:
    write_cohort(simulate_few_regions("tiny", 0), tmp_path)
    (tmp_path / "study.toml").write_text(
        '[data]\nvolumes = "volumes.csv"\nparticipants = "participants.tsv"\ngroup = "group"\nreference = "muse"\n'
        '[model]\nmethod = "mean-difference"\npatterns = [1]\nmembers = 2\n[run]\nworkers = 1\n'
    )
    arguments = [
        "reproduce",
        str(tmp_path / "study.toml"),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert [row["tested_on"] for row in value["results"]] == [1, 2]
    unseen = pd.read_csv(tmp_path / "out/r_indices_unseen.tsv", sep="\t")
    assert list(unseen.columns) == ["participant_id", "group", "r1"]
    half = ri.load(tmp_path / "out/half1.safetensors")
    assert half.n_patterns == 1
    assert half.card.reference is not None
    assert half.card.reference.name == "muse"
    assert (
        json.loads(CliRunner().invoke(app, arguments).stdout)["results"]
        == value["results"]
    )  # resumed

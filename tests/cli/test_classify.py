"""The command classify."""

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort


def test_summary_has_the_mean_of_the_splits(tmp_path: Path) -> None:
    simulated = ri.simulate_cohort("tiny", 0)
    write_cohort(simulated, tmp_path)
    indices = simulated.cohort.people[["participant_id"]].assign(r1=simulated.cohort.volumes["MUSE_47"] / 1e3)
    indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    arguments = ["classify", str(tmp_path / "r.tsv"), str(tmp_path / "volumes.csv"), "--repeats", "2", "--workers", "1"]
    arguments += ["--participants", str(tmp_path / "participants.tsv"), "--group", "group"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    rows = {row["features"]: row for row in json.loads(done.stdout)["results"]}
    assert rows["R-indices"]["n_features"] == 1
    assert rows["regions"]["n_features"] == 139
    assert rows["R-indices minus regions"]["n_features"] is None
    written = pd.read_csv(tmp_path / "out/classification.tsv", sep="\t")
    assert rows["regions"]["auc"] == pytest.approx(written.loc[written["features"] == "regions", "auc"].mean())

"""The command classify."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from tests.cohorts import simulate_few_regions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tables of a small cohort with eight regions, one of them also as R-index."""
    simulated = simulate_few_regions("tiny", 0)
    cohort = replace(simulated.cohort, volumes=simulated.cohort.volumes.iloc[:, :8])
    write_cohort(replace(simulated, cohort=cohort), tmp_path)
    indices = cohort.people[["participant_id"]].assign(
        r1=cohort.volumes.iloc[:, 0] / 1e3
    )
    indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    return tmp_path


def classify(folder: Path, indices: Path, *options: str, repeats: int = 1) -> Result:
    arguments = [
        "classify",
        str(indices),
        str(folder / "volumes.csv"),
        "--repeats",
        str(repeats),
        "--workers",
        "1",
    ]
    arguments += [
        "--participants",
        str(folder / "participants.tsv"),
        "--group",
        "group",
    ]
    done = CliRunner().invoke(app, [*arguments, "--out", str(folder / "out"), *options])
    assert done.exit_code == 0, done.output
    return done


def test_summary_has_the_mean_of_the_splits(folder: Path) -> None:
    done = classify(folder, folder / "r.tsv", "--json", repeats=2)
    rows = {row["features"]: row for row in json.loads(done.stdout)["results"]}
    assert rows["R-indices"]["n_features"] == 1
    assert rows["regions"]["n_features"] == 8
    assert rows["R-indices minus regions"]["n_features"] is None
    written = pd.read_csv(folder / "out/classification.tsv", sep="\t")
    assert rows["regions"]["auc"] == pytest.approx(
        written.loc[written["features"] == "regions", "auc"].mean()
    )


def test_shuffled_rows_give_the_same_figures(folder: Path) -> None:
    """Splits were drawn in the order of the rows."""
    figures = []
    for seed in (0, 1):
        for name, separator in (("r.tsv", "\t"), ("volumes.csv", ",")):
            table = pd.read_csv(folder / name, sep=separator).sample(
                frac=1, random_state=seed
            )
            table.to_csv(folder / name, sep=separator, index=False)
        classify(folder, folder / "r.tsv", "--covariates", "age,sex")
        figures.append((folder / "out/classification.tsv").read_text())
    assert figures[0] == figures[1]


def test_visits_of_a_person_are_not_in_training_and_test(folder: Path) -> None:
    """Nearly equal scans of one person would tell the label of each other: regions had
    an AUC of 0.99 by chance.
    """
    rng = np.random.default_rng(0)
    ids, labels = (
        [f"s{k}" for k in range(60)],
        rng.permutation(["control", "patient"] * 30),
    )
    values = rng.normal(1000.0, 100.0, (60, 12))
    tables = []
    for session in ("1", "2", "3"):
        table = pd.DataFrame(values + rng.normal(0.0, 1.0, values.shape)).add_prefix(
            "region"
        )
        tables.append(
            table.assign(
                participant_id=ids, session_id=session, group=labels, r1=rng.random(60)
            )
        )
    visits = pd.concat(tables)
    visits.drop(columns="r1").to_csv(folder / "visits.csv", index=False)
    visits[["participant_id", "session_id", "group", "r1"]].to_csv(
        folder / "r.tsv", sep="\t", index=False
    )
    arguments = [
        "classify",
        str(folder / "r.tsv"),
        str(folder / "visits.csv"),
        "--group",
        "group",
        "--workers",
        "1",
    ]
    done = CliRunner().invoke(
        app, [*arguments, "--repeats", "3", "--out", str(folder / "out"), "--json"]
    )
    assert done.exit_code == 0, done.output
    rows = {row["features"]: row for row in json.loads(done.stdout)["results"]}
    assert (rows["regions"]["n_controls"], rows["regions"]["n_patients"]) == (30, 30)
    assert rows["regions"]["auc"] < 0.75
    assert all(-1.0 <= row["low"] <= row["high"] <= 1.0 for row in rows.values())


def test_the_output_says_what_was_compared(folder: Path) -> None:
    half = folder / "half"
    half.mkdir()
    for name in ("r_indices_unseen.tsv", "r_indices.tsv"):
        (half / name).write_bytes((folder / "r.tsv").read_bytes())
    adjusted = classify(folder, half, "--covariates", "age,sex").output
    regions = "8 regions adjusted for age, sex on the training controls of each split"
    assert f"Compared: cross-fitted or held-out R-indices, and {regions}" in adjusted
    assert "too high" not in adjusted
    (half / "study.toml").write_text(
        '[data]\nvolumes = "v.csv"\ncovariates = ["age"]\n'
    )
    own = classify(folder, half / "r_indices.tsv").output
    assert "regions adjusted for age on" in own
    assert "too high" not in own  # the R-indices of fit are cross-fitted
    (half / "applied.tsv").write_bytes((folder / "r.tsv").read_bytes())
    seen = classify(folder, half / "applied.tsv").output
    assert "The AUC is too high for people that the model was fitted on" in seen
    (half / "study.toml").unlink()
    raw = classify(folder, half, "--covariates", "none").output
    assert "8 regions not adjusted" in raw
    assert "name them with --covariates" in raw


def test_regions_are_adjusted_with_the_settings_of_the_study(folder: Path) -> None:
    """Covariates came from the study file, the scale of the adjustment did not."""
    columns, outputs = '[data]\nvolumes = "v.csv"\ncovariates = ["age"]\n', []
    for adjust in ('adjust = "linear"\n', 'adjust = "none"\n'):
        (folder / "study.toml").write_text(columns + adjust)
        done = classify(folder, folder / "r.tsv")
        outputs.append((folder / "out/classification.tsv").read_text())
    assert "8 regions not adjusted" in done.output
    assert outputs[0] != outputs[1]

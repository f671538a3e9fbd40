"""The command classify."""

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from tests.cohorts import simulate_few_regions


def test_summary_has_the_mean_of_the_splits(tmp_path: Path) -> None:
    simulated = simulate_few_regions("tiny", 0)
    write_cohort(simulated, tmp_path)
    indices = simulated.cohort.people[["participant_id"]].assign(r1=simulated.cohort.volumes["MUSE_47"] / 1e3)
    indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    arguments = ["classify", str(tmp_path / "r.tsv"), str(tmp_path / "volumes.csv"), "--repeats", "2", "--workers", "1"]
    arguments += ["--participants", str(tmp_path / "participants.tsv"), "--group", "group"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    rows = {row["features"]: row for row in json.loads(done.stdout)["results"]}
    assert rows["R-indices"]["n_features"] == 1
    assert rows["regions"]["n_features"] == 36
    assert rows["R-indices minus regions"]["n_features"] is None
    written = pd.read_csv(tmp_path / "out/classification.tsv", sep="\t")
    assert rows["regions"]["auc"] == pytest.approx(written.loc[written["features"] == "regions", "auc"].mean())


def test_shuffled_rows_give_the_same_figures(tmp_path: Path) -> None:
    """Splits were drawn in the order of the rows."""
    simulated = simulate_few_regions("tiny", 0)
    write_cohort(simulated, tmp_path)
    indices = simulated.cohort.people[["participant_id"]].assign(r1=0.0)  # equal R-indices: the regions decide
    volumes, figures = pd.read_csv(tmp_path / "volumes.csv"), []
    for seed in (0, 1):
        indices.sample(frac=1, random_state=seed).to_csv(tmp_path / "r.tsv", sep="\t", index=False)
        volumes.sample(frac=1, random_state=seed + 2).to_csv(tmp_path / "v.csv", index=False)
        arguments = ["classify", str(tmp_path / "r.tsv"), str(tmp_path / "v.csv"), "--repeats", "2", "--workers", "1"]
        arguments += ["--participants", str(tmp_path / "participants.tsv"), "--group", "group"]
        done = CliRunner().invoke(app, [*arguments, "--covariates", "age,sex", "--out", str(tmp_path / "out")])
        assert done.exit_code == 0, done.output
        figures.append((tmp_path / "out/classification.tsv").read_text())
    assert figures[0] == figures[1]


def test_the_output_says_what_was_compared(tmp_path: Path) -> None:
    simulated = simulate_few_regions("tiny", 0)
    write_cohort(simulated, tmp_path)
    folder = tmp_path / "half"
    folder.mkdir()
    indices = simulated.cohort.people[["participant_id"]].assign(r1=simulated.cohort.volumes["MUSE_47"] / 1e3)
    for name in ("r_indices_unseen.tsv", "r_indices.tsv"):
        indices.to_csv(folder / name, sep="\t", index=False)
    how = [str(tmp_path / "volumes.csv"), "--repeats", "1", "--workers", "1", "--out", str(tmp_path / "out")]
    how += ["--participants", str(tmp_path / "participants.tsv"), "--group", "group"]
    adjusted = CliRunner().invoke(app, ["classify", str(folder), *how, "--covariates", "age,sex"])
    assert adjusted.exit_code == 0, adjusted.output
    regions = "36 regions adjusted for age, sex on the training controls of each split"
    assert f"Compared: R-indices of held-out people, and {regions}" in adjusted.output
    assert "too high" not in adjusted.output
    (folder / "study.toml").write_text('[data]\nvolumes = "v.csv"\ncovariates = ["age"]\n')
    seen = CliRunner().invoke(app, ["classify", str(folder / "r_indices.tsv"), *how])
    assert "regions adjusted for age on" in seen.output
    assert "The AUC is too high for people that the model was fitted on" in seen.output
    (folder / "study.toml").unlink()
    raw = CliRunner().invoke(app, ["classify", str(folder), *how, "--covariates", "none"])
    assert "36 regions not adjusted" in raw.output
    assert "name them with --covariates" in raw.output


def test_regions_are_adjusted_with_the_settings_of_the_study(tmp_path: Path) -> None:
    """Covariates came from the study file, the scale of the adjustment did not."""
    simulated = simulate_few_regions("tiny", 0)
    write_cohort(simulated, tmp_path)
    indices = simulated.cohort.people[["participant_id"]].assign(r1=simulated.cohort.volumes["MUSE_47"] / 1e3)
    indices.to_csv(tmp_path / "r_indices.tsv", sep="\t", index=False)
    how = [str(tmp_path / "volumes.csv"), "--repeats", "1", "--workers", "1", "--out", str(tmp_path / "out")]
    how += ["--participants", str(tmp_path / "participants.tsv"), "--group", "group"]
    columns, outputs = '[data]\nvolumes = "v.csv"\ncovariates = ["age"]\n', []
    for adjust in ('adjust = "rank"\n', 'adjust = "none"\n'):
        (tmp_path / "study.toml").write_text(columns + adjust)
        done = CliRunner().invoke(app, ["classify", str(tmp_path / "r_indices.tsv"), *how])
        assert done.exit_code == 0, done.output
        outputs.append((tmp_path / "out/classification.tsv").read_text())
    assert "36 regions not adjusted" in done.output
    assert outputs[0] != outputs[1]

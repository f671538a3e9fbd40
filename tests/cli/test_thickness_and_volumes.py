"""A table of thickness and volumes, from check to the model, on the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from tests.preprocess.test_measures import THICKNESS, VOLUMES, make_mixed_cohort

READ = ["--group", "group", "--controls", "control", "--covariates", "age,icv"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Patients whose cortex is thinner; volumes do not differ."""
    cohort = make_mixed_cohort()
    volumes = cohort.volumes.copy()
    volumes.loc[cohort.is_patient, THICKNESS] *= 0.95
    path = tmp_path_factory.mktemp("mixed") / "table.csv"
    pd.concat([cohort.people, cohort.covariates, volumes], axis=1).to_csv(
        path, index=False
    )
    return path


def fit_model(table: Path, out: Path, *words: str) -> ri.FittedModel:
    options = [
        "--method",
        "mean-difference",
        "--patterns",
        "1",
        "--members",
        "2",
        "--workers",
        "1",
        "--no-report",
    ]
    result = CliRunner().invoke(
        app, ["fit", str(table), *READ, *options, *words, "--out", str(out)]
    )
    assert result.exit_code == 0, result.output
    return ri.load(out / "model.safetensors")


def test_thickness_is_adjusted_for_head_size_only_on_request_and_makes_the_index(
    table: Path, tmp_path: Path
) -> None:
    for words, is_adjusted in (((), False), (("--icv-for", "all"), True)):
        model = fit_model(
            table, tmp_path / "study", *words
        )  # in one folder: earlier members are not used again
        thickness = [model.regions.index(name) for name in THICKNESS]
        volumes = [model.regions.index(name) for name in VOLUMES]
        coefficients = model.preprocessing.residualiser.coefficients[1]
        assert (coefficients[thickness] != 0).all() == is_adjusted
        assert (np.abs(coefficients[volumes]) > 0.5).all()
        assert (
            'icv_for = "all"' in (tmp_path / "study" / "study.toml").read_text("utf-8")
        ) == is_adjusted
        weights = np.abs(np.mean([head.weights[:, 0] for head in model.heads], axis=0))  # type: ignore[union-attr]
        assert (
            weights[thickness].min() > 5 * weights[volumes].max()
        )  # the kind that differs


def test_check_says_how_kinds_are_treated(table: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(table), *READ])
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "Thickness is adjusted for head size only with --icv-for all" in text
    wrong = CliRunner().invoke(
        app, ["check", str(table), *READ, "--icv-for", "everything"]
    )
    assert wrong.exit_code == 2


def test_halves_adjust_the_same_measures_for_head_size(
    table: Path, tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(
        f'[data]\nvolumes = "{table}"\ngroup = "group"\ncontrols = ["control"]\ncovariates = ["age", "icv"]\n'
        'icv_for = "all"\n[model]\nmethod = "mean-difference"\npatterns = [1]\n[run]\nworkers = 1\n'
    )
    result = CliRunner().invoke(
        app,
        ["reproduce", str(tmp_path / "study.toml"), "--out", str(tmp_path / "halves")],
    )
    assert result.exit_code == 0, result.output
    model = ri.load(tmp_path / "halves" / "half1.safetensors")
    thickness = [model.regions.index(name) for name in THICKNESS]
    assert (model.preprocessing.residualiser.coefficients[1, thickness] != 0).all()

"""The command fit prints the agreement of members."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
from click.testing import Result
from typer.testing import CliRunner

from rindices.cli import fit
from rindices.cli.main import app
from rindices.selection.choose import GridPoint
from rindices.study.config import ModelConfig
from tests.conftest import muse_volumes, participants_of


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_fit_with_two_members_has_an_agreement_without_interval(tmp_path: Path) -> None:
    assert invoke("simulate", "--task", "tiny", "--out", str(tmp_path)).exit_code == 0
    tables = [str(tmp_path / "volumes.csv"), "--participants", str(tmp_path / "participants.tsv"), "--group", "group"]
    how = ["--patterns", "3", "--members", "2", "--recipe", "contrastive", "--workers", "1"]
    done = invoke("fit", *tables, *how, "--no-report", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0
    agreement = next(line for line in done.stdout.splitlines() if line.startswith("agreement"))
    assert re.fullmatch(r"agreement +0\.\d{3}, disjoint halves", agreement)


def write_atrophied_people(folder: Path, people: int = 160) -> list[str]:
    """Write volumes of controls and patients who lose a few regions and whose ventricles grow."""
    rng = np.random.default_rng(0)
    volumes = muse_volumes(people).drop(columns="702")
    table = participants_of(volumes)
    loss = np.where(table["diagnosis"] == "AD", rng.uniform(0, 0.5, people), 0)
    volumes[["47", "48", "31", "32"]] = volumes[["47", "48", "31", "32"]].mul(1 - loss, axis=0)
    volumes[["51", "52"]] = volumes[["51", "52"]].mul(1 + loss, axis=0)
    volumes.to_csv(folder / "v.csv", index=False)
    table.to_csv(folder / "p.csv", index=False)
    return [str(folder / "v.csv"), "--participants", str(folder / "p.csv")]


def test_a_model_with_ventricles_applies_without_a_word(tmp_path: Path) -> None:
    tables = write_atrophied_people(tmp_path)
    how = ["--group", "diagnosis", "--patterns", "1", "--members", "2", "--recipe", "contrastive", "--workers", "1"]
    done = invoke("fit", *tables, *how, "--include", "ventricles", "--no-report", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert 'include = ["ventricles"]' in (tmp_path / "out/study.toml").read_text()
    model = str(tmp_path / "out/model.safetensors")
    assert "MUSE_51" in json.loads(invoke("model", "show", model, "--json").stdout)["regions"]
    done = invoke("apply", model, *tables, "--out", str(tmp_path / "r.tsv"), "--json")
    assert json.loads(done.stdout)["people"] == 160
    indices = pd.read_csv(tmp_path / "r.tsv", sep="\t")
    assert np.allclose(indices["r1"], pd.read_csv(tmp_path / "out/r_indices.tsv", sep="\t")["r1"])


def test_lambda_is_printed_only_where_it_was_chosen() -> None:
    assert not fit._has_weights(ModelConfig())
    assert fit._has_weights(ModelConfig(recipe="paper"))
    assert fit._has_weights(ModelConfig(orthogonality=(0.2,)))
    assert fit._describe_setting(GridPoint(1, 0.2), has_weights=False) == "1 pattern"
    assert fit._describe_setting(GridPoint(2, 0.2), has_weights=True) == "2 patterns, lambda 0.2"

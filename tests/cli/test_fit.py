"""The command fit prints one figure of reproduction for each pattern."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

import rindices as ri
from rindices.cli import fit
from rindices.cli.main import app
from rindices.selection.choose import GridPoint
from rindices.study.config import ModelConfig
from tests.conftest import muse_volumes, participants_of


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_fit_has_one_figure_of_reproduction(tmp_path: Path) -> None:
    assert invoke("simulate", "--task", "tiny", "--out", str(tmp_path)).exit_code == 0
    tables = [str(tmp_path / "volumes.csv"), "--participants", str(tmp_path / "participants.tsv"), "--group", "group"]
    how = ["--patterns", "3", "--members", "2", "--recipe", "contrastive", "--workers", "1"]
    done = invoke("fit", *tables, *how, "--no-report", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0
    assert "disjoint halves" not in done.stdout
    assert "agreement" not in [line.split(" ")[0] for line in done.stdout.splitlines()]
    lines = [line for line in done.stdout.splitlines() if re.match(r"r\d ", line)]
    words = "reproduced in other people|not known whether other people reproduce it|not reproduced in other people"
    assert len(lines) == 3
    assert all(re.search(rf"(?:{words}): -?[01]\.\d\d \(-?[01]\.\d\d to [01]\.\d\d\);", line) for line in lines)


def write_atrophied_people(folder: Path, people: int = 160) -> list[str]:
    """Write volumes of controls and patients who lose a few regions and whose ventricles grow."""
    rng = np.random.default_rng(0)
    volumes = muse_volumes(people).iloc[:, :50].drop(columns="702")
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
    assert np.corrcoef(indices["r1"], pd.read_csv(tmp_path / "out/r_indices.tsv", sep="\t")["r1"])[0, 1] > 0.98


def test_lambda_is_printed_only_where_it_was_chosen() -> None:
    assert not fit._has_weights(ModelConfig())
    assert fit._has_weights(ModelConfig(recipe="paper"))
    assert fit._has_weights(ModelConfig(orthogonality=(0.2,)))
    assert fit._describe_setting(GridPoint(1, 0.2), has_weights=False) == "1 pattern"
    assert fit._describe_setting(GridPoint(2, 0.2), has_weights=True) == "2 patterns, lambda 0.2"


@pytest.mark.usefixtures("no_pictures")
def test_data_of_single_people_are_written_where_asked_for_and_listed(tmp_path: Path) -> None:
    tables, out = write_atrophied_people(tmp_path), tmp_path / "out"
    how = ["--group", "diagnosis", "--patterns", "1", "--members", "2", "--recipe", "contrastive", "--workers", "1"]
    done = invoke("fit", *tables, *how, "--no-report", "--out", str(out))
    assert done.exit_code == 0, done.output
    listed = next(line for line in done.stdout.splitlines() if line.startswith("written"))
    files = {path.name for path in out.iterdir() if path.is_file()}
    described = {"r_indices.json", "patterns.json", "effects.json", "cohort.json", "dataset_description.json"}
    assert files - described == set(listed.partition(": ")[2].split(", "))
    assert "rindices fit again, with --with-ids" in str(invoke("report", str(out), "--with-ids").exception)
    done = invoke("fit", *tables, *how, "--no-report", "--with-ids", "--out", str(out))
    assert "people.npz, report_with_ids.html: keep them at home" in done.stdout
    assert {path.name for path in out.iterdir() if path.is_file()} == files | {"people.npz", "report_with_ids.html"}


def test_the_model_file_has_no_value_of_a_single_person(tmp_path: Path) -> None:
    """Neither the youngest and the oldest, nor the smallest and the largest head, nor a distance of each person."""
    tables = write_atrophied_people(tmp_path)
    people = pd.read_csv(tmp_path / "p.csv")
    people["age"] += np.random.default_rng(1).uniform(0.01, 0.04, len(people)).round(4)
    people["icv"] = np.random.default_rng(0).normal(1.5e6, 1e5, len(people)).round(2)
    people.to_csv(tmp_path / "p.csv", index=False)
    how = ["--group", "diagnosis", "--covariates", "age,sex,icv", "--patterns", "1", "--members", "2"]
    how += ["--recipe", "contrastive", "--workers", "1", "--no-report", "--out", str(tmp_path / "out")]
    done = invoke("fit", *tables, *how)
    assert done.exit_code == 0, done.output
    model = str(tmp_path / "out/model.safetensors")
    shown = json.loads(invoke("model", "show", model, "--json").stdout)
    for name in ("age", "icv"):
        coding = next(coding for coding in shown["covariates"] if coding["name"] == name)
        for low, high in (shown["covariate_ranges"][name], (coding["low"], coding["high"])):
            assert low == float(f"{low:.2g}") <= people.loc[people["diagnosis"] == "CN", name].min()
            assert high == float(f"{high:.2g}") >= people.loc[people["diagnosis"] == "CN", name].max()
    assert len(ri.load(model).training.distances) == len(people) // 5 + 2

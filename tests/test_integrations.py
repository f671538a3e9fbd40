"""Descriptions for other systems: they validate, and the commands that they
give run.
"""

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scripts.make_boutiques import list_files
from typer.testing import CliRunner

from rindices._version import __version__
from rindices.cli.main import app
from tests.cohorts import fit_tiny_model, simulate_few_regions

FOLDER = Path(__file__).parents[1] / "integrations"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and a DLMUSE table and demographics as NiChart writes them."""
    folder = tmp_path_factory.mktemp("tables")
    cohort = simulate_few_regions("tiny", seed=0).cohort
    fit_tiny_model().save(folder / "model.safetensors")
    ids = cohort.people["participant_id"].rename("MRID")
    volumes = cohort.volumes.rename(columns=lambda name: name.removeprefix("MUSE_"))
    volumes.insert(0, "702", cohort.covariates["icv"])
    pd.concat([ids, volumes], axis=1).to_csv(folder / "dlmuse.csv", index=False)
    people = cohort.covariates[["age", "sex"]].rename(
        columns={"age": "Age", "sex": "Sex"}
    )
    pd.concat([ids, people, cohort.people["group"]], axis=1).to_csv(
        folder / "demog.csv", index=False
    )
    return folder


def read_descriptor(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / "boutiques" / f"{name}.json").read_text()))


def list_invocations(tables: Path, out: Path) -> dict[str, dict[str, object]]:
    table = {
        "table": str(tables / "dlmuse.csv"),
        "participants": str(tables / "demog.csv"),
    }
    fit = {
        "group": "group",
        "covariates": "age,sex,icv",
        "patterns": "2",
        "members": 2,
        "seed": 1,
    }
    return {
        "rindices_apply": {
            "model": str(tables / "model.safetensors"),
            **table,
            "on_missing": "error",
            "out": str(out / "r.tsv"),
        },
        "rindices_fit": {**table, **fit, "out": str(out / "study")},
    }


def build_command(
    descriptor: dict[str, Any], invocation: dict[str, object]
) -> list[str]:
    """Return the command of an invocation, as Boutiques builds it."""
    line = descriptor["command-line"]
    for entry in descriptor["inputs"]:
        value, flag = invocation.get(entry["id"]), entry.get("command-line-flag", "")
        text = (
            ""
            if value is None
            else flag
            if value is True
            else f"{flag} {shlex.quote(str(value))}"
        )
        line = line.replace(entry["value-key"], text)
    return shlex.split(line)


def test_descriptors_are_those_of_the_commands() -> None:
    for path, text in list_files().items():
        assert path.read_text("utf-8") == text, "python scripts/make_boutiques.py"


@pytest.mark.parametrize(
    "name", ["rindices_apply", pytest.param("rindices_fit", marks=pytest.mark.slow)]
)
def test_the_command_of_a_descriptor_runs(
    name: str, tables: Path, tmp_path: Path
) -> None:
    descriptor = read_descriptor(name)
    assert __version__.startswith(descriptor["tool-version"])
    program, *arguments = build_command(
        descriptor, list_invocations(tables, tmp_path)[name]
    )
    assert program == "rindices"
    if name == "rindices_fit":
        arguments += ["--method", "contrastive"]  # the same command in less time
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    values = {
        entry["value-key"]: invocation
        for entry, invocation in pair_values(descriptor, tables, tmp_path, name)
    }
    for output in descriptor["output-files"]:
        path = output["path-template"]
        for key, value in values.items():
            path = path.replace(key, str(value))
        assert Path(path).is_file(), path


def pair_values(
    descriptor: dict[str, Any], tables: Path, out: Path, name: str
) -> list[tuple[dict[str, Any], object]]:
    invocation = list_invocations(tables, out)[name]
    return [
        (entry, invocation[entry["id"]])
        for entry in descriptor["inputs"]
        if entry["id"] in invocation
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rindices_apply", "rindices_fit"])
def test_boutiques_validates_and_runs_the_descriptor(
    name: str, tables: Path, tmp_path: Path
) -> None:
    bosh = shutil.which("bosh")
    if bosh is None:
        pytest.skip("boutiques is not installed: pip install boutiques")
    path = FOLDER / "boutiques" / f"{name}.json"
    subprocess.run([bosh, "validate", path], check=True, capture_output=True)
    invocation = tmp_path / "invocation.json"
    invocation.write_text(json.dumps(list_invocations(tables, tmp_path)[name]))
    command = [bosh, "exec", "launch", "--no-container", "-s", path, invocation]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""The tool and the pipeline for NiChart, and ``apply --layout nichart``, against the
facts of NiChart's own files.
"""

import csv
import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from rindices.cli.main import app
from tests.cohorts import fit_tiny_model, simulate_few_regions

FOLDER = Path(__file__).parents[1] / "integrations" / "nichart"
FACTS = tomllib.loads((FOLDER / "nichart.toml").read_text("utf-8"))
PIPELINE = FACTS["pipeline"]


def read_yaml(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text("utf-8")))


def list_places(pipeline: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return inputs and outputs of each step of a pipeline, by its tool."""
    steps = pipeline["steps"]
    return {step["tool"]: {**step["inputs"], **step["outputs"]} for step in steps}


def test_the_tool_has_the_form_and_the_files_of_nicharts() -> None:
    tool, facts = read_yaml(FOLDER / "rindices.yaml"), FACTS["tool"]
    assert set(tool) == set(facts["keys"])
    assert set(tool["resources"]) == set(facts["resources"])
    assert set(tool["container"]) == set(facts["container"])
    types = {name: field["type"] for name, field in tool["inputs"].items()}
    assert types == {**facts["inputs"], "model": "file"}
    types = {name: field["type"] for name, field in tool["outputs"].items()}
    assert types == facts["outputs"]
    assert tool["mounts"].pop("model")["mode"] == "ro"
    assert tool["mounts"] == facts["mounts"]
    dockerfile = (FOLDER.parents[1] / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["rindices"]' in dockerfile


def test_the_pipeline_asks_for_and_writes_what_nicharts_does() -> None:
    ours, tool = (
        read_yaml(FOLDER / name) for name in ("run_rindices.yaml", "rindices.yaml")
    )
    assert set(ours) == set(PIPELINE["keys"])
    assert ours["requires"] == PIPELINE["requires"]
    assert all(set(step) == set(PIPELINE["step_keys"]) for step in ours["steps"])
    first, second = ours["steps"]
    dlmuse = FACTS["dlmuse"]
    assert first["tool"] == dlmuse["name"]
    assert list(first["inputs"]) == dlmuse["inputs"]
    assert set(first["outputs"]) == set(dlmuse["outputs"])
    assert second["tool"] == tool["name"]
    assert set(second["inputs"]) == set(tool["inputs"])
    places = list_places(ours)
    assert places["nichart_dlmuse"] == PIPELINE["steps"]["nichart_dlmuse"]
    del places["rindices"]["model"]
    assert places["rindices"] == PIPELINE["steps"]["predcrd_surrealgan"]


def make_study(folder: Path, names: list[str] | None = None) -> Path:
    """Write a model, and DLMUSE volumes and participants where a NiChart study has
    them; ``names`` are those of the people in the volumes.
    """
    cohort = simulate_few_regions("tiny", seed=0).cohort.take(np.arange(30))
    ids = [f"person{number}" for number in range(30)]
    prefix = FACTS["demo"]["volume_prefix"]
    volumes = cohort.volumes.rename(
        columns=lambda name: prefix + name.removeprefix("MUSE_")
    )
    volumes.insert(0, f"{prefix}702", cohort.covariates["icv"])
    volumes.insert(0, "MRID", names or ids)
    people = pd.DataFrame(
        {
            "MRID": ids,
            "Age": cohort.covariates["age"],
            "Sex": cohort.covariates["sex"],
        }
    )
    for place, table in (
        ("dlmuse_vol/DLMUSE_Volumes.csv", volumes),
        ("participants/participants.csv", people),
    ):
        path = folder / place
        path.parent.mkdir(parents=True)
        table.to_csv(path, index=False)
    fit_tiny_model().save(folder / "model.safetensors")
    return folder


def apply_to_study(study: Path, *options: str) -> str:
    arguments = [
        *("apply", str(study / "model.safetensors")),
        str(study / "dlmuse_vol/DLMUSE_Volumes.csv"),
        *("--participants", str(study / "participants/participants.csv")),
        *("--layout", "nichart", "--workers", "1", *options),
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.stderr


def read_scores(study: Path) -> pd.DataFrame:
    place = PIPELINE["steps"]["predcrd_surrealgan"]["surrealgan_csv"]
    return pd.read_csv(study / place.removeprefix("${STUDY}/"))


def test_layout_writes_the_file_of_the_viewer_into_the_study(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study")
    said = apply_to_study(study, "--out", str(study))
    scores = read_scores(study)
    number = scores.shape[1] - 1
    assert list(scores) == FACTS["demo"]["score_columns"][: 1 + number]
    assert f"these are {number} R-indices of another model" in said
    details = pd.read_csv(study / "ml_biomarkers/r_indices.tsv", sep="\t")
    assert scores["MRID"].tolist() == details["participant_id"].tolist()
    np.testing.assert_array_equal(scores["SurrealGAN_R1"], details["r1"])
    assert "r1_low" in details


@pytest.mark.parametrize("name", ["sub-person{}_T1", "/data/t1/person{}.nii.gz"])
def test_people_are_called_as_in_the_participants_that_the_viewer_joins(
    name: str, tmp_path: Path
) -> None:
    names = [name.format(number) for number in range(30)]
    study = make_study(tmp_path / "study", names)
    apply_to_study(study, "--out", str(study))
    people = pd.read_csv(study / "participants/participants.csv")
    assert len(people.merge(read_scores(study), on="MRID")) == 30


def test_the_command_of_the_tool_runs(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study")
    tool = read_yaml(FOLDER / "rindices.yaml")
    output = tmp_path / "output" / "SurrealGAN_RScores.csv"
    output.parent.mkdir()
    places = {
        "model": study / "model.safetensors",
        "dlmuse_vol": study / "dlmuse_vol/DLMUSE_Volumes.csv",
        "demog_csv": study / "participants/participants.csv",
        "surrealgan_csv": output,
    }
    command = tool["container"]["command"]
    for key in tool["mounts"]:  # as NiChart fills it in
        command = command.replace(f"{{{key}}}", str(places[key]))
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 0, done.output
    assert len(pd.read_csv(output)) == 30


def test_wrong_layouts_and_places_are_refused_in_one_line(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study")
    start = ["apply", str(study / "model.safetensors")]
    start += [str(study / "dlmuse_vol/DLMUSE_Volumes.csv"), "--layout"]
    done = CliRunner().invoke(app, [*start, "bids", "--out", str(study)])
    assert done.exit_code == 2
    assert "give nichart" in done.stderr
    done = CliRunner().invoke(app, [*start, "nichart", "--out", str(study / "absent")])
    assert done.exit_code == 2
    assert "neither the folder of a NiChart" in done.stderr


def test_the_published_model_through_the_layout_on_the_demo(
    shared: Path, tmp_path: Path
) -> None:
    demo, model = shared / "nichart_demo", tmp_path / "model.safetensors"
    run = CliRunner().invoke
    name = "brain_aging_5rindices"
    checkpoint = str(shared / "upstream" / f"{name}.saved_model")
    imported = run(
        app, ["model", "import", checkpoint, "--as", name, "--out", str(model)]
    )
    assert imported.exit_code == 0, imported.output
    tables = [str(demo / "DLMUSE_Volumes.csv"), "--participants"]
    tables += [str(demo / "participants.csv"), "--layout", "nichart"]
    done = run(app, ["apply", str(model), *tables, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "of another model" not in done.stderr
    ours = read_scores(tmp_path)
    published = pd.read_csv(demo / "SurrealGAN_RScores.csv")
    assert list(ours) == list(published) == FACTS["demo"]["score_columns"]
    joined = ours.set_index("MRID").loc[published["MRID"]]
    for column in FACTS["demo"]["score_columns"][1:]:
        # NiChart's are by PredCRD, an approximation of the model
        correlation = np.corrcoef(joined[column], published[column])[0, 1]
        assert correlation > 0.95, column


def test_the_facts_are_those_of_a_clone_of_nichart() -> None:
    if (place := os.environ.get("NICHART_PROJECT")) is None:
        pytest.skip("NICHART_PROJECT does not name a clone of NiChart")
    clone, tool, dlmuse = Path(place), FACTS["tool"], FACTS["dlmuse"]
    theirs = read_yaml(clone / tool["file"])
    assert set(theirs) == set(tool["keys"])
    for part in ("inputs", "outputs"):
        assert {k: v["type"] for k, v in theirs[part].items()} == tool[part]
    assert theirs["mounts"] == tool["mounts"]
    assert set(theirs["resources"]) == set(tool["resources"])
    assert set(theirs["container"]) == set(tool["container"])
    theirs = read_yaml(clone / dlmuse["file"])
    assert theirs["name"] == dlmuse["name"]
    assert list(theirs["inputs"]) == dlmuse["inputs"]
    assert set(theirs["outputs"]) == set(dlmuse["outputs"])
    theirs = read_yaml(clone / PIPELINE["file"])
    assert set(theirs) == set(PIPELINE["keys"])
    assert theirs["requires"] == PIPELINE["requires"]
    assert all(set(step) == set(PIPELINE["step_keys"]) for step in theirs["steps"])
    assert list_places(theirs) == PIPELINE["steps"]
    viewer, demo = FACTS["viewer"], FACTS["demo"]
    source = (clone / viewer["file"]).read_text("utf-8")
    assert [text for text in viewer["says"] if text not in source] == []
    groups = read_yaml(clone / viewer["groups_file"])
    assert groups[viewer["group"]]["values"] == viewer["variables"]
    for kind, columns in (
        ("scores", "score_columns"),
        ("participants", "participant_columns"),
    ):
        with (clone / demo[kind]).open(newline="") as file:
            assert next(csv.reader(file)) == demo[columns]
    with (clone / demo["volumes"]).open(newline="") as file:
        names = next(csv.reader(file))
    assert names[0] == "MRID"
    assert all(name.startswith(demo["volume_prefix"]) for name in names[1:])

"""The command replicate."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import AnalysisError
from rindices.experiments.simulate import write_cohort
from rindices.tables.layouts.muse import region_label
from tests.cohorts import simulate_few_regions
from tests.report.helpers import omit_pictures


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two studies of the same disease, whose tables are at hand."""
    folder = tmp_path_factory.mktemp("replicate")
    for seed, name in enumerate(("a", "b")):
        simulated = simulate_few_regions("tiny", seed)
        people = simulated.cohort.people
        people["participant_id"] = f"{name}-" + people["participant_id"]
        write_cohort(simulated, folder / f"{name}_table")
        tables = [
            folder / f"{name}_table/volumes.csv",
            "--participants",
            folder / f"{name}_table/participants.tsv",
        ]
        settings = ["--method", "mean-difference", "--members", "2", "--workers", "1"]
        invoke("fit", *tables, "--group", "group", *settings, "--out", folder / name)
    return folder


def invoke(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_same_disease_is_found_again_and_the_report_shows_it(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "a", tmp_path / "a", ignore=shutil.ignore_patterns("runs"))
    done = CliRunner().invoke(
        app,
        [
            "replicate",
            str(tmp_path / "a"),
            str(folder / "b"),
            "--out",
            str(tmp_path / "a"),
            "--json",
        ],
    )
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert value["results"][0]["matched"]
    assert value["results"][0]["regions"] == 36
    people = pd.read_csv(tmp_path / "a/replication_people.tsv", sep="\t")
    assert "none of whom was in b" in value["text"]
    assert people["study"].tolist() == [1, 2]
    assert people["n"].tolist() == [100, 100]
    assert (people["rank_correlation"] > 0.7).all()
    assert (people["auc"] > 0.8).all()
    with omit_pictures():
        page = ri.write_report(tmp_path / "a").read_text("utf-8")
    section = page.partition('id="replication"')[2].partition("</section>")[0]
    assert value["text"] in section.replace("&lt;", "<")
    assert "data:image/png;base64," in section
    choice = page.partition('id="choice"')[2].partition("</section>")[0]
    assert (
        "more than 492 controls and 900 patients where they take 10 % of a region"
        in choice
    )
    assert "rindices power --controls TABLE" in choice


def test_a_map_of_effects_may_have_other_names_of_the_same_regions(
    folder: Path, tmp_path: Path
) -> None:
    """A model file is compared with its own effects, under the labels of the atlas and
    with other regions beside.
    """
    effects = pd.read_csv(folder / "a/effects.tsv", sep="\t")
    names = [region_label(name) for name in effects["region"]]
    column = next(name for name in effects if name in ("effect", "difference", "d"))
    table = pd.DataFrame(
        {"region": [*names, "elsewhere"], "effect": [*effects[column], 3.0]}
    )
    table.to_csv(tmp_path / "map.csv", index=False)
    value = json.loads(
        invoke(
            "replicate",
            folder / "a/model.safetensors",
            tmp_path / "map.csv",
            "--out",
            tmp_path,
            "--json",
        )
    )
    row = value["results"][0]
    assert (row["regions"], row["matched"]) == (36, True)
    assert row["correlation"] > 0.8
    assert not (tmp_path / "replication_people.tsv").exists()
    table.rename(columns={"effect": "d"}).to_csv(tmp_path / "map.csv", index=False)
    with pytest.raises(
        AnalysisError,
        match="needs the columns region and effect, a number; it has region, d",
    ):
        invoke("replicate", folder / "a", tmp_path / "map.csv", "--out", tmp_path)


def test_tables_that_have_moved_and_common_people_are_said(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "a", tmp_path / "a", ignore=shutil.ignore_patterns("runs"))
    study = (tmp_path / "a/study.toml").read_text("utf-8")
    (tmp_path / "a/study.toml").write_text(study.replace("a_table", "lost"), "utf-8")
    done = CliRunner().invoke(
        app,
        [
            "replicate",
            str(tmp_path / "a"),
            str(folder / "a"),
            "--out",
            str(tmp_path / "out"),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "note: the people of a are not at hand" in done.stderr
    assert "warning: 180 ids are in both studies" in done.stderr
    text = (tmp_path / "out/replication.txt").read_text("utf-8")
    assert "some of whom may have been in a" in " ".join(text.split())
    (tmp_path / "a/model.safetensors").unlink()
    with pytest.raises(
        AnalysisError, match="ended without a model, so it has no pattern"
    ):
        invoke("replicate", tmp_path / "a", folder / "b", "--out", tmp_path / "out")


def test_studies_of_different_atlases_are_said_to_differ(
    folder: Path, tmp_path: Path
) -> None:
    effects = pd.read_csv(folder / "a/effects.tsv", sep="\t")[["region", "d"]].rename(
        columns={"d": "effect"}
    )
    others = pd.DataFrame(
        {"region": [f"lh_G_parcel{k}_thickness" for k in range(30)], "effect": 0.1}
    )
    pd.concat([effects[:12], others]).to_csv(tmp_path / "map.csv", index=False)
    command = [
        "replicate",
        folder / "a",
        tmp_path / "map.csv",
        "--out",
        tmp_path / "out",
    ]
    done = CliRunner().invoke(app, [*map(str, command)], catch_exceptions=False)
    assert (
        "warning: a and map have 12 regions in common, of 36 and 42: their atlases or measures differ."
        in done.stderr
    )
    text = (tmp_path / "out/replication.txt").read_text("utf-8")
    assert (
        "over the 12 regions that both have (of 36 and 42: their atlases or measures differ)"
        in text
    )

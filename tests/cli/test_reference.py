"""``rindices reference`` and ``fit --reference``: healthy people elsewhere lend their correlations."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from rindices.model.normal_reference import NormalReference
from tests.cohorts import simulate_few_regions
from tests.report.helpers import get_section_text

COVARIATES = ["--covariates", "age,sex,icv"]


def invoke(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output} {result.exception!r}"
    return result.output if code == 0 else f"{result.output}{result.exception}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study, a table of healthy people of three sites, and a reference whose regions are exchanged."""
    folder = tmp_path_factory.mktemp("reference")
    write_cohort(simulate_few_regions("tiny", seed=1), folder)
    healthy = simulate_few_regions("null", seed=9, sites=3).cohort.take(np.arange(300))
    table = pd.concat([healthy.people, healthy.covariates, healthy.volumes], axis=1).drop(columns="group")
    table["participant_id"] = "healthy-" + table["participant_id"].astype(str)
    table.to_csv(folder / "healthy.csv", index=False)
    learnt = NormalReference.fit(healthy, "wrong.csv")
    order = np.random.default_rng(0).permutation(len(learnt.regions))
    wrong = NormalReference(learnt.regions, learnt.correlation[np.ix_(order, order)], 300, name="wrong.csv")
    wrong.save(folder / "wrong.safetensors")
    return folder


def fit(folder: Path, reference: object, out: str, *more: object, code: int = 0) -> str:
    study = [folder / "volumes.csv", "--participants", folder / "participants.tsv", "--group", "group", *COVARIATES]
    settings = ["--recipe", "contrastive", "--patterns", "3", "--members", "3", "--workers", "1"]
    return invoke("fit", *study, *settings, "--reference", reference, "--out", folder / out, *more, code=code)


def test_a_reference_is_a_small_file_without_people(folder: Path) -> None:
    file = folder / "healthy.safetensors"
    shown = json.loads(
        invoke("reference", folder / "healthy.csv", *COVARIATES, "--site", "site", "--out", file, "--json")
    )
    assert (shown["people"], shown["sites"], shown["regions"], shown["adjust"]) == (300, 3, 36, "log")
    assert b"healthy-" not in file.read_bytes()
    assert "300" in invoke("reference", folder / "healthy.csv", *COVARIATES, "--out", file)
    assert "another ending" in invoke("reference", folder / "healthy.csv", "--out", folder / "healthy.csv", code=2)


@pytest.mark.usefixtures("no_pictures")
def test_a_table_and_its_file_give_the_same_model_and_it_says_so(folder: Path) -> None:
    table = fit(folder, folder / "healthy.csv", "table")
    assert "healthy.csv (300 people) has weight" in table
    invoke("reference", folder / "healthy.csv", *COVARIATES, "--out", folder / "file.safetensors")
    fit(folder, folder / "file.safetensors", "file", "--no-report")
    read = [pd.read_csv(folder / name / "r_indices.tsv", sep="\t") for name in ("table", "file")]
    pd.testing.assert_frame_equal(*read)
    model = ri.load(folder / "table" / "model.safetensors")
    assert model.card.reference is not None
    assert model.card.reference.weight >= 0.6
    assert "healthy.csv, 300 people of 3 sites, weight" in invoke("model", "show", folder / "table/model.safetensors")
    page = (folder / "table" / "report.html").read_text("utf-8")
    assert "reference population of 300 healthy people of 3 sites" in get_section_text(page, "methods")


def test_columns_that_the_reference_does_not_have_are_left_out(folder: Path) -> None:
    """The study names a session and a site that only its own table has."""
    people = pd.read_csv(folder / "participants.tsv", sep="\t").assign(visit="v1", hospital="north")
    volumes = pd.read_csv(folder / "volumes.csv")
    people.merge(volumes, on="participant_id").to_csv(folder / "joined.csv", index=False)
    columns = ["--session", "visit", "--site", "hospital", "--harmonise", "none"]
    study = [folder / "joined.csv", "--group", "group", *COVARIATES, *columns]
    assert "ready" in invoke("check", *study, "--reference", folder / "healthy.csv")


def test_another_reference_is_another_study_in_the_same_folder(folder: Path) -> None:
    fit(folder, "muse", "resumed", "--no-report")
    first = pd.read_csv(folder / "resumed" / "r_indices.tsv", sep="\t")
    assert 'reference = "muse"' in (folder / "resumed" / "study.toml").read_text("utf-8")
    fit(folder, folder / "wrong.safetensors", "resumed", "--no-report")
    second = pd.read_csv(folder / "resumed" / "r_indices.tsv", sep="\t")
    assert not np.allclose(first["r1"], second["r1"])
    model = ri.load(folder / "resumed" / "model.safetensors")
    assert model.card.reference is not None
    assert model.card.reference.weight <= 0.2  # its columns are exchanged
    study = (folder / "resumed" / "study.toml").read_text("utf-8")
    assert 'wrong.safetensors"' in study
    again = invoke("fit", folder / "resumed" / "study.toml", "--out", folder / "resumed", "--no-report")
    assert "wrong.csv" in again


def test_references_that_cannot_be_used_are_named_by_check_and_fit(folder: Path) -> None:
    NormalReference(("MUSE_1", "MUSE_2"), np.eye(2), 30, name="two.csv").save(folder / "two.safetensors")
    study = [folder / "volumes.csv", "--participants", folder / "participants.tsv", "--group", "group", *COVARIATES]
    for reference, message in [
        ("two.safetensors", "the reference two.csv lacks 36 regions of the study"),
        ("participants.tsv", "no regions"),
        ("nowhere.csv", "nowhere.csv"),
    ]:
        assert message in fit(folder, folder / reference, "refused", code=1)
        checked = invoke("check", *study, "--reference", folder / reference, code=1)
        assert message in checked
        assert "not ready" in checked
    fit(folder, folder / "resumed", "refused", code=1)  # a folder
    assert "ready" in invoke("check", *study, "--reference", "muse")


def test_python_takes_a_reference(folder: Path) -> None:
    cohort = simulate_few_regions("tiny", seed=1).cohort
    healthy = NormalReference.fit(simulate_few_regions("null", seed=9).cohort)
    model = ri.fit(cohort, 3, recipe="contrastive", members=2, workers=1, reference=healthy)
    assert model.card.reference is not None
    assert model.card.reference.people == healthy.people

"""Healthy people for models whose training people are not known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import ModelError
from rindices.exchange.healthy import (
    calibrate_with_healthy_people,
    pack_healthy_people,
)
from rindices.exchange.importers import PUBLISHED_MODELS, import_published
from tests.cohorts import fit_tiny_model, simulate_few_regions


@pytest.fixture(scope="module")
def ixi(shared: Path) -> ri.Cohort:
    people = pd.read_csv(shared / "ixi" / "demographics.csv")
    people = people.rename(columns={"Age": "age", "Sex": "sex"})
    return ri.read_cohort(
        shared / "ixi" / "volumes.csv", people, covariates=["age", "sex", "icv"]
    )


@pytest.mark.parametrize("name", list(PUBLISHED_MODELS))
def test_the_shipped_figures_are_those_of_ixi(
    name: str, shared: Path, ixi: ri.Cohort
) -> None:
    path = shared / "upstream" / f"{name}.saved_model"
    bare = import_published(path, name, with_healthy_people=False)
    shipped = pack_healthy_people(import_published(path, name))
    computed = pack_healthy_people(calibrate_with_healthy_people(bare, ixi, "IXI"))
    assert set(shipped) == set(computed)
    for key, array in computed.items():
        np.testing.assert_allclose(shipped[key], array, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", list(PUBLISHED_MODELS))
def test_the_healthy_people_do_not_change_r_indices(
    name: str, shared: Path, ixi: ri.Cohort, tmp_path: Path
) -> None:
    path = shared / "upstream" / f"{name}.saved_model"
    bare = import_published(path, name, with_healthy_people=False)
    import_published(path, name).save(tmp_path / "model.safetensors")
    model = ri.load(tmp_path / "model.safetensors")
    before, after = bare.apply(ixi), model.apply(ixi, centiles=True)
    names = model.index_names
    np.testing.assert_allclose(before[names], after[names], rtol=0, atol=1e-12)
    assert (after["outlier_score"] < 0.95).mean() > 0.95
    centiles = after[[f"{index}_centile" for index in names]]
    assert np.abs(centiles.median() - 50).max() < 4


def test_centiles_need_the_age_that_the_model_does_not(
    shared: Path, ixi: ri.Cohort
) -> None:
    name = "brain_aging_5rindices"
    model = import_published(shared / "upstream" / f"{name}.saved_model", name)
    covariates = ixi.covariates.drop(columns="age")
    people = replace(ixi, covariates=covariates).take(np.arange(9))
    assert len(model.apply(people)) == 9
    with pytest.raises(ModelError, match="centiles need age"):
        model.apply(people, centiles=True)


def test_people_who_lack_regions_get_r_indices_with_wider_intervals(
    shared: Path, ixi: ri.Cohort
) -> None:
    name = "brain_aging_5rindices"
    model = import_published(shared / "upstream" / f"{name}.saved_model", name)
    people = ixi.take(np.arange(60))
    whole = model.apply(people)
    volumes = people.volumes.copy()
    volumes.iloc[:, 20:50] = np.nan
    reduced = model.apply(replace(people, volumes=volumes))
    assert (reduced["information"] < 1).all()
    for index in model.index_names:
        assert np.corrcoef(whole[index], reduced[index])[0, 1] > 0.6
    widths = [
        table.filter(regex="^r._high$").to_numpy()
        - table.filter(regex="^r._low$").to_numpy()
        for table in (whole, reduced)
    ]
    assert widths[1].mean() > widths[0].mean()


def test_a_model_of_a_study_gets_centiles_by_the_command(tmp_path: Path) -> None:
    cohort = simulate_few_regions("tiny", seed=3).cohort
    healthy = cohort.take(cohort.is_control)
    ids = healthy.people[["participant_id"]]
    table = pd.concat([ids, healthy.covariates, healthy.volumes], axis=1)
    table.to_csv(tmp_path / "healthy.csv", index=False)
    fit_tiny_model().save(tmp_path / "m.safetensors")
    sexes = ",".join(sorted(healthy.covariates["sex"].unique()))
    out = tmp_path / "new.safetensors"
    arguments = ["calibrate", tmp_path / "m.safetensors", tmp_path / "healthy.csv"]
    arguments += ["--name", "ours", "--sexes", sexes, "--out", out]
    run = CliRunner().invoke
    done = run(app, ["model", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    assert f"knows {len(healthy)} healthy people of ours" in done.stderr
    old, new = ri.load(tmp_path / "m.safetensors"), ri.load(out)
    assert new.card.compared_with == "the training people"
    assert new.training is not None
    assert old.training is not None
    np.testing.assert_array_equal(new.training.mean, old.training.mean)
    result = new.apply(healthy, centiles=True)
    assert abs(result["r1_centile"].mean() - 50) < 5
    arguments = ["apply", tmp_path / "m.safetensors", tmp_path / "healthy.csv"]
    arguments += ["--out", tmp_path / "r.csv", "--centiles"]
    done = run(app, [*map(str, arguments)])
    assert "rindices model calibrate MODEL TABLE" in str(done.exception)

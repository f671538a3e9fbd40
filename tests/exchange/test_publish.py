"""Published files are ordinary models: they work everywhere, say less about the people,
and state how much.
"""

import json
from dataclasses import fields, replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import ModelError
from rindices.exchange.publish import (
    ATTACK_STRENGTH,
    coarsen_model,
    estimate_membership,
    explain_unpublishable,
    publish_model,
)
from rindices.learners.inference import SurrealHead
from rindices.model.file import collect_arrays
from rindices.model.records import QUANTILE_RANKS, ModelCard
from rindices.study.config import make_study
from rindices.study.study import Study, StudyPeople
from rindices.tables.cohort import Cohort
from tests.cohorts import fit_tiny_model, simulate_few_regions

TASK = "small"


@pytest.fixture(scope="module")
def training() -> Cohort:
    return simulate_few_regions(TASK, seed=0).cohort


@pytest.fixture(scope="module")
def results(training: Cohort, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study as a user fits it on the command line."""
    folder = tmp_path_factory.mktemp("study")
    table = pd.concat(
        [
            training.people[["participant_id", "group"]],
            training.covariates,
            training.volumes,
        ],
        axis=1,
    )
    table.to_csv(folder / "people.csv", index=False)
    options = [
        "--group",
        "group",
        "--covariates",
        "age,sex,icv",
        "--patterns",
        "3",
        "--members",
        "5",
        "--no-report",
    ]
    arguments = [
        "fit",
        str(folder / "people.csv"),
        *options,
        "--workers",
        "1",
        "--out",
        str(folder / "results"),
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert (
        "model.safetensors tells who took part; to pass it on: rindices model publish"
        in done.stdout
    )
    return folder / "results"


@pytest.fixture(scope="module")
def published(results: Path) -> ri.FittedModel:
    out = results.parent / "shared.safetensors"
    done = CliRunner().invoke(
        app, ["model", "publish", str(results), "--out", str(out), "--json"]
    )
    assert done.exit_code == 0, done.output
    model = ri.load(out)
    assert model.card.membership is not None
    assert json.loads(done.stdout)["membership_auc"] == model.card.membership.auc
    assert 0.5 <= model.card.membership.auc < 0.9
    return model


def test_a_published_file_has_nearly_the_same_indices(
    results: Path, published: ri.FittedModel
) -> None:
    owner, new = (
        ri.load(results / "model.safetensors"),
        simulate_few_regions(TASK, seed=5).cohort,
    )
    before, after = (each.apply(new) for each in (owner, published))
    for name in owner.index_names:
        assert spearmanr(before[name], after[name])[0] > 0.95
        assert abs(before[name].mean() - after[name].mean()) < 0.05
        widths = [
            (each[f"{name}_high"] - each[f"{name}_low"]).mean()
            for each in (before, after)
        ]
        assert 0.7 < widths[1] / widths[0] < 1.5
    assert after["outside_training_range"].mean() < 0.1


def test_no_array_has_the_numbers_of_the_owner(
    results: Path, published: ri.FittedModel
) -> None:
    owner = ri.load(results / "model.safetensors")
    assert len(published.heads) == 1
    assert not published.pipelines
    assert published.card.fingerprint == ""
    numbers = [
        np.concatenate([np.ravel(array) for array in collect_arrays(model).values()])
        for model in (owner, published)
    ]
    before, after = (
        np.unique(each[np.abs(each - np.round(each, 3)) > 1e-9]) for each in numbers
    )
    assert len(before) > 1000
    assert (
        len(np.intersect1d(before, after)) <= 1
    )  # the value from which on people are novel, by their number alone


def test_one_person_changes_few_rounded_numbers(results: Path) -> None:
    """Steps of rounding are far larger than what one person moves: nearly all means
    stay.
    """
    model = ri.load(results / "model.safetensors")
    standardiser = model.preprocessing.standardiser
    person = np.random.default_rng(0).normal(size=len(model.regions))
    changed = replace(
        standardiser, mean=standardiser.mean + standardiser.sd * person / 350
    )
    moved = replace(
        model, preprocessing=replace(model.preprocessing, standardiser=changed)
    )
    before, after = (
        coarsen_model(each).preprocessing.standardiser for each in (model, moved)
    )
    assert (np.abs(before.mean - after.mean) < 1e-6 * before.sd).mean() > 0.9


def test_quantiles_tell_the_place_of_new_people(
    results: Path, published: ri.FittedModel
) -> None:
    """The centiles of people of no study are uniform; a published file has coarse
    quantiles.
    """
    owner, new = (
        ri.load(results / "model.safetensors"),
        simulate_few_regions(TASK, seed=8).cohort,
    )
    for model in (owner, published):
        applied = model.apply(new)
        for group, mask in (("control", new.is_control), ("patient", new.is_patient)):
            for name, quantiles in zip(
                model.index_names, model.card.index_quantiles[group], strict=True
            ):
                assert len(quantiles) == len(QUANTILE_RANKS)
                centiles = np.interp(applied.loc[mask, name], quantiles, QUANTILE_RANKS)
                for rank in (0.5, 0.75, 0.95):
                    assert (centiles <= rank).mean() == pytest.approx(rank, abs=0.2), (
                        group,
                        name,
                        rank,
                    )
    coarse = 200 * np.array(list(published.card.index_quantiles.values()))
    np.testing.assert_allclose(coarse, np.round(coarse), atol=1e-9)


def test_missing_wrong_and_unusual_cells(published: ri.FittedModel) -> None:
    cohort = simulate_few_regions(TASK, seed=6).cohort
    values = cohort.volumes.to_numpy(copy=True)
    values[::2, 3] = np.nan
    values[1, 5] *= 3.0
    values[5] *= 0.5
    changed = replace(
        cohort, volumes=pd.DataFrame(values, columns=cohort.volumes.columns)
    )
    usual, result = published.apply(cohort), published.assess(changed)
    assert (result.table["information"][::2] < 1.0).all()
    assert any("not fit" in str(problem) for problem in result.problems)
    assert result.table["outside_training_range"].to_numpy()[5]
    for name in published.index_names:
        assert spearmanr(usual[name], result.table[name])[0] > 0.9


def test_a_published_file_is_exported(
    published: ri.FittedModel, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    from rindices.exchange.onnx import export_onnx
    from rindices.report.model_page import export_page
    from tests.exchange.test_onnx import assert_equal, list_columns, run_graph

    export_page(published, tmp_path / "model.html")
    export_onnx(published, tmp_path / "model.onnx")
    cohort = simulate_few_regions(TASK, seed=7).cohort
    outputs = run_graph(tmp_path / "model.onnx", list_columns(cohort))
    assert_equal(
        outputs, published.apply(cohort, on_outlier="keep"), published.n_patterns
    )


def test_the_card_and_show_say_which_file_is_which(
    results: Path, published: ri.FittedModel
) -> None:
    shown = [
        CliRunner().invoke(app, ["model", "show", str(path)]).stdout
        for path in (
            results / "model.safetensors",
            results.parent / "shared.safetensors",
        )
    ]
    assert "for its owner: it tells who took part; rindices model publish" in shown[0]
    assert published.card.membership is not None
    assert (
        f"it tells who took part with an AUC of about {published.card.membership.auc:.2f}"
        in shown[1]
    )
    card = (
        CliRunner()
        .invoke(
            app, ["model", "show", str(results.parent / "shared.safetensors"), "--card"]
        )
        .stdout
    )
    assert "| who took part | for passing on; it tells who took part" in card
    own = ri.load(results / "model.safetensors").card
    assert own.can_be_published
    assert not own.model_copy(update={"finding": "mean_difference"}).can_be_published
    assert not own.model_copy(update={"method": None}).can_be_published


@pytest.mark.slow
def test_sites_and_a_reference() -> None:
    cohort = simulate_few_regions("tiny", seed=1, sites=2).cohort
    reference = ri.NormalReference.fit(simulate_few_regions("basic", seed=3).cohort)
    for given in (None, reference):
        model = ri.fit(
            cohort,
            2,
            members=5,
            workers=1,
            method_settings={"shape": "proportional"},
            reference=given,
        )
        section = {
            "patterns": [2],
            "members": 5,
            "method_settings": {"shape": "proportional"},
        }
        config = make_study(
            {"data": {"volumes": "memory"}, "model": section, "run": {"seed": 0}},
            "test",
        )
        people = StudyPeople(Study(cohort, config), config.model)
        assert people.seen is not None
        rows = [
            next(
                k
                for k, own in enumerate(people.pipelines)
                if np.allclose(own.standardiser.mean, each.standardiser.mean)
            )
            for each in model.pipelines
        ]
        shared = publish_model(model, people.cohort, people.seen[rows], given)
        before, after = (
            each.apply(cohort, on_outlier="keep") for each in (model, shared)
        )
        for name in model.index_names:
            assert spearmanr(before[name], after[name])[0] > 0.9, given


def test_the_estimate_of_membership_on_known_leaks() -> None:
    """Files of a mean of n people in d dimensions: the likelihood has an AUC of
    Phi(sqrt(d / 2 n)).
    """
    rng = np.random.default_rng(0)
    n_people, n_dimensions, folds = 400, 200, np.arange(400) % 5
    people = rng.standard_normal((n_people, n_dimensions))
    seen = np.array([folds != k for k in range(5)])
    likelihoods = np.stack(
        [
            -0.5 * np.square(people - people[mask].mean(axis=0)).sum(axis=1)
            for mask in seen
        ]
    )
    expected = NormalDist().cdf(ATTACK_STRENGTH * np.sqrt(n_dimensions / n_people / 2))
    assert estimate_membership(likelihoods, seen).auc == pytest.approx(
        expected, abs=0.03
    )
    assert estimate_membership(
        rng.standard_normal(likelihoods.shape), seen
    ).auc == pytest.approx(0.5, abs=0.02)


def test_what_cannot_be_published_is_said(results: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match="models of method contrastive cannot be published"
    ):
        coarsen_model(fit_tiny_model())
    run = CliRunner()
    done = run.invoke(
        app,
        ["model", "publish", str(tmp_path), "--out", str(tmp_path / "m.safetensors")],
    )
    assert done.exit_code == 2
    assert "does not have both model.safetensors and study.toml" in " ".join(
        done.output.replace("│", " ").split()
    )
    done = run.invoke(
        app,
        ["model", "publish", str(results), "--out", str(results / "model.safetensors")],
    )
    assert done.exit_code == 2
    table = results.parent / "people.csv"
    text = table.read_text("utf-8")
    lines = text.splitlines()
    table.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    done = run.invoke(
        app,
        ["model", "publish", str(results), "--out", str(tmp_path / "m.safetensors")],
    )
    table.write_text(text, encoding="utf-8")
    assert isinstance(done.exception, ModelError)
    assert "has changed since the model was fitted" in str(done.exception)


def test_what_cannot_be_published_says_why_and_no_cure_that_does_not_help(
    tmp_path: Path,
) -> None:
    difference = ri.fit(
        simulate_few_regions("tiny").cohort,
        members=2,
        method="mean-difference",
        workers=1,
    )
    head = SurrealHead(**{each.name: np.zeros((1, 1)) for each in fields(SurrealHead)})
    imported = replace(
        fit_tiny_model(2), heads=(head,), training=None, card=ModelCard(unit="mm3")
    )
    for model, reason in (
        (difference, "the study has one index along the mean difference"),
        (
            fit_tiny_model(2),
            "models of method contrastive cannot be published: fit again with method trajectories",
        ),
        (
            imported,
            "this model was imported: pass on the file that it was imported from",
        ),
    ):
        assert explain_unpublishable(model).startswith(reason)
    difference.save(tmp_path / "model.safetensors")
    (tmp_path / "study.toml").write_text("")
    done = CliRunner().invoke(
        app,
        ["model", "publish", str(tmp_path), "--out", str(tmp_path / "p.safetensors")],
    )
    assert isinstance(done.exception, ModelError)
    assert (
        "keep the model to yourself. What can be passed on is patterns.tsv and effects.tsv"
        in str(done.exception)
    )
    assert "fit with" not in str(done.exception)

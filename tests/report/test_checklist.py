"""The checklist of a study, and the separation of the groups by sex, age and site."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import rindices as ri
from rindices.analysis.study_results import read_study_results
from rindices.cli.main import app
from rindices.study.subgroups import MIN_GROUP, make_subgroup_table
from tests.cohorts import simulate_few_regions
from tests.report.helpers import get_section_text


@pytest.fixture(scope="module")
def checklist(study: Path) -> str:
    done = CliRunner().invoke(app, ["report", str(study), "--checklist"])
    assert done.exit_code == 0, done.output
    assert "checklist.md" in done.output
    return (study / "checklist.md").read_text("utf-8")


def test_every_item_of_tripod_ai_has_a_row(checklist: str) -> None:
    numbers = re.findall(r"^\| (\d+)\S* \|", checklist, re.MULTILINE)
    assert sorted(set(map(int, numbers))) == list(range(1, 28))
    filled, partly, left = map(
        int,
        re.findall(
            r"27 items, (\d+) are filled .* (\d+) in part, and (\d+)", checklist
        )[0],
    )
    assert filled + partly + left == 27
    rows = [line for line in checklist.splitlines() if re.match(r"\| \d", line)]
    open_items = {
        re.match(r"\| (\d+)", row)[1] for row in rows if "To be written" in row
    }  # type: ignore[index]
    assert filled == 27 - len(open_items)
    assert all(
        len(row.split(" | ")) == 3 and len(row.split(" | ")[2].strip(" |")) > 4
        for row in rows
    )
    assert "{" not in checklist


def test_answers_are_those_of_the_study(study: Path, checklist: str) -> None:
    results = read_study_results(study)
    cohort, (first, *_) = results.cohort, results.selection.patterns
    assert f"{cohort.controls} controls and {cohort.patients} patients" in checklist
    assert f"AUC {first.auc:.2f}" in checklist
    assert f"seed {results.model.card.seed}" in checklist
    assert "&" not in checklist


def test_a_study_without_a_model_has_no_checklist(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--checklist"])
    assert "has no model" in str(done.exception)


def test_auc_of_subgroups_is_that_of_scikit_learn() -> None:
    cohort = simulate_few_regions("tiny", seed=0, sites=2).cohort
    rng = np.random.default_rng(0)
    indices = cohort.people[["participant_id", "group"]].assign(
        r1=rng.normal(size=len(cohort)) + cohort.is_patient
    )
    indices.loc[::7, "r1"] = np.nan
    width = pd.Series(rng.uniform(size=len(cohort)))
    indices = indices.assign(r1_low=indices["r1"] - width, r1_high=indices["r1"])
    table = make_subgroup_table(
        cohort, indices.sample(frac=1.0, random_state=1), ["r1"], 0
    )
    assert list(table["variable"].unique()) == ["sex", "age", "site"]
    limit = indices.loc[cohort.is_control, "r1"].quantile(0.95)
    used = indices["r1"].notna().to_numpy()
    for level, column in (
        ("F", cohort.covariates["sex"]),
        (table["level"].iloc[-1], cohort.people["site"]),
    ):
        own = (column == level).to_numpy() & used
        row = table[table["level"] == level].iloc[0]
        expected = roc_auc_score(cohort.is_patient[own], indices["r1"][own])
        assert row["auc"] == pytest.approx(expected, abs=1e-4)
        assert row["low"] < row["auc"] < row["high"]
        assert row["controls"] == (own & cohort.is_control).sum()
        above = (indices["r1"][own & cohort.is_control] > limit).mean()
        assert row["controls_above"] == pytest.approx(above, abs=1e-4)
        assert row["width"] == pytest.approx(np.median(width[own]), abs=1e-4)
    bands = table[table["variable"] == "age"]
    assert bands["controls"].sum() + bands["patients"].sum() == used.sum()
    assert (
        make_subgroup_table(cohort, indices.drop(columns="r1_low"), ["r1"], 0)["width"]
        .isna()
        .all()
    )
    assert make_subgroup_table(
        cohort.take(np.arange(MIN_GROUP)), indices[:MIN_GROUP], ["r1"], 0
    ).empty


def test_the_report_shows_subgroups_without_names_of_sites(
    study: Path, page: str
) -> None:
    table = pd.read_csv(study / "subgroups.tsv", sep="\t")
    text = get_section_text(page, "subgroups")
    row = table.iloc[0]
    assert (
        f"{row['variable']} {row['level']} {row['controls']} {row['patients']} {row['auc']:.2f} ("
        in text
    )
    sites = table.loc[table["variable"] == "site", "level"]
    assert ("site 1" in text) == bool(len(sites))
    assert "data:text/plain;charset=utf-8,%40inproceedings" in page
    assert ri.load(study / "model.safetensors").card.index_quantiles.keys() == {
        "control",
        "patient",
    }

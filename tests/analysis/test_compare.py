"""Comparisons equal scipy and statsmodels, subgroups are the paper's, and small groups are said to be small."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.meta_analysis import effectsize_smd
from statsmodels.stats.multitest import multipletests
from typer.testing import CliRunner

import rindices as ri
from rindices.analysis.compare import compare_subgroups, make_subgroups
from rindices.cli.main import app
from rindices.errors import AnalysisError
from rindices.experiments.simulate import write_cohort

N, R = 400, 15


def make(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    ids = [f"p{k:03d}" for k in range(N)]
    indices = pd.DataFrame(rng.uniform(size=(N, 2)), columns=["r1", "r2"])
    indices.insert(0, "group", np.where(np.arange(N) < 150, "control", "patient"))
    indices.insert(0, "participant_id", ids)
    covariates = pd.DataFrame({"participant_id": ids, "age": rng.uniform(50, 80, N), "sex": rng.choice(["F", "M"], N)})
    values = rng.normal(3000, 200, (N, R)) - 5 * covariates["age"].to_numpy()[:, None]
    values[150:, :5] -= 400 * indices["r1"].to_numpy()[150:, None]
    regions = pd.DataFrame(values, columns=[f"region{k}" for k in range(R)])
    regions.insert(0, "participant_id", ids)
    return indices, regions.sample(frac=1, random_state=seed), covariates.sample(frac=1, random_state=seed + 1)


def test_subgroups_are_the_papers() -> None:
    indices, _, _ = make()
    found = {(group.index, group.name): group.rows for group in make_subgroups(indices)}
    patient, one, two = indices["group"] == "patient", indices["r1"], indices["r2"]
    np.testing.assert_array_equal(found["r1", "low"], patient & (one < 0.4) & (two < 0.4))
    np.testing.assert_array_equal(found["r1", "middle"], patient & (one > 0.4) & (one < 0.7) & (two < 0.4))
    np.testing.assert_array_equal(found["r2", "high"], patient & (two > 0.7) & (one < 0.4))
    own = {(g.index, g.name): (g.range, g.rows) for g in make_subgroups(indices, [0.2, 0.5, 0.8], others_below=0.9)}
    assert [own["r1", str(k)][0] for k in range(1, 5)] == ["below 0.2", "0.2 to 0.5", "0.5 to 0.8", "above 0.8"]
    np.testing.assert_array_equal(own["r2", "3"][1], patient & (two > 0.5) & (two < 0.8) & (one < 0.9))
    with pytest.raises(AnalysisError, match="ascending"):
        make_subgroups(indices, [0.7, 0.4])
    with pytest.raises(AnalysisError, match="need the column group"):
        make_subgroups(indices.drop(columns="group"))


def test_it_equals_scipy_and_statsmodels() -> None:
    indices, regions, _ = make()
    table = compare_subgroups(indices, regions)
    both = indices.merge(regions, on="participant_id")
    assert len(table) == 2 * 3 * R
    for group in make_subgroups(indices):
        own = table[(table["index"] == group.index) & (table["subgroup"] == group.name)].set_index("region")
        for region in own.index:
            ill, well = both.loc[group.rows, region], both.loc[both["group"] == "control", region]
            expected = stats.ttest_ind(ill, well)
            found = own.loc[region]
            assert (found["n"], found["n_controls"]) == (len(ill), 150)
            np.testing.assert_allclose(
                found[["t", "p", "difference"]].astype(float),
                [expected.statistic, expected.pvalue, ill.mean() - well.mean()],
                rtol=1e-8,
            )
            g, variance = effectsize_smd(ill.mean(), ill.std(), len(ill), well.mean(), well.std(), len(well))
            half = stats.norm.ppf(0.975) * np.sqrt(variance)
            np.testing.assert_allclose(found[["effect", "low", "high"]].astype(float), [g, g - half, g + half])
    np.testing.assert_allclose(table["q"], multipletests(table["p"], method="fdr_bh")[1], rtol=1e-10)


def test_adjusted_equals_a_regression() -> None:
    indices, regions, covariates = make()
    covariates.loc[covariates.index[7], "age"] = np.nan
    table = compare_subgroups(indices, regions, covariates=covariates)
    both = indices.merge(regions, on="participant_id").merge(covariates, on="participant_id")
    for group in make_subgroups(indices)[1:3]:
        rows = (group.rows | (both["group"] == "control").to_numpy()) & both["age"].notna().to_numpy()
        some = both[rows]
        design = np.column_stack([np.ones(len(some)), some["group"] == "patient", some["age"], some["sex"] == "M"])
        own = table[(table["index"] == group.index) & (table["subgroup"] == group.name)].set_index("region")
        for region in ("region0", "region9"):
            model = sm.OLS(some[region].to_numpy(), design.astype(float)).fit()
            np.testing.assert_allclose(
                own.loc[region, ["difference", "t", "p"]].astype(float),
                [model.params[1], model.tvalues[1], model.pvalues[1]],
                rtol=1e-7,
            )
            sigma = np.sqrt(model.scale)
            correction = 1 - 3 / (4 * model.df_resid - 1)
            assert own.loc[region, "effect"] == pytest.approx(model.params[1] / sigma * correction)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    indices = pd.DataFrame({"participant_id": [str(k) for k in range(90)], "r1": [0.9] * 90})
    indices["group"] = ["control"] * 60 + ["patient"] * 30
    values = rng.normal(size=(90, 4000))
    values[60:] += 0.8
    regions = pd.DataFrame(values).add_prefix("v").assign(participant_id=indices["participant_id"])
    high = compare_subgroups(indices, regions).query("subgroup == 'high'")
    held = ((high["low"] < 0.8) & (high["high"] > 0.8)).mean()
    assert held == pytest.approx(0.95, abs=0.012)
    assert high["effect"].mean() == pytest.approx(0.8, abs=0.01)


def test_small_groups_are_said_to_be_small() -> None:
    indices, regions, _ = make()
    few = pd.concat([indices.iloc[:150], indices[indices["group"] == "patient"].iloc[:30]])
    table = compare_subgroups(few, regions).drop_duplicates(["index", "subgroup"])
    assert table["n"].lt(20).any()
    for _, found in table.iterrows():
        if found["n"] < 2:
            assert found["note"] == f"too few people: {found['n']}"
            assert np.isnan(found["p"])
        elif found["n"] < 20:
            assert found["note"] == f"few people: {found['n']} patients"
        else:
            assert found["note"] == ""


def test_a_constant_region_says_nothing() -> None:
    indices, regions, _ = make()
    table = compare_subgroups(indices, regions.assign(flat=7.0))
    assert table.loc[table["region"] == "flat", ["t", "p", "q", "effect"]].isna().all(axis=None)
    assert table.loc[table["region"] != "flat", "q"].notna().all()


def test_it_finds_the_true_regions(tmp_path: Path) -> None:
    made = ri.simulate_cohort("small", 0)
    write_cohort(made, tmp_path)
    severities = made.severities.rename(columns={"s1": "r1", "s2": "r2", "s3": "r3"})
    indices = made.cohort.people.merge(severities, how="left").fillna({"r1": 0.0, "r2": 0.0, "r3": 0.0})
    indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    arguments = ["compare", str(tmp_path / "r.tsv"), str(tmp_path / "volumes.csv")]
    arguments += ["--participants", str(tmp_path / "participants.tsv"), "--covariates", "age,sex,icv"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    table = pd.DataFrame(value["results"])
    written = pd.read_csv(tmp_path / "out/regions.tsv", sep="\t", na_values="n/a", keep_default_na=False)
    np.testing.assert_allclose(written["effect"], table["effect"])
    truth = made.patterns.set_index("region")
    for k in (1, 2, 3):
        high = table[(table["index"] == f"r{k}") & (table["subgroup"] == "high")]
        top = high.nsmallest(14, "effect")["region"]
        assert (truth.loc[top, f"s{k}"] > 0).mean() > 0.75
    people = pd.read_csv(tmp_path / "out/subgroups.tsv", sep="\t")
    assert set(people.columns) == {"participant_id", "index", "subgroup", "range"}
    assert len(people) == table.drop_duplicates(["index", "subgroup"])["n"].sum()
    assert "Description" in json.loads((tmp_path / "out/regions.json").read_text())["effect"]

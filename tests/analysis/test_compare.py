"""Comparisons equal those of scipy and statsmodels, and subgroups are those of the
paper.
"""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.meta_analysis import effectsize_smd
from statsmodels.stats.multitest import multipletests

from rindices.analysis.compare import compare_subgroups, make_subgroups
from rindices.errors import AnalysisError
from tests.analysis.helpers import make_subgroup_tables


def test_subgroups_are_those_of_the_paper() -> None:
    indices, _, _ = make_subgroup_tables()
    subgroups = {
        (group.index, group.name): group.rows for group in make_subgroups(indices)
    }
    patient, one, two = indices["group"] == "patient", indices["r1"], indices["r2"]
    np.testing.assert_array_equal(
        subgroups["r1", "low"], patient & (one < 0.4) & (two < 0.4)
    )
    np.testing.assert_array_equal(
        subgroups["r1", "middle"], patient & (one > 0.4) & (one < 0.7) & (two < 0.4)
    )
    np.testing.assert_array_equal(
        subgroups["r2", "high"], patient & (two > 0.7) & (one < 0.4)
    )
    custom = {
        (g.index, g.name): (g.range, g.rows)
        for g in make_subgroups(indices, [0.2, 0.5, 0.8])
    }
    assert [custom["r1", str(k)][0] for k in range(1, 5)] == [
        "below 0.2",
        "0.2 to 0.5",
        "0.5 to 0.8",
        "above 0.8",
    ]
    np.testing.assert_array_equal(
        custom["r2", "3"][1], patient & (two > 0.5) & (two < 0.8) & (one < 0.2)
    )
    with pytest.raises(AnalysisError, match="ascending"):
        make_subgroups(indices, [0.7, 0.4])
    with pytest.raises(AnalysisError, match="needs the column group"):
        make_subgroups(indices.drop(columns="group"))


def test_effects_equal_scipy_and_statsmodels() -> None:
    indices, regions, _ = make_subgroup_tables()
    table = compare_subgroups(indices, regions)
    both = indices.merge(regions, on="participant_id")
    assert len(table) == 2 * 3 * 15
    for group in make_subgroups(indices):
        rows_of_group = table[
            (table["index"] == group.index) & (table["subgroup"] == group.name)
        ].set_index("region")
        for region in rows_of_group.index:
            ill, well = (
                both.loc[group.rows, region],
                both.loc[both["group"] == "control", region],
            )
            expected = stats.ttest_ind(ill, well)
            row = rows_of_group.loc[region]
            assert (row["n"], row["n_controls"]) == (len(ill), 150)
            np.testing.assert_allclose(
                row[["t", "p", "difference"]].astype(float),
                [expected.statistic, expected.pvalue, ill.mean() - well.mean()],
                rtol=1e-8,
            )
            g, variance = effectsize_smd(
                ill.mean(), ill.std(), len(ill), well.mean(), well.std(), len(well)
            )
            half = stats.norm.ppf(0.975) * np.sqrt(variance)
            np.testing.assert_allclose(
                row[["effect", "low", "high"]].astype(float), [g, g - half, g + half]
            )
    np.testing.assert_allclose(
        table["q"], multipletests(table["p"], method="fdr_bh")[1], rtol=1e-10
    )


def test_adjusted_effects_equal_a_regression() -> None:
    indices, regions, covariates = make_subgroup_tables()
    covariates.loc[covariates.index[7], "age"] = np.nan
    table = compare_subgroups(indices, regions, covariates=covariates)
    both = indices.merge(regions, on="participant_id").merge(
        covariates, on="participant_id"
    )
    for group in make_subgroups(indices)[1:3]:
        rows = (group.rows | (both["group"] == "control").to_numpy()) & both[
            "age"
        ].notna().to_numpy()
        included = both[rows]
        design = np.column_stack(
            [
                np.ones(len(included)),
                included["group"] == "patient",
                included["age"],
                included["sex"] == "M",
            ]
        )
        rows_of_group = table[
            (table["index"] == group.index) & (table["subgroup"] == group.name)
        ].set_index("region")
        for region in ("region0", "region9"):
            model = sm.OLS(included[region].to_numpy(), design.astype(float)).fit()
            np.testing.assert_allclose(
                rows_of_group.loc[region, ["difference", "t", "p"]].astype(float),
                [model.params[1], model.tvalues[1], model.pvalues[1]],
                rtol=1e-7,
            )
            sigma = np.sqrt(model.scale)
            correction = 1 - 3 / (4 * model.df_resid - 1)
            assert rows_of_group.loc[region, "effect"] == pytest.approx(
                model.params[1] / sigma * correction
            )


def test_intervals_cover_the_true_effect_at_their_nominal_rate() -> None:
    rng = np.random.default_rng(0)
    indices = pd.DataFrame(
        {"participant_id": [str(k) for k in range(90)], "r1": [0.9] * 90}
    )
    indices["group"] = ["control"] * 60 + ["patient"] * 30
    values = rng.normal(size=(90, 4000))
    values[60:] += 0.8
    regions = (
        pd.DataFrame(values)
        .add_prefix("v")
        .assign(participant_id=indices["participant_id"])
    )
    high = compare_subgroups(indices, regions).query("subgroup == 'high'")
    held = ((high["low"] < 0.8) & (high["high"] > 0.8)).mean()
    assert held == pytest.approx(0.95, abs=0.012)
    assert high["effect"].mean() == pytest.approx(0.8, abs=0.01)


def test_small_groups_get_a_note() -> None:
    indices, regions, _ = make_subgroup_tables()
    few = pd.concat(
        [indices.iloc[:150], indices[indices["group"] == "patient"].iloc[:30]]
    )
    table = compare_subgroups(few, regions).drop_duplicates(["index", "subgroup"])
    assert table["n"].lt(20).any()
    for _, row in table.iterrows():
        if row["n"] < 2:
            assert row["note"] == f"too few people: {row['n']}"
            assert np.isnan(row["p"])
        elif row["n"] < 20:
            assert row["note"] == f"few people: {row['n']} patients"
        else:
            assert row["note"] == ""


def test_a_constant_region_has_no_numbers() -> None:
    indices, regions, _ = make_subgroup_tables()
    table = compare_subgroups(indices, regions.assign(flat=7.0))
    assert (
        table.loc[table["region"] == "flat", ["t", "p", "q", "effect"]]
        .isna()
        .all(axis=None)
    )
    assert table.loc[table["region"] != "flat", "q"].notna().all()

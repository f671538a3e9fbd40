"""Variance that sites explain: equality with statsmodels, and what is left where
effects of sites are removed, or are not.
"""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import rindices as ri
from rindices import plot
from rindices.study.site_effects import measure_site_shares
from rindices.tables.cohort import Cohort
from tests.cohorts import simulate_few_regions


def test_share_and_p_are_those_of_nested_models_of_statsmodels() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(60, 8, 90)})
    frame["site"] = rng.choice(["a", "b", "c"], 90)
    frame["y"] = 0.1 * frame["age"] + 0.8 * (frame["site"] == "b") + rng.normal(size=90)
    frame.loc[:4, "y"] = np.nan
    share, p = measure_site_shares(
        frame[["y"]].to_numpy(), frame[["age"]].to_numpy(), frame["site"].tolist()
    )
    small, large = (
        smf.ols(formula, frame).fit() for formula in ("y ~ age", "y ~ age + site")
    )
    assert share[0] == pytest.approx(1 - large.mse_resid / small.mse_resid)
    assert p[0] == pytest.approx(large.compare_f_test(small)[1])


def test_within_folds_errors_of_the_removed_effects_do_not_cancel() -> None:
    """Held-out values that miss the site's mean in the others add up to zero over
    folds, whatever the effect was estimated from.
    """
    rng = np.random.default_rng(1)
    folds, sites = np.arange(200) % 5, np.repeat(["a", "b"], 100)
    noise, design = rng.normal(size=(200, 40)), rng.normal(size=(200, 1))
    shift = np.where((sites == "a") == (folds % 2 == 0), 1.5, -1.5)[:, None]
    over_all, _ = measure_site_shares(noise + shift, design, sites.tolist())
    within, _ = measure_site_shares(noise + shift, design, sites.tolist(), folds)
    free, _ = measure_site_shares(noise, design, sites.tolist(), folds)
    assert np.median(over_all) < 0.1
    assert np.median(within) > 0.5
    assert abs(np.median(free)) < 0.03


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return simulate_few_regions("small", seed=1, sites=3).cohort


def fit(cohort: Cohort, out: Path, **settings: object) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ri.fit(
            cohort,
            2,
            method="contrastive",
            members=5,
            workers=1,
            out=out,
            **settings,  # type: ignore[arg-type]
        )
    return pd.read_csv(out / "site_effects.tsv", sep="\t")


def test_a_study_says_what_sites_explain_before_and_after(
    cohort: Cohort, tmp_path: Path
) -> None:
    heads = cohort.covariates["icv"] * np.where(
        cohort.people["site"] == "site2", 1.06, 1.0
    )
    cohort = replace(cohort, covariates=cohort.covariates.assign(icv=heads))
    table = fit(cohort, tmp_path / "a")
    regions = table[table["what"] == "region"]
    assert list(regions["name"]) == list(cohort.regions)
    assert regions["before"].median() > 0.1
    assert abs(regions["after"].median()) < 0.05
    head = table[table["what"] == "head size"].iloc[0]
    assert head["before"] > 0.1
    assert head["p"] < 1e-6
    indices = table[table["what"] == "R-index"]
    assert list(indices["group"]) == ["patient", "patient"]
    ri.write_report(tmp_path / "a")
    page = (tmp_path / "a/report.html").read_text("utf-8")
    assert "icv differs between sites" in page
    assert "site2" not in page
    axes = plot.site_effects(tmp_path / "a")
    assert [label.get_text() for label in axes.get_yticklabels()][2] == "r1, patients"


def test_what_is_left_is_seen_where_sites_are_not_harmonised(
    cohort: Cohort, tmp_path: Path
) -> None:
    table = fit(cohort, tmp_path / "b", harmonise="none")
    regions = table[table["what"] == "region"]
    np.testing.assert_allclose(regions["after"], regions["before"], atol=0.03)
    assert set(table.loc[table["what"] == "R-index", "group"]) == {
        "control",
        "patient",
    }
    assert table.loc[table["what"] == "R-index", "p"].min() < 0.001


def test_a_study_of_one_site_has_no_such_table(study: Path) -> None:
    assert not (study / "site_effects.tsv").exists()
    with pytest.raises(ri.RindicesError, match="several sites"):
        plot.site_effects(study)

"""Correlations equal those of scipy and statsmodels, and few are false discoveries."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.multitest import multipletests

from rindices.analysis.associate import associate_indices
from rindices.errors import AnalysisError
from tests.analysis.helpers import N_PEOPLE, make_clinical_tables


def get_row(table: pd.DataFrame, index: str, variable: str) -> pd.Series:
    return table[(table["index"] == index) & (table["variable"] == variable)].iloc[0]


def test_pearson_and_point_biserial_equal_scipy() -> None:
    indices, clinical = make_clinical_tables()
    table = associate_indices(indices, clinical)
    both = indices.merge(clinical, on="participant_id")
    for index in ("r1", "r2"):
        for variable in ("age", "memory"):
            complete = both.dropna(subset=variable)
            expected = stats.pearsonr(complete[index], complete[variable])
            result = get_row(table, index, variable)
            assert (result["kind"], result["n"]) == ("pearson", len(complete))
            interval = expected.confidence_interval(0.95)
            np.testing.assert_allclose(
                result[["correlation", "p", "low", "high"]].astype(float),
                [expected.statistic, expected.pvalue, interval.low, interval.high],
                rtol=1e-9,
            )
        complete = both.dropna(subset="carrier")
        biserial = stats.pointbiserialr(complete["carrier"] == "yes", complete[index])
        result = get_row(table, index, "carrier")
        assert (result["kind"], result["level"], result["n"]) == (
            "point-biserial",
            "yes",
            N_PEOPLE - 4,
        )
        np.testing.assert_allclose(
            [result["correlation"], result["p"]],
            [biserial.statistic, biserial.pvalue],
            rtol=1e-9,
        )
    np.testing.assert_allclose(
        table["q"], multipletests(table["p"], method="fdr_bh")[1], rtol=1e-12
    )


def test_partial_correlation_equals_a_regression_with_the_covariates() -> None:
    indices, clinical = make_clinical_tables()
    table = associate_indices(
        indices, clinical, variables=["memory", "carrier"], covariates=["age", "sex"]
    )
    assert len(table) == 4
    both = indices.merge(clinical, on="participant_id")
    for index in ("r1", "r2"):
        for variable in ("memory", "carrier"):
            complete = both.dropna(subset=variable)
            outcome = (
                complete[variable]
                if variable == "memory"
                else (complete[variable] == "yes").astype(float)
            )
            design = np.column_stack(
                [
                    np.ones(len(complete)),
                    complete[index],
                    complete["age"],
                    complete["sex"] == "M",
                ]
            )
            model = sm.OLS(outcome.to_numpy(), design.astype(float)).fit()
            t, freedom = model.tvalues[1], model.df_resid
            result = get_row(table, index, variable)
            np.testing.assert_allclose(
                result["correlation"], t / np.sqrt(t**2 + freedom), rtol=1e-8
            )
            np.testing.assert_allclose(result["p"], model.pvalues[1], rtol=1e-7)
            z, width = (
                np.arctanh(result["correlation"]),
                1.959963984540054 / np.sqrt(len(complete) - 2 - 3),
            )
            np.testing.assert_allclose(
                result[["low", "high"]].astype(float),
                np.tanh([z - width, z + width]),
                rtol=1e-9,
            )


def test_units_and_redundant_covariates_do_not_matter() -> None:
    indices, clinical = make_clinical_tables()
    plain = associate_indices(
        indices, clinical, variables=["memory"], covariates=["age"]
    )
    clinical["days"], clinical["one"] = clinical["age"] * 365e6, 1.0
    doubled = associate_indices(
        indices, clinical, variables=["memory"], covariates=["age", "days", "one"]
    )
    pd.testing.assert_frame_equal(plain, doubled, rtol=1e-8)


def test_only_patients_are_included_by_default() -> None:
    indices, clinical = make_clinical_tables()
    indices["group"] = ["control", "patient"] * (N_PEOPLE // 2)
    assert set(associate_indices(indices, clinical, variables=["age"])["n"]) == {
        N_PEOPLE // 2
    }
    assert set(
        associate_indices(indices, clinical, variables=["age"], people="all")["n"]
    ) == {N_PEOPLE}
    with pytest.raises(
        AnalysisError, match="no choice of people 'patient': did you mean 'patients'"
    ):
        associate_indices(indices, clinical, people="patient")


def test_undefined_correlations_have_a_note_and_no_q() -> None:
    indices, clinical = make_clinical_tables()
    clinical["stage"] = np.resize(["a", "b", "c"], N_PEOPLE)
    clinical["same"] = 1.0
    clinical["nobody"] = np.nan
    clinical["rare"] = np.where(np.arange(N_PEOPLE) < 4, 1.0, 0.0)
    clinical["three"] = np.where(np.arange(N_PEOPLE) < 3, np.arange(N_PEOPLE), np.nan)
    clinical["ten"] = np.where(np.arange(N_PEOPLE) < 10, np.arange(N_PEOPLE), np.nan)
    table = associate_indices(indices, clinical).set_index(["index", "variable"])
    notes = table.loc["r1", "note"]
    assert "more than two categories" in notes["stage"]
    assert notes["same"] == "constant"
    assert notes["nobody"] == "no values"
    assert notes["rare"] == "few people: 4 in the smaller group"
    assert "too few people" in notes["three"]
    assert notes["ten"] == "few people: 10"
    assert notes["memory"] == ""
    empty = table.loc["r1"].loc[
        ["stage", "same", "nobody", "three"], ["correlation", "low", "high", "p", "q"]
    ]
    assert empty.isna().all(axis=None)
    defined = table["p"].notna()
    np.testing.assert_allclose(
        table.loc[defined, "q"],
        multipletests(table.loc[defined, "p"], method="fdr_bh")[1],
    )


def test_the_session_of_the_indices_is_joined_and_visits_of_one_person_are_refused() -> (
    None
):
    indices, clinical = make_clinical_tables()
    both = pd.concat(
        [clinical.assign(session_id="b", memory=0.0), clinical.assign(session_id="a")]
    )
    table = associate_indices(
        indices.assign(session_id="a"), both, variables=["memory"]
    )
    pd.testing.assert_frame_equal(
        table, associate_indices(indices, clinical, variables=["memory"])
    )
    twice = pd.concat([indices.assign(session_id="a"), indices.assign(session_id="b")])
    with pytest.raises(AnalysisError, match="more than once in the R-indices"):
        associate_indices(twice, both)


def test_perfect_correlation() -> None:
    indices, _ = make_clinical_tables()
    clinical = pd.DataFrame(
        {"participant_id": indices["participant_id"], "twice": 2 * indices["r1"]}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = get_row(associate_indices(indices, clinical), "r1", "twice")
    assert result["correlation"] == pytest.approx(1)
    assert result["p"] < 1e-100


def test_few_false_discoveries_without_associations() -> None:
    """Forty tables here; a thousand in benchmarks/false_discoveries.py."""
    rng = np.random.default_rng(0)
    discoveries = 0
    for _ in range(40):
        values = rng.normal(size=(60, 7)) + 0.6 * rng.normal(size=(60, 1)) * (
            np.arange(7) < 5
        )
        frame = pd.DataFrame(values, columns=["a", "b", "c", "d", "e", "r1", "r2"])
        frame.insert(0, "participant_id", [str(k) for k in range(60)])
        discoveries += int(
            associate_indices(
                frame[["participant_id", "r1", "r2"]], frame.drop(columns=["r1", "r2"])
            )["q"].min()
            < 0.05
        )
    assert discoveries <= stats.binom.ppf(0.999, 40, 0.05)

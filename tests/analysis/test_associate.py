"""Associations equal what scipy and statsmodels say, are joined by id, and make few false discoveries."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.multitest import multipletests
from typer.testing import CliRunner

from rindices.analysis.associate import associate_indices
from rindices.analysis.tidy import false_discovery_rate
from rindices.cli.main import app
from rindices.errors import AnalysisError

N = 120


def make(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    ids = [f"sub-{k:03d}" for k in range(N)]
    indices = pd.DataFrame(rng.uniform(size=(N, 2)), columns=["r1", "r2"])
    indices.insert(0, "participant_id", ids)
    age = rng.uniform(50, 80, N)
    clinical = pd.DataFrame(
        {
            "participant_id": ids,
            "age": age,
            "sex": rng.choice(["F", "M"], N),
            "memory": -2 * indices["r1"] + 0.05 * age + rng.normal(size=N),
            "carrier": np.where(indices["r2"] + rng.normal(0, 0.5, N) > 0.5, "yes", "no"),
        }
    )
    clinical.loc[3:20, "memory"] = np.nan
    clinical.loc[30:33, "carrier"] = None
    return indices, clinical.sample(frac=1, random_state=seed).reset_index(drop=True)


def row(table: pd.DataFrame, index: str, variable: str) -> pd.Series:
    return table[(table["index"] == index) & (table["variable"] == variable)].iloc[0]


def test_pearson_and_point_biserial_equal_scipy() -> None:
    indices, clinical = make()
    table = associate_indices(indices, clinical)
    both = indices.merge(clinical, on="participant_id")
    for index in ("r1", "r2"):
        for variable in ("age", "memory"):
            known = both.dropna(subset=variable)
            expected = stats.pearsonr(known[index], known[variable])
            found = row(table, index, variable)
            assert (found["kind"], found["n"]) == ("pearson", len(known))
            interval = expected.confidence_interval(0.95)
            np.testing.assert_allclose(
                found[["correlation", "p", "low", "high"]].astype(float),
                [expected.statistic, expected.pvalue, interval.low, interval.high],
                rtol=1e-9,
            )
        known = both.dropna(subset="carrier")
        biserial = stats.pointbiserialr(known["carrier"] == "yes", known[index])
        found = row(table, index, "carrier")
        assert (found["kind"], found["level"], found["n"]) == ("point-biserial", "yes", N - 4)
        np.testing.assert_allclose([found["correlation"], found["p"]], [biserial.statistic, biserial.pvalue], rtol=1e-9)
    np.testing.assert_allclose(table["q"], multipletests(table["p"], method="fdr_bh")[1], rtol=1e-12)


def test_adjusted_equals_a_regression_with_the_covariates() -> None:
    indices, clinical = make()
    table = associate_indices(indices, clinical, variables=["memory", "carrier"], covariates=["age", "sex"])
    assert len(table) == 4
    both = indices.merge(clinical, on="participant_id")
    for index in ("r1", "r2"):
        for variable in ("memory", "carrier"):
            known = both.dropna(subset=variable)
            outcome = known[variable] if variable == "memory" else (known[variable] == "yes").astype(float)
            design = np.column_stack([np.ones(len(known)), known[index], known["age"], known["sex"] == "M"])
            model = sm.OLS(outcome.to_numpy(), design.astype(float)).fit()
            t, freedom = model.tvalues[1], model.df_resid
            found = row(table, index, variable)
            np.testing.assert_allclose(found["correlation"], t / np.sqrt(t**2 + freedom), rtol=1e-8)
            np.testing.assert_allclose(found["p"], model.pvalues[1], rtol=1e-7)
            z, width = np.arctanh(found["correlation"]), 1.959963984540054 / np.sqrt(len(known) - 2 - 3)
            np.testing.assert_allclose(found[["low", "high"]].astype(float), np.tanh([z - width, z + width]), rtol=1e-9)


def test_units_and_redundant_covariates_do_not_matter() -> None:
    indices, clinical = make()
    plain = associate_indices(indices, clinical, variables=["memory"], covariates=["age"])
    clinical["days"], clinical["one"] = clinical["age"] * 365e6, 1.0
    doubled = associate_indices(indices, clinical, variables=["memory"], covariates=["age", "days", "one"])
    pd.testing.assert_frame_equal(plain, doubled, rtol=1e-8)


def test_patients_alone_unless_asked() -> None:
    indices, clinical = make()
    indices["group"] = ["control", "patient"] * (N // 2)
    assert set(associate_indices(indices, clinical, variables=["age"])["n"]) == {N // 2}
    assert set(associate_indices(indices, clinical, variables=["age"], people="all")["n"]) == {N}
    with pytest.raises(AnalysisError, match="no people 'patient': did you mean 'patients'"):
        associate_indices(indices, clinical, people="patient")


def test_what_cannot_be_told_is_said_and_counted_nowhere() -> None:
    indices, clinical = make()
    clinical["stage"] = np.resize(["a", "b", "c"], N)
    clinical["same"] = 1.0
    clinical["nobody"] = np.nan
    clinical["rare"] = np.where(np.arange(N) < 4, 1.0, 0.0)
    clinical["three"] = np.where(np.arange(N) < 3, np.arange(N), np.nan)
    clinical["ten"] = np.where(np.arange(N) < 10, np.arange(N), np.nan)
    table = associate_indices(indices, clinical).set_index(["index", "variable"])
    notes = table.loc["r1", "note"]
    assert "more than two categories" in notes["stage"]
    assert notes["same"] == "the same in everyone"
    assert notes["nobody"] == "no one has it"
    assert notes["rare"] == "few people: 4 in the smaller group"
    assert "too few people" in notes["three"]
    assert notes["ten"] == "few people: 10"
    assert notes["memory"] == ""
    empty = table.loc["r1"].loc[["stage", "same", "nobody", "three"], ["correlation", "low", "high", "p", "q"]]
    assert empty.isna().all(axis=None)
    known = table["p"].notna()
    np.testing.assert_allclose(table.loc[known, "q"], multipletests(table.loc[known, "p"], method="fdr_bh")[1])


def test_tables_that_do_not_fit_are_refused_by_name() -> None:
    indices, clinical = make()
    with pytest.raises(AnalysisError, match="stand more than once in the other table: sub-"):
        associate_indices(indices, pd.concat([clinical, clinical.iloc[:1]]))
    with pytest.raises(AnalysisError, match="no one of the R-indices"):
        associate_indices(indices, clinical.assign(participant_id=[f"x{k}" for k in range(N)]))
    with pytest.raises(AnalysisError, match="no column 'memry' for the variables: did you mean 'memory'"):
        associate_indices(indices, clinical, variables=["memry"])
    with pytest.raises(AnalysisError, match="need the columns participant_id and r1"):
        associate_indices(indices.drop(columns=["r1", "r2"]), clinical)


def test_sessions_are_kept_apart() -> None:
    indices, clinical = make()
    twice = pd.concat([indices.assign(session_id="a"), indices.assign(session_id="b", r1=1 - indices["r1"])])
    both = pd.concat([clinical.assign(session_id="b"), clinical.assign(session_id="a")])
    table = associate_indices(twice, both, variables=["memory"])
    assert table["n"].tolist() == [2 * (N - 18)] * 2
    assert abs(row(table, "r1", "memory")["correlation"]) < 0.05  # one session's sign is turned
    with pytest.raises(AnalysisError, match="more than once in R-indices"):
        associate_indices(twice, clinical)


def test_perfect_correlation() -> None:
    indices, _ = make()
    clinical = pd.DataFrame({"participant_id": indices["participant_id"], "twice": 2 * indices["r1"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = row(associate_indices(indices, clinical), "r1", "twice")
    assert found["correlation"] == pytest.approx(1)
    assert found["p"] < 1e-100


def test_fdr_equals_statsmodels() -> None:
    p = np.random.default_rng(0).uniform(size=400) ** 3
    np.testing.assert_allclose(false_discovery_rate(p), multipletests(p, method="fdr_bh")[1], rtol=1e-12)


def test_few_false_discoveries_where_nothing_is() -> None:
    """A hundred tables here; a thousand in benchmarks/false_discoveries.py."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(100):
        values = rng.normal(size=(60, 7)) + 0.6 * rng.normal(size=(60, 1)) * (np.arange(7) < 5)
        frame = pd.DataFrame(values, columns=["a", "b", "c", "d", "e", "r1", "r2"])
        frame.insert(0, "participant_id", [str(k) for k in range(60)])
        found += int(
            associate_indices(frame[["participant_id", "r1", "r2"]], frame.drop(columns=["r1", "r2"]))["q"].min() < 0.05
        )
    assert found <= stats.binom.ppf(0.999, 100, 0.05)


def test_command(tmp_path: Path) -> None:
    indices, clinical = make()
    indices.to_csv(tmp_path / "r_indices.tsv", sep="\t", index=False)
    clinical = clinical.rename(columns={"participant_id": "ID"})
    clinical["ID"] = clinical["ID"].str.removeprefix("sub-")  # spelt differently, and in another order
    clinical["tau"] = np.where(clinical.index == 5, "<80", (clinical["age"] * 3).round(2).astype(str))
    clinical.to_csv(tmp_path / "clinical.csv", index=False)
    arguments = ["associate", str(tmp_path / "r_indices.tsv"), str(tmp_path / "clinical.csv")]
    done = CliRunner().invoke(app, [*arguments, "--covariates", "age", "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert "'<80' for sub-" in done.stderr
    assert (value["people"], value["covariates"]) == ("patients", ["age"])
    written = pd.read_csv(tmp_path / "out/associations.tsv", sep="\t", na_values="n/a", keep_default_na=False)
    expected = associate_indices(*make(), covariates=["age"])
    for index in ("r1", "r2"):
        for name in ("n", "correlation", "p", "low", "high"):
            assert row(written, index, "memory")[name] == pytest.approx(row(expected, index, "memory")[name])
    assert row(written, "r1", "tau")["n"] == N - 1
    assert row(written, "r1", "carrier")["level"] == "yes"
    meaning = json.loads((tmp_path / "out/associations.json").read_text())
    assert set(written.columns) <= set(meaning)
    assert len(value["results"]) == len(written)

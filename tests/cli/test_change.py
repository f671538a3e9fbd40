"""The commands change and predict."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices.analysis.change import change_per_year
from rindices.analysis.predict import predict_outcome
from rindices.cli.main import app
from rindices.errors import AnalysisError
from tests.analysis.helpers import make_visits
from tests.analysis.test_change import make_group_visits
from tests.analysis.test_predict import make_outcomes


def test_the_time_is_joined_by_person_and_session(tmp_path: Path) -> None:
    frame, _ = make_visits(40, 3)
    frame.drop(columns="age").to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    sessions = frame[["participant_id", "session_id", "age"]].sample(
        frac=1, random_state=0
    )
    sessions.to_csv(tmp_path / "s.tsv", sep="\t", index=False)
    arguments = [
        "change",
        str(tmp_path / "r.tsv"),
        "--participants",
        str(tmp_path / "s.tsv"),
        "--json",
    ]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert (value["people"], value["visits"], value["noise_from"]) == (
        40,
        120,
        "scatter about lines",
    )
    table = pd.read_csv(tmp_path / "out" / "change.tsv", sep="\t")
    expected = change_per_year(frame, "age").table
    pd.testing.assert_frame_equal(table[list(expected)], expected, check_dtype=False)
    assert not (tmp_path / "out" / "change_groups.tsv").exists()
    assert (tmp_path / "out" / "change.png").stat().st_size > 10_000
    assert value["indices"]["r1"]["above_zero"] == int(
        (expected["r1_per_year_low"] > 0).sum()
    )


@pytest.mark.parametrize(
    "session", [pytest.param("ses-0", marks=pytest.mark.slow), "ses-2"]
)
def test_a_group_that_one_visit_has_is_that_of_the_person(
    tmp_path: Path, session: str
) -> None:
    visits = make_group_visits(people=24)
    first = visits.assign(group=visits["group"].where(visits["session_id"] == session))
    results = []
    for name, table in (("all", visits), ("one", first)):
        table.to_csv(tmp_path / f"{name}.tsv", sep="\t", index=False)
        arguments = [
            "change",
            str(tmp_path / f"{name}.tsv"),
            "--group",
            "group",
            "--out",
            str(tmp_path / name),
        ]
        done = CliRunner().invoke(app, [*arguments, "--json"])
        assert done.exit_code == 0, done.output
        results.append(json.loads(done.stdout))
    assert results[0] | {"out": ""} == results[1] | {"out": ""}


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["20200101", "20210101", "20220101"], ""),
        (["0", "365", "730"], "730 years apart: give the time in years"),
        (["01.01.2020", "01.01.2021", "01.01.2022"], "neither years nor dates"),
        (["", "", ""], "no visit has a time"),
    ],
)
def test_times_are_years_or_dates(
    tmp_path: Path, times: list[str], message: str
) -> None:
    frame, _ = make_visits(40, 3)
    order = frame.groupby("participant_id")["age"].rank().astype(int) - 1
    frame.assign(when=order.map(dict(enumerate(times)))).to_csv(
        tmp_path / "r.tsv", sep="\t", index=False
    )
    arguments = [
        "change",
        str(tmp_path / "r.tsv"),
        "--time",
        "when",
        "--out",
        str(tmp_path / "out"),
    ]
    done = CliRunner().invoke(app, arguments)
    if message:
        assert message in str(done.exception)
    else:
        years = pd.read_csv(tmp_path / "out" / "change.tsv", sep="\t")["years"]
        np.testing.assert_allclose(years, 731 / 365.25)


def test_a_code_for_missing_is_no_age(tmp_path: Path) -> None:
    visits = pd.DataFrame(
        {
            "participant_id": [f"s{k // 3}" for k in range(60)],
            "session_id": [str(k % 3) for k in range(60)],
            "r1": np.linspace(0, 1, 60) + np.tile([0, 0.1, 0.25], 20),
            "age": 50.0 + np.arange(60) // 3 + np.arange(60) % 3,
        }
    )
    visits.loc[4, "age"] = -9999
    visits.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    arguments = [
        "change",
        str(tmp_path / "r.tsv"),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, AnalysisError)
    assert "age (-9999 in 1 cell)" in str(done.exception)
    done = CliRunner().invoke(app, [*arguments, "--missing-codes", "-9999"])
    assert json.loads(done.stdout)["visits"] == 59


def test_groups_are_compared_and_earlier_tables_removed(tmp_path: Path) -> None:
    frame = make_group_visits(people=24).rename(columns={"group": "diagnosis"})
    frame["diagnosis"] = frame["diagnosis"].map({"control": "CN", "patient": "AD"})
    frame[["participant_id", "session_id", "r1"]].to_csv(
        tmp_path / "r.tsv", sep="\t", index=False
    )
    frame.drop(columns=["r1", "r1_low", "r2"]).to_csv(
        tmp_path / "s.tsv", sep="\t", index=False
    )
    arguments = [
        "change",
        str(tmp_path / "r.tsv"),
        "--participants",
        str(tmp_path / "s.tsv"),
        "--json",
    ]
    arguments += ["--out", str(tmp_path / "out")]
    groups = ["--group", "diagnosis", "--controls", "CN", "--covariates", "age,sex"]
    done = CliRunner().invoke(app, [*arguments, *groups])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    table = pd.read_csv(tmp_path / "out" / "change_groups.tsv", sep="\t")
    assert table["p"].iloc[0] == value["groups"][0]["p"]
    assert value["groups"][0]["p"] < 0.001
    dictionary = json.loads((tmp_path / "out" / "change_groups.json").read_text())
    assert dictionary["GeneratedBy"]["covariates"] == ["age", "sex"]
    assert {"change_retest.tsv", "change_trial.tsv", "change_groups.png"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert not list((tmp_path / "out").glob("change_groups*"))


def test_tables_are_joined_by_id_and_written_with_dictionaries(tmp_path: Path) -> None:
    indices, outcomes = make_outcomes(100)
    second = indices.assign(session_id="ses-10", r1=0.5)
    pd.concat([second, indices.assign(session_id="ses-2")]).to_csv(
        tmp_path / "r.tsv", sep="\t", index=False
    )
    outcomes.sample(frac=1, random_state=0).to_csv(
        tmp_path / "o.tsv", sep="\t", index=False
    )
    rng = np.random.default_rng(0)
    volumes = pd.DataFrame(
        rng.normal(1000, 50, (len(indices), 4)),
        columns=[f"region{k}" for k in range(4)],
    )
    volumes.insert(0, "participant_id", indices["participant_id"])
    volumes.sample(frac=1, random_state=1).to_csv(tmp_path / "v.csv", index=False)
    arguments = [
        "predict",
        str(tmp_path / "r.tsv"),
        str(tmp_path / "o.tsv"),
        "--event",
        "converted",
    ]
    arguments += [
        "--covariates",
        "age,sex",
        "--regions",
        str(tmp_path / "v.csv"),
        "--out",
        str(tmp_path / "out"),
    ]
    done = CliRunner().invoke(app, [*arguments, "--time", "years", "--json"])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    expected = predict_outcome(
        indices, outcomes, event="converted", time="years", covariates=["age", "sex"]
    )
    coefficients = [row["coefficient"] for row in value["effects"]]
    np.testing.assert_allclose(coefficients, expected.effects["coefficient"], atol=1e-8)
    assert [row["predictors"] for row in value["concordance"]] == [
        "covariates",
        "R-indices and covariates",
        "regions (ridge) and covariates",
    ]
    assert "the first of several sessions is used for 100 people" in done.stderr
    for name in ("effects", "concordance", "survival"):
        table = pd.read_csv(tmp_path / "out" / f"outcome_{name}.tsv", sep="\t")
        dictionary = json.loads((tmp_path / "out" / f"outcome_{name}.json").read_text())
        assert set(table) <= set(dictionary)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "R-indices predict converted" in done.stdout
    assert not (tmp_path / "out" / "outcome_survival.tsv").exists()


def test_shuffled_rows_give_the_same_figures(tmp_path: Path) -> None:
    """Folds were dealt in the order of the rows."""
    indices, outcomes = make_outcomes(100)
    outcomes.to_csv(tmp_path / "o.tsv", sep="\t", index=False)
    concordance = []
    for seed in (0, 1):
        indices.sample(frac=1, random_state=seed).to_csv(
            tmp_path / "r.tsv", sep="\t", index=False
        )
        arguments = [
            "predict",
            str(tmp_path / "r.tsv"),
            str(tmp_path / "o.tsv"),
            "--event",
            "converted",
        ]
        arguments += [
            "--time",
            "years",
            "--covariates",
            "age,sex",
            "--out",
            str(tmp_path / "out"),
        ]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        concordance.append((tmp_path / "out" / "outcome_concordance.tsv").read_text())
    assert concordance[0] == concordance[1]


def test_head_size_in_mm3_and_a_rare_category_do_not_stop_the_regression(
    tmp_path: Path,
) -> None:
    """The regression of covariates as they are in tables was said to be collinear, and
    gave no numbers.
    """
    rng = np.random.default_rng(1)
    indices, outcomes = make_outcomes(180)
    outcomes["icv"] = rng.normal(1.5e6, 1.2e5, 180)
    outcomes["scanner"] = np.repeat(["a", "b", "c"], [90, 84, 6])
    for n_events in (1, 0):
        outcomes.loc[174:, "converted"] = [n_events, 0, 0, 0, 0, 0]
        outcomes.to_csv(tmp_path / "o.tsv", sep="\t", index=False)
        indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
        arguments = [
            "predict",
            str(tmp_path / "r.tsv"),
            str(tmp_path / "o.tsv"),
            "--event",
            "converted",
        ]
        arguments += [
            "--covariates",
            "age,sex,icv,scanner",
            "--out",
            str(tmp_path / "out"),
            "--json",
        ]
        for time in ([], ["--time", "years"]):
            done = CliRunner().invoke(app, [*arguments, *time])
            assert done.exit_code == 0, done.output
            effects = json.loads(done.stdout)["effects"]
            assert all(
                row["ratio"] is not None and 0 < row["error"] < 1 for row in effects
            )
            assert all(
                ("1 column of the covariates has no finite effect" in row["note"])
                == (not n_events)
                for row in effects
            )

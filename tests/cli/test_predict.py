"""The command predict."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from rindices.analysis.predict import predict_outcome
from rindices.cli.main import app
from tests.analysis.test_predict import make_outcomes


def test_tables_are_joined_by_id_and_written_with_dictionaries(tmp_path: Path) -> None:
    indices, outcomes = make_outcomes(100)
    second = indices.assign(session_id="ses-10", r1=0.5)
    pd.concat([second, indices.assign(session_id="ses-2")]).to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    outcomes.sample(frac=1, random_state=0).to_csv(tmp_path / "o.tsv", sep="\t", index=False)
    rng = np.random.default_rng(0)
    volumes = pd.DataFrame(rng.normal(1000, 50, (len(indices), 4)), columns=[f"region{k}" for k in range(4)])
    volumes.insert(0, "participant_id", indices["participant_id"])
    volumes.sample(frac=1, random_state=1).to_csv(tmp_path / "v.csv", index=False)
    arguments = ["predict", str(tmp_path / "r.tsv"), str(tmp_path / "o.tsv"), "--event", "converted"]
    arguments += ["--covariates", "age,sex", "--regions", str(tmp_path / "v.csv"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*arguments, "--time", "years", "--json"])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    expected = predict_outcome(indices, outcomes, event="converted", time="years", covariates=["age", "sex"])
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


def test_head_size_in_mm3_and_a_rare_category_do_not_stop_the_regression(tmp_path: Path) -> None:
    """The regression of covariates as they are in tables was said to be collinear, and gave no numbers."""
    rng = np.random.default_rng(1)
    indices, outcomes = make_outcomes(180)
    outcomes["icv"] = rng.normal(1.5e6, 1.2e5, 180)
    outcomes["scanner"] = np.repeat(["a", "b", "c"], [90, 84, 6])
    for n_events in (1, 0):
        outcomes.loc[174:, "converted"] = [n_events, 0, 0, 0, 0, 0]
        outcomes.to_csv(tmp_path / "o.tsv", sep="\t", index=False)
        indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
        arguments = ["predict", str(tmp_path / "r.tsv"), str(tmp_path / "o.tsv"), "--event", "converted"]
        arguments += ["--covariates", "age,sex,icv,scanner", "--out", str(tmp_path / "out"), "--json"]
        for time in ([], ["--time", "years"]):
            done = CliRunner().invoke(app, [*arguments, *time])
            assert done.exit_code == 0, done.output
            effects = json.loads(done.stdout)["effects"]
            assert all(row["ratio"] is not None and 0 < row["error"] < 1 for row in effects)
            assert all(
                ("1 column of the covariates has no finite effect" in row["note"]) == (not n_events) for row in effects
            )

"""Ratios of R-indices equal statsmodels', are per standard deviation, and hold their
level.
"""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from rindices.analysis.predict import encode_event, predict_outcome, split_into_thirds
from rindices.errors import AnalysisError


def make_outcomes(
    number: int = 150, seed: int = 0, effect: float = 3.0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return R-indices, of which r1 raises the hazard, and outcomes with
    age and sex.
    """
    rng = np.random.default_rng(seed)
    ids = [f"p{k:03d}" for k in range(number)]
    indices = pd.DataFrame(rng.beta(1, 2, (number, 2)), columns=["r1", "r2"])
    indices.insert(0, "participant_id", ids)
    age = rng.normal(70, 6, number)
    years = rng.exponential(
        1 / (0.15 * np.exp(effect * (indices["r1"] - 0.33) + 0.03 * (age - 70)))
    )
    end = rng.uniform(1, 6, number)
    outcomes = pd.DataFrame(
        {"participant_id": ids, "age": age, "sex": rng.choice(["F", "M"], number)}
    )
    outcomes = outcomes.assign(
        years=np.minimum(years, end), converted=(years <= end).astype(int)
    )
    return indices, outcomes


def test_cox_effects_equal_statsmodels() -> None:
    indices, outcomes = make_outcomes()
    result = predict_outcome(
        indices, outcomes, event="converted", time="years", covariates=["age", "sex"]
    )
    design = np.column_stack(
        [
            indices[["r1", "r2"]] / indices[["r1", "r2"]].std(),
            outcomes["age"],
            outcomes["sex"] == "M",
        ]
    ).astype(float)
    expected = sm.PHReg(
        outcomes["years"], design, status=outcomes["converted"], ties="efron"
    ).fit(tol=1e-12)
    joint = result.effects[result.effects["model"] == "joint"]
    np.testing.assert_allclose(joint["coefficient"], expected.params[:2], atol=1e-6)
    np.testing.assert_allclose(joint["p"], expected.pvalues[:2], atol=1e-6)
    np.testing.assert_allclose(
        joint[["low", "high"]], np.exp(expected.conf_int()[:2]), rtol=1e-5
    )
    assert joint["p"].iloc[0] < 0.001 < joint["p"].iloc[1]
    assert (joint["hazards_p"] > 0.001).all()
    assert result.survival is not None
    assert set(result.survival["third"]) == {"low", "middle", "high"}
    table = result.concordance.set_index("predictors")
    assert table.loc["R-indices and covariates", "difference"] > 0.03


def test_a_yes_or_no_outcome_has_odds_ratios() -> None:
    indices, outcomes = make_outcomes()
    outcomes["status"] = outcomes["converted"].map({0: "stable", 1: "converted"})
    with pytest.raises(AnalysisError, match="event_label"):
        predict_outcome(indices, outcomes, event="status")
    result = predict_outcome(
        indices, outcomes, event=("status", "converted"), covariates=["age"]
    )
    design = np.column_stack([indices["r1"] / indices["r1"].std(), outcomes["age"]])
    expected = sm.Logit(outcomes["converted"], sm.add_constant(design)).fit(
        disp=0, tol=1e-12
    )
    single = result.effects[result.effects["model"] == "single"]
    np.testing.assert_allclose(
        single["coefficient"].iloc[0], expected.params.iloc[1], atol=1e-6
    )
    assert set(result.effects["regression"]) == {"logistic"}
    assert result.survival is None
    assert result.effects["hazards_p"].isna().all()


def test_people_who_lack_a_value_are_named_and_wrong_columns_refused() -> None:
    indices, outcomes = make_outcomes()
    outcomes.loc[3, "age"] = np.nan
    result = predict_outcome(
        indices, outcomes, event="converted", time="years", covariates=["age"]
    )
    assert (
        "1 person with missing values of the outcome, an R-index, a covariate or a region: p003"
        in str(next(iter(result.problems)))
    )
    assert set(result.effects["n"]) == {149}
    with pytest.raises(AnalysisError, match="did you mean 'years'"):
        predict_outcome(indices, outcomes, event="converted", time="year")
    with pytest.raises(AnalysisError, match="years is negative: p000"):
        predict_outcome(
            indices,
            outcomes.assign(years=-1.0),
            event="converted",
            time="years",
            missing_codes=["none"],
        )
    doubled = [pd.concat([frame, frame.head(1)]) for frame in (indices, outcomes)]
    with pytest.raises(AnalysisError, match="people appear more than once: p000"):
        predict_outcome(*doubled, event="converted", time="years")


def test_separation_is_said_and_gives_no_numbers() -> None:
    indices, outcomes = make_outcomes(60)
    outcomes["converted"] = (indices["r1"] > indices["r1"].median()).astype(int)
    result = predict_outcome(indices, outcomes, event="converted")
    assert result.effects.loc[0, "note"].startswith("not estimable: separates")
    assert np.isnan(result.effects.loc[0, "ratio"])
    assert any(
        "r1, r2 cannot be estimated" in str(problem) for problem in result.problems
    )


def test_events_are_encoded_by_their_meaning() -> None:
    event, is_known = encode_event(pd.Series(["yes", "No", None, "no"], name="e"))
    assert list(event) == [True, False, False, False]
    assert list(is_known) == [True, True, False, True]
    assert list(encode_event(pd.Series([0.0, 1.0, 1.0], name="e"))[0]) == [
        False,
        True,
        True,
    ]
    with pytest.raises(AnalysisError, match="e needs two values"):
        encode_event(pd.Series([0, 1, 2], name="e"))


def test_thirds_have_equal_sizes() -> None:
    assert list(
        np.bincount(split_into_thirds(np.random.default_rng(0).random(99)))
    ) == [33, 33, 33]


def test_without_statsmodels_one_line_says_how_to_install_it() -> None:
    program = """
from importlib.machinery import PathFinder

find_all = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: (
    None if name == "statsmodels" else find_all(name, *rest)
)
from rindices.analysis import predict_outcome

predict_outcome(None, None, event="converted")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1].endswith(
        "predict needs statsmodels: pip install statsmodels"
    )

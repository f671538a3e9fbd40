"""Models of change: people, groups, trials."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind

from rindices.analysis.change_models import (
    GROUP_COLUMNS,
    RETEST_COLUMNS,
    TRIAL_COLUMNS,
    TrialDesign,
    compute_trial_size,
    describe_people_columns,
    model_change,
)
from rindices.errors import AnalysisError
from tests.analysis.helpers import make_visits


def make_group_visits(n_visits: int = 3, people: int = 80) -> pd.DataFrame:
    """Return visits of controls and patients, whose r1 rises faster, with a covariate that varies with age."""
    frame, _ = make_visits(people, n_visits)
    frame["group"] = np.repeat(np.where(np.arange(people) % 2 == 1, "patient", "control"), n_visits)
    frame["r1"] += 0.06 * (frame["age"] - 60) * (frame["group"] == "patient")
    frame["sex"] = np.repeat(np.random.default_rng(0).choice(["F", "M"], people), n_visits)
    return frame


def test_the_faster_change_of_patients_is_found_in_r1_alone() -> None:
    models = model_change(make_group_visits(), "age", covariates=["age", "sex"])
    assert models.groups is not None
    assert models.retest is not None
    groups = models.groups.set_index("index")
    assert abs(groups.loc["r1", "difference"] - 0.06) < 0.02
    assert groups.loc["r1", "q"] < 0.001
    assert groups.loc["r2", "p"] > 0.05
    assert list(groups["model"]) == ["mixed model"] * 2
    assert list(groups["freedom"]) == [76, 76]  # 80 people less intercept, group, age and sex
    assert list(models.groups) == list(GROUP_COLUMNS)
    assert list(models.trial) == list(TRIAL_COLUMNS)
    assert list(models.retest) == list(RETEST_COLUMNS)
    assert set(models.people) <= set(describe_people_columns(["r1", "r2"]))
    beyond = models.people["r1_change"].abs() > models.retest.set_index("index").loc["r1", "smallest_change"]
    pd.testing.assert_series_equal(models.people["r1_more_than_noise"], beyond, check_names=False)


def test_the_order_of_rows_does_not_matter() -> None:
    frame = make_group_visits(people=24)
    expected = model_change(frame, "age", covariates=["age"])
    result = model_change(frame.sample(frac=1, random_state=0), "age", covariates=["age"])
    pd.testing.assert_frame_equal(result.people, expected.people, atol=1e-5)
    pd.testing.assert_frame_equal(result.groups, expected.groups, rtol=1e-3)


def test_two_visits_use_two_stages_and_say_so_in_one_line() -> None:
    models = model_change(make_group_visits(2), "age", covariates=["sex"])
    assert models.groups is not None
    assert list(models.groups["model"]) == ["two stages"] * 2
    problems = list(models.problems)
    assert len(problems) == 1
    assert "the mixed model could not be fitted (r1 of controls, r2 of controls, r1 of patients" in str(problems[0])
    assert models.people["r1_shrunken"].notna().all()  # the noise is known from controls


def test_two_visits_without_groups_have_no_shrunken_slopes() -> None:
    models = model_change(make_group_visits(2).drop(columns="group"), "age")
    assert models.groups is None
    assert models.retest is None
    assert models.people["r1_shrunken"].isna().all()
    assert models.trial["per_arm"].isna().all()


def test_the_trial_is_sized_by_the_patients_model() -> None:
    trial = TrialDesign(slowing=0.5, power=0.9, years=1, visits=3)
    row = model_change(make_group_visits(), "age", trial=trial).trial.iloc[0]
    expected = compute_trial_size(row["per_year"], row["slope_sd"] ** 2, row["noise"] ** 2, trial)
    assert row["per_arm"] == pytest.approx(expected, abs=1)
    assert row["per_arm_low"] < row["per_arm"] < row["per_arm_high"]


def test_people_without_a_covariate_are_named_and_left_out_of_the_comparison() -> None:
    frame = make_group_visits()
    frame["sex"] = frame["sex"].astype(object).where(frame["participant_id"] != "p0003", None)
    models = model_change(frame, "age", covariates=["sex"])
    assert "1 person lacks a covariate: p0003; left out" in str(next(iter(models.problems)))
    assert models.groups is not None
    assert models.groups["freedom"].iloc[0] == 79 - 3
    assert "p0003" in set(models.people["participant_id"])


def test_too_few_controls_and_unknown_covariates_are_refused() -> None:
    frame = make_group_visits(people=10)
    with pytest.raises(AnalysisError, match="2 controls with two visits are too few"):
        model_change(frame[(frame["group"] == "patient") | frame["participant_id"].isin(["p0000", "p0002"])], "age")
    with pytest.raises(AnalysisError, match="no column 'sexx' for the covariates: did you mean 'sex'"):
        model_change(frame, "age", covariates=["sexx"])


def test_each_index_has_its_columns() -> None:
    columns = describe_people_columns(["r1", "r2"])
    endings = {name.removeprefix("r1_") for name in columns if name.startswith("r1_")}
    assert endings == {name.removeprefix("r2_") for name in columns if name.startswith("r2_")}
    assert "r2" in columns["r2_shrunken"]


def test_simulated_trials_have_the_stated_power() -> None:
    number = int(compute_trial_size(0.1, 0.05**2, 0.04**2, TrialDesign(slowing=0.3, years=2, visits=5)))
    rng = np.random.default_rng(0)
    centred = np.linspace(-1, 1, 5)
    slopes = rng.normal(0.1, 0.05, (1000, 2, number)) - np.array([0.0, 0.03])[:, None]
    noise = rng.normal(0, 0.04, (1000, 2, number, 5)) @ centred / (centred @ centred)
    measured = slopes + noise
    p = ttest_ind(measured[:, 0], measured[:, 1], axis=1).pvalue
    assert np.mean(p < 0.05) == pytest.approx(0.8, abs=0.04)


def test_no_change_needs_an_infinite_trial_and_wrong_shares_are_refused() -> None:
    assert compute_trial_size(0.0, 1.0, 1.0, TrialDesign()) == np.inf
    with pytest.raises(AnalysisError, match="slowing 30 is not between 0 and 1"):
        compute_trial_size(0.1, 1.0, 1.0, TrialDesign(slowing=30))
    with pytest.raises(AnalysisError, match="visits at two times"):
        compute_trial_size(0.1, 1.0, 1.0, TrialDesign(years=0))

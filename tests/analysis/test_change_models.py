"""Models of change by group: tables, covariates, retest limits, and what is said where a model cannot be fitted."""

import numpy as np
import pandas as pd
import pytest

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
    schedule = np.array([0, 0.5, 1])
    expected = compute_trial_size(row["per_year"], row["slope_sd"] ** 2, row["noise"] ** 2, schedule, 0.5, 0.9)
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

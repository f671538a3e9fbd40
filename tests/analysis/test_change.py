"""Slopes equal those of scipy, intervals cover the true change as often as they should;
groups and trials.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress, ttest_ind

from rindices.analysis.change import (
    NOMINAL_COVERAGE,
    TrialDesign,
    change_per_year,
    compute_trial_size,
)
from rindices.errors import AnalysisError, RindicesError
from rindices.wording import load_columns
from tests.analysis.helpers import make_visits


def compute_coverage(visits: int, seed: int = 0) -> float:
    frame, slopes = make_visits(600, visits, seed=seed)
    table = change_per_year(frame, "age").table
    low, high = (
        table[[f"r{k}_per_year_{end}" for k in (1, 2)]].to_numpy()
        for end in ("low", "high")
    )
    return float(((low <= slopes) & (slopes <= high)).mean())


def test_slopes_equal_scipy_in_any_order_of_rows() -> None:
    frame, _ = make_visits(12, 4)
    result = change_per_year(frame.sample(frac=1, random_state=1), "age")
    rest = {"r1": 0.0, "r2": 0.0}
    for row in result.table.itertuples():
        person = frame[frame["participant_id"] == row.participant_id]
        for name in rest:
            line = linregress(person["age"], person[name])
            np.testing.assert_allclose(
                getattr(row, f"{name}_per_year"), line.slope, rtol=1e-9
            )
            rest[name] += float(
                (
                    (person[name] - line.intercept - line.slope * person["age"]) ** 2
                ).sum()
            )
        np.testing.assert_allclose(row.years, np.ptp(person["age"]))
    np.testing.assert_allclose(
        result.noise, np.sqrt(np.array(list(rest.values())) / 24), rtol=1e-9
    )
    assert (result.freedom, result.noise_from_residuals) == (24, True)


@pytest.mark.parametrize("visits", [3, 5])
def test_intervals_cover_the_true_change_at_their_nominal_rate(visits: int) -> None:
    shares = [compute_coverage(visits, seed) for seed in range(4)]
    assert abs(np.mean(shares) - NOMINAL_COVERAGE) < 0.02


def test_intervals_of_two_visits_are_too_wide_and_give_a_warning() -> None:
    frame, _ = make_visits(600, 2)
    result = change_per_year(frame, "age")
    assert not result.noise_from_residuals
    assert any(
        "hardly anyone has three visits" in problem.what for problem in result.problems
    )
    assert compute_coverage(2) > NOMINAL_COVERAGE - 0.02


def test_dates_are_accepted_and_single_visits_left_out() -> None:
    frame, _ = make_visits(30, 3)
    days = pd.to_datetime("2010-01-01") + pd.to_timedelta(
        ((frame["age"] - 60) * 365.25).round(), unit="D"
    )
    dated = frame.assign(when=days.dt.strftime("%Y-%m-%d")).iloc[:-2]
    result = change_per_year(dated, "when")
    np.testing.assert_allclose(
        result.table["r1_per_year"],
        change_per_year(frame.iloc[:-2], "age").table["r1_per_year"],
        atol=2e-3,
    )
    assert len(result.table) == 29
    assert any(
        "1 person has a single visit" in problem.what for problem in result.problems
    )


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda f: f.drop(columns=["r1", "r2"]),
            "needs the columns participant_id and r1",
        ),
        (lambda f: f.rename(columns={"age": "agee"}), "did you mean 'agee'"),
        (lambda f: f.assign(age="soon"), "neither years nor dates"),
        (lambda f: f[f["session_id"] == "ses-0"], "nobody has two visits"),
        (lambda f: pd.concat([f, f.iloc[:1]]), "visits appear more than once: p0000"),
    ],
)
def test_wrong_tables_are_refused_by_name(spoil: object, message: str) -> None:
    with pytest.raises(RindicesError, match=message):
        change_per_year(spoil(make_visits(8, 3)[0]), "age")  # type: ignore[operator]


def make_group_visits(n_visits: int = 3, people: int = 80) -> pd.DataFrame:
    """Return visits of controls and patients, whose r1 rises faster, with a covariate
    that varies with age.
    """
    frame, _ = make_visits(people, n_visits)
    frame["group"] = np.repeat(
        np.where(np.arange(people) % 2 == 1, "patient", "control"), n_visits
    )
    frame["r1"] += 0.06 * (frame["age"] - 60) * (frame["group"] == "patient")
    frame["sex"] = np.repeat(
        np.random.default_rng(0).choice(["F", "M"], people), n_visits
    )
    return frame


def test_the_faster_change_of_patients_is_found_in_r1_alone() -> None:
    models = change_per_year(make_group_visits(), "age", covariates=["age", "sex"])
    assert models.groups is not None
    assert models.retest is not None
    groups = models.groups.set_index("index")
    assert abs(groups.loc["r1", "difference"] - 0.06) < 0.02
    assert groups.loc["r1", "q"] < 0.001
    assert groups.loc["r2", "p"] > 0.05
    assert list(groups["model"]) == ["mixed model"] * 2
    assert list(groups["freedom"]) == [
        76,
        76,
    ]  # 80 people less intercept, group, age and sex
    assert list(models.groups) == list(load_columns("change_groups"))
    assert list(models.trial) == list(load_columns("change_trial"))
    assert list(models.retest) == list(load_columns("change_retest"))
    columns = [
        name.format(index=index)
        for index in ("r1", "r2")
        for name in load_columns("change")
    ]
    assert list(models.table) == list(dict.fromkeys(columns))
    beyond = (
        models.table["r1_change"].abs()
        > models.retest.set_index("index").loc["r1", "smallest_change"]
    )
    pd.testing.assert_series_equal(
        models.table["r1_more_than_noise"], beyond, check_names=False
    )


def test_the_order_of_rows_does_not_matter() -> None:
    frame = make_group_visits(people=24)
    expected = change_per_year(frame, "age", covariates=["age"])
    result = change_per_year(
        frame.sample(frac=1, random_state=0), "age", covariates=["age"]
    )
    pd.testing.assert_frame_equal(result.table, expected.table, atol=1e-5)
    pd.testing.assert_frame_equal(result.groups, expected.groups, rtol=1e-3)


def test_two_visits_use_two_stages_and_say_so_in_one_line() -> None:
    models = change_per_year(make_group_visits(2), "age", covariates=["sex"])
    assert models.groups is not None
    assert list(models.groups["model"]) == ["two stages"] * 2
    (problem,) = (each for each in models.problems if "mixed model" in each.what)
    assert (
        "the mixed model could not be fitted (r1 of controls, r2 of controls, r1 of patients"
        in str(problem)
    )
    assert models.table["r1_shrunken"].notna().all()  # the noise is known from controls


def test_two_visits_without_groups_have_no_shrunken_slopes() -> None:
    models = change_per_year(make_group_visits(2).drop(columns="group"), "age")
    assert models.groups is None
    assert models.retest is None
    assert models.table["r1_shrunken"].isna().all()
    assert models.trial["per_arm"].isna().all()


def test_the_trial_is_sized_by_the_patients_model() -> None:
    trial = TrialDesign(slowing=0.5, power=0.9, years=1, visits=3)
    row = change_per_year(make_group_visits(), "age", trial=trial).trial.iloc[0]
    expected = compute_trial_size(
        row["per_year"], row["slope_sd"] ** 2, row["noise"] ** 2, trial
    )
    assert row["per_arm"] == pytest.approx(expected, abs=1)
    assert row["per_arm_low"] < row["per_arm"] < row["per_arm_high"]


def test_people_without_a_covariate_are_named_and_left_out_of_the_comparison() -> None:
    frame = make_group_visits()
    frame["sex"] = (
        frame["sex"].astype(object).where(frame["participant_id"] != "p0003", None)
    )
    models = change_per_year(frame, "age", covariates=["sex"])
    assert "1 person without a covariate: p0003; left out" in str(
        next(iter(models.problems))
    )
    assert models.groups is not None
    assert models.groups["freedom"].iloc[0] == 79 - 3
    assert "p0003" in set(models.table["participant_id"])


def test_too_few_controls_and_unknown_covariates_are_refused() -> None:
    frame = make_group_visits(people=10)
    with pytest.raises(AnalysisError, match="2 controls with two visits are too few"):
        change_per_year(
            frame[
                (frame["group"] == "patient")
                | frame["participant_id"].isin(["p0000", "p0002"])
            ],
            "age",
        )
    with pytest.raises(
        AnalysisError, match="no column 'sexx' for the covariates: did you mean 'sex'"
    ):
        change_per_year(frame, "age", covariates=["sexx"])


def test_simulated_trials_have_the_stated_power() -> None:
    number = int(
        compute_trial_size(
            0.1, 0.05**2, 0.04**2, TrialDesign(slowing=0.3, years=2, visits=5)
        )
    )
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

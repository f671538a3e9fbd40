"""Adjustment for covariates: estimated in controls, checked for new people."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import rindices as ri
from rindices.errors import PreprocessingError
from rindices.preprocess.residualise import (
    CategoricalCovariate,
    NumericCovariate,
    build_design_matrix,
    check_control_number,
    derive_codings,
)
from tests.preprocess.helpers import make_cohort
from tests.tables.helpers import N, make_people, make_table, write_table


def test_adjustment_equals_ordinary_regression_in_controls() -> None:
    cohort = make_cohort(patient_shift=500)
    design = np.column_stack(
        [cohort.covariates["age"], cohort.covariates["sex"] == "M"]
    ).astype(float)
    volumes = cohort.volumes.to_numpy()
    line = LinearRegression().fit(design[cohort.is_control], volumes[cohort.is_control])
    residuals = volumes - line.predict(design)
    expected = 1 + 0.1 * residuals / residuals[cohort.is_control].std(axis=0, ddof=1)
    np.testing.assert_allclose(
        ri.Preprocessing.fit(cohort, adjust="linear").transform(cohort),
        expected,
        rtol=1e-9,
    )


def test_adjustment_on_the_log_scale_equals_a_regression_of_logarithms() -> None:
    cohort = make_cohort(patient_shift=500)
    icv = np.random.default_rng(0).uniform(1.2e6, 1.8e6, len(cohort))
    cohort = replace(cohort, covariates=cohort.covariates.assign(icv=icv))
    design = np.column_stack(
        [cohort.covariates["age"], cohort.covariates["sex"] == "M", np.log(icv)]
    ).astype(float)
    logs = np.log(cohort.volumes.to_numpy())
    line = LinearRegression().fit(design[cohort.is_control], logs[cohort.is_control])
    residuals = logs - line.predict(design)
    expected = 1 + 0.1 * residuals / residuals[cohort.is_control].std(axis=0, ddof=1)
    preprocessing = ri.Preprocessing.fit(cohort)
    assert preprocessing.adjust == "log"
    np.testing.assert_allclose(preprocessing.transform(cohort), expected, rtol=1e-8)


def test_head_size_enters_as_its_logarithm_only_on_the_log_scale() -> None:
    covariates = pd.DataFrame(
        {
            "age": [50.0, 60.0, 70.0],
            "eTIV": [1.2e6, 1.5e6, 1.4e6],
            "activity": [1.0, 2.0, 3.0],
        }
    )
    assert [coding.log for coding in derive_codings(covariates, log=True)] == [
        False,
        True,
        False,
    ]  # type: ignore[union-attr]
    assert [coding.log for coding in derive_codings(covariates)] == [
        False,
        False,
        False,
    ]  # type: ignore[union-attr]
    np.testing.assert_allclose(
        build_design_matrix(derive_codings(covariates, log=True), covariates)[:, 1],
        np.log(covariates["eTIV"]),
    )


def test_two_numbers_are_categories_and_the_first_category_is_the_reference() -> None:
    covariates = pd.DataFrame(
        {"age": [50.0, 60.0, 70.0], "sex": [1, 0, 1], "scanner": ["b", "a", "c"]}
    )
    codings = derive_codings(covariates)
    assert codings == (
        NumericCovariate(name="age", low=50.0, high=70.0),
        CategoricalCovariate("sex", ("0", "1")),
        CategoricalCovariate("scanner", ("a", "b", "c")),
    )
    expected = [[50, 1, 1, 0], [60, 0, 0, 0], [70, 1, 0, 1]]
    np.testing.assert_array_equal(build_design_matrix(codings, covariates), expected)


def test_no_covariates() -> None:
    cohort = make_cohort(covariates=pd.DataFrame(index=range(200)))
    values = ri.Preprocessing.fit(cohort, adjust="linear").transform(cohort)
    raw = cohort.volumes.to_numpy()
    controls = raw[cohort.is_control]
    np.testing.assert_allclose(
        values, 1 + 0.1 * (raw - controls.mean(0)) / controls.std(0, ddof=1), rtol=1e-12
    )


def test_constant_covariate_is_ignored_with_a_warning() -> None:
    cohort = make_cohort()
    constant = replace(cohort, covariates=cohort.covariates.assign(sex="F", field=3.0))
    without = replace(cohort, covariates=cohort.covariates[["age"]])
    preprocessing = ri.Preprocessing.fit(constant)
    expected = ri.Preprocessing.fit(without).transform(without)
    np.testing.assert_allclose(preprocessing.transform(constant), expected, rtol=1e-10)
    messages = [str(problem) for problem in preprocessing.review(constant)]
    assert any(
        "field, sex is the same in all controls" in message for message in messages
    )


def test_category_unseen_in_controls_is_refused_by_name() -> None:
    cohort = make_cohort()
    covariates = cohort.covariates.copy()
    covariates.loc[1, "sex"] = "X"  # a patient
    unseen = replace(cohort, covariates=covariates)
    with pytest.raises(
        PreprocessingError, match="sex has X, which no control has: p001"
    ):
        ri.Preprocessing.fit(unseen).transform(unseen)


def test_people_outside_the_range_of_controls_are_adjusted_with_a_warning() -> None:
    cohort = make_cohort()
    covariates = cohort.covariates.copy()
    covariates["age"] = covariates["age"].clip(50, 70)
    covariates.loc[[0, 2], "age"] = [50.0, 70.0]  # controls
    covariates.loc[1, "age"] = 99.0
    older = replace(cohort, covariates=covariates)
    preprocessing = ri.Preprocessing.fit(older)
    assert np.isfinite(preprocessing.transform(older)).all()
    (problem,) = preprocessing.review(older)
    assert str(problem.severity) == "warning"
    assert "1 person is outside the controls' range of age" in problem.what
    assert problem.offenders == ("p001",)
    assert preprocessing.review(older, whole=False) == []


def test_a_person_with_several_visits_outside_the_range_counts_once() -> None:
    cohort = make_cohort()
    preprocessing = ri.Preprocessing.fit(cohort)
    covariates, people = cohort.covariates.copy(), cohort.people.copy()
    covariates["age"] = covariates["age"].clip(50, 70)
    covariates.loc[[1, 3], "age"] = 99.0
    people.loc[3, "participant_id"] = people.loc[1, "participant_id"]
    (problem,) = preprocessing.review(
        replace(cohort, covariates=covariates, people=people)
    )
    assert problem.what.startswith("1 person is outside the controls' range of age")


@pytest.mark.parametrize("factor", [1e-6, 12.0])
def test_a_covariate_in_another_unit_is_refused(factor: float) -> None:
    cohort = make_cohort()
    training = replace(
        cohort, covariates=cohort.covariates.assign(age=cohort.covariates["age"] + 100)
    )
    preprocessing = ri.Preprocessing.fit(training)
    other = replace(
        training,
        covariates=training.covariates.assign(age=training.covariates["age"] * factor),
    )
    with pytest.raises(
        PreprocessingError,
        match=r"the median age is \S+ here; it was 1\d\d\.?\d* to 1[78]\d",
    ):
        preprocessing.transform(other)


def test_collinear_covariates_share_their_effect_with_a_warning() -> None:
    cohort = make_cohort()
    doubled = replace(
        cohort,
        covariates=cohort.covariates.assign(months=cohort.covariates["age"] * 12),
    )
    preprocessing = ri.Preprocessing.fit(doubled)
    expected = ri.Preprocessing.fit(cohort).transform(cohort)
    np.testing.assert_allclose(preprocessing.transform(doubled), expected, rtol=1e-8)
    assert any(
        "follow from the others" in problem.what
        for problem in preprocessing.review(doubled)
    )


def test_more_covariates_than_controls_are_refused() -> None:
    columns = pd.DataFrame(
        np.random.default_rng(0).normal(size=(10, 3)), columns=list("abc")
    )
    with pytest.raises(
        PreprocessingError,
        match=r"too few controls \(4\) to adjust for 3 covariate columns",
    ):
        ri.Preprocessing.fit(make_cohort(n_people=8, covariates=columns[:8]))
    with pytest.raises(PreprocessingError, match=r"\(1\): at least 2 are needed"):
        check_control_number(1, 0)
    enough = make_cohort(
        n_people=10, covariates=columns
    )  # one control more than an exact fit needs
    assert np.isfinite(ri.Preprocessing.fit(enough).transform(enough)).all()


def test_a_covariate_that_was_a_number_in_training_must_be_one(tmp_path: Path) -> None:
    volumes = write_table(make_table(), tmp_path / "v.csv")
    coded = write_table(
        make_people(sex=[0, 1] * 30, bmi=np.linspace(20, 30, N)), tmp_path / "p.csv"
    )
    recoded = write_table(make_people(bmi=["low", "high"] * 30), tmp_path / "q.csv")
    for name, message in (
        ("sex", "sex has F, M, which no control has.*Known are 0, 1"),
        ("bmi", "bmi was a number"),
    ):
        fitted = ri.Preprocessing.fit(
            ri.read_cohort(volumes, coded, group="diagnosis", covariates=[name])
        )
        with pytest.raises(ri.RindicesError, match=message):
            fitted.transform(
                ri.read_cohort(volumes, recoded, group="diagnosis", covariates=[name])
            )


def test_another_unit_or_coding_in_a_table_is_refused(tmp_path: Path) -> None:
    volumes = write_table(make_table(), tmp_path / "v.csv")
    first = write_table(
        make_people(sex=[0, 1] * 30, TIV=np.linspace(1.2e6, 1.8e6, N)),
        tmp_path / "p.csv",
    )
    other = write_table(
        make_people(sex=[1, 2] * 30, TIV=np.linspace(1200, 1800, N)), tmp_path / "q.csv"
    )
    for name, message in (
        ("icv", "another unit"),
        ("sex", "sex has 2, which no control has"),
    ):
        fitted = ri.Preprocessing.fit(
            ri.read_cohort(volumes, first, group="diagnosis", covariates=[name])
        )
        with pytest.raises(ri.RindicesError, match=message):
            fitted.transform(
                ri.read_cohort(volumes, other, group="diagnosis", covariates=[name])
            )

"""Preprocessing is learnt on controls only, has one path for everyone, and says what it cannot do."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import rindices as ri
from rindices.errors import PreprocessingError
from rindices.tables.cohort import Cohort

R = 12


def make(
    people: int = 200, seed: int = 0, patients_shift: float = 0.0, covariates: pd.DataFrame | None = None
) -> Cohort:
    rng = np.random.default_rng(seed)
    if covariates is None:
        covariates = pd.DataFrame(
            {"age": rng.uniform(40, 80, people), "sex": rng.choice(["F", "M"], people).astype(object)}
        )
    volumes = 3000 + rng.normal(0, 100, size=(people, R))
    if "age" in covariates:
        volumes -= 7 * covariates["age"].to_numpy()[:, None]
    if "sex" in covariates:
        volumes += 90 * (covariates["sex"] == "M").to_numpy()[:, None]
    group = np.array(["control", "patient"] * (people // 2), dtype=object)
    volumes[group == "patient"] += patients_shift
    frame = pd.DataFrame({"participant_id": [f"p{k:03d}" for k in range(people)], "group": group})
    return Cohort(pd.DataFrame(volumes, columns=[f"r{k}" for k in range(R)]), frame, covariates)


def test_controls_get_mean_1_and_sd_01() -> None:
    cohort = make(patients_shift=500)
    values = ri.Preprocessing.fit(cohort).transform(cohort)[cohort.is_control]
    np.testing.assert_allclose(values.mean(axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(values.std(axis=0, ddof=1), 0.1, atol=1e-12)


def test_adjustment_equals_ordinary_regression_in_controls() -> None:
    cohort = make(patients_shift=500)
    design = np.column_stack([cohort.covariates["age"], cohort.covariates["sex"] == "M"]).astype(float)
    volumes = cohort.volumes.to_numpy()
    line = LinearRegression().fit(design[cohort.is_control], volumes[cohort.is_control])
    residuals = volumes - line.predict(design)
    expected = 1 + 0.1 * residuals / residuals[cohort.is_control].std(axis=0, ddof=1)
    np.testing.assert_allclose(ri.Preprocessing.fit(cohort).transform(cohort), expected, rtol=1e-9)


def test_patients_do_not_touch_the_fit() -> None:
    one, other = make(patients_shift=0), make(patients_shift=900)
    a, b = ri.Preprocessing.fit(one), ri.Preprocessing.fit(other)
    for name, array in a.to_arrays().items():
        np.testing.assert_array_equal(array, b.to_arrays()[name])


def test_one_path_for_new_people_in_any_order() -> None:
    cohort = make()
    fitted = ri.Preprocessing.fit(cohort)
    everyone = fitted.transform(cohort)
    some = cohort.take(np.arange(0, 200, 7))
    np.testing.assert_array_equal(fitted.transform(some), everyone[::7])
    turned = replace(some, volumes=some.volumes.iloc[:, ::-1].assign(extra=1.0))
    np.testing.assert_array_equal(fitted.transform(turned), everyone[::7])


def test_it_serialises_to_plain_arrays_and_json() -> None:
    cohort = make()
    fitted = ri.Preprocessing.fit(cohort)
    values = json.loads(json.dumps(fitted.to_dict()))
    again = ri.Preprocessing.from_parts(values, fitted.to_arrays())
    np.testing.assert_array_equal(again.transform(cohort), fitted.transform(cohort))
    assert again.to_dict() == fitted.to_dict()


def test_no_covariates() -> None:
    cohort = make(covariates=pd.DataFrame(index=range(200)))
    values = ri.Preprocessing.fit(cohort).transform(cohort)
    raw = cohort.volumes.to_numpy()
    controls = raw[cohort.is_control]
    np.testing.assert_allclose(values, 1 + 0.1 * (raw - controls.mean(0)) / controls.std(0, ddof=1), rtol=1e-12)


def test_constant_covariate_is_ignored_and_said() -> None:
    cohort = make()
    constant = replace(cohort, covariates=cohort.covariates.assign(sex="F", field=3.0))
    without = replace(cohort, covariates=cohort.covariates[["age"]])
    fitted = ri.Preprocessing.fit(constant)
    np.testing.assert_allclose(fitted.transform(constant), ri.Preprocessing.fit(without).transform(without), rtol=1e-10)
    messages = [str(problem) for problem in fitted.review(constant)]
    assert any("field, sex is the same in all controls" in message for message in messages)


def test_constant_region_is_refused_by_name() -> None:
    cohort = make()
    volumes = cohort.volumes.copy()
    volumes.loc[cohort.is_control, "r3"] = 5.0
    flat = replace(cohort, volumes=volumes, covariates=pd.DataFrame(index=range(200)))
    with pytest.raises(PreprocessingError, match=r"constant in the controls: r3\. .*--exclude"):
        ri.Preprocessing.fit(flat)


def test_units_do_not_matter_and_rounding_is_not_variation() -> None:
    """A region that is constant up to rounding is refused; one in litres, whose numbers are as small, is not."""
    cohort = make()
    expected = ri.Preprocessing.fit(cohort).transform(cohort)
    litres = replace(cohort, volumes=cohort.volumes / 1e6)
    np.testing.assert_allclose(ri.Preprocessing.fit(litres).transform(litres), expected, rtol=1e-9)
    volumes = cohort.volumes.copy()
    volumes["r3"] = np.where(np.arange(200) % 4 < 2, 0.3, 0.1 + 0.2)
    with pytest.raises(PreprocessingError, match=r"constant in the controls: r3\."):
        ri.Preprocessing.fit(replace(cohort, volumes=volumes))


def test_category_unseen_in_controls_is_refused_by_name() -> None:
    cohort = make()
    covariates = cohort.covariates.copy()
    covariates.loc[1, "sex"] = "X"  # a patient
    strange = replace(cohort, covariates=covariates)
    with pytest.raises(PreprocessingError, match="sex has X, which no control has: p001"):
        ri.Preprocessing.fit(strange).transform(strange)


def test_outside_the_controls_range_is_adjusted_and_said() -> None:
    cohort = make()
    covariates = cohort.covariates.copy()
    covariates["age"] = covariates["age"].clip(50, 70)
    covariates.loc[[0, 2], "age"] = [50.0, 70.0]  # controls
    covariates.loc[1, "age"] = 99.0
    older = replace(cohort, covariates=covariates)
    fitted = ri.Preprocessing.fit(older)
    assert np.isfinite(fitted.transform(older)).all()
    (problem,) = fitted.review(older)
    assert str(problem.severity) == "warning"
    assert "1 person is outside the controls' range of age" in problem.what
    assert "p001" in problem.what


@pytest.mark.parametrize("factor", [1e-6, 12.0])
def test_a_covariate_of_another_unit_is_refused(factor: float) -> None:
    cohort = make()
    bigger = replace(cohort, covariates=cohort.covariates.assign(age=cohort.covariates["age"] + 100))
    fitted = ri.Preprocessing.fit(bigger)
    other = replace(bigger, covariates=bigger.covariates.assign(age=bigger.covariates["age"] * factor))
    with pytest.raises(PreprocessingError, match=r"age is \S+ in the typical person here, 1\d\d\.?\d* to 1[78]\d"):
        fitted.transform(other)


def test_collinear_covariates_are_shared_and_said() -> None:
    cohort = make()
    doubled = replace(cohort, covariates=cohort.covariates.assign(months=cohort.covariates["age"] * 12))
    fitted = ri.Preprocessing.fit(doubled)
    np.testing.assert_allclose(fitted.transform(doubled), ri.Preprocessing.fit(cohort).transform(cohort), rtol=1e-8)
    assert any("follow from the others" in problem.what for problem in fitted.review(doubled))


def test_more_covariates_than_controls() -> None:
    columns = pd.DataFrame(np.random.default_rng(0).normal(size=(10, 3)), columns=list("abc"))
    with pytest.raises(PreprocessingError, match="4 controls cannot carry 3 covariate columns"):
        ri.Preprocessing.fit(make(people=8, covariates=columns[:8]))
    enough = make(people=10, covariates=columns)  # one control more than a line through all of them would need
    assert np.isfinite(ri.Preprocessing.fit(enough).transform(enough)).all()


def test_missing_regions_and_covariates_are_named() -> None:
    cohort = make()
    fitted = ri.Preprocessing.fit(cohort)
    with pytest.raises(PreprocessingError, match="1 regions are missing: r3"):
        fitted.transform(replace(cohort, volumes=cohort.volumes.drop(columns="r3")))
    with pytest.raises(PreprocessingError, match="covariates are missing: sex"):
        fitted.transform(replace(cohort, covariates=cohort.covariates[["age"]]))


def test_no_controls() -> None:
    cohort = make()
    with pytest.raises(PreprocessingError, match="no controls"):
        ri.Preprocessing.fit(cohort.take(cohort.is_patient))

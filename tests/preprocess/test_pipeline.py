"""Preprocessing as a whole: estimated on controls, the same for training people and new
people.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

import rindices as ri
from rindices.errors import PreprocessingError, ProblemCode
from tests.preprocess.helpers import make_cohort


def test_patients_do_not_change_the_estimates() -> None:
    mild, severe = make_cohort(patient_shift=0), make_cohort(patient_shift=900)
    mild_arrays, severe_arrays = (
        ri.Preprocessing.fit(mild).to_arrays(),
        ri.Preprocessing.fit(severe).to_arrays(),
    )
    for name, array in mild_arrays.items():
        np.testing.assert_array_equal(array, severe_arrays[name])


def test_new_people_in_any_order_get_the_same_values() -> None:
    cohort = make_cohort()
    preprocessing = ri.Preprocessing.fit(cohort)
    values = preprocessing.transform(cohort)
    subset = cohort.take(np.arange(0, 200, 7))
    np.testing.assert_array_equal(preprocessing.transform(subset), values[::7])
    reversed_columns = replace(
        subset, volumes=subset.volumes.iloc[:, ::-1].assign(extra=1.0)
    )
    np.testing.assert_array_equal(
        preprocessing.transform(reversed_columns), values[::7]
    )


@pytest.mark.parametrize("adjust", ["log", "linear"])
def test_restored_volumes_have_the_changed_values(adjust: str) -> None:
    cohort = make_cohort()
    preprocessing = ri.Preprocessing.fit(cohort, adjust=adjust)
    values, volumes = preprocessing.transform(cohort), cohort.volumes.to_numpy()
    changed = values + np.random.default_rng(1).normal(0.0, 0.2, values.shape)
    restored = preprocessing.restore(volumes, values, changed)
    again = replace(
        cohort,
        volumes=cohort.volumes.assign(
            **dict(zip(cohort.volumes, restored.T, strict=True))
        ),
    )
    np.testing.assert_allclose(preprocessing.transform(again), changed, rtol=1e-9)


def test_it_is_rebuilt_from_arrays_and_json() -> None:
    cohort = make_cohort()
    preprocessing = ri.Preprocessing.fit(cohort)
    record = json.loads(json.dumps(preprocessing.to_dict()))
    rebuilt = ri.Preprocessing.from_parts(record, preprocessing.to_arrays())
    np.testing.assert_array_equal(
        rebuilt.transform(cohort), preprocessing.transform(cohort)
    )
    assert rebuilt.to_dict() == preprocessing.to_dict()


def test_missing_regions_and_covariates_are_named() -> None:
    cohort = make_cohort()
    preprocessing = ri.Preprocessing.fit(cohort)
    with pytest.raises(PreprocessingError, match="1 regions are missing: r3"):
        preprocessing.transform(
            replace(cohort, volumes=cohort.volumes.drop(columns="r3"))
        )
    with pytest.raises(PreprocessingError, match="covariates are missing: sex"):
        preprocessing.transform(replace(cohort, covariates=cohort.covariates[["age"]]))


def test_no_controls() -> None:
    cohort = make_cohort()
    with pytest.raises(PreprocessingError, match="no controls"):
        ri.Preprocessing.fit(cohort.take(cohort.is_patient))


def test_without_adjustment_covariates_are_not_used() -> None:
    cohort = make_cohort()
    without = replace(cohort, covariates=cohort.covariates.iloc[:, :0])
    values = ri.Preprocessing.fit(cohort, adjust="none").transform(cohort)
    np.testing.assert_array_equal(
        values, ri.Preprocessing.fit(without, adjust="linear").transform(without)
    )


@pytest.mark.parametrize("adjust", ["log", "linear", "none"])
def test_the_scale_survives_storage(adjust: str) -> None:
    cohort = make_cohort()
    cohort = replace(
        cohort,
        covariates=cohort.covariates.assign(icv=np.linspace(1.2e6, 1.8e6, len(cohort))),
    )
    first = ri.Preprocessing.fit(cohort, adjust=adjust)
    again = ri.Preprocessing.from_parts(
        json.loads(json.dumps(first.to_dict())), first.to_arrays()
    )
    assert again.adjust == adjust
    np.testing.assert_array_equal(again.transform(cohort), first.transform(cohort))


def test_values_without_a_logarithm_are_refused_by_name() -> None:
    cohort = make_cohort()
    preprocessing = ri.Preprocessing.fit(cohort)
    volumes = cohort.volumes.copy()
    volumes.loc[3, "r1"] = 0.0
    problems = preprocessing.review(replace(cohort, volumes=volumes))
    assert any(
        "takes logarithms, and values of r1 are not positive" in str(problem)
        for problem in problems
    )
    assert [
        list(p.offenders) for p in problems if p.code == ProblemCode.NEGATIVE_VALUES
    ] == [[str(cohort.people["participant_id"][3])]]

"""Preprocessing as a whole: estimated on controls, the same for training people and new people."""

import json
from dataclasses import replace

import numpy as np
import pytest

import rindices as ri
from rindices.errors import PreprocessingError
from tests.preprocess.helpers import make_cohort


def test_patients_do_not_change_the_estimates() -> None:
    mild, severe = make_cohort(patient_shift=0), make_cohort(patient_shift=900)
    mild_arrays, severe_arrays = ri.Preprocessing.fit(mild).to_arrays(), ri.Preprocessing.fit(severe).to_arrays()
    for name, array in mild_arrays.items():
        np.testing.assert_array_equal(array, severe_arrays[name])


def test_new_people_in_any_order_get_the_same_values() -> None:
    cohort = make_cohort()
    preprocessing = ri.Preprocessing.fit(cohort)
    values = preprocessing.transform(cohort)
    subset = cohort.take(np.arange(0, 200, 7))
    np.testing.assert_array_equal(preprocessing.transform(subset), values[::7])
    reversed_columns = replace(subset, volumes=subset.volumes.iloc[:, ::-1].assign(extra=1.0))
    np.testing.assert_array_equal(preprocessing.transform(reversed_columns), values[::7])


def test_it_is_rebuilt_from_arrays_and_json() -> None:
    cohort = make_cohort()
    preprocessing = ri.Preprocessing.fit(cohort)
    record = json.loads(json.dumps(preprocessing.to_dict()))
    rebuilt = ri.Preprocessing.from_parts(record, preprocessing.to_arrays())
    np.testing.assert_array_equal(rebuilt.transform(cohort), preprocessing.transform(cohort))
    assert rebuilt.to_dict() == preprocessing.to_dict()


def test_missing_regions_and_covariates_are_named() -> None:
    cohort = make_cohort()
    preprocessing = ri.Preprocessing.fit(cohort)
    with pytest.raises(PreprocessingError, match="1 regions are missing: r3"):
        preprocessing.transform(replace(cohort, volumes=cohort.volumes.drop(columns="r3")))
    with pytest.raises(PreprocessingError, match="covariates are missing: sex"):
        preprocessing.transform(replace(cohort, covariates=cohort.covariates[["age"]]))


def test_no_controls() -> None:
    cohort = make_cohort()
    with pytest.raises(PreprocessingError, match="no controls"):
        ri.Preprocessing.fit(cohort.take(cohort.is_patient))

"""Scaling to the mean and standard deviation of controls."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.errors import PreprocessingError
from rindices.preprocess.standardise import (
    Standardiser,
    find_constant_regions,
    shrink_covariance,
    shrink_normal_covariance,
)
from tests.preprocess.helpers import make_cohort


def test_controls_get_mean_1_and_sd_01() -> None:
    cohort = make_cohort(patient_shift=500)
    values = ri.Preprocessing.fit(cohort).transform(cohort)[cohort.is_control]
    np.testing.assert_allclose(values.mean(axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(values.std(axis=0, ddof=1), 0.1, atol=1e-12)


def test_constant_region_is_refused_by_name() -> None:
    cohort = make_cohort()
    volumes = cohort.volumes.copy()
    volumes.loc[cohort.is_control, "r3"] = 5.0
    constant = replace(
        cohort, volumes=volumes, covariates=pd.DataFrame(index=range(200))
    )
    with pytest.raises(
        PreprocessingError, match=r"constant in the controls: r3\. .*--exclude"
    ):
        ri.Preprocessing.fit(constant)


def test_values_do_not_depend_on_the_unit_and_rounding_is_not_variation() -> None:
    """A region that is constant up to rounding is refused; a region in litres, with
    numbers as small, is not.
    """
    cohort = make_cohort()
    expected = ri.Preprocessing.fit(cohort).transform(cohort)
    litres = replace(cohort, volumes=cohort.volumes / 1e6)
    np.testing.assert_allclose(
        ri.Preprocessing.fit(litres).transform(litres), expected, rtol=1e-9
    )
    volumes = cohort.volumes.copy()
    volumes["r3"] = np.where(np.arange(200) % 4 < 2, 0.3, 0.1 + 0.2)
    with pytest.raises(PreprocessingError, match=r"constant in the controls: r3\."):
        ri.Preprocessing.fit(replace(cohort, volumes=volumes))


def test_constant_regions_are_listed_in_order() -> None:
    mean, sd = np.array([1.0, 0.0, 1e-6, 5.0]), np.array([0.0, 0.0, 1e-7, 1e-15])
    assert find_constant_regions(mean, sd, ["a", "b", "c", "d"]) == ["a", "b", "d"]


def test_one_control_is_too_few() -> None:
    with pytest.raises(PreprocessingError, match="1 controls are too few"):
        Standardiser.fit(np.ones((1, 2)), ["a", "b"])


def test_shrinkage_of_normal_people_is_that_of_their_lengths() -> None:
    rng = np.random.default_rng(0)
    covariance = np.cov(rng.normal(size=(6, 40)) * np.arange(1, 7)[:, None])
    people = rng.multivariate_normal(np.zeros(6), covariance, size=400_000)
    fourth_power = 20 * float(
        np.mean(np.square(people).sum(axis=1) ** 2)
    )  # of twenty people, as expected
    found = shrink_normal_covariance(covariance, 20)
    np.testing.assert_allclose(
        found, shrink_covariance(covariance, fourth_power, 20), rtol=0.005
    )
    weight = 1 - found[0, 1] / covariance[0, 1]
    assert 0.05 < weight < 0.95  # the test would say nothing at an end of the range

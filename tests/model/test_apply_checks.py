"""Checks of a table and of its R-indices when a model is applied."""

import numpy as np
import pandas as pd
import pytest

from rindices.errors import ModelError
from rindices.model.apply_checks import check_regions, check_results, check_scale
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.tables.cohort import Cohort


@pytest.fixture
def cohort() -> Cohort:
    volumes = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    people = pd.DataFrame({"participant_id": ["p1", "p2"]})
    return Cohort(volumes, people, pd.DataFrame(index=volumes.index), "table", "mm3")


def test_the_regions_and_the_unit_of_the_model_pass(cohort: Cohort) -> None:
    check_regions(cohort, ("b", "a"), "mm3")


@pytest.mark.parametrize(
    ("regions", "unit", "message"),
    [
        (("a", "b", "c"), "mm3", "1 regions are missing: c"),
        (("a",), "mm3", "1 columns are not regions of this model: b"),
        (("a", "b"), "mm", "convert it"),
    ],
)
def test_another_table_is_refused(cohort: Cohort, regions: tuple[str, ...], unit: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_regions(cohort, regions, unit)


def test_a_region_on_another_scale_is_named() -> None:
    values = np.full((5, 2), CONTROL_MEAN)
    check_scale(values, ("a", "b"))
    values[:, 1] += 1000 * CONTROL_SD
    with pytest.raises(ModelError, match=r"1 region is scaled differently than in training: b"):
        check_scale(values, ("a", "b"))


def test_people_whose_results_are_not_finite_are_named(cohort: Cohort) -> None:
    check_results(cohort, [np.zeros(2)])
    with pytest.raises(ModelError, match="1 person is not a number") as raised:
        check_results(cohort, [np.zeros(2), np.array([0.0, np.nan])])
    assert raised.value.problems[0].offenders == ("p2",)

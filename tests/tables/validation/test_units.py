"""Units are guessed from the magnitude of values."""

import numpy as np
import pytest

from rindices.tables.validation.units import Unit, find_scale_outliers, guess_unit
from tests.conftest import muse_volumes


@pytest.mark.parametrize(
    ("factor", "unit"), [(1.0, Unit.MM3), (1e-3, Unit.ML), (1 / 1.4e6, Unit.NORMALISED), (1e9, Unit.UNKNOWN)]
)
def test_units_of_volumes(factor: float, unit: Unit) -> None:
    values = muse_volumes().iloc[:, 2:].to_numpy() * factor
    assert guess_unit(values, np.median(values, axis=0)) is unit


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (1.0, 0.1)])
def test_standardised_values(mean: float, sd: float) -> None:
    values = np.random.default_rng(0).normal(mean, sd, size=(50, 30))
    assert guess_unit(values, np.median(values, axis=0)) is Unit.STANDARDISED


def test_thickness_in_mm() -> None:
    values = np.random.default_rng(0).uniform(1.8, 3.6, size=(50, 30))
    assert guess_unit(values, np.median(values, axis=0)) is Unit.MM


def test_values_of_another_scale_are_found() -> None:
    values = np.full((10, 4), 2000.0)
    values[3, 1], values[7, 2] = 2.0, 2e6
    values[5, 0] = 0.0  # a zero is another problem
    outliers = find_scale_outliers(values, np.median(values, axis=0))
    assert (list(outliers.people), list(outliers.regions), outliers.cells) == ([3, 7], [1, 2], 2)


def test_a_table_without_values_has_no_unit() -> None:
    values = np.full((3, 2), np.nan)
    assert guess_unit(values, np.full(2, np.nan)) is Unit.UNKNOWN


def test_extreme_values_do_not_overflow() -> None:
    values = np.array([[1.0, 1.0], [1.9e154, 1.0], [2e300, 1.0]])
    assert guess_unit(values, np.median(values, axis=0)) is not Unit.STANDARDISED
    assert find_scale_outliers(values, np.array([1e307, 1.0])).cells == 3


def test_infinite_and_missing_values_are_ignored() -> None:
    values = np.array([[np.inf, np.nan], [1.0, np.nan], [1e300, np.nan]])
    assert guess_unit(values, np.array([1.0, np.nan])) is not Unit.STANDARDISED

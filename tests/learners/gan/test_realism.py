"""Synthetic patients that equal real ones in distribution, and such that differ in one
respect alone.
"""

import numpy as np
import pytest

from rindices.errors import InputError
from rindices.learners.gan.realism import measure_realism


@pytest.fixture
def draw():
    rng = np.random.default_rng(3)
    mixing = rng.normal(size=(12, 12)) / np.sqrt(12)
    return lambda number: rng.normal(size=(number, 12)) @ mixing


def test_people_of_one_distribution_cannot_be_told_apart(draw) -> None:
    realism = measure_realism(draw(400), draw(400))
    assert realism.best_auc < 0.58
    assert realism.mean_error < 0.1
    assert realism.sd_error < 0.1


def test_means_that_differ_are_seen(draw) -> None:
    realism = measure_realism(draw(300), draw(300) + 0.8)
    assert realism.auc["logistic regression with squares"] > 0.8
    assert realism.mean_error == pytest.approx(0.8, abs=0.1)


def test_variances_that_differ_are_seen(draw) -> None:
    realism = measure_realism(draw(300), 1.7 * draw(300))
    assert realism.auc["logistic regression with squares"] > 0.7
    assert realism.mean_error < 0.2


def test_correlations_that_differ_are_seen_by_the_quadratic_discriminant() -> None:
    rng = np.random.default_rng(5)
    shared = rng.normal(size=(400, 1))
    correlated = 0.8 * shared + 0.6 * rng.normal(size=(400, 12))
    realism = measure_realism(rng.normal(size=(400, 12)), correlated)
    assert realism.auc["quadratic discriminant"] > 0.85
    assert realism.auc["logistic regression with squares"] < 0.6
    assert realism.mean_error < 0.15


def test_too_few_patients_are_an_error() -> None:
    with pytest.raises(
        InputError,
        match="10 synthetic patients are too few to compare; at least 30 are needed",
    ):
        measure_realism(np.zeros((40, 3)), np.zeros((10, 3)))

"""Values of arrays in files: each array has what its name asks for."""

import numpy as np
import pytest

from rindices.array_checks import LARGEST_NUMBER, find_array_fault, find_interval_fault

SINGULAR = np.cov(np.random.default_rng(0).normal(size=(5, 12)), rowvar=False)


@pytest.mark.parametrize(
    ("name", "array", "fault"),
    [
        ("patterns", [1.0, np.nan], "not finite"),
        ("patterns", [1.0, -np.inf], "not finite"),
        ("patterns", [10 * LARGEST_NUMBER], "beyond"),
        ("standardise.sd", [1.0, 0.0], "positive, but its smallest value is 0"),
        ("harmonise.scale", [[1.0], [-1.0]], "positive"),
        ("member3.control_scale", [1e-300], "positive"),
        ("training.distances", [-1.0, 2.0], "negative"),
        ("training.distances", [2.0, 1.0], "ascending"),
        ("intervals.knots", [[1.0, 2.0], [2.0, 1.0]], "ascending"),
        ("member0.share", 1.5, "at most 1"),
        ("training.covariance", [[1.0, 0.0], [0.0, 0.0]], "positive variances"),
        ("training.covariance", [[1.0, 0.5], [0.2, 1.0]], "symmetric"),
        ("training.covariance", [[1.0, 2.0], [2.0, 1.0]], "positive definite"),
    ],
)
def test_faults_are_named(name: str, array: list[float], fault: str) -> None:
    assert fault in find_array_fault(name, np.array(array))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("patterns", np.zeros((0, 3))),
        ("standardise.mean", np.array([-1.0, 0.0])),
        ("training.covariance", SINGULAR),
        ("training.distances", np.array([0.0, 1.0, 1.0])),
        ("member0.share", np.array(0.0)),
    ],
)
def test_good_values_pass(name: str, array: np.ndarray) -> None:
    assert find_array_fault(name, array) == ""


def test_offsets_of_intervals_are_ordered() -> None:
    low, middle, high = (np.full((2, 3), value) for value in (-1.0, 0.0, 1.0))
    assert find_interval_fault(low, middle, high) == ""
    assert "between" in find_interval_fault(high, middle, low)
    assert "between" in find_interval_fault(low, middle + 2, high)

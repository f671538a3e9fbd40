"""Intervals: nominal coverage if the error is known, wider if members differ, and
always around the R-index.
"""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import rindices as ri
from rindices.learners.inference import SEVERITY_LEVELS, SurrealHead
from rindices.model import intervals
from rindices.model.intervals import (
    CalibratedIntervals,
    MemberControls,
    calibrate_intervals,
)


class HeadStub(SurrealHead):
    """A head that infers by a function."""

    def __init__(self, function: Callable[[np.ndarray], np.ndarray]) -> None:
        object.__setattr__(self, "infer", function)


def make_linear_patterns(
    width: int = 8,
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Return two patterns (Q, M, R) on disjoint regions, the weights of the inverse (R,
    M) and a generator.
    """
    patterns = np.zeros((2, width))
    patterns[0, : width // 2] = patterns[1, width // 2 :] = -3.0
    weights = np.linalg.pinv(patterns)
    return (
        np.stack([severity * patterns for severity in SEVERITY_LEVELS]),
        weights,
        np.random.default_rng(0),
    )


@pytest.mark.parametrize(
    ("excess", "expression"),
    [(1.0, 0.0), (intervals.NOISE_INFLATION, intervals.EXPRESSION_SD)],
)
def test_coverage_is_nominal_if_the_model_is_correct(
    monkeypatch: pytest.MonkeyPatch, excess: float, expression: float
) -> None:
    """Gaussian people, linear patterns and an exact inverse; coverage is tested at low,
    middle and high R-indices.

    New people vary more than controls, and express their patterns differently, by the
    amounts of the constants.
    """
    monkeypatch.setattr(intervals, "NOISE_INFLATION", excess)
    monkeypatch.setattr(intervals, "EXPRESSION_SD", expression)
    curves, weights, rng = make_linear_patterns()

    def people(z: np.ndarray) -> np.ndarray:
        expressed = z + expression * z.std(axis=0) * rng.normal(size=z.shape)
        return 1 + 0.1 * (
            (excess if z.any() else 1.0) * rng.normal(size=(len(z), 8))
            + expressed @ curves[-1]
        )

    def infer(values: np.ndarray) -> np.ndarray:
        return (values - 1) / 0.1 @ weights

    z, new = rng.random((4000, 2)), rng.random((4000, 2))
    patients = people(z)
    members = [MemberControls(HeadStub(infer), (0, 1), people(np.zeros((4000, 2))))]
    calibrated = calibrate_intervals(members, curves, infer(patients), 0.8, 0)
    r = infer(people(new))
    low, high = calibrated.compute_bounds(r, np.zeros_like(r))
    truth = np.stack(
        [np.quantile(infer(patients)[:, k], new[:, k]) for k in range(2)], axis=1
    )
    covered = (low <= truth) & (truth <= high)
    assert covered.mean(axis=0) == pytest.approx([0.9, 0.9], abs=0.03)
    third = np.digitize(r[:, 0], np.quantile(r[:, 0], [1 / 3, 2 / 3]))
    for part in range(3):
        assert covered[third == part, 0].mean() == pytest.approx(0.9, abs=0.05)


def test_changes_are_interpolated_between_severities() -> None:
    rng = np.random.default_rng(0)
    curves, z = rng.normal(size=(len(SEVERITY_LEVELS), 2, 5)), rng.random((50, 2))
    z[0], z[1] = 0.0, 1.0
    levels = [0.0, *SEVERITY_LEVELS]
    expected = [
        [
            sum(
                np.interp(person[k], levels, [0.0, *curves[:, k, region]])
                for k in range(2)
            )
            for region in range(5)
        ]
        for person in z
    ]
    with_none = np.concatenate([np.zeros((1, 2, 5)), curves])
    changes = list(intervals.iterate_changes(np.array(levels), with_none, z, None))
    assert_allclose(np.sum(changes, axis=0), expected, atol=1e-12)


def test_growth_is_relative_to_others_of_medium_severity() -> None:
    z = np.array([[0.2, 0.5], [0.5, 1.0], [0.9, 0.0]])
    levels, curves, interaction = (
        np.array([0.0, 1.0]),
        np.ones((2, 2, 1)),
        np.array([[0.0, 1.0], [0.0, 0.0]]),
    )
    growth = np.stack(
        list(intervals.iterate_changes(levels, curves, z, interaction)), axis=1
    )[..., 0]
    assert_allclose(growth, [[1.0, 1.0], [2.0 / 1.5, 1.0], [1.0 / 1.5, 1.0]])


def make_intervals(members: float = 4.0) -> CalibratedIntervals:
    knots = np.array([[0.0, 1.0]])
    return CalibratedIntervals(
        knots=knots,
        low=knots * 0 - 0.2,
        middle=knots * 0 + 0.1,
        high=knots * 0 + 0.3,
        error=np.array([0.15]),
        members=np.array(members),
    )


def test_variance_among_members_widens_the_interval() -> None:
    r = np.array([[0.5], [0.5]])
    low, high = make_intervals().compute_bounds(r, np.array([[0.0], [0.15**2 / 4 * 3]]))
    assert_allclose(
        low[:, 0], [0.3, 0.5 + 0.1 - 0.6], atol=1e-12
    )  # sqrt(1 + 4 * 3/4) = 2, about the middle
    assert_allclose(high[:, 0], [0.8, 0.5 + 0.1 + 0.4])


def test_missing_regions_widen_the_interval_by_the_variance_that_they_add() -> None:
    r, variance, added = (
        np.array([[0.5]]),
        np.array([[0.15**2 / 4]]),
        np.array([[6 * 0.15**2]]),
    )
    assert_allclose(
        make_intervals().compute_widening(variance, added), [[2.0]]
    )  # sqrt(1 + 6 / (1 + 1))
    low, high = make_intervals().compute_bounds(r, variance, added)
    assert_allclose(
        [low[0, 0], high[0, 0]],
        [0.6 - 0.3 * np.sqrt(2) * 2, 0.6 + 0.2 * np.sqrt(2) * 2],
    )


@settings(deadline=None)
@given(
    r=st.floats(-5, 5),
    variance=st.floats(0, 9),
    low=st.floats(-1, 1),
    high=st.floats(-1, 1),
)
def test_the_interval_contains_the_index(
    r: float, variance: float, low: float, high: float
) -> None:
    ends = np.array([[min(low, high)]]), np.array([[max(low, high)]])
    calibrated = CalibratedIntervals(
        knots=np.array([[0.0]]),
        low=ends[0],
        middle=(ends[0] + ends[1]) / 2,
        high=ends[1],
        error=np.array([0.1]),
        members=np.array(4.0),
    )
    lower, upper = calibrated.compute_bounds(np.array([[r]]), np.array([[variance]]))
    assert lower[0, 0] <= r <= upper[0, 0]


def test_calibration_depends_on_the_seed_alone() -> None:
    curves, weights, rng = make_linear_patterns()
    controls, patients = rng.normal(1, 0.1, (50, 8)), rng.normal(0.9, 0.1, (60, 8))
    members = [MemberControls(HeadStub(lambda x: x @ weights), (0, 1), controls)]
    runs = [
        calibrate_intervals(members, curves, patients @ weights, 0.8, 3)
        for _ in range(2)
    ]
    for name, array in vars(runs[0]).items():
        assert_array_equal(getattr(runs[1], name), array)
        assert (
            array.shape == CalibratedIntervals.shapes(2, runs[0].knots.shape[1])[name]
        )
    assert runs[0].members == pytest.approx(4.0)
    assert (
        calibrate_intervals(members, curves, patients @ weights, 1.0, 3).members == 1.0
    )


@pytest.mark.slow
def test_coverage_of_a_fitted_model_on_new_patients() -> None:
    """With the fast method, the coverage in new people is within a few points of
    nominal.
    """
    from rindices.selection.agreement import pattern_c_index

    model = ri.fit(
        ri.simulate_cohort("basic", seed=3).cohort,
        3,
        members=5,
        method="contrastive",
        workers=1,
    )
    simulated = ri.simulate_cohort("basic", seed=4)
    table = model.apply(simulated.cohort)[simulated.cohort.is_patient]
    r, low, high = (
        table[[f"r{k}{end}" for k in (1, 2, 3)]].to_numpy()
        for end in ("", "_low", "_high")
    )
    shares = []
    for k, j in enumerate(pattern_c_index(simulated.truth, r).matching):
        truth = np.quantile(
            r[:, j], (simulated.truth[:, k].argsort().argsort() + 0.5) / len(r)
        )
        shares.append(((low[:, j] <= truth) & (truth <= high[:, j])).mean())
    assert np.mean(shares) == pytest.approx(0.9, abs=0.05)

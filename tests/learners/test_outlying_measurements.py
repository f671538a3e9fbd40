"""Wrong cells: planted ones are found, others are not, and residuals are those of a
naive regression.
"""

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.learners import outlying_measurements
from rindices.learners.outlying_measurements import (
    CellComparison,
    _compute_residuals,
    _compute_wrapped_residuals,
    _predict_robustly,
    compare_new_cells,
    find_outlying_measurements,
)
from rindices.learners.prepared_people import deal_folds, hash_people
from rindices.tables.cohort import Cohort


def compare_cohort(cohort: Cohort, volumes: np.ndarray) -> CellComparison:
    design = pd.get_dummies(cohort.covariates, drop_first=True).to_numpy(dtype=float)
    groups = cohort.is_patient.astype(np.intp)
    return find_outlying_measurements(
        np.log(volumes),
        design,
        groups,
        deal_folds(hash_people(volumes, 0, 0), groups.tolist()),
    )


def plant_cells(volumes: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return volumes of which a share is multiplied or divided by 2 to 4, and the mask
    of these cells.
    """
    rng = np.random.default_rng(0)
    mask = rng.random(volumes.shape) < share
    factor = np.exp(
        rng.choice([-1, 1], volumes.shape)
        * rng.uniform(np.log(2), np.log(4), volumes.shape)
    )
    return np.where(mask, volumes * factor, volumes), mask


@pytest.mark.parametrize(("task", "seed"), [("small", 900), ("hard", 901)])
def test_planted_cells_are_found_and_others_are_not(task: str, seed: int) -> None:
    cohort = ri.simulate_cohort(task, seed).cohort
    clean = cohort.volumes.to_numpy(dtype=float)
    assert compare_cohort(cohort, clean).is_wrong.mean() <= 1e-4
    volumes, mask = plant_cells(clean, 0.003)
    volumes[3, :5] = np.nan
    mask[3, :5] = False
    comparison = compare_cohort(cohort, volumes)
    assert comparison.is_wrong[mask].mean() >= 0.97
    assert comparison.is_wrong[~mask].mean() <= 1e-4
    found = comparison.is_wrong & mask
    error = np.abs(comparison.expected - np.log(clean))[found]
    assert (
        np.median(error)
        < 0.1
        < np.median(np.abs(np.log(volumes) - np.log(clean))[found])
    )


def test_a_person_whose_row_fails_is_named_as_such() -> None:
    cohort = ri.simulate_cohort("small", 902).cohort
    volumes = cohort.volumes.to_numpy(dtype=float).copy()
    volumes[7] *= np.random.default_rng(0).choice([0.2, 5.0], volumes.shape[1])
    volumes[8] *= 1000.0
    assert np.flatnonzero(compare_cohort(cohort, volumes).is_failed).tolist() == [7, 8]


def test_residuals_are_those_of_a_regression_on_the_measured_cells() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(6, 6))
    covariance, z = root @ root.T + np.eye(6), rng.normal(size=(4, 6))
    z[1, 2] = np.nan
    is_candidate = np.zeros(z.shape, dtype=bool)
    is_candidate[0, 1] = is_candidate[1, 4] = is_candidate[2, :2] = True
    residuals, expected = _compute_residuals(z, is_candidate, np.linalg.inv(covariance))
    for row, column in np.argwhere(is_candidate):
        others = np.flatnonzero(~is_candidate[row] & ~np.isnan(z[row]))
        slopes = np.linalg.solve(
            covariance[np.ix_(others, others)], covariance[others, column]
        )
        variance = covariance[column, column] - covariance[column, others] @ slopes
        assert expected[row, column] == pytest.approx(z[row, others] @ slopes)
        assert residuals[row, column] == pytest.approx(
            (z[row, column] - z[row, others] @ slopes) / np.sqrt(variance)
        )
    others = np.arange(5)
    slopes = np.linalg.solve(covariance[:5, :5], covariance[:5, 5])
    assert expected[3, 5] == pytest.approx(z[3, others] @ slopes)
    assert np.isnan(residuals[1, 2])


def test_residuals_of_ordinary_cells_are_those_of_a_regression_on_all_others() -> None:
    rng = np.random.default_rng(5)
    root = rng.normal(size=(6, 6))
    covariance = root @ root.T / 6 + np.eye(6)
    z = np.clip(rng.multivariate_normal(np.zeros(6), covariance, size=5), -1.0, 1.0)
    residuals = _compute_wrapped_residuals(z, np.linalg.inv(covariance))
    for column in range(6):
        others = np.delete(np.arange(6), column)
        slopes = np.linalg.solve(
            covariance[np.ix_(others, others)], covariance[others, column]
        )
        sd = np.sqrt(covariance[column, column] - covariance[column, others] @ slopes)
        np.testing.assert_allclose(
            residuals[:, column], (z[:, column] - z[:, others] @ slopes) / sd
        )


def test_outlying_measurements_do_not_move_the_adjustment() -> None:
    rng = np.random.default_rng(2)
    age = rng.uniform(-1, 1, 300)
    values = 2.0 * age[:, None] + rng.normal(size=(300, 1))
    columns = np.column_stack([np.ones(300), age])
    clean = _predict_robustly(values, columns)
    values[np.argsort(age)[-6:], 0] += 100.0
    assert np.abs(_predict_robustly(values, columns) - clean).max() < 0.3
    naive = columns @ np.linalg.lstsq(columns, values, rcond=None)[0]
    assert np.abs(naive - clean).max() > 2.0


def test_small_tables_have_no_outlying_measurements_and_small_groups_are_compared_together() -> (
    None
):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(60, 12)) + 3.0 * rng.normal(size=(60, 1))
    groups, folds = np.repeat([0, 1], [55, 5]).astype(np.intp), np.arange(60) % 5
    values[57, 3] += 30.0
    comparison = find_outlying_measurements(values, np.zeros((60, 0)), groups, folds)
    assert np.argwhere(comparison.is_wrong).tolist() == [[57, 3]]
    assert not find_outlying_measurements(
        values[:, :9], np.zeros((60, 0)), groups, folds
    ).is_wrong.any()
    assert not find_outlying_measurements(
        values[45:], np.zeros((15, 0)), groups[45:], folds[45:]
    ).is_wrong.any()


def test_new_people_are_compared_with_the_training_people_in_any_chunk() -> None:
    rng = np.random.default_rng(4)
    covariance = 0.7 + 0.3 * np.eye(20)
    people = rng.multivariate_normal(np.zeros(20), covariance, size=600) * 0.1
    people[5, 3] += 0.5
    people[9] = np.resize([0.9, -0.9], 20)
    sd, precision = np.full(20, 0.1), np.linalg.inv(covariance) / 0.01
    comparison = compare_new_cells(people, sd, precision, 1.0)
    assert comparison.is_wrong[5].nonzero()[0].tolist() == [3]
    assert np.flatnonzero(comparison.is_failed).tolist() == [9]
    assert comparison.is_wrong.any(axis=1).sum() == 2
    for scale, is_found in (
        (1.5, True),
        (2.0, False),
    ):  # the cell is about 9 deviations off, the limit is 5.5
        assert (
            compare_new_cells(people[5:6], sd, precision, scale).is_wrong[0, 3]
            == is_found
        )
    parts = [
        compare_new_cells(part, sd, precision, 1.0).is_wrong
        for part in (people[:7], people[7:])
    ]
    np.testing.assert_array_equal(np.concatenate(parts), comparison.is_wrong)


def test_wide_tables_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has the answer that it has alone."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(120, 3)) @ rng.normal(size=(3, 24))
    values += rng.normal(0, 0.3, values.shape)
    values[5, 3], values[7, 20] = 40.0, -40.0
    design, groups = np.ones((120, 1)), np.repeat([0, 1], 60)
    folds = np.arange(120) % outlying_measurements.N_FOLDS

    def compare(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = outlying_measurements.find_outlying_measurements(
            part, design, groups, folds
        )
        return found.is_wrong, found.expected

    alone = [compare(part) for part in np.hsplit(values, 2)]
    monkeypatch.setattr(outlying_measurements, "MAX_REGIONS", 12)
    together = compare(values)
    for one, both in zip(zip(*alone, strict=True), together, strict=True):
        np.testing.assert_array_equal(np.hstack(one), both)
    assert together[0][5, 3]
    assert together[0][7, 20]

"""Missing cells: every product of measured regions equals the one with the measured
part of the covariance.
"""

import numpy as np
import pytest

from rindices.learners.missing_cells import (
    complete_people,
    fill_missing_cells,
    group_by_missing_cells,
    iterate_missing_regions,
)

N_REGIONS = 9


def make_covariance(rng: np.random.Generator) -> np.ndarray:
    root = rng.normal(size=(N_REGIONS, N_REGIONS))
    return root @ root.T + np.eye(N_REGIONS)


def make_people(
    rng: np.random.Generator, covariance: np.ndarray, n: int, share: float = 0.3
) -> np.ndarray:
    people = rng.multivariate_normal(np.zeros(N_REGIONS), covariance, size=n)
    people[rng.random(people.shape) < share] = np.nan
    people[np.isnan(people).all(axis=1), 0] = 0.5
    return people


def test_groups_hold_everyone_who_lacks_a_region_once() -> None:
    people = make_people(np.random.default_rng(0), np.eye(N_REGIONS), 60, 0.1)
    groups = group_by_missing_cells(people)
    assert (
        sorted(row for group in groups for row in group.rows)
        == np.flatnonzero(np.isnan(people).any(axis=1)).tolist()
    )
    for rows, missing in groups:
        assert all(
            np.flatnonzero(np.isnan(people[row])).tolist() == missing.tolist()
            for row in rows
        )
    assert group_by_missing_cells(np.ones((3, 2))) == []


def test_filled_cells_are_conditional_expectations() -> None:
    rng = np.random.default_rng(1)
    covariance = make_covariance(rng)
    people = make_people(rng, covariance, 40)
    filled, scatter = fill_missing_cells(people, np.linalg.inv(covariance))
    expected, expected_scatter = people.copy(), np.zeros_like(covariance)
    for person in expected:
        m = np.isnan(person)
        slope = np.linalg.solve(covariance[np.ix_(~m, ~m)], covariance[np.ix_(~m, m)])
        person[m] = person[~m] @ slope
        expected_scatter[np.ix_(m, m)] += (
            covariance[np.ix_(m, m)] - covariance[np.ix_(m, ~m)] @ slope
        )
    np.testing.assert_allclose(filled, expected)
    np.testing.assert_allclose(scatter, expected_scatter, atol=1e-12)


def test_reduced_products_are_those_of_the_measured_regions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "rindices.learners.missing_cells._MAX_BLOCK_CELLS", 60
    )  # several batches
    rng = np.random.default_rng(2)
    covariance, steps = make_covariance(rng), rng.normal(size=(N_REGIONS, 4))
    people = make_people(rng, covariance, 30)
    precision = np.linalg.inv(covariance)
    zeros = np.where(np.isnan(people), 0.0, people)
    seen = []
    for regions in iterate_missing_regions(people, precision):
        reduced = regions.reduce(precision @ steps)
        lost = regions.reduce_people((zeros @ precision)[regions.rows])
        for person, group, lost_of_person in zip(
            regions.rows, regions.group, lost, strict=True
        ):
            o = ~np.isnan(people[person])
            inverse = np.linalg.inv(covariance[np.ix_(o, o)])
            gram = steps.T @ precision @ steps - reduced[group].T @ reduced[group]
            np.testing.assert_allclose(gram, steps[o].T @ inverse @ steps[o])
            numbers = (
                zeros[person] @ precision @ steps - lost_of_person @ reduced[group]
            )
            np.testing.assert_allclose(numbers, people[person, o] @ inverse @ steps[o])
            difference = (
                np.linalg.slogdet(covariance[np.ix_(o, o)])[1]
                - np.linalg.slogdet(covariance)[1]
            )
            assert regions.log_determinant[group] == pytest.approx(difference)
            seen.append(person)
    assert sorted(seen) == np.flatnonzero(np.isnan(people).any(axis=1)).tolist()


def test_completed_people_keep_mean_and_covariance() -> None:
    rng = np.random.default_rng(3)
    covariance = make_covariance(rng)
    y = np.repeat([0, 1], 3_000)
    complete = (
        rng.multivariate_normal(np.zeros(N_REGIONS), covariance, size=6_000)
        + 2.0 * y[:, None]
    )
    people = np.where(rng.random(complete.shape) < 0.2, np.nan, complete)
    drawn = complete_people(people, y, rng)
    expected = complete_people(people, y)
    is_measured = ~np.isnan(people)
    for values in (drawn, expected):
        np.testing.assert_array_equal(values[is_measured], people[is_measured])
    error = np.square(expected - complete)[~is_measured].mean()
    assert error < np.square(drawn - complete)[~is_measured].mean() < 2.2 * error
    deviations = (
        drawn - np.stack([drawn[y == label].mean(axis=0) for label in (0, 1)])[y]
    )
    np.testing.assert_allclose(
        np.cov(deviations.T), covariance, atol=0.1 * np.trace(covariance) / N_REGIONS
    )
    assert complete_people(complete, y) is complete

"""Permutation tests with covariates and strata."""

from dataclasses import replace

import numpy as np
import pytest

from rindices.selection.dimensions import (
    AdjustedGroups,
    CovariateColumns,
    DimensionEstimate,
    count_dimensions,
    standardise_columns,
)

N_COHORTS = 20


def estimate(seed: int, effect: float, adjust: bool = True) -> DimensionEstimate:
    """Count the patterns of a cohort whose patients vary more in age, and have
    ``effect`` in one region.
    """
    rng = np.random.default_rng(seed)
    patient = np.repeat([False, True], 80)
    age = rng.normal(size=160) * np.where(patient, 1.5, 1.0)
    shifts = rng.normal(size=(160, 6)) + 2.0 * age[:, None]
    shifts[patient, 0] += effect * rng.uniform(0, 1.5, size=80)
    sex = CovariateColumns(rng.integers(0, 2, size=(160, 1)).astype(float), True)
    covariates = [CovariateColumns(age[:, None], False), sex] if adjust else [sex]
    groups = AdjustedGroups.build(shifts, covariates, np.tile([0, 1], 80), patient)
    return count_dimensions(groups, seed, n_permutations=99)


@pytest.mark.slow
def test_a_covariate_that_differs_between_groups_is_no_pattern() -> None:
    n_rejected = sum(estimate(seed, effect=0.0).number > 0 for seed in range(N_COHORTS))
    assert (
        n_rejected <= 4
    )  # the level is 0.05; more than four of twenty have a chance of 0.003
    n_unadjusted = sum(
        estimate(seed, effect=0.0, adjust=False).number > 0 for seed in range(N_COHORTS)
    )
    assert n_unadjusted > N_COHORTS / 2


def test_a_pattern_is_detected_beside_the_covariate() -> None:
    assert all(estimate(seed, effect=5.0).number > 0 for seed in range(5))


def test_groups_can_be_compared_if_they_overlap() -> None:
    result = estimate(1, effect=3.0)
    assert result.is_comparable
    assert not replace(result, overlap=0.1).is_comparable


def test_constant_columns_become_zero() -> None:
    scaled = standardise_columns(np.column_stack([np.ones(4), np.arange(4.0)]))
    np.testing.assert_allclose(scaled[:, 0], 0.0)
    np.testing.assert_allclose(scaled[:, 1].std(), 1.0)

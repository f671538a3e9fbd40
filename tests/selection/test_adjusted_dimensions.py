"""The permutation test with covariates and strata."""

import numpy as np

from rindices.selection.adjusted_dimensions import CovariateColumns, count_adjusted_dimensions, standardise_columns
from rindices.selection.dimensions import DimensionEstimate

N_COHORTS = 20


def estimate(seed: int, effect: float, adjust: bool = True) -> DimensionEstimate:
    """Test a cohort whose patients are older, and have ``effect`` in one region."""
    rng = np.random.default_rng(seed)
    patient = np.repeat([False, True], 80)
    age = rng.normal(size=160) + 0.5 * patient
    shifts = rng.normal(size=(160, 6)) + 2.0 * age[:, None]
    shifts[patient, 0] += effect * rng.uniform(0, 1.5, size=80)
    sex = CovariateColumns(rng.integers(0, 2, size=(160, 1)).astype(float), True)
    covariates = [CovariateColumns(age[:, None], False), sex] if adjust else [sex]
    return count_adjusted_dimensions(shifts, covariates, np.tile([0, 1], 80), patient, seed, n_permutations=99)


def test_a_covariate_that_differs_between_groups_is_no_pattern() -> None:
    n_rejected = sum(estimate(seed, effect=0.0).number > 0 for seed in range(N_COHORTS))
    assert n_rejected <= 4  # the level is 0.05; more than four of twenty have a chance of 0.003
    n_unadjusted = sum(estimate(seed, effect=0.0, adjust=False).number > 0 for seed in range(N_COHORTS))
    assert n_unadjusted > N_COHORTS / 2


def test_a_pattern_is_detected_beside_the_covariate() -> None:
    assert all(estimate(seed, effect=3.0).number > 0 for seed in range(5))


def test_a_null_result_needs_groups_that_can_be_compared() -> None:
    null = estimate(1, effect=3.0)._replace(number=0)
    assert null.is_null
    assert not null._replace(overlap=0.1).is_null
    assert not null._replace(number=1).is_null


def test_constant_columns_become_zero() -> None:
    scaled = standardise_columns(np.column_stack([np.ones(4), np.arange(4.0)]))
    np.testing.assert_allclose(scaled[:, 0], 0.0)
    np.testing.assert_allclose(scaled[:, 1].std(), 1.0)

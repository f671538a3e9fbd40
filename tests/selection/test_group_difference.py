"""The test of any difference, and the effects of regions, against plain computations
and other packages.
"""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from rindices._typing import BoolArray, FloatArray
from rindices.selection.group_difference import (
    STATISTICS,
    compare_groups,
    compute_min_p,
    estimate_region_effects,
    smallest_detectable_effect,
)
from tests.selection.helpers import make_groups


def simulate(
    seed: int, controls: int = 60, patients: int = 80, regions: int = 20
) -> tuple[FloatArray, BoolArray]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(controls + patients, regions)) + rng.normal(
        size=(controls + patients, 1)
    )
    return values, np.arange(controls + patients) >= controls


def compare(
    values: FloatArray, patient: BoolArray, seed: int = 0, n_permutations: int = 99
) -> float:
    return compare_groups(make_groups(values, patient), seed, n_permutations).p


def test_effects_are_those_of_a_regression() -> None:
    values, patient = simulate(0)
    rng = np.random.default_rng(1)
    design = np.column_stack(
        [np.ones(len(values)), rng.normal(size=len(values)) + patient]
    )
    effects = estimate_region_effects(values, design, patient)
    for region in (0, 7):
        fit = sm.OLS(values[:, region], np.column_stack([design, patient])).fit()
        assert effects.t[region] == pytest.approx(fit.tvalues[-1], rel=1e-9)
        assert effects.p[region] == pytest.approx(fit.pvalues[-1], rel=1e-9)
        assert effects.d[region] == pytest.approx(
            fit.params[-1] / np.sqrt(fit.mse_resid), rel=1e-9
        )
    assert np.all((effects.low < effects.d) & (effects.d < effects.high))


def test_without_covariates_the_interval_of_d_covers() -> None:
    covered = []
    for seed in range(30):
        values, patient = simulate(seed)
        values[patient] += 0.5 * np.sqrt(
            2.0
        )  # regions have a standard deviation of sqrt(2)
        effects = estimate_region_effects(values, np.ones((len(values), 1)), patient)
        covered.append((effects.low < 0.5) & (effects.high > 0.5))
    assert 0.9 < np.mean(covered) < 0.99


def test_min_p_against_a_loop() -> None:
    values = np.random.default_rng(0).normal(size=(50, 4)).round(1)  # with ties
    reached = [
        min(int((values[:, q] >= row[q]).sum()) for q in range(4)) for row in values
    ]
    assert compute_min_p(values) == pytest.approx(
        np.mean([other <= reached[0] for other in reached])
    )


def change_one_region(values: FloatArray, patient: BoolArray) -> None:
    values[patient, 3] -= 1.5


def change_all_regions(values: FloatArray, patient: BoolArray) -> None:
    values[patient] += 0.6 * np.sign(
        np.random.default_rng(5).normal(size=values.shape[1])
    )


def change_variance(values: FloatArray, patient: BoolArray) -> None:
    severity = np.random.default_rng(6).normal(size=patient.sum())
    values[patient] += (
        1.5
        * severity[:, None]
        * np.sign(np.random.default_rng(7).normal(size=values.shape[1]))
    )


@pytest.mark.parametrize(
    ("change", "statistic"),
    [
        (change_one_region, "largest_t"),
        (change_all_regions, "shift"),
        (change_variance, "excess_variance"),
    ],
)
def test_each_kind_of_difference_is_detected(change: object, statistic: str) -> None:
    values, patient = simulate(2)
    change(values, patient)  # type: ignore[operator]
    result = compare_groups(make_groups(values, patient), 0, 199)
    assert result.p <= 0.02
    assert result.p_values[STATISTICS.index(statistic)] == 1 / 200


@pytest.mark.parametrize("stretch", [1.0, 1.5])
def test_the_level_holds_also_where_patients_vary_more(stretch: float) -> None:
    rejected = 0
    for seed in range(100):
        values, patient = simulate(seed, 30, 15, 10)
        values[patient] *= stretch
        rejected += compare(values, patient, seed) <= 0.05
    assert rejected <= 12  # 5 expected; more than 12 in 2 of 1,000


def test_fewer_people_than_regions_give_finite_statistics() -> None:
    values, patient = simulate(4, 20, 12, 200)
    result = compare_groups(make_groups(values, patient), 0, 99)
    assert np.isfinite(result.values).all()
    assert 0 < result.p <= 1


def test_a_clear_null_result_ends_early() -> None:
    values, patient = simulate(3)
    result = compare_groups(make_groups(values, patient))
    assert result.p > 0.3
    assert result.n_permutations == 100


def test_the_smallest_effect_has_the_stated_power() -> None:
    d = smallest_detectable_effect(60, 80, 20)
    rng = np.random.default_rng(0)
    detected = 0
    for _ in range(400):
        t = stats.ttest_ind(rng.normal(d, 1, 80), rng.normal(0, 1, 60))
        detected += t.pvalue < 0.05 / 20
    assert detected / 400 == pytest.approx(0.8, abs=0.06)

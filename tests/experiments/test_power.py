"""The power study averages its cohorts."""

import numpy as np
import pytest
from scipy.stats import linregress

from rindices.errors import InputError
from rindices.experiments.power import PowerConfig, PowerJob, compute_interval_width, measure_power_job, run_power


def test_interval_width_equals_a_regression() -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(size=(300, 1))
    index = 2 * truth + rng.normal(0, 0.2, size=(300, 1))
    fit = linregress(index[:, 0], truth[:, 0])
    residual = truth[:, 0] - fit.intercept - fit.slope * index[:, 0]
    assert compute_interval_width(truth, index) == pytest.approx(2 * 1.96 * np.sqrt((residual**2).sum() / 298))


def test_a_row_is_the_mean_of_its_cohorts() -> None:
    config = PowerConfig(((80, 100),), (0.3,), patterns=(1,), cohorts=2)
    result = run_power(config, workers=1)
    both = [
        measure_power_job(PowerJob(config, 80, 100, np.full(139, 0.3), 10_000 + seed, patterns=1)) for seed in range(2)
    ]
    (row,) = result.rows
    assert row.accuracy == pytest.approx(np.mean([measurement.accuracy for measurement in both]))
    assert row.accuracy > 0.8
    assert row.any == 1.0
    with pytest.raises(InputError, match="at least 10"):
        PowerConfig(((5, 100),))

"""Effects in Cohen's d become shares of volume and are found again in simulated
cohorts.
"""

import numpy as np
import pytest

from rindices.errors import SimulationError
from rindices.experiments.power import (
    convert_d_to_rates,
    convert_rate_to_d,
    estimate_relative_sd,
)
from rindices.experiments.reference import load_reference
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import SimulationTask, make_task_with_patterns


def test_a_simulated_cohort_has_the_effect_that_was_asked_for() -> None:
    task = make_task_with_patterns(1)
    relative_sd = estimate_relative_sd(load_reference(), ())
    rates = convert_d_to_rates(0.6, relative_sd, task)
    simulated = simulate_cohort(task, 3, rates=rates)
    logs = np.log(simulated.cohort.volumes.to_numpy())
    controls, patients = (
        logs[simulated.cohort.is_control],
        logs[simulated.cohort.is_patient],
    )
    d = (controls.mean(axis=0) - patients.mean(axis=0)) / controls.std(axis=0)
    affected = simulated.patterns["s1"].to_numpy() > 0
    assert d[affected].mean() == pytest.approx(0.6, abs=0.15)
    assert d[~affected].mean() == pytest.approx(0.0, abs=0.1)


def test_the_conversions_are_inverse() -> None:
    relative_sd, task = np.array([0.05, 0.1, 0.4]), SimulationTask(beta=(1.0, 3.0))
    assert convert_rate_to_d(0.2, relative_sd, task) == pytest.approx([1.0, 0.5, 0.125])
    for sd in relative_sd:
        (rate,) = convert_d_to_rates(0.5, np.array([sd]), task)
        assert convert_rate_to_d(float(rate), np.array([sd]), task) == pytest.approx(
            [0.5]
        )
    assert convert_d_to_rates(3.0, relative_sd, task)[2] == 0.95


def test_adjustment_makes_regions_less_variable() -> None:
    adjusted = estimate_relative_sd(load_reference(), ("age", "sex", "icv"))
    assert (adjusted < estimate_relative_sd(load_reference(), ())).mean() > 0.95
    with pytest.raises(SimulationError, match="no covariate bmi"):
        estimate_relative_sd(load_reference(), ("bmi",))

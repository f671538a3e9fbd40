"""The power study averages its cohorts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import linregress

from rindices.errors import InputError
from rindices.experiments.power import (
    PowerConfig,
    PowerJob,
    PowerResult,
    compute_interval_width,
    describe_needed_people,
    measure_power_job,
    run_power,
)
from rindices.study.checks import MIN_RECOVERY_RATE, PowerRow


def test_interval_width_equals_a_regression() -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(size=(300, 1))
    index = 2 * truth + rng.normal(0, 0.2, size=(300, 1))
    fit = linregress(index[:, 0], truth[:, 0])
    residual = truth[:, 0] - fit.intercept - fit.slope * index[:, 0]
    assert compute_interval_width(truth, index) == pytest.approx(
        2 * 1.96 * np.sqrt((residual**2).sum() / 298)
    )


def test_a_row_is_the_mean_of_its_cohorts() -> None:
    config = PowerConfig(people=((80, 100),), rates=(0.3,), patterns=(1,), cohorts=2)
    result = run_power(config, workers=1)
    both = [
        measure_power_job(
            PowerJob(
                config=config,
                n_controls=80,
                n_patients=100,
                rates=np.full(139, 0.3),
                seed=10_000 + seed,
                patterns=1,
            )
        )
        for seed in range(2)
    ]
    (row,) = result.rows
    assert row.accuracy == pytest.approx(
        np.mean([measurement.accuracy for measurement in both])
    )
    assert row.accuracy > 0.8
    assert row.any == 1.0
    with pytest.raises(InputError, match="at least 10"):
        PowerConfig(people=((5, 100),))


def make_row(controls: int, patients: int, right: float, d: float = 0.5) -> PowerRow:
    """Return a row of 6 cohorts with three patterns."""
    return replace(
        PowerRow(
            controls=controls,
            patients=patients,
            rate=0.1,
            accuracy=0.8,
            accuracy_se=0.01,
            right=right,
            right_se=0.1,
            any=1.0,
            any_se=0.0,
            width=0.5,
            width_se=0.01,
        ),
        d=d,
    )


def test_the_answer_is_a_number_of_people() -> None:
    rows = [
        make_row(67, 98, 0.0),
        make_row(134, 196, 0.5),
        make_row(268, 392, 5 / 6),
        make_row(67, 98, 0.0, d=0.3),
    ]
    rows.append(make_row(1072, 1568, 0.5, d=0.3))
    enough, short = describe_needed_people(
        PowerResult(
            patterns=[3],
            cohorts=6,
            covariates=[],
            rows=rows,
            d_of_tenth=[0.1, 0.2, 0.3],
        )
    )
    assert enough == (
        "3 patterns of d 0.5: 268 controls and 392 patients, 4 times as many as 67 and 98, are enough, "
        "the right number is found in 5 of 6 studies."
    )
    assert (
        "1,072 controls and 1,568 patients, 16 times as many as 67 and 98, are not enough"
        in short
    )
    assert "in 3 of 6 studies" in short


@pytest.mark.slow  # tests/cli/test_planning.py has it from the shell
def test_a_single_size_grows_until_it_is_enough() -> None:
    """From the size of a study that found too little, the study goes on to one that is
    enough, and stops there.
    """
    result = run_power(
        PowerConfig(
            people=((40, 50),), rates=(), patterns=(1,), cohorts=2, effects=(0.9,)
        ),
        workers=1,
    )
    sizes = [(row.controls, row.patients) for row in result.rows]
    assert sizes == [
        (40 * factor, 50 * factor) for factor in (1, 2, 4, 8, 16)[: len(sizes)]
    ]
    assert [row.right >= MIN_RECOVERY_RATE for row in result.rows] == [False] * (
        len(sizes) - 1
    ) + [True]
    assert len(sizes) > 1

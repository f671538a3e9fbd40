"""The estimated time of a training grows with its size and needs no training."""

import pytest

from rindices.learners.surreal.cost import estimate_training_seconds, measure_speed

STEPS = {"start_steps": 1_000, "held_steps": 400, "max_steps": 1_000}


@pytest.mark.parametrize(
    ("regions", "patterns", "seconds"), [(90, 1, 3.3), (170, 1, 6.2), (170, 4, 9.0), (300, 4, 22.0)]
)
def test_the_estimate_is_near_what_was_measured(regions: int, patterns: int, seconds: float) -> None:
    """Measured: three linear fits, 1,000 steps of the start and 500 of the training, of one member of five."""
    estimate = estimate_training_seconds(regions, patterns, warm_start=True, **STEPS)
    assert seconds / 2 < estimate < seconds * 2.5


def test_without_a_warm_start_all_steps_count() -> None:
    short, long = (
        estimate_training_seconds(90, 2, warm_start=False, start_steps=0, held_steps=0, max_steps=steps)
        for steps in (1_000, 100_000)
    )
    assert long == pytest.approx(100 * short)


def test_the_speed_of_a_machine_is_positive() -> None:
    assert 0.01 < measure_speed(repeats=2) < 1_000

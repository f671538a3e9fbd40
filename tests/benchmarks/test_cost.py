"""Processor time and memory of a function call."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.suites import cost
from benchmarks.suites.cost import measure_cost


def test_waiting_takes_time_and_no_processor_time() -> None:
    result, spent = measure_cost(lambda: time.sleep(0.2) or "slept")
    assert result == "slept"
    assert spent.seconds >= 0.2
    assert spent.processor_seconds < 0.1


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is measured on Linux only"
)
def test_memory_that_is_freed_before_the_end_is_counted() -> None:
    _, spent = measure_cost(lambda: float(np.ones(10_000_000).sum()))
    assert spent.peak_megabytes == pytest.approx(80, abs=15)
    _, again = measure_cost(lambda: None)
    assert again.peak_megabytes is not None
    assert again.peak_megabytes < 5


def test_memory_is_none_where_the_system_cannot_measure_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cost, "_CLEAR_REFS", tmp_path / "none" / "clear_refs")
    assert measure_cost(lambda: None)[1].peak_megabytes is None

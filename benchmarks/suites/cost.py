"""Processor time and memory of a measurement."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")
_STATUS, _CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class Cost(NamedTuple):
    """Cost of a function call.

    Attributes
    ----------
    seconds : float
        Elapsed time.
    processor_seconds : float
        Processor time of all threads of this process.
    peak_megabytes : float or None
        Largest resident memory during the call minus that before it. None on systems
        other than Linux.
    """

    seconds: float
    processor_seconds: float
    peak_megabytes: float | None


def measure_cost(function: Callable[[], T]) -> tuple[T, Cost]:
    """Call a function and return its result and its cost."""
    before = _reset_peak_memory()
    start, processor_start = time.perf_counter(), time.process_time()
    result = function()
    seconds, processor_seconds = (
        time.perf_counter() - start,
        time.process_time() - processor_start,
    )
    peak = None if before is None else max(_read_memory("VmHWM") - before, 0.0)
    return result, Cost(seconds, processor_seconds, peak)


def _reset_peak_memory() -> float | None:
    """Set the peak of the resident memory to its present value, and return it; None if
    the system cannot.

    Memory that was freed before is returned to the system first. Otherwise the call
    could use it again unnoticed.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
        _CLEAR_REFS.write_text(_RESET_PEAK, "ascii")
        return _read_memory("VmRSS")
    except (OSError, AttributeError):
        return None


def _read_memory(field: str) -> float:
    """Return a field of the process status, in MB."""
    lines = _STATUS.read_text("utf-8").splitlines()
    return next(
        float(line.split()[1]) / 1e3 for line in lines if line.startswith(f"{field}:")
    )

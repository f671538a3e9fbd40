"""Overhead of the scheduler: many member sets whose training does nothing.

    python -m benchmarks.engine_overhead [--sets 10000] [--workers 2]

Each set takes all steps but its training: a job for a Dask worker, a report back to the
client. Writes ``results/engine_overhead.json``: milliseconds per set, and the largest
growth of the client's memory.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil

from rindices.engine.cluster import DaskEngine
from rindices.engine.tasks import Task, run
from rindices.study.config import ModelConfig
from rindices.study.methods import MemberSet
from rindices.study.study import STACK_SIZE, make_plan

OUT = Path(__file__).parent / "results" / "engine_overhead.json"


def skip_training(work: MemberSet) -> None:
    """Return without training."""


class MemoryMonitor(threading.Thread):
    """Records the peak memory of this process, in MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.end = 0.0, threading.Event()

    def run(self) -> None:
        while not self.end.wait(0.05):
            self.peak = max(self.peak, read_memory_mb())


def read_memory_mb() -> float:
    """Return the resident memory of this process."""
    return float(psutil.Process().memory_info().rss / 1e6)


def measure_overhead(sets: int, workers: int) -> dict[str, float]:
    """Send member sets through Dask."""
    (first,) = make_plan(
        ModelConfig(
            method="surreal-gan",
            patterns=(3,),
            orthogonality=(0.1,),
            members=STACK_SIZE,
        ),
        0,
        "x",
    )
    plan = [replace(first, seed=seed) for seed in range(sets)]
    with tempfile.TemporaryDirectory() as folder:
        tasks = [
            Task(key=work.key, function=skip_training, arguments=(work,))
            for work in plan
        ]
        reports = run(DaskEngine(workers), tasks, Path(folder))
        next(reports)  # the cluster has started
        before, monitor, start = read_memory_mb(), MemoryMonitor(), time.perf_counter()
        monitor.start()
        finished = 1 + sum(1 for _ in reports)
        seconds = time.perf_counter() - start
        monitor.end.set()
        monitor.join()
    assert finished == sets
    return {
        "sets": sets,
        "members_a_set": STACK_SIZE,
        "workers": workers,
        "ms_per_set": 1e3 * seconds / sets,
        "client_mb_before": before,
        "client_mb_most": monitor.peak,
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    result = {"load_at_start": os.getloadavg()[0]} | measure_overhead(
        options.sets, options.workers
    )
    options.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

"""Speed of reading and validating a table against plain pandas.

Usage: ``python -m benchmarks.read_speed [--people 100000] [--out benchmarks/results/read_speed.json]``

Writes a CSV of MUSE volumes, then times ``pandas.read_csv`` and ``read_cohort`` of the same file alternately and takes
the best of each, so that other load on the machine affects both.
"""

import argparse
import cProfile
import json
import pstats
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import rindices as ri
from rindices.experiments.reference import load_reference


def write_table(path: Path, people: int) -> None:
    """Write a table of 139 regions."""
    volumes, _ = load_reference().draw(people, np.random.default_rng(0))
    volumes.insert(0, "ID", [f"sub-{k:07d}" for k in range(people)])
    volumes.round(2).to_csv(path, index=False)


def time_call(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "read_speed.json")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "volumes.csv"
        write_table(path, arguments.people)
        pandas_seconds, rindices_seconds = [], []
        for _ in range(arguments.repeats):
            pandas_seconds.append(time_call(lambda: pd.read_csv(path)))
            rindices_seconds.append(time_call(lambda: ri.read_cohort(path)))
        if arguments.profile:
            with cProfile.Profile() as profile:
                ri.read_cohort(path)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(25)
        megabytes = path.stat().st_size / 1e6
    result = {
        "people": arguments.people,
        "regions": 139,
        "megabytes": round(megabytes, 1),
        "pandas_seconds": round(min(pandas_seconds), 3),
        "rindices_seconds": round(min(rindices_seconds), 3),
        "ratio": round(min(rindices_seconds) / min(pandas_seconds), 3),
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

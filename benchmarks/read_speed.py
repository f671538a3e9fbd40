"""Reading and validating against plain pandas, in one run.

Usage: ``python benchmarks/read_speed.py [--people 100000] [--out benchmarks/results/read_speed.json]``

Writes a CSV of MUSE volumes, then times ``pandas.read_csv`` and ``read_cohort`` of the same file in turn and takes the
best of each, so that a busy machine hits both alike.
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


def make_table(path: Path, people: int) -> None:
    """Write a table of people x 139 regions."""
    volumes, _ = load_reference().draw(people, np.random.default_rng(0))
    volumes.insert(0, "ID", [f"sub-{k:07d}" for k in range(people)])
    volumes.round(2).to_csv(path, index=False)


def seconds(work: Callable[[], object]) -> float:
    """Return how long a call takes."""
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
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "volumes.csv"
        make_table(path, asked.people)
        plain, ours = [], []
        for _ in range(asked.repeats):
            plain.append(seconds(lambda: pd.read_csv(path)))
            ours.append(seconds(lambda: ri.read_cohort(path)))
        if asked.profile:
            with cProfile.Profile() as profile:
                ri.read_cohort(path)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(25)
        megabytes = path.stat().st_size / 1e6
    result = {
        "people": asked.people,
        "regions": 139,
        "megabytes": round(megabytes, 1),
        "pandas_seconds": round(min(plain), 3),
        "rindices_seconds": round(min(ours), 3),
        "ratio": round(min(ours) / min(plain), 3),
    }
    asked.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

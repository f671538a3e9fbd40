"""Speed-up of two workers over one on each engine.

    python -m benchmarks.engine_speedup [--engines local,dask] [--sets 12] [--task
    small]

Trains the member sets of method trajectories at three patterns with one worker and with
two, in turn, from the first job to the last report, including the start of the workers;
the files must be equal. Writes ``results/engine_speedup.json`` and ``.md``. Run it on
an idle machine with at least two cores.
"""

import argparse
import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import rindices as ri
from rindices.learners.prepared_people import PreparedPeople
from rindices.study.cluster import make_engine
from rindices.study.config import ModelConfig, RunConfig
from rindices.study.engines import run_plan
from rindices.study.store import RunStore
from rindices.study.study import STACK_SIZE, make_plan

OUT = Path(__file__).parent / "results" / "engine_speedup.json"


def time_training(
    engine: str, workers: int, sets: int, task: str
) -> tuple[float, dict[str, bytes]]:
    """Return the seconds of a study without its selection, and its files."""
    cohort = ri.simulate_cohort(task, seed=0).cohort
    X, y = (
        ri.Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    plan = make_plan(
        ModelConfig(patterns=(3,), members=STACK_SIZE * sets), 0, cohort.fingerprint()
    )
    with tempfile.TemporaryDirectory() as folder:
        store = RunStore(Path(folder))
        start = time.perf_counter()
        engine_ = make_engine(RunConfig(engine=engine, workers=workers))  # type: ignore[arg-type]
        run_plan(
            plan,
            partial(PreparedPeople(X=X, y=y).deal_to_members, seed=0),
            store,
            engine_,
        )
        seconds = time.perf_counter() - start
        return seconds, {
            path.name: path.read_bytes() for path in store.folder.glob("*.safetensors")
        }


def compare_workers(engine: str, sets: int, task: str) -> dict[str, Any]:
    """Return the speed-up of two workers over one."""
    one_worker, files = time_training(engine, 1, sets, task)
    two_workers, other_files = time_training(engine, 2, sets, task)
    assert files == other_files, "two workers changed a result"
    result = {
        "engine": engine,
        "sets": sets,
        "one_seconds": one_worker,
        "two_seconds": two_workers,
        "speed_up": one_worker / two_workers,
    }
    print(json.dumps(result), flush=True)
    return result


def format_table(results: list[dict[str, Any]], task: str) -> str:
    """Return the results as Markdown."""
    lines = ["| engine | one worker | two workers | speed-up |", "|---|---|---|---|"]
    for row in results:
        cells = [
            row["engine"],
            f"{row['one_seconds']:.1f} s",
            f"{row['two_seconds']:.1f} s",
            f"{row['speed_up']:.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    sets = results[0]["sets"]
    lines.append(
        f"\n{sets} member sets of {STACK_SIZE} members, method trajectories, M = 3, task {task}; the files are equal."
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default="local,dask")
    parser.add_argument("--sets", type=int, default=12)
    parser.add_argument("--task", default="small")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    results = [
        compare_workers(engine, options.sets, options.task)
        for engine in options.engines.split(",")
    ]
    written = {"task": options.task, "load_at_start": load, "results": results}
    options.out.write_text(json.dumps(written, indent=1) + "\n", "utf-8")
    options.out.with_suffix(".md").write_text(
        format_table(results, options.task), "utf-8"
    )


if __name__ == "__main__":
    main()

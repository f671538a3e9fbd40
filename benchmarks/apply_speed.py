"""Rate of applying a model to people in memory.

    python benchmarks/apply_speed.py [--people 20000]

Fits ten contrastive members to a simulated cohort and applies the model to many people, from the cohort in memory to
the table of R-indices. Writes ``results/apply_speed.json``. Run it on an idle machine.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import rindices as ri
from rindices.experiments.tasks import TASKS

OUT = Path(__file__).parent / "results" / "apply_speed.json"


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    model = ri.fit(ri.simulate_cohort("basic", seed=0).cohort, 3, recipe="contrastive", members=10)
    large_task = replace(
        TASKS["basic"], n_controls=options.people // 2, n_patients=options.people - options.people // 2
    )
    cohort = ri.simulate_cohort(large_task, seed=1).cohort
    start = time.perf_counter()
    model.apply(cohort)
    seconds = time.perf_counter() - start
    result = {
        "people": options.people,
        "members": 10,
        "seconds": seconds,
        "people_per_second": options.people / seconds,
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

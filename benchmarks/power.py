"""Accuracy that ``rindices power`` predicts, compared with the benchmark, at three
sizes.

Usage: ``python -m benchmarks.power [--cohorts 10] [--workers -1]``

Runs ``power`` on the sizes of the tasks tiny, small and basic, with other cohorts, and
compares its accuracy with the committed results of the suites stress and paper (learner
contrastive). Writes ``results/power/against_benchmark.json`` and ``.md``. The time is
that of ``scripts/make_power.py``, the command with its default sizes and effects.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from rindices.experiments.power import PowerConfig, run_power
from rindices.experiments.tasks import TASKS

RESULTS = Path(__file__).parent / "results"
SIZES = {"tiny": "stress", "small": "stress", "basic": "paper"}


def read_benchmark(task: str) -> dict[str, Any]:
    """Return the committed mean and standard error of the learner contrastive on a
    task.
    """
    summary = json.loads((RESULTS / SIZES[task] / "results.json").read_text("utf-8"))[
        "summary"
    ]
    return next(
        row for row in summary if (row["task"], row["learner"]) == (task, "contrastive")
    )


def main() -> None:
    """Run the power study, compare and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cohorts", type=int, default=10)
    parser.add_argument("--workers", type=int, default=-1)
    options = parser.parse_args()
    people = tuple((TASKS[task].n_controls, TASKS[task].n_patients) for task in SIZES)
    study = run_power(
        PowerConfig(
            people=people,
            rates=(TASKS["basic"].rate,),
            cohorts=options.cohorts,
            covariates=(),
        ),
        workers=options.workers,
    )
    rows = []
    for task, row in zip(SIZES, study.rows, strict=True):
        direct = read_benchmark(task)
        error = (row.accuracy_se**2 + direct["se"] ** 2) ** 0.5
        difference = row.accuracy - direct["mean"]
        rows.append(
            {
                "task": task,
                "controls": row.controls,
                "patients": row.patients,
                "power": row.accuracy,
            }
            | {
                "power_se": row.accuracy_se,
                "benchmark": direct["mean"],
                "benchmark_se": direct["se"],
            }
            | {"cohorts": direct["n"], "standard_errors": difference / error}
        )
    result = {"cohorts": options.cohorts, "rows": rows}
    folder = RESULTS / "power"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "against_benchmark.json").write_text(
        json.dumps(result, indent=1) + "\n", "utf-8"
    )
    (folder / "against_benchmark.md").write_text(format_table(result), "utf-8")
    print(format_table(result))


def format_table(result: dict[str, Any]) -> str:
    """Return the comparison as a table."""
    lines = [
        "| controls + patients | power | benchmark | apart, in standard errors |",
        "|---|---|---|---|",
    ]
    for row in result["rows"]:
        estimated = f"{row['power']:.3f} +- {row['power_se']:.3f}"
        direct = f"{row['benchmark']:.3f} +- {row['benchmark_se']:.3f} ({row['cohorts']} cohorts)"
        lines.append(
            f"| {row['controls']} + {row['patients']} | {estimated} | {direct} | {row['standard_errors']:+.1f} |"
        )
    foot = f"{result['cohorts']} cohorts a size by `power`."
    return "\n".join([*lines, "", foot, ""])


if __name__ == "__main__":
    main()

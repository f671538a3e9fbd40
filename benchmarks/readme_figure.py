"""Draw the figure of the first page of the documentation: all learners on the tasks of the paper.

Of the published training, single members of the chosen lambda are shown, as in the paper.

Usage: ``python -m benchmarks.readme_figure``, after ``benchmarks/accuracy`` and ``benchmarks/paper/full_length.py``.
"""

import json
from pathlib import Path

from benchmarks.paper.full_length import PATH, is_chosen
from benchmarks.suites.benchmark import BenchmarkResult
from benchmarks.suites.figures import plot_benchmark

HERE = Path(__file__).parent
SHOWN = ("surreal-paper", "contrastive", "nmf", "opnmf", "fa", "lda", "dnmf", "linear")


def main() -> None:
    """Read both results and draw the figure."""
    measured = json.loads((HERE / "results" / "paper" / "results.json").read_text("utf-8"))["results"]
    full = json.loads(PATH.read_text("utf-8"))
    full = [row for row in full if not row["adjusted"] and len(row["curve"]) > 1 and is_chosen(row, full)]
    results = [BenchmarkResult(**row) for row in measured]
    results += [
        BenchmarkResult(row["task"], "surreal-paper", seed, score, [], None, None, 0.0)
        for row in full
        for seed, score in enumerate(row["curve"][-1]["members"])
    ]
    tasks = list(dict.fromkeys(result.task for result in results))
    results = sorted(
        (result for result in results if result.learner in SHOWN),
        key=lambda result: (tasks.index(result.task), SHOWN.index(result.learner)),
    )
    plot_benchmark(
        results, HERE / "results" / "readme.png", "How well severities are ranked (1 is perfect, 0.5 chance)"
    )


if __name__ == "__main__":
    main()

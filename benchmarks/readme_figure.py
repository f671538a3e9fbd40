"""Draw the figure of the first page of the documentation: all learners on the tasks of the paper.

The published training is included at full length.

Usage: ``python -m benchmarks.readme_figure``, after ``benchmarks/accuracy`` and ``benchmarks/paper/full_length.py``.
"""

import json
from pathlib import Path

from benchmarks.suites.benchmark import BenchmarkResult
from benchmarks.suites.figures import plot_benchmark

HERE = Path(__file__).parent
SHOWN = ("surreal-paper", "contrastive", "nmf", "opnmf", "fa", "lda", "dnmf", "linear")
SHOWN_ORTHOGONALITY = 0.2


def main() -> None:
    """Read both results and draw the figure."""
    measured = json.loads((HERE / "results" / "paper" / "results.json").read_text("utf-8"))["results"]
    full = json.loads((HERE / "paper" / "results" / "full_length_former.json").read_text("utf-8"))["rows"]
    results = [BenchmarkResult(**row) for row in measured]
    results += [
        BenchmarkResult(r["task"], "surreal-paper", 0, r["consensus"], [], None, r["agreement"], 0.0)
        for r in full
        if r["orthogonality"] == SHOWN_ORTHOGONALITY
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

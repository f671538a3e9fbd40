"""Draw the figure of README: accuracy of all methods against their processor time, and the theoretical limit.

Usage: ``python -m benchmarks.rivals_figure``, after the scripts whose results it shows (``rivals.py``). Reads their
committed results on the paper's tasks and writes ``results/rivals/figure.png``. Packages that were run on some of the
tasks only are placed at the same distance below the limit as on these tasks.
"""

import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.rivals import LABELS, OURS, OUT, average_by_task, group_by_learner, read_packages
from benchmarks.suites.benchmark import BenchmarkResult

HIDDEN = ("oracle", "cpca-bound")  # both use the truth
COLOURS = {True: "#0072B2", False: "#767676"}
# place of a label relative to its point, in points: left to right and upwards
DEFAULT_OFFSET = (8.0, -3.5)
OFFSETS = {
    "contrastive": (-55.0, -18.0),
    "normative-ica": (4.0, -15.0),
    "deviation-nmf": (8.0, -14.0),
    "opnmf": (8.0, 3.0),
    "upstream": (-95.0, -18.0),
}


def main() -> None:
    """Read the results and draw the figure."""
    values = json.loads((OUT / "paper" / "results.json").read_text("utf-8"))
    results = [BenchmarkResult(**row) for row in values["results"]] + read_packages("paper")
    draw_figure(results, OUT / "figure.png")


def draw_figure(results: list[BenchmarkResult], path: Path) -> None:
    """Draw one point per method, and a line at the theoretical limit."""
    groups = group_by_learner(results)
    limits = average_by_task(groups["oracle"])
    limit = float(np.mean(list(limits.values())))
    figure = Figure(figsize=(8.0, 4.8), layout="constrained")
    axes = figure.add_subplot()
    axes.axhline(limit, color="black", ls="--", lw=1.2)
    axes.annotate("theoretical limit", (0.99, limit), (0, 4), ("axes fraction", "data"), "offset points", ha="right")
    for learner, group in groups.items():
        if learner in HIDDEN:
            continue
        scores = average_by_task(group)
        score = limit - float(np.mean([limits[task] - scores[task] for task in scores]))
        seconds = float(np.mean([result.processor_seconds or np.nan for result in group]))
        ours = learner in OURS
        axes.scatter(seconds, score, s=70 if ours else 38, color=COLOURS[ours], zorder=3)
        axes.annotate(
            LABELS.get(learner, learner),
            (seconds, score),
            OFFSETS.get(learner, DEFAULT_OFFSET),
            textcoords="offset points",
            color=COLOURS[ours],
            fontweight="bold" if ours else "normal",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(0.5, limit + 0.03)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * 4)  # room for labels
    axes.set_xlabel("processor time of a fit, seconds (log scale)")
    axes.set_ylabel("accuracy: how well severities are ranked\n(1 is perfect, 0.5 is chance)")
    n_cohorts = min(sum(r.task == task for r in groups["trajectory"]) for task in limits)
    cohorts = "1 cohort" if n_cohorts == 1 else f"{n_cohorts} cohorts"
    title = f"Higher is better: the paper's five tasks, {cohorts} each (slow methods fewer)"
    axes.set_title(title, loc="left", fontsize="medium")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()

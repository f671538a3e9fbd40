"""Table and figure of the benchmark."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.suites.benchmark import BenchmarkResult, summarise_results
from benchmarks.suites.entrants import ENTRANTS
from benchmarks.suites.paper import PUBLISHED_SCORES, SURREAL_GAN_SCORES
from rindices.atomic import atomic_path
from rindices.plot.style import SERIES_COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ORACLE = "oracle"


def format_markdown(results: Sequence[BenchmarkResult]) -> str:
    """Return a table with one row per task and one column per learner, and the paper's
    scores.
    """
    summary = {(row.task, row.learner): row for row in summarise_results(results)}
    tasks, learners = _list_tasks_and_learners(results)
    in_paper = any(task in SURREAL_GAN_SCORES for task in tasks)
    header = ["task", *(["Surreal-GAN (paper)"] if in_paper else []), *learners]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for task in tasks:
        cells = (
            [f"{SURREAL_GAN_SCORES[task]:.3f}" if task in SURREAL_GAN_SCORES else ""]
            if in_paper
            else []
        )
        for learner in learners:
            row, published = (
                summary[task, learner],
                PUBLISHED_SCORES.get(learner, {}).get(task),
            )
            suffix = "" if published is None else f" ({published:.3f})"
            error = "" if row.se is None else f" ± {row.se:.3f}"
            cells.append(_format_means([row.mean], [row.unseen_mean]) + error + suffix)
        lines.append(f"| {' | '.join([task, *cells])} |")
    columns = [[summary[task, learner] for task in tasks] for learner in learners]
    means = [
        _format_means([row.mean for row in rows], [row.unseen_mean for row in rows])
        for rows in columns
    ]
    lines.append(f"| **mean** | {' | '.join([*([''] if in_paper else []), *means])} |")
    if _ORACLE in learners:
        distances = [
            f"{np.mean([summary[task, _ORACLE].mean - summary[task, learner].mean for task in tasks]):.3f}"
            for learner in learners
        ]
        lines.append(
            f"| **below the limit** | {' | '.join([*([''] if in_paper else []), *distances])} |"
        )
    n_cohorts = max(row.n for row in summary.values())
    kinds = "people fitted on / held-out people (folds), ± standard error of the first"
    footnote = f"Mean pattern-c-index of {n_cohorts} cohorts: {kinds}."
    in_brackets = (
        " In brackets: the paper's number for that method." if in_paper else ""
    )
    limit = (
        f" {_ORACLE}: the theoretical limit, posterior means under the true generator."
        if _ORACLE in learners
        else ""
    )
    return "\n".join([*lines, "", footnote + in_brackets + limit, ""])


def plot_benchmark(results: Sequence[BenchmarkResult], path: Path, title: str) -> None:
    """Draw one dot per cohort, a bar at the mean and a line at the paper's score into a
    PNG file.
    """
    from matplotlib.figure import Figure

    tasks, learners = _list_tasks_and_learners(results)
    figure = Figure(
        figsize=(max(7.0, 1.05 * len(tasks) + 2.6), 4.6), layout="constrained"
    )
    axes = figure.add_subplot()
    step = 0.8 / len(learners)
    for position, learner in enumerate(learners):
        offset = (position - (len(learners) - 1) / 2) * step
        colour = SERIES_COLOURS[position % len(SERIES_COLOURS)]
        _plot_learner(axes, results, tasks, learner, offset, step, colour)
    for number, task in enumerate(tasks):
        if task in SURREAL_GAN_SCORES:
            label = "Surreal-GAN as published" if number == 0 else "_"
            axes.hlines(
                SURREAL_GAN_SCORES[task],
                number - 0.45,
                number + 0.45,
                "#444444",
                "--",
                lw=1.2,
                label=label,
            )
    axes.set_xticks(range(len(tasks)), tasks)
    axes.set_xlim(-0.6, len(tasks) - 0.4)
    axes.set_ylabel("pattern-c-index")
    axes.set_title(title, loc="left", fontsize="medium")
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    with atomic_path(path) as temporary_path:
        figure.savefig(temporary_path, dpi=150)


def _plot_learner(
    axes: "Axes",
    results: Sequence[BenchmarkResult],
    tasks: list[str],
    learner: str,
    offset: float,
    step: float,
    colour: str,
) -> None:
    for number, task in enumerate(tasks):
        scores = [
            _select_score(r) for r in results if r.task == task and r.learner == learner
        ]
        if not scores:
            continue
        spread = (
            np.linspace(-0.22, 0.22, len(scores)) * step
            if len(scores) > 1
            else np.zeros(1)
        )
        axes.scatter(
            number + offset + spread,
            scores,
            s=9,
            color=colour,
            alpha=0.45,
            linewidths=0,
        )
        ends = (number + offset - 0.4 * step, number + offset + 0.4 * step)
        label = (
            f"{learner} (uses the truth)" if ENTRANTS[learner].needs_truth else learner
        )
        axes.hlines(
            np.mean(scores), *ends, colour, lw=2.5, label=label if number == 0 else "_"
        )


def _select_score(result: BenchmarkResult) -> float:
    """Return the score to compare: regressions on the true severities are scored on
    held-out people.
    """
    regression = bool(ENTRANTS[result.learner].supervised)
    return (
        result.unseen
        if regression and result.unseen is not None
        else result.pattern_c_index
    )


def _list_tasks_and_learners(
    results: Sequence[BenchmarkResult],
) -> tuple[list[str], list[str]]:
    return list(dict.fromkeys(r.task for r in results)), list(
        dict.fromkeys(r.learner for r in results)
    )


def _format_means(scores: Sequence[float], unseen: Sequence[float | None]) -> str:
    """Return the mean score, and the held-out one if all are available."""
    held_out = [score for score in unseen if score is not None]
    second = f" / {np.mean(held_out):.3f}" if len(held_out) == len(unseen) else ""
    return f"{np.mean(scores):.3f}{second}"

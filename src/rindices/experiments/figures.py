"""The benchmark as a table and as a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rindices.experiments.benchmark import BenchmarkResult, summarise_results
from rindices.experiments.entrants import ENTRANTS
from rindices.experiments.paper import PUBLISHED_SCORES, SURREAL_GAN_SCORES

# Okabe and Ito's colours, which colour-blind readers can tell apart; brown for their yellow, which vanishes on white
PLOT_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999", "#8B5A2B")


def format_markdown(results: Sequence[BenchmarkResult]) -> str:
    """Return a table: a row a task, a column a learner, people seen / unseen; the paper's own number where there is."""
    summary = {(row["task"], row["learner"]): row for row in summarise_results(results)}
    tasks, learners = _list_tasks_and_learners(results)
    paper = any(task in SURREAL_GAN_SCORES for task in tasks)
    heads = ["task", *(["Surreal-GAN (paper)"] if paper else []), *learners]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for task in tasks:
        cells = [f"{SURREAL_GAN_SCORES[task]:.3f}" if task in SURREAL_GAN_SCORES else ""] if paper else []
        cells += [
            _format_cell(summary[task, learner], PUBLISHED_SCORES.get(learner, {}).get(task)) for learner in learners
        ]
        lines.append(f"| {' | '.join([task, *cells])} |")
    means = [_format_cell(_average_rows([summary[task, learner] for task in tasks]), None) for learner in learners]
    lines.append(f"| **mean** | {' | '.join([*([''] if paper else []), *means])} |")
    cohorts = max(row["n"] for row in summary.values())
    foot = f"Mean pattern-c-index of {cohorts} cohorts: people fitted on / people not seen (folds)."
    told = " In brackets: the paper's number for that method." if paper else ""
    return "\n".join([*lines, "", foot + told, ""])


def plot_benchmark(results: Sequence[BenchmarkResult], path: Path, title: str) -> None:
    """Draw a dot a cohort, a bar a mean, and the paper's number as a line, into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tasks, learners = _list_tasks_and_learners(results)
    figure = Figure(figsize=(max(7.0, 1.05 * len(tasks) + 2.6), 4.6), layout="constrained")
    axes = figure.add_subplot()
    step = 0.8 / len(learners)
    for place, learner in enumerate(learners):
        offset = (place - (len(learners) - 1) / 2) * step
        colour = PLOT_COLOURS[place % len(PLOT_COLOURS)]
        _plot_learner(axes, results, tasks, learner, offset, step, colour)
    for number, task in enumerate(tasks):
        if task in SURREAL_GAN_SCORES:
            label = "Surreal-GAN as published" if number == 0 else "_"
            axes.hlines(SURREAL_GAN_SCORES[task], number - 0.45, number + 0.45, "#444444", "--", lw=1.2, label=label)
    axes.set_xticks(range(len(tasks)), tasks)
    axes.set_xlim(-0.6, len(tasks) - 0.4)
    axes.set_ylabel("pattern-c-index")
    axes.set_title(title, loc="left", fontsize="medium")
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=150)


def _plot_learner(
    axes: Any,
    results: Sequence[BenchmarkResult],
    tasks: list[str],
    learner: str,
    offset: float,
    step: float,
    colour: str,
) -> None:
    for number, task in enumerate(tasks):
        scores = [_select_score(r) for r in results if r.task == task and r.learner == learner]
        if not scores:
            continue
        spread = np.linspace(-0.22, 0.22, len(scores)) * step if len(scores) > 1 else np.zeros(1)
        axes.scatter(number + offset + spread, scores, s=9, color=colour, alpha=0.45, linewidths=0)
        ends = (number + offset - 0.4 * step, number + offset + 0.4 * step)
        axes.hlines(np.mean(scores), *ends, colour, lw=2.5, label=_label_learner(learner) if number == 0 else "_")


def _label_learner(learner: str) -> str:
    return f"{learner} (told the truth)" if ENTRANTS[learner].needs_truth else learner


def _select_score(result: BenchmarkResult) -> float:
    """Return the score that is fair to compare: regressions that were told the truth are judged on unseen people."""
    regression = bool(ENTRANTS[result.learner].supervised)
    return result.unseen if regression and result.unseen is not None else result.pattern_c_index


def _list_tasks_and_learners(results: Sequence[BenchmarkResult]) -> tuple[list[str], list[str]]:
    return list(dict.fromkeys(r.task for r in results)), list(dict.fromkeys(r.learner for r in results))


def _format_cell(row: dict[str, Any], reported: float | None) -> str:
    unseen = f" / {row['unseen_mean']:.3f}" if row["unseen_mean"] is not None else ""
    return f"{row['mean']:.3f}{unseen}" + (f" ({reported:.3f})" if reported is not None else "")


def _average_rows(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    unseen = [row["unseen_mean"] for row in rows]
    known = all(value is not None for value in unseen)
    return {
        "mean": float(np.mean([row["mean"] for row in rows])),
        "unseen_mean": float(np.mean(unseen)) if known else None,
    }

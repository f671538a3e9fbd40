"""Figure 2: accuracy and agreement over lambda = 0.1 to 0.8, of the members that
`full_length` chooses lambda by.

Usage: ``python -m benchmarks.paper.figure2``, after ``python -m
benchmarks.paper.full_length``.
"""

import json

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from benchmarks.paper.common import RESULTS, write_table
from benchmarks.paper.full_length import COLOURS, PATH
from benchmarks.suites.paper import PAPER_TASKS
from rindices.learners.gan.recipe import ORTHOGONALITY_WEIGHTS

KINDS = {"mean": "accuracy of the mean member", "agreement": "agreement of members"}


def main() -> None:
    """Read, draw and write."""
    rows = [row for row in json.loads(PATH.read_text("utf-8")) if not row["adjusted"]]
    by_task = {
        task: {row["orthogonality"]: row for row in rows if row["task"] == task}
        for task in PAPER_TASKS
    }
    tasks = [
        task
        for task, tried in by_task.items()
        if set(tried) == set(ORTHOGONALITY_WEIGHTS)
    ]
    points = {
        task: [by_task[task][weight]["curve"][0] for weight in ORTHOGONALITY_WEIGHTS]
        for task in tasks
    }
    means = {
        kind: np.array([[point[kind] for point in points[task]] for task in tasks])
        for kind in KINDS
    }
    draw_figure(means, tasks)
    lines = []
    for task, accuracy, agreement in zip(
        tasks, means["mean"], means["agreement"], strict=True
    ):
        best = int(np.argmax(agreement))
        cells = [f"{a:.3f} / {b:.3f}" for a, b in zip(accuracy, agreement, strict=True)]
        chosen = f"{ORTHOGONALITY_WEIGHTS[best]:g}"
        lines.append(
            [
                task,
                f"{points[task][0]['steps']:,}",
                *cells,
                chosen,
                f"{accuracy.max() - accuracy[best]:.3f}",
            ]
        )
    rank = spearmanr(means["mean"].ravel(), means["agreement"].ravel()).statistic
    note = (
        f"Accuracy of the mean of {len(rows[0]['curve'][0]['members'])} members / their agreement, not adjusted, rate "
        f"8e-4. Rank correlation of the two {rank:.2f}. The last column is what choosing lambda by agreement costs in "
        "accuracy against the best lambda."
    )
    head = [
        "task",
        "steps",
        *(f"lambda {weight:g}" for weight in ORTHOGONALITY_WEIGHTS),
        "chosen",
        "lost",
    ]
    write_table(RESULTS / "figure2.md", head, lines, note)


def draw_figure(means: dict[str, np.ndarray], tasks: list[str]) -> None:
    """Draw two panels with a shared axis."""
    figure = Figure(figsize=(8.2, 3.8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
        for values, task in zip(means[kind], tasks, strict=True):
            axes.plot(
                ORTHOGONALITY_WEIGHTS,
                values,
                "o-",
                color=COLOURS[task],
                label=task,
                lw=1.8,
                ms=4,
            )
        axes.set_title(title, loc="left", fontsize="medium")
        axes.set_xlabel("weight of orthogonality, lambda")
        axes.set_xticks(ORTHOGONALITY_WEIGHTS)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("pattern-c-index, pattern-agr-index")
    panels[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(RESULTS / "figure2.png", dpi=150)


if __name__ == "__main__":
    main()

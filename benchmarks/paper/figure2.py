"""Figure 2: accuracy and agreement over lambda = 0.1 to 0.8.

Usage: ``python -m benchmarks.paper.figure2 [--redraw]``. The recipe paper with few steps (`common.SHORT`).
"""

import argparse
import json

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from benchmarks.paper.common import NOTE, RESULTS, mean_of, run_all, write_table

WEIGHTS = (0.1, 0.2, 0.4, 0.6, 0.8)
TASKS = ("basic", "scarce", "mild")
KINDS = {"consensus": "accuracy (consensus)", "agreement": "agreement of members"}
COLOURS = ("#0072B2", "#E69F00", "#D55E00")


def main() -> None:
    """Train, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redraw", action="store_true", help="from the rows of an earlier run")
    options = parser.parse_args()
    work = [(f"{weight:g}", task, {"orthogonality": weight}) for task in TASKS for weight in WEIGHTS]
    path = RESULTS / "figure2.json"
    rows = json.loads(path.read_text("utf-8")) if options.redraw else run_all(work, path)
    means = {k: np.array([[mean_of(rows, k, task=t, label=f"{w:g}") for w in WEIGHTS] for t in TASKS]) for k in KINDS}
    draw_figure(means)
    lines = []
    for row, task in enumerate(TASKS):
        cells = [f"{means['consensus'][row, w]:.3f} / {means['agreement'][row, w]:.3f}" for w in range(len(WEIGHTS))]
        best = int(np.argmax(means["agreement"][row]))
        loss = means["consensus"][row].max() - means["consensus"][row, best]
        lines.append([task, *cells, f"{WEIGHTS[best]:g}", f"{loss:.3f}"])
    over_tasks = spearmanr(means["consensus"].mean(axis=1), means["agreement"].mean(axis=1)).statistic
    everything = spearmanr(means["consensus"].ravel(), means["agreement"].ravel()).statistic
    note = (
        "Accuracy of the consensus / agreement of members. Rank correlation of the two over tasks "
        f"{over_tasks:.2f}, over all settings {everything:.2f}. The last column is what choosing lambda by agreement "
        f"costs in accuracy against the best lambda. {NOTE}"
    )
    head = ["task", *(f"lambda {w:g}" for w in WEIGHTS), "chosen", "lost"]
    write_table(RESULTS / "figure2.md", head, lines, note)


def draw_figure(means: dict[str, np.ndarray]) -> None:
    """Draw two panels with a shared axis."""
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
        for values, task, colour in zip(means[kind], TASKS, COLOURS, strict=True):
            axes.plot(WEIGHTS, values, "o-", color=colour, label=task, lw=1.8, ms=4)
        axes.set_title(title, loc="left", fontsize="medium")
        axes.set_xlabel("weight of orthogonality, lambda")
        axes.set_xticks(WEIGHTS)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("pattern-c-index, pattern-agr-index")
    panels[0].legend(frameon=False, fontsize="small", loc="upper left")
    figure.savefig(RESULTS / "figure2.png", dpi=150)


if __name__ == "__main__":
    main()

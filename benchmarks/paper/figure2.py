"""Figure 2: accuracy and agreement over lambda = 0.1 to 0.8.

Usage: ``python benchmarks/paper/figure2.py [--cohorts 1] [--redraw]``. Recipe default with the judge off, six members.
The agreement among members (as in the paper) is shown together with that of pairs trained on disjoint halves, by which
`fit` decides.
"""

import argparse
import json

import numpy as np
from common import JUDGE_OFF, RESULTS, mean_of, run_all, write_table
from matplotlib.figure import Figure
from scipy.stats import spearmanr

WEIGHTS = (0.1, 0.2, 0.4, 0.6, 0.8)
TASKS = ("basic", "scarce", "mild")
KINDS = {"consensus": "accuracy (consensus)", "halves": "agreement of halves", "agreement": "agreement of members"}
COLOURS = ("#0072B2", "#E69F00", "#D55E00")


def main() -> None:
    """Train, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cohorts", type=int, default=1)
    parser.add_argument("--redraw", action="store_true", help="from the rows of an earlier run")
    options = parser.parse_args()
    seeds = range(options.cohorts)
    work = [(f"{w:g}", t, s, {**JUDGE_OFF, "orthogonality": w}, True) for t in TASKS for w in WEIGHTS for s in seeds]
    path = RESULTS / "figure2.json"
    rows = json.loads(path.read_text("utf-8")) if options.redraw else run_all(work, path)
    means = {k: np.array([[mean_of(rows, k, task=t, label=f"{w:g}") for w in WEIGHTS] for t in TASKS]) for k in KINDS}
    draw_figure(means)
    lines = []
    for row, task in enumerate(TASKS):
        cells = [f"{means['consensus'][row, w]:.3f} / {means['halves'][row, w]:.3f}" for w in range(len(WEIGHTS))]
        best = int(np.argmax(means["halves"][row]))
        loss = means["consensus"][row].max() - means["consensus"][row, best]
        lines.append([task, *cells, f"{WEIGHTS[best]:g}", f"{loss:.3f}"])
    over_tasks = spearmanr(means["consensus"].mean(axis=1), means["halves"].mean(axis=1)).statistic
    everything = spearmanr(means["consensus"].ravel(), means["halves"].ravel()).statistic
    note = (
        f"Accuracy of the consensus / agreement of disjoint halves. Rank correlation of the two over tasks "
        f"{over_tasks:.2f}, over all settings {everything:.2f}. The last column is what choosing lambda by agreement "
        "costs in accuracy against the best lambda."
    )
    head = ["task", *(f"lambda {w:g}" for w in WEIGHTS), "chosen", "lost"]
    write_table(RESULTS / "figure2.md", head, lines, note)


def draw_figure(means: dict[str, np.ndarray]) -> None:
    """Draw three panels with a shared axis."""
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
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

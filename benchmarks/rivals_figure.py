"""Draw the figure of README: accuracy of all methods on the same people, and the
theoretical limit.

Usage: ``python -m benchmarks.rivals_figure``, after the scripts whose results it shows
(``rivals.py``, ``rivals_packages.py``, ``upstream_sample.py``, ``paper/full_length.py
--adjusted``). Every method was fitted to the same people: the first simulated cohort of
the tasks ``basic`` and ``mild``, on which all of these scripts were run, adjusted for
age, sex and head size. Nothing is extrapolated: a method that was run on one of the
tasks has one mark. Of methods that train networks from random starts, each member is
drawn, and the score is their mean. Writes ``results/rivals/figure.png``.
"""

import json
from dataclasses import dataclass, field

import numpy as np
from matplotlib.figure import Figure

from benchmarks.paper.full_length import PATH, is_chosen
from benchmarks.rivals import LABELS, OUT, read_packages
from benchmarks.suites.benchmark import BenchmarkResult

TASKS = {"basic": ("o", "#0072B2"), "mild": ("s", "#D55E00")}  # mark and colour
HIDDEN = (
    "oracle",
    "cpca-bound",
    "upstream",
)  # two use the truth; all members of the third are drawn below
OURS = {
    "trajectory": "rindices, trajectories",
    "contrastive": "rindices, contrastive",
    "paper": "rindices, surreal-gan",
}
NETWORKS = {
    "SurrealGAN 0.0.1": "SurrealGAN 0.0.1",
    "SurrealGAN 0.1.1": "SurrealGAN 0.1.1",
}
STEPS = 20_000
NOTE = f"""\
Every method was fitted to the same 492 controls and 900 patients of a task (one simulated cohort, adjusted for age, sex
and head size), with three patterns. At the highest severity of a pattern its regions lose 30 % of their volume (basic)
or 20 % (mild). Time is that of one fit. The default averages five ensemble members. Surreal-GAN: three members of
{STEPS:,} steps each (small marks), their mean (large mark), and the time of one member; lambda is 0.2 in the authors'
package (versions 0.0.1 and 0.1.1), and chosen by agreement in ours. HYDRA was run on basic alone."""


@dataclass(kw_only=True)
class Method:
    """A row of the figure.

    Attributes
    ----------
    label : str
        Its name.
    members : dict
        Scores on each task: one, or one of each member.
    seconds : list of float
        Processor time of each fit.
    """

    label: str
    members: dict[str, list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def add(self, task: str, scores: list[float], seconds: float | None) -> None:
        """Add the scores on a task."""
        self.members.setdefault(task, []).extend(scores)
        self.seconds += [] if seconds is None else [seconds]


def main() -> None:
    """Read the results and draw the figure."""
    values = json.loads((OUT / "paper" / "results.json").read_text("utf-8"))
    results = [BenchmarkResult(**row) for row in values["results"]] + read_packages(
        "paper"
    )
    results = [
        result for result in results if result.task in TASKS and result.cohort_seed == 0
    ]
    limits = {
        result.task: result.pattern_c_index
        for result in results
        if result.learner == "oracle"
    }
    methods: dict[str, Method] = {}
    for result in results:
        if result.learner not in HIDDEN:
            label = OURS.get(result.learner, LABELS.get(result.learner, result.learner))
            method = methods.setdefault(label, Method(label=label))
            method.add(result.task, [result.pattern_c_index], result.processor_seconds)
    for method in [*read_networks(), read_own_network()]:
        methods[method.label] = method
    draw_figure(list(methods.values()), limits)


def read_networks() -> list[Method]:
    """Return the committed results of the authors' package."""
    rows = json.loads((OUT.parent / "upstream_sample.json").read_text("utf-8"))
    methods = {who: Method(label=label) for who, label in NETWORKS.items()}
    for row in rows:
        if (
            row["who"] in methods
            and row["data"] in TASKS
            and row["adjusted"]
            and row["steps"] == STEPS
        ):
            methods[row["who"]].add(
                row["data"], [row["pattern_c_index"]], row["seconds"]
            )
    return list(methods.values())


def read_own_network() -> Method:
    """Return the committed results of our training of Surreal-GAN."""
    rows = json.loads(PATH.read_text("utf-8"))
    method = Method(label=OURS["paper"])
    for row in rows:
        if (
            row["adjusted"]
            and row["task"] in TASKS
            and len(row["curve"]) > 1
            and is_chosen(row, rows)
        ):
            scores = row["curve"][-1]["members"]
            method.add(row["task"], scores, row["cpu_seconds"] / len(scores))
    return method


def draw_figure(methods: list[Method], limits: dict[str, float]) -> None:
    """Draw one row per method, best first, with a mark on each task, and a line at each
    limit.
    """
    ordered = sorted(methods, key=lambda method: np.mean(method.members["basic"]))
    figure = Figure(figsize=(8.6, 6.4), layout="constrained")
    axes = figure.add_subplot()
    for height, method in enumerate(ordered):
        is_ours = method.label in OURS.values()
        axes.axhline(height, color="0.92", lw=1, zorder=0)
        for task, scores in method.members.items():
            mark, colour = TASKS[task]
            axes.scatter(
                np.mean(scores), height, s=60, marker=mark, color=colour, zorder=3
            )
            if len(scores) > 1:
                axes.scatter(
                    scores,
                    [height] * len(scores),
                    s=16,
                    marker=mark,
                    facecolors="none",
                    edgecolors=colour,
                )
        seconds = float(np.mean(method.seconds))
        text = f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.0f} s"
        axes.annotate(
            text,
            (1.01, height),
            xycoords=("axes fraction", "data"),
            va="center",
            fontweight="bold" if is_ours else None,
        )
    for task, limit in limits.items():
        axes.axvline(limit, color=TASKS[task][1], ls="--", lw=1.2)
        axes.scatter(
            [], [], s=60, marker=TASKS[task][0], color=TASKS[task][1], label=task
        )
    axes.plot(
        [], [], color="black", ls="--", lw=1.2, label="theoretical limit of the task"
    )
    axes.legend(loc="lower center", bbox_to_anchor=(0.42, 1.0), ncols=3, frameon=False)
    axes.text(1.01, 1.005, "processor\ntime", transform=axes.transAxes, va="bottom")
    axes.set_yticks(range(len(ordered)), [method.label for method in ordered])
    for tick, method in zip(axes.get_yticklabels(), ordered, strict=True):
        tick.set_fontweight("bold" if method.label in OURS.values() else "normal")
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    axes.set_xlim(0.55, 0.93)
    axes.set_xlabel(
        "share of pairs of patients in the right order of severity (pattern-c-index; 0.5 is chance)"
    )
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.supxlabel(NOTE, fontsize="x-small", ha="left", x=0.01)
    figure.savefig(OUT / "figure.png", dpi=150)


if __name__ == "__main__":
    main()

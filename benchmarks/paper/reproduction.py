"""Write ``docs/reproduction.md`` from the committed results.

Usage: ``python -m benchmarks.paper.reproduction``, after the other scripts of this
folder and ``benchmarks/accuracy``.
"""

import json
from typing import Any

import numpy as np

from benchmarks.paper.common import RESULTS
from benchmarks.paper.full_length import PATH, is_chosen
from benchmarks.suites.paper import (
    PAPER_TASKS,
    PUBLISHED_SCORES,
    SURREAL_GAN_SCORES,
    TABLE_6_SCORES,
)

ROOT = RESULTS.parents[2]
PROGRAM_STEPS = 20_000
TEXT = (RESULTS.parent / "reproduction_template.md").read_text("utf-8")


def read(path: str) -> Any:
    """Return a committed result."""
    return json.loads((ROOT / "benchmarks" / path).read_text("utf-8"))


def list_surreal_gan() -> list[list[str]]:
    """Return a row of each task: the members that were trained furthest."""
    rows = json.loads(PATH.read_text("utf-8"))
    rows = [
        row
        for row in rows
        if not row["adjusted"] and len(row["curve"]) > 1 and is_chosen(row, rows)
    ]
    furthest = {
        row["task"]: row
        for row in sorted(rows, key=lambda row: row["rate"] * row["curve"][-1]["steps"])
    }
    lines = []
    for task in PAPER_TASKS:
        row, last = furthest[task], furthest[task]["curve"][-1]
        length = f"{row['rate']:g} x {last['steps']:,}".replace("0.0008", "8e-4")
        mean = f"{last['mean']:.3f} +- {last['error']:.3f}"
        cells = [task, f"{row['orthogonality']:g}", f"{row['members']}", length, mean]
        lines.append(
            [*cells, f"{SURREAL_GAN_SCORES[task]:.3f}", f"{TABLE_6_SCORES[task]:.3f}"]
        )
    return lines


def list_programs(steps: int) -> list[list[str]]:
    """Return rows of the mean member of the authors' programs and of the training here
    on adjusted people, by task.
    """
    scores: dict[tuple[str, str], list[float]] = {}
    for row in read("results/upstream_sample.json"):
        if row["steps"] == steps and row["adjusted"] and row["data"] in PAPER_TASKS:
            scores.setdefault((row["data"], row["who"]), []).append(
                row["pattern_c_index"]
            )
    rows = [row for row in json.loads(PATH.read_text("utf-8")) if row["adjusted"]]
    for row in sorted(
        rows, key=lambda row: row["curve"][-1]["steps"]
    ):  # the longest is the last
        scores[row["task"], "here, random start"] = row["curve"][-1]["members"]
    return [
        [*key, f"{len(each)}", f"{np.mean(each):.3f}{format_error(each)}"]
        for key, each in sorted(
            scores.items(), key=lambda item: PAPER_TASKS.index(item[0][0])
        )
    ]


def format_error(values: list[float]) -> str:
    """Return the standard error of the mean, or nothing for a single value."""
    return (
        f" +- {np.std(values, ddof=1) / len(values) ** 0.5:.3f}"
        if len(values) > 1
        else ""
    )


def list_causes() -> dict[str, str]:
    """Return the mean member with each difference of the program of 2022 on the
    adjusted people of basic.
    """
    rows = [
        row
        for row in read("paper/results/causes.json")
        if row["adjusted"] and row["task"] == "basic"
    ]
    return {
        row[
            "cause"
        ]: f"{row['curve'][-1]['mean']:.3f} +- {row['curve'][-1]['error']:.3f}"
        for row in rows
    }


def format_range(values: list[float]) -> str:
    """Return the smallest and the largest value."""
    return f"{min(values):.3f} to {max(values):.3f}"


def format_table(head: list[str], lines: list[list[str]]) -> str:
    """Return rows as Markdown."""
    first, *others = ("| " + " | ".join(row) + " |" for row in (head, *lines))
    return "\n".join([first, "|" + "---|" * len(head), *others])


def main() -> None:
    """Write the page."""
    summary = {
        (row["task"], row["learner"]): row["mean"]
        for row in read("results/paper/results.json")["summary"]
    }
    head = ["task", "lambda", "members", "rate x steps", "mean member"]
    rows = [
        row
        for row in json.loads(PATH.read_text("utf-8"))
        if row["task"] == "scarce" and not row["adjusted"]
    ]
    quarters, tried = (
        [row["curve"][0] for row in rows],
        [row for row in rows if len(row["curve"]) > 1],
    )
    curves = []
    for row in tried:
        means = ", ".join(f"{point['mean']:.3f}" for point in row["curve"][1:])
        curves.append(f"{means} (lambda {row['orthogonality']})")
    causes = list_causes()
    page = TEXT.format(
        accuracies=format_range([point["mean"] for point in quarters]),
        agreements=format_range([point["agreement"] for point in quarters]),
        curves=" and ".join(curves),
        table=format_table([*head, "Table 1", "Table 6"], list_surreal_gan()),
        contrastive=", ".join(
            f"{summary[task, 'contrastive']:.3f}" for task in PAPER_TASKS
        ),
        steps=f"{PROGRAM_STEPS:,}",
        programs=format_table(
            ["task", "program", "members", "mean member"], list_programs(PROGRAM_STEPS)
        ),
        program=causes.pop("the program of 2022"),
        text=causes.pop("the paper's text"),
        causes=", ".join(f"{name} {figure}" for name, figure in causes.items()),
        nmf=", ".join(f"{summary[task, 'nmf']:.3f}" for task in PAPER_TASKS),
        published_nmf=", ".join(
            f"{PUBLISHED_SCORES['nmf'][task]:.3f}" for task in PAPER_TASKS
        ),
    )
    (ROOT / "docs" / "reproduction.md").write_text(page, "utf-8")


if __name__ == "__main__":
    main()

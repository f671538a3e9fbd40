"""Write ``docs/reproduction.md`` from the committed results.

Usage: ``python -m benchmarks.paper.reproduction``, after the other scripts of this folder and ``benchmarks/accuracy``.
"""

import json
from typing import Any

from benchmarks.paper.common import RESULTS
from benchmarks.paper.full_length import PATH, is_chosen
from benchmarks.suites.paper import PAPER_TASKS, PUBLISHED_SCORES, SURREAL_GAN_SCORES, TABLE_6_SCORES

ROOT = RESULTS.parents[2]
TEXT = (RESULTS.parent / "reproduction_template.md").read_text("utf-8")


def read(path: str) -> Any:
    """Return a committed result."""
    return json.loads((ROOT / "benchmarks" / path).read_text("utf-8"))


def list_recipe_paper() -> list[list[str]]:
    """Return a row of each task: the members that were trained furthest, or those of the former recipe."""
    rows = json.loads(PATH.read_text("utf-8"))
    rows = [row for row in rows if not row["adjusted"] and len(row["curve"]) > 1 and is_chosen(row, rows)]
    furthest = {row["task"]: row for row in sorted(rows, key=lambda row: row["rate"] * row["curve"][-1]["steps"])}
    former = read("paper/results/full_length_former.json")["rows"]
    lines = []
    for task in PAPER_TASKS:
        published = [f"{SURREAL_GAN_SCORES[task]:.3f}", f"{TABLE_6_SCORES[task]:.3f}"]
        if task in furthest:
            row = furthest[task]
            last = row["curve"][-1]
            curve = ", ".join(f"{point['mean']:.3f}" for point in row["curve"][:-1])
            length = f"{row['rate']:g} x {last['steps']:,}"
            scores = [f"{last['mean']:.3f} +- {last['error']:.3f}", curve, f"{last['consensus']:.3f}"]
            lines.append([task, f"{row['orthogonality']:g}", f"{row['members']}", length, *scores, *published])
        else:
            row = max((row for row in former if row["task"] == task), key=lambda row: row["agreement"])
            scores = row["members"]
            mean = sum(scores) / len(scores)
            error = (sum((score - mean) ** 2 for score in scores) / (len(scores) - 1) / len(scores)) ** 0.5
            cells = [f"{mean:.3f} +- {error:.3f}", "former recipe", f"{row['consensus']:.3f}"]
            length = f"2e-4 x {max(row['steps']):,}"
            lines.append([task, f"{row['orthogonality']:g}", f"{len(scores)}", length, *cells, *published])
    return lines


def format_table(head: list[str], lines: list[list[str]]) -> str:
    """Return rows as Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    """Write the page."""
    summary = {(row["task"], row["learner"]): row["mean"] for row in read("results/paper/results.json")["summary"]}
    head = ["task", "lambda", "members", "rate x steps", "mean member", "at the quarters before", "consensus"]
    rows = [row for row in json.loads(PATH.read_text("utf-8")) if row["task"] == "scarce" and not row["adjusted"]]
    quarters = [row["curve"][0]["mean"] for row in rows]
    former = next(row for row in read("paper/results/full_length_former.json")["rows"] if row["task"] == "scarce")
    page = TEXT.format(
        scarce_range=f"{min(quarters):.3f} to {max(quarters):.3f}",
        former_scarce=f"{sum(former['members']) / len(former['members']):.3f}",
        table=format_table([*head, "Table 1", "Table 6"], list_recipe_paper()),
        contrastive=", ".join(f"{summary[task, 'contrastive']:.3f}" for task in PAPER_TASKS),
        nmf=", ".join(f"{summary[task, 'nmf']:.3f}" for task in PAPER_TASKS),
        published_nmf=", ".join(f"{PUBLISHED_SCORES['nmf'][task]:.3f}" for task in PAPER_TASKS),
    )
    (ROOT / "docs" / "reproduction.md").write_text(page, "utf-8")


if __name__ == "__main__":
    main()

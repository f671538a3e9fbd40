"""Write ``docs/reproduction.md`` from the committed results.

Usage: ``python -m benchmarks.paper.reproduction``, after the other scripts of this folder and ``benchmarks/accuracy``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suites.paper import PUBLISHED_SCORES, SURREAL_GAN_SCORES

HERE = Path(__file__).parent
ACCURACY = HERE.parent / "results"
OUT = HERE.parents[1] / "docs" / "reproduction.md"
TASKS = ("basic", "overlap", "scarce", "noise", "mild")
ALL = "`benchmarks/accuracy`"


def read_result(path: Path) -> Any:
    """Return a committed result."""
    return json.loads(path.read_text("utf-8"))


def read_means(suite: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the means by task and learner."""
    return {(row["task"], row["learner"]): row for row in read_result(ACCURACY / suite / "results.json")["summary"]}


def format_scores(values: list[float]) -> str:
    """Return the scores of five tasks as text of one cell."""
    return ", ".join(f"{value:.3f}" for value in values)


def list_table_1() -> list[list[str]]:
    """Return rows with the accuracy of learners and baselines."""
    means = read_means("paper")
    published = format_scores([SURREAL_GAN_SCORES[task] for task in TASKS])
    ours = format_scores([means[task, "contrastive"]["mean"] for task in TASKS])
    rows = [["Table 1, Surreal-GAN", ALL, f"contrastive: {ours}", published]]
    for learner in ("nmf", "lda", "fa", "opnmf", "dnmf"):
        ours = format_scores([means[task, learner]["mean"] for task in TASKS])
        rows.append(
            [f"Table 1, {learner}", ALL, ours, format_scores([PUBLISHED_SCORES[learner][task] for task in TASKS])]
        )
    return rows


def list_full_length() -> list[list[str]]:
    """Return rows of the published training."""
    rows = []
    for row in read_result(HERE / "results" / "full_length.json")["rows"]:
        scores = np.array(row["members"])
        error = scores.std(ddof=1) / len(scores) ** 0.5
        ours = (
            f"{row['task']}, lambda {row['orthogonality']}, {len(scores)} members: {scores.mean():.3f} +- {error:.3f}, "
        )
        ours += f"consensus {row['consensus']:.3f}"
        steps = f"{max(row['steps']):,} steps"
        command = "`python -m benchmarks.paper.full_length`"
        rows.append([f"Table 1, recipe paper, {steps}", command, ours, f"{SURREAL_GAN_SCORES[row['task']]:.3f}"])
    return rows


def list_bounds_and_supervised() -> list[list[str]]:
    """Return rows of sections B.5 and B.6."""
    rows = []
    for section, suite, learners, key in (
        ("B.5", "bounds", ("nmf-bound", "fa-bound", "opnmf-bound", "dnmf-bound"), "mean"),
        ("B.6, test", "supervised", ("linear", "svr"), "unseen_mean"),
    ):
        means = read_means(suite)
        for learner in learners:
            ours = format_scores([means[task, learner][key] for task in TASKS])
            rows.append(
                [f"{section}, {learner}", ALL, ours, format_scores([PUBLISHED_SCORES[learner][task] for task in TASKS])]
            )
    return rows


def link_result(name: str) -> str:
    """Return a link to a result, if it exists."""
    exists = (HERE / "results" / f"{name}.md").exists()
    return f"[table](../benchmarks/paper/results/{name}.md)" if exists else "not run yet"


def list_wide_tables() -> list[list[str]]:
    """Return rows with links to tables that are too wide for a cell."""
    base = "../benchmarks/paper/results"
    return [
        ["Figure 2", "`python -m benchmarks.paper.figure2`", f"[table]({base}/figure2.md), below", "figure only"],
        ["B.2", "`python -m benchmarks.paper.weights`", f"[table]({base}/weights.md)", "figure only"],
        ["B.3", "`python -m benchmarks.paper.regularisers`", link_result("regularisers"), "figure only"],
        [
            "section 4.3",
            "`python -m benchmarks.paper.number_of_patterns`",
            link_result("number_of_patterns"),
            "M = 2 on data that are not public",
        ],
    ]


TEXT = """# Reproduction of the paper
For readers of the paper: its tables and figures, script by script.

Cells with five numbers have the mean pattern-c-index over cohorts of the tasks basic, overlap, scarce, noise and mild.
The data of the paper are not public. The cohorts here are simulated from a log-normal model of healthy volumes
(`rindices simulate`), on which NMF and factor analysis score as in the paper.
Scores are not adjusted for covariates. Where [all methods are adjusted](../benchmarks/results/rivals/paper/table.md),
NMF has 0.857 on `basic` instead of 0.673.

{table}

The sections on AD data (5.2, B.7 to B.9) need data that are not public.

## Notes on the rows
- **contrastive** is one closed-form fit. **Recipe paper** is the published training: random start, learning rate 2e-4,
  its stopping rule, the lambda and the number of members of the row.
- **Figure 2, B.2, B.3** were measured with a former recipe: 1,000 adversarial steps that started at the solution of a
  linear model (in the last column of B.3, 2,500 steps from a random start). The commands now train as published, with
  a tenth of the steps, and have not been run yet.
- **B.3 has zeta = 0 for "no cn loss"**. In the objective (equation 11), zeta is the weight of the reconstruction, and
  eta is the weight of the cn loss. We read zeta as a misprint of eta.
- **Section 4.3** chooses M by agreement. Here it is the agreement of fits on disjoint halves of the people, because
  members that share people agree on noise too ([why](../benchmarks/results/null_agreement.md)).

## Figure 2
![Accuracy and agreement over lambda](../benchmarks/paper/results/figure2.png)
"""


def main() -> None:
    """Write the page."""
    lines = ["| in the paper | command | here | paper |", "|---|---|---|---|"]
    rows = [*list_table_1(), *list_full_length(), *list_wide_tables(), *list_bounds_and_supervised()]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    OUT.write_text(TEXT.format(table="\n".join(lines)), "utf-8")


if __name__ == "__main__":
    main()

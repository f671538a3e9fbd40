"""Write ``docs/reproduction.md`` from the committed results.

Usage: ``python benchmarks/paper/reproduction.py``, after the other scripts of this folder and ``benchmarks/accuracy``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from rindices.experiments.paper import PUBLISHED_SCORES, SURREAL_GAN_SCORES

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
    rows = [
        [
            "Table 1, Surreal-GAN",
            ALL,
            f"{learner}: {format_scores([means[t, learner]['mean'] for t in TASKS])}",
            published,
        ]
        for learner in ("surreal", "contrastive")
    ]
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
        command = "`python benchmarks/paper/full_length.py`"
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
        ["Figure 2", "`python benchmarks/paper/figure2.py`", f"[table]({base}/figure2.md), below", "figure only"],
        ["B.2", "`python benchmarks/paper/weights.py`", f"[table]({base}/weights.md)", "figure only"],
        ["B.3", "`python benchmarks/paper/regularisers.py`", link_result("regularisers"), "figure only"],
        [
            "section 4.3",
            "`python benchmarks/paper/number_of_patterns.py`",
            link_result("number_of_patterns"),
            "M = 2 on data that are not public",
        ],
    ]


TEXT = """# Reproduction of the paper
For readers of the paper: its tables and figures, script by script.

Cells with five numbers have the mean pattern-c-index over cohorts of the tasks basic, overlap, scarce, noise and mild.
The data of the paper are not public. The cohorts here are simulated from a log-normal model of healthy volumes
(`rindices simulate`), on which NMF and factor analysis score as in the paper.

{table}

The sections on AD data (5.2, B.7 to B.9) need data that are not public.

## Notes on the rows
- **surreal** is the recipe `adversarial` with ten members. All choices are made without the truth. **contrastive** is
  one closed-form fit. **Recipe paper** is the published training: random start, learning rate 2e-4, its stopping rule,
  the lambda and the number of members of the row.
- **Figure 2, B.2, B.3**: in the recipe `adversarial`, the discriminator D lets nearly all members stop before the
  transformation f has changed, so the weights of the objective have no effect. To show their effect, this stopping rule
  is switched off here (`telling_bar = 0`), and members take all their adversarial steps. B.3 is also run from a random
  start, where only the losses constrain f.
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

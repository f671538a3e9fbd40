"""Accuracy of the consensus of agreeing members, compared with the best member that the paper chooses.

Usage: ``python -m benchmarks.consensus [--steps 10000] [--members 10] [--cohorts 1]``

Recipe paper with the learning rate of the authors' package and few steps, on the paper's five tasks; and the
contrastive recipe on both suites. The truth is used for scoring only. Writes ``results/consensus.md``. Studies in
``consensus.json`` are not run again; delete them there to repeat them.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config

from benchmarks.suites.cases import STRESS_TASKS, BenchmarkCase, get_suite_tasks
from benchmarks.suites.paper import PAPER_TASKS
from rindices.learners.ensemble import Member, fit_linear_members
from rindices.learners.gan.recipe import Recipe, TrainingPlan
from rindices.learners.gan.train import train_surreal_members
from rindices.learners.prepared_people import PreparedPeople
from rindices.selection.agreement import IndexRows, members_agreement, pattern_c_index
from rindices.selection.choose import find_agreeing_members

Train = Callable[[BenchmarkCase, Sequence[int], int], list[Member]]


def score_task(task: str, seed: int, train: Train, members: int) -> dict[str, float | str]:
    """Return the accuracy of the mean member, of the best member and of the consensus."""
    case = get_suite_tasks("paper" if task in PAPER_TASKS else "stress")[task](seed)
    patients = case.X[case.y == 1]
    indices = np.stack([member.head.infer(patients) for member in train(case, range(members), seed)])
    member, agreeing, orders = find_agreeing_members(IndexRows(indices))
    scores = [pattern_c_index(case.truth, r).mean for r in indices]
    consensus = np.mean([indices[k][:, order] for k, order in zip(agreeing, orders, strict=True)], axis=0)
    mean = pattern_c_index(case.truth, consensus).mean
    row = {
        "task": task,
        "seed": seed,
        "mean member": float(np.mean(scores)),
        "best member": scores[member],
    }
    among = members_agreement(indices).concordance
    return row | {"consensus": mean, "agreement": among, "agreeing": len(agreeing)}


def make_paper_trainer(steps: int) -> Train:
    """Train members by recipe paper for a fixed number of steps."""
    recipe = Recipe().replace(
        learning_rate=8e-4, min_steps=steps, max_steps=steps, reconstruction_bar=1.0, monotonicity_bar=1.0
    )

    def train(case: BenchmarkCase, numbers: Sequence[int], seed: int) -> list[Member]:
        plan = TrainingPlan(case.truth.shape[1], recipe, seed, tuple(numbers))
        return train_surreal_members(PreparedPeople(case.X, case.y), plan)

    return train


def make_contrastive_trainer() -> Train:
    """Fit contrastive members on four fifths of the people each."""
    return lambda case, numbers, seed: fit_linear_members(
        PreparedPeople(case.X, case.y).deal_to_members(numbers, seed), case.truth.shape[1], numbers, seed, False
    )


def format_table(rows: Sequence[dict[str, float | str]], title: str) -> str:
    """Return rows as Markdown, means over cohorts."""
    names = ["mean member", "best member", "consensus", "agreement"]
    lines = [f"### {title}", f"| task | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for task in dict.fromkeys(str(row["task"]) for row in rows):
        task_rows = [row for row in rows if row["task"] == task]
        lines.append(f"| {task} | " + " | ".join(f"{np.mean([row[n] for row in task_rows]):.3f}" for n in names) + " |")
    lines.append("| **mean** | " + " | ".join(f"{np.mean([row[n] for row in rows]):.3f}" for n in names) + " |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Run both recipes and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--cohorts", type=int, default=1)
    parser.add_argument("--workers", type=int, default=-1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "consensus.md")
    options = parser.parse_args()
    studies = {
        f"Recipe paper, {options.steps:,} steps at rate 8e-4, {options.members} members, {options.cohorts} cohort(s)": (
            PAPER_TASKS,
            make_paper_trainer(options.steps),
            options.cohorts,
        ),
        f"Recipe contrastive, {options.members} members, 5 cohorts": (
            PAPER_TASKS + STRESS_TASKS,
            make_contrastive_trainer(),
            5,
        ),
    }
    path = options.out.with_suffix(".json")
    stored = json.loads(path.read_text("utf-8")) if path.exists() else {}
    text, results = [], {}
    for title, (tasks, train, cohorts) in studies.items():
        if title in stored:
            text.append(format_table(stored[title], title))
            results[title] = stored[title]
            continue
        with parallel_config(backend="loky", inner_max_num_threads=1):
            jobs = (
                delayed(score_task)(task, seed, train, options.members) for task in tasks for seed in range(cohorts)
            )
            rows = list(Parallel(n_jobs=options.workers)(jobs))
        text.append(format_table(rows, title))
        results[title] = rows
        print(text[-1], flush=True)
    options.out.write_text("\n".join(text), "utf-8")
    path.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

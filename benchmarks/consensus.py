"""Consensus of agreeing members against the best member, which the paper takes: what the default output should be.

Usage: ``python benchmarks/consensus.py [--steps 10000] [--members 10] [--cohorts 1]``

Recipe paper with the learning rate of the authors' package and few steps, on the paper's five tasks; and the
contrastive recipe on both suites. Nothing is chosen by the truth; it only judges. Writes ``results/consensus.md``; a
study that ``consensus.json`` holds already is not run again, delete it there to measure it anew.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config

from rindices.experiments.suites import BenchmarkCase, get_suite_tasks
from rindices.experiments.tasks import PAPER_TASKS, STRESS_TASKS
from rindices.learners.ensemble import Member, fit_contrastive_members
from rindices.learners.surreal.ensemble_training import train_surreal_members
from rindices.learners.surreal.recipe import get_recipe, recipe_to_dict
from rindices.selection.agreement import members_agreement, pattern_c_index
from rindices.selection.choose import compute_consensus, find_agreeing_members

Train = Callable[[BenchmarkCase, Sequence[int], int], list[Member]]


def judge(task: str, seed: int, train: Train, members: int) -> dict[str, float | str]:
    """Return the accuracy of the mean member, of the best member and of the consensus."""
    case = get_suite_tasks("paper" if task in PAPER_TASKS else "stress")[task](seed)
    patients = case.X[case.y == 1]
    found = np.stack([member.head.infer(patients) for member in train(case, range(members), seed)])
    joint = find_agreeing_members(found)
    alone = [pattern_c_index(case.truth, r).mean for r in found]
    mean = pattern_c_index(case.truth, compute_consensus(found, joint.agreeing, joint.orders)).mean
    row = {"task": task, "seed": seed, "mean member": float(np.mean(alone)), "best member": alone[joint.member]}
    among = members_agreement(found).concordance
    return row | {"consensus": mean, "agreement": among, "agreeing": len(joint.agreeing)}


def paper_trainer(steps: int) -> Train:
    """Train by recipe paper, stopped after so many steps and taken as they are."""
    values = recipe_to_dict(
        get_recipe(
            "paper", learning_rate=8e-4, min_steps=steps, max_steps=steps, reconstruction_bar=1.0, monotonicity_bar=1.0
        )
    )

    def train(case: BenchmarkCase, numbers: Sequence[int], seed: int) -> list[Member]:
        stacks = [numbers[start : start + 5] for start in range(0, len(numbers), 5)]
        width = case.truth.shape[1]
        return [m for stack in stacks for m in train_surreal_members(case.X, case.y, width, stack, seed, values)]

    return train


def contrastive_trainer() -> Train:
    """Fit contrastive members on four fifths of the people each."""
    return lambda case, numbers, seed: fit_contrastive_members(
        case.X, case.y, case.truth.shape[1], numbers, seed, False
    )


def table(rows: Sequence[dict[str, float | str]], title: str) -> str:
    """Return rows as Markdown, means over cohorts."""
    names = ["mean member", "best member", "consensus", "agreement"]
    lines = [f"### {title}", f"| task | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for task in dict.fromkeys(str(row["task"]) for row in rows):
        own = [row for row in rows if row["task"] == task]
        lines.append(f"| {task} | " + " | ".join(f"{np.mean([row[n] for row in own]):.3f}" for n in names) + " |")
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
    asked = parser.parse_args()
    studies = {
        f"Recipe paper, {asked.steps:,} steps at rate 8e-4, {asked.members} members, {asked.cohorts} cohort(s)": (
            PAPER_TASKS,
            paper_trainer(asked.steps),
            asked.cohorts,
        ),
        f"Recipe contrastive, {asked.members} members, 5 cohorts": (
            PAPER_TASKS + STRESS_TASKS,
            contrastive_trainer(),
            5,
        ),
    }
    path = asked.out.with_suffix(".json")
    held = json.loads(path.read_text("utf-8")) if path.exists() else {}
    text, kept = [], {}
    for title, (tasks, train, cohorts) in studies.items():
        if title in held:
            text.append(table(held[title], title))
            kept[title] = held[title]
            continue
        with parallel_config(backend="loky", inner_max_num_threads=1):
            jobs = (delayed(judge)(task, seed, train, asked.members) for task in tasks for seed in range(cohorts))
            rows = list(Parallel(n_jobs=asked.workers)(jobs))
        text.append(table(rows, title))
        kept[title] = rows
        print(text[-1], flush=True)
    asked.out.write_text("\n".join(text), "utf-8")
    path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

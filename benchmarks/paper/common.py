"""Shared functions of the scripts in this folder: train members of the method
surreal-gan on a task and score them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed, parallel_config

from benchmarks.suites.cases import BenchmarkCase, get_suite_tasks
from rindices.learners.gan.recipe import Recipe, TrainingPlan
from rindices.learners.gan.state import Checkpoint
from rindices.learners.gan.train import extract_head, train_stack
from rindices.selection.agreement import (
    align_columns,
    members_agreement,
    pattern_c_index,
)

RESULTS = Path(__file__).parent / "results"
MEMBERS, STEPS = 3, 10_000
PAPER = Recipe(learning_rate=8e-4)
"""The published training at the rate of the authors' package."""
SHORT = {"min_steps": STEPS, "max_steps": STEPS}
"""Changes of the recipe: a tenth of its steps."""
FIGURES = "Pattern-c-index of the mean member / agreement among members."
NOTE = f"Method surreal-gan, {STEPS:,} steps at rate 8e-4, {MEMBERS} members, one cohort, not adjusted."


def measure_training(label: str, task: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Train members of surreal-gan with few steps and with changes on the first cohort
    of a task, and score them.

    Returns the accuracy of the mean member with its error, and the agreement among the
    members.
    """
    plan = TrainingPlan(
        patterns=3,
        recipe=PAPER.replace(**SHORT, **changes),
        members=tuple(range(MEMBERS)),
    )
    start = time.perf_counter()
    reached = TrainedTask.begin(task, 0, False, plan).train_until(STEPS)
    row = {
        "label": label,
        "task": task,
        "seconds": round(time.perf_counter() - start, 1),
    }
    return row | {name: reached[name] for name in ("mean", "error", "agreement")}


@dataclass(frozen=True)
class TrainedTask:
    """Members in training on the cohort of a task; a checkpoint file, if there is one,
    keeps their state.
    """

    case: BenchmarkCase
    plan: TrainingPlan
    checkpoint: Checkpoint

    @classmethod
    def begin(
        cls,
        task: str,
        seed: int,
        adjusted: bool,
        plan: TrainingPlan,
        path: Path | None = None,
    ) -> TrainedTask:
        """Return members before their first step, or as the file has them."""
        torch.set_num_threads(1)
        case = get_suite_tasks("paper", adjusted=adjusted)[task](seed)
        x, y = (
            torch.as_tensor(case.X[case.y == label], dtype=torch.float32)
            for label in (0, 1)
        )
        return cls(case, plan, Checkpoint.begin(path, plan, x, y))

    def train_until(self, steps: int) -> dict[str, Any]:
        """Train to a number of steps, and return the accuracy of each member and of
        their consensus there.
        """
        states = self.checkpoint.states
        for state in states:
            train_stack(state, self.plan.recipe, steps)
        self.checkpoint.save()
        stopped = {
            trained.member: trained for state in states for trained in state.trained
        }
        weights = {number: trained.weights for number, trained in stopped.items()}
        for state in states:
            for position, number in enumerate(state.stack.members):
                weights[number] = state.stack.networks.get_member(position)
        patients, truth = self.case.X[self.case.y == 1], self.case.truth
        indices = np.stack(
            [
                extract_head(weights[number]).infer(patients)
                for number in self.plan.members
            ]
        )
        scores = np.array([pattern_c_index(truth, r).mean for r in indices])
        agreement = members_agreement(indices)
        best = indices[int(np.argmax(agreement.per_member))]
        consensus = np.mean([r[:, align_columns(r, best)] for r in indices], axis=0)
        return {
            "steps": max(state.steps for state in states),
            "mean": float(scores.mean()),
            "error": float(scores.std(ddof=1) / len(scores) ** 0.5),
            "members": scores.tolist(),
            "agreement": agreement.concordance,
            "consensus": pattern_c_index(truth, consensus).mean,
            "stopped": {
                number: [trained.outcome.name, trained.steps]
                for number, trained in stopped.items()
            },
        }


def run_all(
    work: Iterable[tuple[Any, ...]],
    path: Path,
    call: Callable[..., dict[str, Any]] = measure_training,
) -> list[Any]:
    """Run the jobs whose rows the file does not have, on all cores or ``WORKERS`` of
    them; write each row at its end.

    The first two arguments name a job.
    """
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    jobs = [
        arguments
        for arguments in work
        if list(arguments[:2]) not in [row["job"] for row in rows]
    ]
    with parallel_config(backend="loky", inner_max_num_threads=1):
        runs = Parallel(
            n_jobs=int(os.environ.get("WORKERS", "-1")), return_as="generator"
        )
        for arguments, row in zip(
            jobs, runs(delayed(call)(*arguments) for arguments in jobs), strict=True
        ):
            rows.append({"job": arguments[:2]} | row)
            path.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    return rows


def find_row(rows: Iterable[dict[str, Any]], label: str, task: str) -> dict[str, Any]:
    """Return the row of a setting and a task."""
    return next(row for row in rows if (row["label"], row["task"]) == (label, task))


def write_table(
    path: Path, head: Sequence[str], lines: Iterable[Sequence[str]], note: str = ""
) -> None:
    """Write a Markdown table and a note."""
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    rows += ["| " + " | ".join(line) + " |" for line in lines]
    path.write_text("\n".join(rows) + ("\n\n" + note if note else "") + "\n", "utf-8")

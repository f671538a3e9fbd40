"""Shared functions of the scripts in this folder: train members of a recipe on a task and score them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

from rindices.experiments.suites import get_suite_tasks
from rindices.learners.ensemble import Member
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.surreal.ensemble_training import train_surreal_members
from rindices.learners.surreal.recipe import get_recipe
from rindices.selection.agreement import members_agreement, pattern_c_index
from rindices.selection.choose import compute_consensus, find_agreeing_members

RESULTS = Path(__file__).parent / "results"
MEMBERS, MEMBERS_WITH_EVIDENCE = 6, 3
JUDGE_OFF = {"telling_bar": 0.0}
"""Changes of recipe default by which members take all their adversarial steps; otherwise D stops them early."""


def measure_recipe(
    label: str, task: str, seed: int, changes: dict[str, Any], evidence: bool = False, members: int = MEMBERS
) -> dict[str, Any]:
    """Train members of recipe default with changes on one cohort and score them."""
    case = get_suite_tasks("stress" if task not in get_suite_tasks("paper") else "paper")[task](seed)
    recipe = get_recipe("default", **changes)
    start = time.perf_counter()
    stacks = [(range(MEMBERS_WITH_EVIDENCE), evidence), (range(MEMBERS_WITH_EVIDENCE, members), False)]
    people, width = PreparedPeople(case.X, case.y), case.truth.shape[1]
    trained = [
        member
        for numbers, with_evidence in stacks
        for member in train_surreal_members(people, width, numbers, seed, recipe, evidence=with_evidence)
    ]
    return {
        "label": label,
        "task": task,
        "seed": seed,
        "seconds": round(time.perf_counter() - start, 1),
    } | score_members(trained, case.X[case.y == 1], case.truth)


def score_members(members: Sequence[Member], patients: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Return the accuracy of members and of their consensus, and their agreement."""
    indices = np.stack([member.head.infer(patients) for member in members])
    _, agreeing, orders = find_agreeing_members(indices)
    halves = [member.evidence[0] for member in members if member.evidence is not None]
    return {
        "mean_member": float(np.mean([pattern_c_index(truth, r).mean for r in indices])),
        "consensus": pattern_c_index(truth, compute_consensus(indices, agreeing, orders)).mean,
        "agreement": members_agreement(indices).concordance,
        "halves": float(np.mean(halves)) if halves else None,
        "steps": [member.steps for member in members],
    }


def run_all(
    work: Iterable[tuple[Any, ...]], path: Path, call: Callable[..., dict[str, Any]] = measure_recipe
) -> list[Any]:
    """Run all jobs on all cores and write the rows."""
    with parallel_config(backend="loky", inner_max_num_threads=1):
        rows = Parallel(n_jobs=-1)(delayed(call)(*arguments) for arguments in work)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    return rows


def mean_of(rows: Iterable[dict[str, Any]], key: str, **filters: Any) -> float:
    """Return the mean of a value over the rows that match the filters."""
    return float(np.mean([row[key] for row in rows if all(row[name] == value for name, value in filters.items())]))


def write_table(path: Path, head: Sequence[str], lines: Iterable[Sequence[str]], note: str = "") -> None:
    """Write a Markdown table and a note."""
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    rows += ["| " + " | ".join(line) + " |" for line in lines]
    path.write_text("\n".join(rows) + ("\n\n" + note if note else "") + "\n", "utf-8")

"""Contribution of each element of recipe default: added to the paper's recipe, and removed from recipe default.

Usage: ``python benchmarks/ablation.py [--members 5]``. Two tasks of each suite, one cohort each; ``real`` is read from
``../shared/data`` or ``RINDICES_DATA``. Writes ``results/ablation.json`` and ``.md``.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

from rindices.experiments.suites import get_suite_tasks
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.surreal.ensemble_training import train_surreal_members
from rindices.learners.surreal.recipe import DEFAULT_RECIPE, Recipe, get_recipe
from rindices.selection.agreement import members_agreement, pattern_c_index
from rindices.selection.choose import compute_consensus, find_agreeing_members

OUT = Path(__file__).parent / "results" / "ablation.json"
TASKS = {"basic": "paper", "mild": "paper", "corr05": "stress", "hard": "stress", "ixi-mild": "real", "fcon-20": "real"}
STEPS = 1_500

_short = {"learning_rate": 8e-4, "min_steps": 0, "max_steps": STEPS, "reconstruction_bar": 1e-9}
PAPER = get_recipe("paper", **_short)
_white = {"conditioning": "controls"}
_ica: dict[str, Any] = {"start": "ica", "inverse": "refit", **_white}
ROWS: dict[str, Recipe] = {
    f"recipe paper, {STEPS:,} steps": PAPER,
    "+ conditioning": PAPER.replace(**_white),
    "+ closed-form inverse": PAPER.replace(inverse="refit"),
    "+ conditioning, inverse": PAPER.replace(inverse="refit", **_white),
    "+ conditioning, inverse, shifts": PAPER.replace(inverse="refit", straighten=True, **_white),
    "+ plain ICA start, f held": PAPER.replace(**_ica, held_steps=400, max_steps=400, learning_rate=8e-4),
    "+ plain ICA start, then all move": PAPER.replace(**_ica, held_steps=400, max_steps=1_000, decay="cosine"),
    "default": DEFAULT_RECIPE,
    "default, everyone sees all people, f held": DEFAULT_RECIPE.replace(share=1.0, max_steps=400),
    "default without shifts": DEFAULT_RECIPE.replace(straighten=False),
    "default without conditioning": DEFAULT_RECIPE.replace(conditioning="none"),
    "default, judge off": DEFAULT_RECIPE.replace(telling_bar=0.0),
    "default, judge off, constant rate": DEFAULT_RECIPE.replace(telling_bar=0.0, decay="constant"),
    "default, judge off, copula learnt on": DEFAULT_RECIPE.replace(telling_bar=0.0, copula_after=400),
    "default, judge off, independent z": DEFAULT_RECIPE.replace(telling_bar=0.0, correlated=False),
}


def measure_recipe(label: str, task: str, members: int, data: Path) -> dict[str, Any]:
    """Train members of one recipe on one task and score them."""
    case = get_suite_tasks(TASKS[task], data)[task](0)
    width = case.truth.shape[1]
    people = PreparedPeople(case.X, case.y)
    trained = train_surreal_members(people, width, range(members), 0, ROWS[label], evidence=False)
    indices = np.stack([member.head.infer(case.X[case.y == 1]) for member in trained])
    _, agreeing, orders = find_agreeing_members(indices)
    return {
        "label": label,
        "task": task,
        "members": [pattern_c_index(case.truth, r).mean for r in indices],
        "consensus": pattern_c_index(case.truth, compute_consensus(indices, agreeing, orders)).mean,
        "agreement": members_agreement(indices).concordance,
        "steps": [member.steps for member in trained],
    }


def main() -> None:
    """Measure all recipes and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=5)
    members = parser.parse_args().members
    data = Path(os.environ.get("RINDICES_DATA", Path(__file__).parents[2] / "shared" / "data"))
    with parallel_config(backend="loky", inner_max_num_threads=1):
        rows = Parallel(n_jobs=-1)(delayed(measure_recipe)(row, task, members, data) for row in ROWS for task in TASKS)
    OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    by_cell = {(row["label"], row["task"]): row for row in rows}
    lines = ["| " + " | ".join(["recipe", *TASKS, "mean", "steps"]) + " |", "|" + "---|" * (len(TASKS) + 3)]
    for label in ROWS:
        row_results = [by_cell[label, task] for task in TASKS]
        scores = [row["consensus"] for row in row_results]
        steps = sorted({step for row in row_results for step in row["steps"]})
        span = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
        lines.append("| " + " | ".join([label, *(f"{s:.3f}" for s in scores), f"{np.mean(scores):.3f}", span]) + " |")
    lines.append(f"\nPattern-c-index of the consensus of {members} members on one cohort of each task.")
    OUT.with_suffix(".md").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()

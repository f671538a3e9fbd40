"""Recipe paper at full length: the published training with its learning rate, steps and stopping rule.

Usage: ``python -m benchmarks.paper.full_length [--tasks basic mild] [--members 5] [--orthogonality 0.2 0.4]``

Writes ``results/full_length.json`` and ``.md`` in this folder after each row. Takes core-hours; an interrupted run
resumes, and rows of earlier runs stay.
"""

import argparse
import json
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suites.cases import get_suite_tasks
from benchmarks.suites.paper import SURREAL_GAN_SCORES
from rindices.learners.ensemble import Member
from rindices.learners.gan.recipe import Recipe, TrainingPlan
from rindices.learners.gan.train import train_surreal_members
from rindices.learners.prepared_people import PreparedPeople
from rindices.selection.agreement import align_columns, members_agreement, pattern_c_index

RESULTS = Path(__file__).parent / "results"


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["basic", "mild"])
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--orthogonality", type=float, nargs="+", default=[0.2], help="values of lambda")
    parser.add_argument("--max-steps", type=int, default=150_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()), help="folder for checkpoints")
    return parser.parse_args()


def main() -> None:
    """Train, score and write."""
    options = parse_options()
    settings = {"learning_rate": Recipe().learning_rate, "max_steps": options.max_steps}
    rows = {(row["task"], row["orthogonality"]): row for row in read_earlier_rows(settings)}
    RESULTS.mkdir(exist_ok=True)
    for key in product(options.tasks, options.orthogonality):
        rows[key] = measure_task(*key, options)
        ordered = [rows[key] for key in sorted(rows, key=lambda key: (list(SURREAL_GAN_SCORES).index(key[0]), key[1]))]
        content = json.dumps(settings | {"rows": ordered}, indent=1)
        (RESULTS / "full_length.json").write_text(content + "\n", "utf-8")
        (RESULTS / "full_length.md").write_text(format_table(ordered), "utf-8")


def read_earlier_rows(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an earlier run with these settings, so that tasks can be run one by one."""
    path = RESULTS / "full_length.json"
    stored = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return stored["rows"] if settings.items() <= stored.items() else []


def measure_task(task: str, orthogonality: float, options: argparse.Namespace) -> dict[str, Any]:
    """Train the members of one task with one lambda and score them."""
    case = get_suite_tasks("paper")[task](options.seed)
    changes = {"orthogonality": orthogonality, "max_steps": options.max_steps}
    recipe = Recipe().replace(**changes, min_steps=min(100_000, options.max_steps))
    plan = TrainingPlan(case.truth.shape[1], recipe, seed=options.seed, members=tuple(range(options.members)))
    path = options.keep / f"full_length_{task}_{orthogonality}_{options.members}_{options.max_steps}.pt"
    start = time.process_time()
    members = train_surreal_members(PreparedPeople(case.X, case.y), plan, path, options.workers)
    row = {"task": task, "orthogonality": orthogonality, "cpu_seconds": round(time.process_time() - start)}
    row |= score_members(members, case.X[case.y == 1], case.truth)
    print(row, flush=True)
    return row


def score_members(members: list[Member], patients: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Return the accuracy of each member and of their consensus, and their agreement."""
    indices = [member.head.infer(patients) for member in members]
    agreement = members_agreement(np.stack(indices))
    best = indices[int(np.argmax(agreement.per_member))]
    consensus = np.mean([r[:, align_columns(r, best)] for r in indices], axis=0)
    return {
        "members": [pattern_c_index(truth, r).mean for r in indices],
        "steps": [member.steps for member in members],
        "outcomes": [member.outcome.name for member in members],
        "agreement": agreement.concordance,
        "consensus": pattern_c_index(truth, consensus).mean,
    }


def format_table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| task | lambda | members | paper | mean member | standard error | consensus | agreement | steps |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        scores = np.array(row["members"])
        numbers = [SURREAL_GAN_SCORES[row["task"]], scores.mean(), scores.std(ddof=1) / len(scores) ** 0.5]
        numbers += [row["consensus"], row["agreement"]]
        shown = " | ".join(f"{number:.3f}" for number in numbers)
        lines.append(f"| {row['task']} | {row['orthogonality']} | {len(scores)} | {shown} | {max(row['steps']):,} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

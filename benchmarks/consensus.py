"""Accuracy of the consensus of agreeing members, compared with single members; and of
studies with few members.

Usage: ``python -m benchmarks.consensus``

Method contrastive on both suites, ten members, five cohorts: the mean member, the best
member by agreement, which the paper chooses, and the consensus, in people whom members
were fitted to. Default method with five members on the task ``together``, whose
patterns are the hardest to tell apart, seeds 900 to 909: cross-fitted R-indices of
``rindices.fit`` against the theoretical limit. The truth is used for scoring only.
Writes ``results/consensus.md`` and ``.json``; parts in the latter are not run again.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config

import rindices as ri
from benchmarks.suites.cases import STRESS_TASKS, get_suite_tasks
from benchmarks.suites.oracle import score_oracle
from benchmarks.suites.paper import PAPER_TASKS
from rindices.learners.ensemble import fit_linear_members
from rindices.learners.prepared_people import PreparedPeople
from rindices.selection.agreement import IndexRows, members_agreement, pattern_c_index
from rindices.selection.choose import find_agreeing_members

OUT = Path(__file__).parent / "results" / "consensus.json"
N_MEMBERS, N_FEW, FEW_SEEDS = 10, 5, range(900, 910)
Row = dict[str, float | str]


def score_members(task: str, seed: int) -> Row:
    """Return the accuracy of the mean member, of the best member and of the consensus
    of method contrastive.
    """
    case = get_suite_tasks("paper" if task in PAPER_TASKS else "stress")[task](seed)
    patients, numbers = case.X[case.y == 1], range(N_MEMBERS)
    people = PreparedPeople(X=case.X, y=case.y).deal_to_members(numbers, seed)
    members = fit_linear_members(people, case.truth.shape[1], numbers, seed, False)
    indices = np.stack([member.head.infer(patients) for member in members])
    best, agreeing, orders = find_agreeing_members(IndexRows(indices))
    scores = [pattern_c_index(case.truth, r).mean for r in indices]
    consensus = np.mean(
        [indices[k][:, order] for k, order in zip(agreeing, orders, strict=True)],
        axis=0,
    )
    row: Row = {
        "task": task,
        "seed": seed,
        "mean member": float(np.mean(scores)),
        "best member": scores[best],
    }
    row |= {"consensus": pattern_c_index(case.truth, consensus).mean}
    return row | {"agreement": members_agreement(indices).concordance}


def score_few_members(task: str, seed: int) -> Row:
    """Return the accuracy of a study by the default method with few members, and its
    distance from the limit.
    """
    simulated = ri.simulate_cohort(task, seed)
    model = ri.fit(
        simulated.cohort, simulated.truth.shape[1], members=N_FEW, seed=seed, workers=1
    )
    assert model.indices is not None
    own = model.indices[model.index_names].to_numpy()[simulated.cohort.is_patient]
    score = pattern_c_index(simulated.truth, own).mean
    return {
        "task": f"{task}, seed {seed}",
        "default": score,
        "below the limit": _score_limit(task, seed) - score,
    }


def _score_limit(task: str, seed: int) -> float:
    return pattern_c_index(*score_oracle(task, seed, adjusted=True)).mean


def format_table(rows: Sequence[Row], title: str) -> str:
    """Return rows as Markdown, means over cohorts."""
    names = [name for name in rows[0] if name not in ("task", "seed")]
    lines = [
        f"### {title}",
        f"| task | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    for task in dict.fromkeys(str(row["task"]) for row in rows):
        task_rows = [row for row in rows if row["task"] == task]
        lines.append(
            f"| {task} | "
            + " | ".join(f"{np.mean([row[n] for row in task_rows]):.3f}" for n in names)
            + " |"
        )
    lines.append(
        "| **mean** | "
        + " | ".join(f"{np.mean([row[n] for row in rows]):.3f}" for n in names)
        + " |"
    )
    return "\n".join([*lines, ""])


def main() -> None:
    """Run both parts and write the tables."""
    tasks = [(task, seed) for task in PAPER_TASKS + STRESS_TASKS for seed in range(5)]
    parts: dict[str, list[Callable[[], Row]]] = {
        f"Method contrastive, {N_MEMBERS} members, 5 cohorts": [
            partial(score_members, *each) for each in tasks
        ],
        f"Default method, {N_FEW} members": [
            partial(score_few_members, "together", seed) for seed in FEW_SEEDS
        ],
    }
    stored = json.loads(OUT.read_text("utf-8")) if OUT.exists() else {}
    for title in parts.keys() - stored.keys():
        with parallel_config(backend="loky", inner_max_num_threads=1):
            stored[title] = list(
                Parallel(n_jobs=-1)(delayed(run)() for run in parts[title])
            )
        OUT.write_text(json.dumps(stored, indent=1) + "\n", "utf-8")
    text = "\n".join(format_table(stored[title], title) for title in parts)
    OUT.with_suffix(".md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()

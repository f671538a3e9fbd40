"""Number, shape and order of regions by the default learner, where all three are known.

Usage: ``python benchmarks/trajectories.py [--cohorts 5] [--workers 2] [--choice-only | --order-only]``. Simulated
cohorts, adjusted for age, sex and head size, seeds 0 and up; constants were chosen on seeds 400 and up. Members see
four fifths of the people; five members a setting.

- Choice: 2, 3 and 4 patterns, straight and curved, are compared by the likelihood of people that members have not seen.
- Order: with three patterns, Kendall's tau between the true onsets of the regions of each pattern and the severity at
  which their curve has a quarter of its final change.

Writes ``results/trajectories.json`` and ``.md``; finished cohorts are not computed again.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import kendalltau

from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.learners.inference import TrajectoryHead
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.trajectory.estimator import DiseaseTrajectories
from rindices.learners.trajectory.members import fit_trajectory_members
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import pattern_c_index
from rindices.selection.held_out_likelihood import choose_simplest_setting

OUT = Path(__file__).parent / "results" / "trajectories.json"
CHOICE_TASKS = ("basic", "overlap", "mild", "noise", "staged", "staged09")
ORDER_TASKS = ("staged", "staged09")
NUMBERS, MEMBERS, TRUE_NUMBER = (2, 3, 4), 5, 3


def choose(task: str, seed: int) -> dict[str, Any]:
    """Return the number and shape with the highest held-out likelihood of one cohort."""
    cohort = simulate_cohort(task, seed).cohort
    people = PreparedPeople(Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp))
    likelihoods, shapes = [], []
    for number in NUMBERS:
        members = fit_trajectory_members(people, number, range(MEMBERS), seed, evidence=False)
        held_out = [member.held_out for member in members if member.held_out is not None]
        likelihoods.append(np.array([each.get_value(each.shape) for each in held_out]))
        shapes.append(held_out[0].shape)
    best = choose_simplest_setting(likelihoods)
    means = {str(number): float(values.mean()) for number, values in zip(NUMBERS, likelihoods, strict=True)}
    return {"kind": "choice", "task": task, "seed": seed, "number": NUMBERS[best], "shape": shapes[best], **means}


def order(task: str, seed: int) -> dict[str, Any]:
    """Return Kendall's tau of each pattern of one cohort."""
    spec = TASKS[task]
    simulated = simulate_cohort(spec, seed)
    cohort = simulated.cohort
    X, y = Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp)
    learner = DiseaseTrajectories(TRUE_NUMBER, seed, members=MEMBERS).fit(X, y)
    score = pattern_c_index(simulated.truth, learner.transform(X[y == 1]))
    levels = np.linspace(0.0, 1.0, 201)
    curves = np.mean(
        [
            member.head.compute_curves(levels)[:, columns]
            for member, columns in learner.consensus_
            if isinstance(member.head, TrajectoryHead)
        ],
        axis=0,
    )
    taus = []
    for k, regions in enumerate(spec.patterns):
        rows = [cohort.regions.index(region) for region in regions]
        curve = curves[:, score.matching[k], rows]
        onsets = levels[(np.abs(curve) >= 0.25 * np.abs(curve[-1])).argmax(axis=0)]
        taus.append(float(kendalltau(onsets, np.arange(len(rows))).statistic))
    return {"kind": "order", "task": task, "seed": seed, "shape": learner.shape_, "c_index": score.mean, "tau": taus}


def format_tables(rows: list[dict[str, Any]]) -> str:
    """Return both tables in markdown."""
    lines = ["# Number, shape and order by the default learner", "`python benchmarks/trajectories.py`", ""]
    lines += ["| task | cohorts | right number | right shape | numbers |", "|---|---|---|---|---|"]
    for task in CHOICE_TASKS:
        group = [row for row in rows if row["kind"] == "choice" and row["task"] == task]
        if group:
            shape = "curved" if TASKS[task].last_onset else "straight"
            number = sum(row["number"] == TRUE_NUMBER for row in group)
            right = sum(row["shape"] == shape for row in group)
            chosen = " ".join(str(row["number"]) for row in group)
            lines.append(f"| {task} | {len(group)} | {number} | {right} | {chosen} |")
    lines += ["", "| task | cohorts | mean tau | lowest tau of a pattern | C-index |", "|---|---|---|---|---|"]
    for task in ORDER_TASKS:
        group = [row for row in rows if row["kind"] == "order" and row["task"] == task]
        if group:
            taus = np.array([row["tau"] for row in group])
            c_index = np.mean([row["c_index"] for row in group])
            lines.append(f"| {task} | {len(group)} | {taus.mean():.3f} | {taus.min():.3f} | {c_index:.4f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Compute what is missing and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohorts", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--choice-only", action="store_true")
    parser.add_argument("--order-only", action="store_true")
    options = parser.parse_args()
    seeds = range(options.cohorts)
    jobs = [] if options.order_only else [("choice", task, seed) for seed in seeds for task in CHOICE_TASKS]
    jobs += [] if options.choice_only else [("order", task, seed) for seed in seeds for task in ORDER_TASKS]
    rows = json.loads(OUT.read_text("utf-8")) if OUT.is_file() else []
    done = {(row["kind"], row["task"], row["seed"]) for row in rows}
    missing = [job for job in jobs if job not in done]
    functions = {"choice": choose, "order": order}
    parallel = Parallel(n_jobs=options.workers, return_as="generator_unordered")
    for row in parallel(delayed(functions[kind])(task, seed) for kind, task, seed in missing):
        rows.append(row)
        OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        OUT.with_suffix(".md").write_text(format_tables(rows), "utf-8")
    print(format_tables(rows))


if __name__ == "__main__":
    main()

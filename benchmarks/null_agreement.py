"""Agreement of members on cohorts with and without disease, from which the threshold of
selection follows.

Usage: ``python -m benchmarks.null_agreement [--cohorts 2] [--methods trajectories
contrastive]``

Members of the methods contrastive and trajectories on null cohorts (patients are
controls) and on basic ones, three sizes; the agreement of disjoint halves and of
members that share people. Writes ``results/null_agreement.md``.
"""

import argparse
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config

from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.learners.ensemble import fit_linear_members
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.trajectory.members import (
    compare_trajectory_halves,
    fit_trajectory_members,
)
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import IndexRows, members_agreement
from rindices.selection.choose import (
    MIN_STABLE_CONCORDANCE,
    Candidate,
    GridPoint,
    choose_grid_point,
)

SIZES = ((80, 100), (150, 200), (492, 900))
WIDTHS = (1, 2, 3, 5)
MEMBERS = 5


def measure_agreement(
    kind: str, task: str, size: tuple[int, int], width: int, seed: int
) -> tuple[float, float, bool]:
    """Return the agreement of disjoint halves, among members that share people, and
    whether it counts as stable.
    """
    cohort = simulate_cohort(
        replace(TASKS[task], n_controls=size[0], n_patients=size[1]), seed
    ).cohort
    X, y = (
        Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    people = PreparedPeople(X=X, y=y).deal_to_members(range(MEMBERS), seed)
    if kind == "contrastive":
        members = fit_linear_members(people, width, range(MEMBERS), seed)
    else:
        members = compare_trajectory_halves(
            people, fit_trajectory_members(people, width, range(MEMBERS), seed), seed
        )
    indices = np.stack([member.head.infer(X[y == 1]) for member in members])
    evidence = np.array([member.evidence for member in members])
    candidate = Candidate(
        point=GridPoint(width),
        indices=IndexRows(indices),
        numbers=tuple(range(MEMBERS)),
        trained=MEMBERS,
        evidence=evidence,
    )
    choice = choose_grid_point([candidate], seed)
    return (
        float(evidence[:, 0].mean()),
        members_agreement(indices).concordance,
        choice.best is not None,
    )


def main() -> None:
    """Run all settings and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cohorts", type=int, default=2)
    parser.add_argument(
        "--methods",
        nargs="+",
        default=["trajectories"],
        choices=["trajectories", "contrastive"],
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent / "results" / "null_agreement.md",
    )
    options = parser.parse_args()
    settings = list(product(options.methods, ("null", "basic"), SIZES, WIDTHS))
    with parallel_config(backend="loky", inner_max_num_threads=1):
        jobs = (
            delayed(measure_agreement)(*setting, seed)
            for setting in settings
            for seed in range(options.cohorts)
        )
        rows = np.array(list(Parallel(n_jobs=-1)(jobs))).reshape(
            len(settings), options.cohorts, 3
        )
    head = "| method | cohort | people | M | disjoint halves, mean (lowest to highest) | sharing people | stable |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for (kind, task, size, width), results in zip(settings, rows, strict=True):
        halves, shared, stable = results.T
        spread = f"{halves.mean():.3f} ({halves.min():.3f} to {halves.max():.3f})"
        cells = [
            kind,
            task,
            f"{size[0]} + {size[1]}",
            str(width),
            spread,
            f"{shared.mean():.3f}",
            f"{stable.sum():.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    foot = f"{MEMBERS} members, {options.cohorts} cohorts each; stable: how many reach {MIN_STABLE_CONCORDANCE} "
    foot += "with the lower end."
    text = "\n".join([*lines, "", foot, ""])
    options.out.write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()

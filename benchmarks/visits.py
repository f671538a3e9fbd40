"""What is gained by learning from repeat visits: accuracy and order of regions.

Usage: ``python -m benchmarks.visits [--cohorts 2] [--tasks basic mild staged] [--sizes
80 150]``. Simulated visits (`rindices.experiments.visits`: retest noise as measured, a
tenth of the people leave before each later visit, visits about a year apart), adjusted
for age, sex and head size. Severities grow by up to ``growth`` from the first to the
last visit. Cohort seeds are 0 and up; constants were chosen on seeds 900 and up.

Three patterns of the true shape, five members. Every model is applied to the first
visits, and its R-indices are compared with the severities at that visit: the mean
C-index of the patterns and, where regions change one after another (task ``staged``),
Kendall's tau between the true and the found order.

- first: the first visit of each person (``--visits first``), which is also what one
  visit gives.
- mean: the mean of visits (``--visits mean``). - coupled: level and change share their
patterns, if these are proportional; staged ones are
  those of the mean.
- chosen: what ``--visits all`` takes, coupled patterns or those of the mean, by the
  likelihood of held-out people.

Writes ``results/visits.json`` and ``.md``; finished cohorts are not computed again.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from rindices.experiments.tasks import TASKS
from rindices.experiments.visits import SimulatedVisits, VisitPlan, simulate_visits
from rindices.learners.ensemble import Member
from rindices.learners.inference import TrajectoryHead
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.trajectory.members import fit_trajectory_members
from rindices.model.pattern_tables import ONSET_SHARE
from rindices.selection.agreement import IndexRows, pattern_c_index
from rindices.selection.choose import find_agreeing_members
from rindices.study.config import DataConfig, StudyConfig
from rindices.study.study import Study, StudyPeople
from rindices.tables.cohort import ID, attach_visits
from rindices.threads import limit_blas_threads

OUT = Path(__file__).parent / "results" / "visits.json"
SIZES = {80: (80, 100), 150: (150, 200), 492: (492, 900)}
GROWTHS, VISITS, PATTERNS, MEMBERS = (0.15, 0.4), (2, 3), 3, 5
METHODS = ("first", "mean", "coupled", "chosen")
GRID = np.linspace(0, 1, 201)[1:]


def fit_methods(
    people: dict[str, PreparedPeople], shape: str, seed: int
) -> dict[str, list[Member]]:
    """Return the members of each method."""
    methods = {
        name: fit_trajectory_members(
            each.deal_to_members(range(MEMBERS), seed),
            PATTERNS,
            range(MEMBERS),
            seed,
            shape,
        )
        for name, each in people.items()
    }
    methods["chosen"] = methods.pop("all")
    methods["coupled"] = methods["chosen"]
    if shape == "proportional" and not is_coupled(methods["chosen"]):
        methods["coupled"] = fit_trajectory_members(
            people["all"].deal_to_members(range(MEMBERS), seed),
            PATTERNS,
            range(MEMBERS),
            seed,
            shape,
            coupled=True,
        )
    return methods


def is_coupled(members: list[Member]) -> bool:
    """Return whether members have coupled patterns."""
    return bool(members[0].held_out is not None and members[0].held_out.coupled)


def score_members(
    members: list[Member], visits: SimulatedVisits, first: PreparedPeople
) -> dict[str, float | None]:
    """Return the accuracy at the first visit, and the order of the regions where there
    is one.
    """
    patients = first.X[first.y == 1]
    indices = np.stack([member.head.infer(patients) for member in members])
    consensus = find_agreeing_members(IndexRows(indices))
    pairs = list(zip(consensus.agreeing, consensus.orders, strict=True))
    severities = (
        visits.simulated.severities.drop_duplicates(ID).iloc[:, -PATTERNS:].to_numpy()
    )
    score = pattern_c_index(
        severities, np.mean([indices[k][:, order] for k, order in pairs], axis=0)
    )
    if visits.simulated.onsets is None:
        return {"c_index": score.mean, "tau": None}
    heads = [members[k].head for k, _ in pairs]
    curves = np.mean(
        [
            head.compute_curves(GRID)[:, order]
            for head, (_, order) in zip(heads, pairs, strict=True)
            if isinstance(head, TrajectoryHead)
        ],
        axis=0,
    )
    return {
        "c_index": score.mean,
        "tau": float(np.mean(compare_orders(curves, score.matching, visits))),
    }


def compare_orders(
    curves: np.ndarray, matching: Any, visits: SimulatedVisits
) -> list[float]:
    """Return Kendall's tau of each pattern between true onsets and those of curves
    (levels, M, R).
    """
    regions, onsets, taus = (
        list(visits.simulated.cohort.regions),
        visits.simulated.onsets,
        [],
    )
    assert onsets is not None
    for k, own in onsets.groupby("pattern", sort=True):
        curve = curves[:, matching[int(k.removeprefix("s")) - 1]][
            :, [regions.index(name) for name in own["region"]]
        ]
        is_reached = curve / curve[-1] >= ONSET_SHARE
        tau = float(kendalltau(GRID[is_reached.argmax(axis=0)], own["onset"]).statistic)
        taus.append(
            0.0 if np.isnan(tau) else tau
        )  # all regions at once: no order was found
    return taus


@limit_blas_threads()
def run(
    task: str, size: int, n_visits: int, growth: float, seed: int
) -> dict[str, Any]:
    """Return the scores of all methods on one cohort."""
    start = time.process_time()
    spec = replace(TASKS[task], n_controls=SIZES[size][0], n_patients=SIZES[size][1])
    visits = simulate_visits(
        spec, seed, VisitPlan(visits=n_visits, uniform_growth=growth)
    )
    cohort = attach_visits(visits.simulated.cohort)[0]
    config = StudyConfig(data=DataConfig(volumes=("memory",)))
    study = StudyPeople(Study(cohort, config), config.model)
    rows = pd.Index(study.cohort.people[ID]).get_indexer(
        cohort.people[ID]
    )  # in the order of the severities
    people = {
        name: study.prepare(visits=name).take(rows) for name in ("first", "mean", "all")
    }
    methods = fit_methods(people, "staged" if spec.last_onset else "proportional", seed)
    scores = {
        name: score_members(methods[name], visits, people["first"]) for name in METHODS
    }
    gains = [
        member.held_out.coupling_gain
        for member in methods["chosen"]
        if member.held_out is not None
    ]
    key = {
        "task": task,
        "size": size,
        "visits": n_visits,
        "growth": growth,
        "seed": seed,
    }
    facts = {
        "is_coupled": is_coupled(methods["chosen"]),
        "gain": float(np.mean([gain or 0.0 for gain in gains])),
    }
    return (
        key
        | facts
        | {"seconds": round(time.process_time() - start, 1), "scores": scores}
    )


def format_table(rows: list[dict[str, Any]]) -> str:
    """Return the table in markdown."""
    lines = ["# Learning from repeat visits", "`python -m benchmarks.visits`", ""]
    lines += [
        "C-index of R-indices at the first visit, mean of cohorts. Severities of rows with different growth differ."
    ]
    head = (
        "task",
        "people",
        "growth",
        "visits",
        "cohorts",
        *METHODS,
        "chosen - mean (se)",
        "coupled",
    )
    lines += ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for group in group_rows(rows):
        lines.append(format_line(group, "c_index", 4))
    lines += [
        "",
        "Kendall's tau between the true and the found order of the regions.",
        "",
    ]
    lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for group in group_rows(rows):
        if TASKS[group[0]["task"]].last_onset:
            lines.append(format_line(group, "tau", 3))
    lines += ["", "Coupled: in how many of the cohorts coupled patterns were chosen."]
    return "\n".join([*lines, ""])


def group_rows(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the rows of each setting."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in sorted(
        rows,
        key=lambda row: (
            row["task"],
            row["size"],
            row["growth"],
            row["visits"],
            row["seed"],
        ),
    ):
        groups.setdefault(
            (row["task"], row["size"], row["growth"], row["visits"]), []
        ).append(row)
    return list(groups.values())


def format_line(group: list[dict[str, Any]], measure: str, digits: int) -> str:
    """Return the line of one setting."""
    first, sizes = group[0], SIZES[group[0]["size"]]
    values = {
        name: np.array([row["scores"][name][measure] for row in group])
        for name in METHODS
    }
    difference = values["chosen"] - values["mean"]
    error = (
        f" ({difference.std(ddof=1) / np.sqrt(len(group)):.{digits}f})"
        if len(group) > 1
        else ""
    )
    cells = [
        first["task"],
        f"{sizes[0]} + {sizes[1]}",
        f"{first['growth']:g}",
        str(first["visits"]),
        str(len(group)),
    ]
    cells += [f"{values[name].mean():.{digits}f}" for name in METHODS]
    cells += [
        f"{difference.mean():+.{digits}f}{error}",
        f"{sum(row['is_coupled'] for row in group)} of {len(group)}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Compute what is missing and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, default=2)
    parser.add_argument("--tasks", nargs="+", default=["basic", "mild", "staged"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[80, 150])
    parser.add_argument("--growths", type=float, nargs="+", default=list(GROWTHS))
    options = parser.parse_args()
    rows = json.loads(OUT.read_text("utf-8")) if OUT.is_file() else []
    done = {
        (row["task"], row["size"], row["visits"], row["growth"], row["seed"])
        for row in rows
    }
    for seed in range(options.cohorts):
        for size in options.sizes:
            for task in options.tasks:
                for key in (
                    (task, size, visits, growth, seed)
                    for growth in options.growths
                    for visits in VISITS
                ):
                    if key not in done:
                        rows.append(run(*key))
                        OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
                        OUT.with_suffix(".md").write_text(format_table(rows), "utf-8")
    print(format_table(rows))


if __name__ == "__main__":
    main()

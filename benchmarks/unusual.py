"""Share of novel people within and outside of the training distribution, in simulated
cohorts.

``python -m benchmarks.unusual`` fits a model (one contrastive member of one pattern,
which does not matter here) and applies it to a new cohort as it is, in ml, with
hippocampus and thalamus exchanged, 20 years too old or too young, and from a scanner
that shifts every region by N(0, 0.5) standard deviations. Writes
``results/unusual.md``.
"""

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import rindices as ri
from rindices.tables.cohort import Cohort

OUT = Path(__file__).parent / "results" / "unusual"
NEW = 1000  # added to a seed for new people
EXCHANGED = {
    "MUSE_47": "MUSE_59",
    "MUSE_48": "MUSE_60",
}  # hippocampus and thalamus, right and left


def convert_to_ml(cohort: Cohort, _: ri.FittedModel) -> Cohort:
    # with a known unit the table would be refused before people are compared
    return replace(cohort, volumes=cohort.volumes / 1000, unit="unknown")


def exchange_regions(cohort: Cohort, _: ri.FittedModel) -> Cohort:
    columns = EXCHANGED | {b: a for a, b in EXCHANGED.items()}
    return replace(cohort, volumes=cohort.volumes.rename(columns=columns))


def make_too_old(cohort: Cohort, model: ri.FittedModel) -> Cohort:
    return replace(
        cohort,
        covariates=cohort.covariates.assign(
            age=model.card.covariate_ranges["age"][1] + 20
        ),
    )


def make_too_young(cohort: Cohort, model: ri.FittedModel) -> Cohort:
    return replace(
        cohort,
        covariates=cohort.covariates.assign(
            age=model.card.covariate_ranges["age"][0] - 20
        ),
    )


def shift_regions(cohort: Cohort, _: ri.FittedModel) -> Cohort:
    shift = (
        np.random.default_rng(7).normal(0, 0.5, cohort.n_regions) * cohort.volumes.std()
    )
    return replace(cohort, volumes=cohort.volumes + shift)


CHANGES: dict[str, tuple[Callable[[Cohort, ri.FittedModel], Cohort], str]] = {
    "as in training": (lambda cohort, _: cohort, ""),
    "in ml": (convert_to_ml, "another unit"),
    "hippocampus and thalamus exchanged": (
        exchange_regions,
        r"(?=.*Hippocampus_[LR] \+)(?=.*ThalamusProper_[LR] -)",
    ),
    "another scanner": (shift_regions, ""),
    "20 years too old": (make_too_old, r"age [\d.]+ is outside"),
    "20 years too young": (make_too_young, r"age [\d.]+ is outside"),
}


def measure_unusual(task: str, seed: int) -> list[dict[str, object]]:
    model = ri.fit(
        ri.simulate_cohort(task, seed=seed).cohort,
        1,
        method="contrastive",
        members=1,
        workers=1,
    )
    people = ri.simulate_cohort(task, seed=seed + NEW).cohort
    rows = []
    for kind, (change, reason) in CHANGES.items():
        row: dict[str, object] = {"task": task, "seed": seed, "people": kind}
        try:
            table, problems, _ = model.assess(change(people, model))
        except ri.RindicesError as error:  # the whole table is refused
            rows.append(
                row
                | {
                    "novel": 1.0,
                    "named": float("unit" in str(error)),
                    "warning": str(error),
                }
            )
            continue
        has_reason = np.array(
            [bool(re.search(reason, text)) for text in table["outside_because"]]
        )
        warnings = [
            str(problem) for problem in problems if "looks unlike" in str(problem)
        ]
        row |= {
            "novel": float(table["outside_training_range"].mean()),
            "named": float(has_reason.mean()) if reason else None,
        }
        row |= {"warning": warnings[0] if warnings else ""}
        rows.append(row)
    return rows


def write_table(rows: list[dict]) -> None:
    lines = [
        "# Unusual people",
        "",
        "Share of people called novel, with the right reason; of a table that is refused, all. "
        "`python -m benchmarks.unusual`",
        "",
    ]
    lines += [
        "| task | people | cohorts | novel | highest | right reason | tables warned of |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for task in dict.fromkeys(row["task"] for row in rows):
        for kind in CHANGES:
            cell_rows = [
                row for row in rows if row["people"] == kind and row["task"] == task
            ]
            novel = [row["novel"] for row in cell_rows]
            shares = f"{np.mean(novel):.3f} | {max(novel):.3f}"
            named = (
                ""
                if cell_rows[0]["named"] is None
                else f"{np.mean([row['named'] for row in cell_rows]):.3f}"
            )
            n_warned = sum(bool(row["warning"]) for row in cell_rows)
            lines.append(
                f"| {task} | {kind} | {len(cell_rows)} | {shares} | {named} | {n_warned} |"
            )
    OUT.with_suffix(".md").write_text("\n".join(lines) + "\n")
    OUT.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cohorts", type=int, default=10)
    options = parser.parse_args()
    rows = []
    for task in ("basic", "mild", "small", "tiny"):
        for seed in range(options.cohorts):
            rows += measure_unusual(task, seed)
            print(*rows[-len(CHANGES) :], sep="\n", flush=True)
    write_table(rows)

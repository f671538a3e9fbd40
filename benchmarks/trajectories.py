"""Number, shape and order of regions by the default learner, where all three are known.

Usage: ``python -m benchmarks.trajectories [--cohorts 5] [--workers 2] [--kinds choice
order "small order"] [--tasks noise mild]``. Simulated cohorts, adjusted for age, sex
and head size, seeds 0 and up; constants were chosen on seeds 400 and up. Members see
four fifths of the people; five members a setting.

- Choice: 2, 3 and 4 patterns of all shapes, as `fit` chooses: by the likelihood of
  people that members have not seen, among the numbers on which disjoint halves of the
  people agree.
- Order: with three patterns, Kendall's tau between the true onsets of the regions of
  each pattern and the onsets of ``FittedModel.region_order``, and how often their 95 %
  intervals hold the severity at which the region truly has a quarter of its final
  change. Also with 150 controls and 200 patients. The constant of these intervals was
  chosen on seeds 500 to 504.

Writes ``results/trajectories.json`` and ``.md``; finished cohorts are not computed
again.
"""

import argparse
import json
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import kendalltau

import rindices as ri
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.model.pattern_tables import ONSET_SHARE
from rindices.selection.agreement import pattern_c_index

OUT = Path(__file__).parent / "results" / "trajectories.json"
CHOICE_TASKS = ("basic", "overlap", "mild", "noise", "staged", "staged09")
ORDER_TASKS = ("staged", "staged09")
KINDS = ("choice", "order", "small order")
NUMBERS, MEMBERS, TRUE_NUMBER = (2, 3, 4), 5, 3
SMALL = (150, 200)  # controls and patients


def choose(task: str, seed: int) -> dict[str, Any]:
    """Return the number and shape that `fit` chooses for one cohort."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ri.StudyWarning)
        model = ri.fit(
            simulate_cohort(task, seed).cohort,
            NUMBERS,
            members=MEMBERS,
            seed=seed,
            workers=1,
        )
    selection, row = (
        model.selection,
        {"kind": "choice", "task": task, "seed": seed, "number": 0, "shape": ""},
    )
    assert selection is not None
    if (
        model.card.finding == "patterns"
        and selection.chosen is not None
        and selection.chosen.held_out is not None
    ):
        row |= {"number": model.n_patterns, "shape": selection.chosen.held_out.shape}
    for each in selection.grid:
        number, held_out = each.setting.n_patterns, each.held_out
        row[str(number)] = (
            float("nan") if held_out is None else -(held_out.below_best or 0.0)
        )
        row[f"agreement {number}"] = each.agreement.concordance
    return row


def order(task: str, seed: int, sizes: tuple[int, int] | None = None) -> dict[str, Any]:
    """Return Kendall's tau and the coverage of the intervals of onsets, of each pattern
    of one cohort.
    """
    spec = (
        TASKS[task]
        if sizes is None
        else replace(TASKS[task], n_controls=sizes[0], n_patients=sizes[1])
    )
    simulated = simulate_cohort(spec, seed)
    cohort = simulated.cohort
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ri.StudyWarning)
        model = ri.fit(cohort, TRUE_NUMBER, workers=1)
    indices = (
        model.apply(cohort).loc[cohort.is_patient, list(model.index_names)].to_numpy()
    )
    score = pattern_c_index(simulated.truth, indices)
    found, quarter = (
        model.region_order(),
        (1 - (1 - spec.rate) ** ONSET_SHARE) / spec.rate,
    )
    taus, coverages, listed = [], [], []
    for k, onsets in simulated.onsets.groupby("pattern", sort=True):
        own = found[
            found["pattern"] == f"r{score.matching[int(k.removeprefix('s')) - 1] + 1}"
        ]
        both = own.merge(
            onsets[["region", "onset"]].rename(columns={"onset": "start"}), on="region"
        )
        truth = both["start"] + (1 - both["start"]) * quarter
        taus.append(float(kendalltau(both["onset"], both["start"]).statistic))
        coverages.append(
            float(((both["onset_low"] <= truth) & (truth <= both["onset_high"])).mean())
        )
        listed.append(len(both))
    row = {
        "kind": "order" if sizes is None else "small order",
        "task": task,
        "seed": seed,
        "c_index": score.mean,
    }
    return row | {"tau": taus, "coverage": coverages, "listed": listed}


def format_tables(rows: list[dict[str, Any]]) -> str:
    """Return both tables in markdown."""
    lines = [
        "# Number, shape and order by the default learner",
        "`python -m benchmarks.trajectories`",
        "",
    ]
    lines += [
        "| task | cohorts | right number | right shape | numbers |",
        "|---|---|---|---|---|",
    ]
    for task in CHOICE_TASKS:
        group = [row for row in rows if row["kind"] == "choice" and row["task"] == task]
        if group:
            shape = "staged" if TASKS[task].last_onset else "proportional"
            number = sum(row["number"] == TRUE_NUMBER for row in group)
            right = sum(row["shape"] == shape for row in group)
            chosen = " ".join(str(row["number"]) for row in group)
            lines.append(f"| {task} | {len(group)} | {number} | {right} | {chosen} |")
    earlier = {
        row["task"]
        for row in rows
        if row["kind"] == "choice" and f"agreement {TRUE_NUMBER}" not in row
    }
    if earlier:
        lines += [
            "",
            f"By likelihood alone, before agreement was a criterion: {', '.join(sorted(earlier))}.",
        ]
    head = (
        "task",
        "people",
        "cohorts",
        "mean tau",
        "lowest tau",
        "onsets in their interval",
        "regions",
        "C-index",
    )
    lines += ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for kind, sizes in (
        ("order", (TASKS["staged"].n_controls, TASKS["staged"].n_patients)),
        ("small order", SMALL),
    ):
        for task in ORDER_TASKS:
            group = [row for row in rows if row["kind"] == kind and row["task"] == task]
            if group:
                taus, coverage, listed, c_index = (
                    np.array([row[name] for row in group])
                    for name in ("tau", "coverage", "listed", "c_index")
                )
                numbers = f"{taus.mean():.3f} | {np.nanmin(taus):.3f} | {np.average(coverage, weights=listed):.3f}"
                people = f"{sizes[0]} + {sizes[1]} | {len(group)}"
                lines.append(
                    f"| {task} | {people} | {numbers} | {listed.mean():.1f} | {c_index.mean():.4f} |"
                )
    lines += [
        "",
        "Onsets in their interval: of 95 % intervals. Regions: of the 14 of each pattern, those that have an onset.",
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Compute what is missing and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument(
        "--tasks", nargs="+", choices=CHOICE_TASKS, default=CHOICE_TASKS
    )
    options = parser.parse_args()
    seeds = range(options.cohorts)
    jobs = [
        (kind, task, seed)
        for kind in options.kinds
        for seed in seeds
        for task in (CHOICE_TASKS if kind == "choice" else ORDER_TASKS)
        if task in options.tasks
    ]
    rows = json.loads(OUT.read_text("utf-8")) if OUT.is_file() else []
    done = {(row["kind"], row["task"], row["seed"]) for row in rows}
    missing = [job for job in jobs if job not in done]
    functions = {
        "choice": choose,
        "order": order,
        "small order": partial(order, sizes=SMALL),
    }
    parallel = Parallel(n_jobs=options.workers, return_as="generator_unordered")
    for row in parallel(
        delayed(functions[kind])(task, seed) for kind, task, seed in missing
    ):
        rows.append(row)
        OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        OUT.with_suffix(".md").write_text(format_tables(rows), "utf-8")
    print(format_tables(rows))


if __name__ == "__main__":
    main()

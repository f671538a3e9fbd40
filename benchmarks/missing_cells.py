"""Missing cells and regions: accuracy, coverage and cost, compared with leaving people
out and with mean imputation.

Usage: ``python -m benchmarks.missing_cells [--cohorts 2] [--part accuracy | apply |
cost]``. Task basic, adjusted for age, sex and head size, method trajectories with three
patterns and five members, seeds 0 and up. Cells are removed at random (2, 10, 30 %), or
a third of the people lack a lobe (28 neighbouring regions of 139). ``apply``: the model
of the complete table is applied to a new cohort without 10, 30 or 60 regions. ``cost``:
processor seconds of `rindices.fit` with 10 % of the cells missing in 200 different
ways, and of `FittedModel.apply` on 20,000 such people after the first chunk, relative
to complete tables in the same run. Writes ``results/missing_cells.json`` and ``.md``;
finished rows are not computed again.
"""

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import rindices as ri
from benchmarks.intervals import compute_coverage
from rindices.experiments.tasks import TASKS
from rindices.selection.agreement import pattern_c_index
from rindices.tables.cohort import Cohort

OUT = Path(__file__).parent / "results" / "missing_cells.json"
SHARES = {"2 % of the cells": 0.02, "10 % of the cells": 0.1, "30 % of the cells": 0.3}
LOBE = "a lobe in a third of the people"
N_LOBE, NEW = 28, 1000
N_REPEATS = 5  # of applying, which takes less than a second
NAMES = ["r1", "r2", "r3"]


def make_mask(shape: tuple[int, int], setting: str, seed: int) -> np.ndarray:
    """Return the cells (N, R) to remove."""
    rng = np.random.default_rng([seed, 1])
    if setting != LOBE:
        return rng.random(shape) < SHARES[setting]
    first = int(rng.integers(shape[1] - N_LOBE))
    mask = np.zeros(shape, dtype=bool)
    mask[rng.permutation(shape[0])[: shape[0] // 3], first : first + N_LOBE] = True
    return mask


def impute_means(cohort: Cohort) -> Cohort:
    """Return the cohort with missing cells replaced by the mean of the controls."""
    return replace(
        cohort, volumes=cohort.volumes.fillna(cohort.volumes[cohort.is_control].mean())
    )


def score(
    cohort: Cohort, truth: np.ndarray, seed: int, complete: np.ndarray | None = None
) -> dict[str, float]:
    """Return accuracy and coverage of a fit, and its accuracy in patients of a mask;
    NaN if nobody is left.
    """
    if min(cohort.n_controls, cohort.n_patients) < 20:
        return {"c_index": float("nan"), "coverage": float("nan")}
    table = ri.fit(cohort, 3, members=5, seed=seed, workers=1).apply(
        cohort, min_information=0.0
    )[cohort.is_patient]
    r, low, high = (
        table[[name + end for name in NAMES]].to_numpy()
        for end in ("", "_low", "_high")
    )
    coverage = float(np.mean(compute_coverage(truth, r, low, high)))
    result = {"c_index": pattern_c_index(truth, r).mean, "coverage": coverage}
    if complete is not None and complete.sum() > 20:
        result["in complete people"] = pattern_c_index(
            truth[complete], r[complete]
        ).mean
    return result


def measure_accuracy(setting: str, seed: int) -> dict[str, Any]:
    """Return accuracy and coverage of one cohort, complete and with missing cells
    treated in three ways.
    """
    simulated = ri.simulate_cohort("basic", seed)
    complete = simulated.cohort
    if setting == "complete":
        return {"model": score(complete, simulated.truth, seed)}
    holes = replace(
        complete,
        volumes=complete.volumes.mask(make_mask(complete.volumes.shape, setting, seed)),
    )
    kept = ~holes.volumes.isna().any(axis=1).to_numpy()
    kept_patients = kept[complete.is_patient]
    truth_left = simulated.truth[kept_patients]
    return {
        "model": score(holes, simulated.truth, seed, kept_patients),
        "mean imputation": score(impute_means(holes), simulated.truth, seed),
        "people left out": score(holes.take(kept), truth_left, seed)
        | {"kept": float(kept.mean())},
    }


def measure_apply(setting: str, seed: int) -> dict[str, Any]:
    """Return accuracy, coverage and width of the intervals of new people who lack
    regions.
    """
    model = ri.fit(
        ri.simulate_cohort("basic", seed).cohort, 3, members=5, seed=seed, workers=1
    )
    new = ri.simulate_cohort("basic", seed + NEW)
    order = np.random.default_rng([seed, 2]).permutation(new.cohort.n_regions)
    result: dict[str, Any] = {}
    for number in (0, 10, 30, 60):
        volumes = new.cohort.volumes.drop(
            columns=new.cohort.volumes.columns[order[:number]]
        )
        table = model.apply(replace(new.cohort, volumes=volumes))[new.cohort.is_patient]
        r, low, high = (
            table[[name + end for name in NAMES]].to_numpy()
            for end in ("", "_low", "_high")
        )
        coverage = float(np.mean(compute_coverage(new.truth, r, low, high)))
        c_index = pattern_c_index(new.truth, r).mean
        result[str(number)] = {
            "c_index": c_index,
            "coverage": coverage,
            "width": float((high - low).mean()),
        }
    return result


def measure_cost(setting: str, seed: int) -> dict[str, Any]:
    """Return processor seconds of fit and apply, with and without missing cells in 200
    different ways.
    """
    rng = np.random.default_rng([seed, 3])
    cohort = ri.simulate_cohort("basic", seed).cohort
    large = ri.simulate_cohort(
        replace(TASKS["basic"], n_controls=10_000, n_patients=10_000), seed
    ).cohort
    masks = rng.random((200, cohort.n_regions)) < 0.1
    seconds: dict[str, float] = {}
    models: dict[str, ri.FittedModel] = {}
    for name, has_holes in (("complete", False), ("missing", True)):
        people, many = (
            replace(
                each,
                volumes=each.volumes.mask(masks[rng.integers(200, size=len(each))]),
            )
            if has_holes
            else each
            for each in (cohort, large)
        )
        start = time.process_time()
        models[name] = ri.fit(people, (2, 3, 4), members=5, seed=seed, workers=1)
        seconds[f"fit, {name}"] = time.process_time() - start
        models["complete"].apply(
            many.take(np.arange(2_000))
        )  # prepares for all sets of missing regions
        start = time.process_time()
        for _ in range(N_REPEATS):
            models["complete"].apply(many)
        seconds[f"apply, {name}"] = time.process_time() - start
    return seconds


PARTS = {
    "accuracy": (measure_accuracy, ("complete", *SHARES, LOBE)),
    "apply": (measure_apply, ("regions",)),
    "cost": (measure_cost, ("seconds",)),
}


def format_tables(rows: list[dict[str, Any]]) -> str:
    """Return all tables in markdown."""
    lines = ["# Missing cells and regions", "`python -m benchmarks.missing_cells`", ""]
    lines += [
        "Fits with missing cells: pattern C-index of the patients, means over cohorts, and its difference from "
    ]
    lines += ["complete tables of the same cohorts.", ""]
    titles = (
        "likelihood of measured cells",
        "mean imputation",
        "people left out: in the others",
        "coverage",
    )
    lines += [
        f"| missing | cohorts | {titles[0]} | the same, in complete people | {' | '.join(titles[1:])} |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    complete = {
        row["seed"]: row["model"]["c_index"]
        for row in rows
        if row.get("setting") == "complete"
    }
    for setting in ("complete", *SHARES, LOBE):
        group = [
            row for row in rows if row["setting"] == setting and row["seed"] in complete
        ]
        if not group:
            continue
        cells = []
        for way in ("model", "mean imputation", "people left out"):
            values = [
                (row[way]["c_index"], complete[row["seed"]])
                for row in group
                if way in row
            ]
            finite = [pair for pair in values if np.isfinite(pair[0])]
            if not finite:
                cells.append("nobody left" if values else "")
                continue
            mean, difference = (
                np.mean(finite, axis=0)[0],
                np.mean([a - b for a, b in finite]),
            )
            cells.append(f"{mean:.4f} ({difference:+.4f})")
            if way == "model":
                known = [
                    row[way]["in complete people"]
                    for row in group
                    if "in complete people" in row[way]
                ]
                cells.append(f"{np.mean(known):.4f}" if known else "")
        coverage = np.mean([row["model"]["coverage"] for row in group])
        lines.append(
            f"| {setting} | {len(group)} | {' | '.join(cells)} | {coverage:.3f} |"
        )
    group = [row for row in rows if row["setting"] == "regions"]
    if group:
        lines += [
            "",
            "New people who lack regions, by the model of a complete table.",
            "",
        ]
        lines += [
            "| regions missing | cohorts | C-index | coverage | width, relative to all regions |",
            "|---|---|---|---|---|",
        ]
        for number in ("0", "10", "30", "60"):
            means = {
                name: np.mean([row[number][name] for row in group])
                for name in ("c_index", "coverage")
            }
            width = np.mean([row[number]["width"] / row["0"]["width"] for row in group])
            lines.append(
                f"| {number} | {len(group)} | {means['c_index']:.4f} | {means['coverage']:.3f} | {width:.2f} |"
            )
    group = [row for row in rows if row["setting"] == "seconds"]
    if group:
        lines += [
            "",
            "Processor seconds with 10 % of the cells missing in 200 different ways, relative to none missing:",
        ]
        for step in ("fit", "apply"):
            ratio = np.mean(
                [row[f"{step}, missing"] / row[f"{step}, complete"] for row in group]
            )
            lines.append(f"- {step}: {ratio:.2f} ({len(group)} cohorts)")
    return "\n".join([*lines, ""])


def main() -> None:
    """Compute what is missing and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, default=2)
    parser.add_argument("--part", choices=list(PARTS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = json.loads(OUT.read_text("utf-8")) if OUT.is_file() else []
    done = {(row["setting"], row["seed"]) for row in rows}
    for part in [options.part] if options.part else PARTS:
        measure, settings = PARTS[part]
        for seed in range(options.cohorts if part != "cost" else 1):
            for setting in settings:
                if (setting, seed) in done:
                    continue
                rows.append({"setting": setting, "seed": seed} | measure(setting, seed))
                OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
                OUT.with_suffix(".md").write_text(format_tables(rows), "utf-8")
    print(format_tables(rows))


if __name__ == "__main__":
    main()

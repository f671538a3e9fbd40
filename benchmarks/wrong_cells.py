"""Wrong cells and missing cells: what is found, what it saves, and whether healthy
people who lack cells look ill.

Usage: ``python -m benchmarks.wrong_cells [--parts clean planted flagged missing null
cost accuracy]``. Cells are wrong by a factor of 2 to 4, up or down. ``clean``: cells of
clean tables that are called wrong. ``planted``: wrong cells that are found, alone and
in blocks of 12 neighbouring regions of a person. ``flagged``: the same in an ONNX graph
of a fitted model. ``missing``: people who lack cells against the same people with all
cells, by a model of complete people. ``null``: tables of healthy people whose labels
are drawn, with wrong cells in one group only. ``cost``: processor seconds of
`rindices.fit` with the search, relative to those without, on a clean table.
``accuracy``: pattern C-index of fits with wrong cells. Limits, shrinkage and the share
of healthy people of the map were chosen on seeds 100 to 119; the seeds here are 900 and
more. ``clean`` and ``planted`` have the seeds 950 to 953, because an earlier version of
the search, which estimated correlations by group, was given up after a look at the
seeds 900 to 902. Writes ``results/wrong_cells.json`` and ``.md``; finished rows are not
computed again.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

import rindices as ri
from benchmarks.intervals import compute_coverage
from rindices.exchange.onnx import export_onnx
from rindices.experiments.tasks import TASKS as TASKS_BY_NAME
from rindices.model.unusual import TrainingDistribution
from rindices.selection.agreement import pattern_c_index
from rindices.study.group_tests import Finding, run_group_tests
from rindices.study.outlying_measurements import check_cells
from rindices.tables.cohort import GROUP, Cohort

OUT = Path(__file__).parent / "results" / "wrong_cells.json"
DATA = Path("../shared/data")
BLOCK = 12
N_HEALTHY = 12_000  # new healthy people; the standard error of an AUC is 0.004 at most
TASKS, FITTED = (
    ("basic", "staged", "hard", "small"),
    ("basic", "small", "staged", "mild"),
)
NAMES = ["r1", "r2", "r3"]
Rows = list[dict[str, Any]]


def plant_cells(
    cohort: Cohort, share: float, rows: np.ndarray, seed: int, block: int = 1
) -> tuple[Cohort, np.ndarray]:
    """Return the cohort with a share of the cells of some rows (N,) wrong, in blocks of
    regions, and their mask.
    """
    rng = np.random.default_rng([seed, 20])
    values = cohort.volumes.to_numpy(dtype=float).copy()
    mask, people = np.zeros(values.shape, dtype=bool), np.flatnonzero(rows)
    for _ in range(round(share * len(people) * values.shape[1] / block)):
        row, first = (
            int(rng.choice(people)),
            int(rng.integers(values.shape[1] - block + 1)),
        )
        columns = slice(first, first + block)
        if not mask[row, columns].any():
            values[row, columns] *= np.exp(
                rng.choice([-1, 1]) * rng.uniform(np.log(2), np.log(4))
            )
            mask[row, columns] = True
    return replace(
        cohort, volumes=pd.DataFrame(values, columns=cohort.volumes.columns)
    ), mask


def find_mask(cohort: Cohort) -> np.ndarray:
    """Return the mask (N, R) of the cells that are called wrong."""
    checked = check_cells(cohort, 0, None, "model")
    return np.asarray((checked.cohort.volumes != cohort.volumes).to_numpy())


def measure_clean(setting: str, seed: int) -> dict[str, Any]:
    """Return the cells of clean controls and patients that are called wrong."""
    cohort = ri.simulate_cohort(setting, seed).cohort
    mask = find_mask(cohort)
    groups = {"controls": cohort.is_control, "patients": cohort.is_patient}
    counts = {
        name: [int(mask[rows].sum()), int(mask[rows].size)]
        for name, rows in groups.items()
    }
    preprocessing = ri.Preprocessing.fit(cohort)
    training = TrainingDistribution.fit(
        preprocessing.transform(cohort), range(len(cohort))
    )
    new = ri.simulate_cohort(setting, seed + 1000).cohort
    is_wrong = training.compare_cells(preprocessing.transform(new)).is_wrong
    return counts | {"new people": [int(is_wrong.sum()), int(is_wrong.size)]}


def measure_planted(setting: str, seed: int) -> dict[str, Any]:
    """Return wrong cells that are found: alone (0.3 % and 1 %), in patients alone, and
    in blocks.
    """
    cohort = ri.simulate_cohort(setting, seed).cohort
    everyone, result = np.ones(len(cohort), dtype=bool), {}
    for name, arguments in {
        "0.3 %": (0.003, everyone, seed),
        "1 %": (0.01, everyone, seed),
        "0.3 % of patients": (0.003, cohort.is_patient, seed),
        "0.3 % in blocks": (0.003, everyone, seed, BLOCK),
    }.items():
        wrong, mask = plant_cells(cohort, *arguments)
        found = find_mask(wrong)
        result[name] = [
            int(found[mask].sum()),
            int(mask.sum()),
            int(found[~mask].sum()),
            int((~mask).sum()),
        ]
    return result


def measure_flagged(setting: str, seed: int) -> dict[str, Any]:
    """Return the new people whom an ONNX graph flags: by their wrong cells, and by
    `outlier_score` from the limit on.
    """
    import onnxruntime

    model = ri.fit(
        ri.simulate_cohort(setting, seed).cohort, 3, members=5, seed=seed, workers=1
    )
    assert model.training is not None
    cohort, result = ri.simulate_cohort(setting, seed + 1000).cohort, {}
    wrong, mask = plant_cells(cohort, 0.003, np.ones(len(cohort), dtype=bool), seed)
    with TemporaryDirectory() as folder:
        export_onnx(model, Path(folder) / "model.onnx")
        session = onnxruntime.InferenceSession(Path(folder) / "model.onnx")
    for name, table, rows in (
        ("wrong", wrong, np.nonzero(mask)[0]),
        ("clean", cohort, np.arange(len(cohort))),
    ):
        columns = pd.concat([table.volumes, table.covariates], axis=1)
        feeds = {
            node.name: columns[[node.name]].to_numpy() for node in session.get_inputs()
        }
        unusual, number = (
            values[rows, 0]
            for values in session.run(["outlier_score", "outlying_measurements"], feeds)
        )
        result[name] = [
            int((number > 0).sum()),
            int((unusual >= model.training.limit).sum()),
            len(rows),
        ]
    return result


def measure_missing(setting: str, seed: int) -> dict[str, Any]:
    """Return how often healthy people, and patients, who lack cells have a higher index
    than with all cells.
    """
    model = ri.fit(
        ri.simulate_cohort(setting, seed).cohort, 3, members=5, seed=seed, workers=1
    )
    new = ri.simulate_cohort(
        replace(TASKS_BY_NAME[setting], n_controls=N_HEALTHY), seed + 1000
    )
    cohort, result = new.cohort, {}
    complete = model.apply(cohort, on_outlier="keep")[NAMES].to_numpy()
    for share in (0.0, 0.1, 0.3, 0.5, 0.6):
        rng = np.random.default_rng([seed, 21])
        masks = rng.random((40, cohort.n_regions)) < share
        lacking = replace(
            cohort,
            volumes=cohort.volumes.mask(masks[rng.integers(40, size=len(cohort))]),
        )
        table = model.apply(lacking, on_outlier="keep", min_information=-1.0)
        r, low, high = (
            table[[name + end for name in NAMES]].to_numpy()
            for end in ("", "_low", "_high")
        )
        rows = {"healthy": cohort.is_control, "patients": cohort.is_patient}
        patients = rows["patients"]
        result[f"{share:.0%}"] = {
            **{
                name: [compute_auc(r[own, k], complete[own, k]) for k in range(3)]
                for name, own in rows.items()
            },
            "change": float((r - complete)[patients].mean()),
            "c_index": pattern_c_index(new.truth, r[patients]).mean,
            "coverage": float(
                np.mean(
                    compute_coverage(
                        new.truth, r[patients], low[patients], high[patients]
                    )
                )
            ),
            "information": float(table["information"].mean()),
        }
    return result


def compute_auc(first: np.ndarray, second: np.ndarray) -> float:
    """Return how often a value of the first is above one of the second; ties count
    half.
    """
    ranks = rankdata(np.concatenate([first, second]))[: len(first)]
    return float((ranks.mean() - (len(first) + 1) / 2) / len(second))


def read_healthy(setting: str) -> Cohort:
    """Return a table of healthy people."""
    if setting == "IXI":
        table = pd.read_csv(DATA / "ixi" / "volumes.csv", dtype={"ID": str})
        people = (
            pd.read_csv(DATA / "ixi" / "demographics.csv", dtype={"ID": str})
            .set_index("ID")
            .loc[table["ID"]]
        )
        codes = [name for name in table if name.isdigit() and int(name) < 300]
        volumes = table[
            [name for name in codes if int(name) not in (4, 11, 49, 50, 51, 52)]
        ]
        covariates = people.reset_index(drop=True).assign(icv=table["702"])
        ids, sites = table["ID"], {}
    else:
        table = pd.read_csv(DATA / "fcon1000" / "fcon1000.csv")
        volumes = table[[name for name in table if name.endswith("_thickness")]]
        covariates, ids = (
            table[["age", "sex"]].astype({"sex": str}),
            table["sub_id"].astype(str),
        )
        sites = {"site": table["site"].astype(str)}
    names = pd.DataFrame({"participant_id": ids, **sites})
    return Cohort(
        volumes=volumes.astype(float).reset_index(drop=True),
        people=names,
        covariates=covariates,
    )


def measure_null(setting: str, seed: int) -> dict[str, Any]:
    """Return p of the test of a difference where labels are drawn and 0.3 % of the
    cells of one group are wrong.
    """
    cohort, rng = read_healthy(setting), np.random.default_rng([seed, 22])
    rows = np.sort(rng.permutation(len(cohort))[:300])
    cohort = cohort.take(rows)
    labels = np.where(
        rng.permutation(len(cohort)) < len(cohort) // 2, "control", "patient"
    )
    cohort = replace(cohort, people=cohort.people.assign(**{GROUP: labels}))
    wrong, _ = plant_cells(cohort, 0.003, cohort.is_patient, seed)
    tables = {
        "clean": cohort,
        "kept": wrong,
        "treated as missing": check_cells(wrong, seed, None, "model").cohort,
    }
    findings = {name: run_group_tests(table, seed) for name, table in tables.items()}
    return {
        name: [tests.difference.p, tests.finding != Finding.NO_DIFFERENCE]
        for name, tests in findings.items()
    }


def measure_cost(setting: str, seed: int) -> dict[str, Any]:
    """Return processor seconds of a fit with the search for wrong cells and without."""
    cohort, result = ri.simulate_cohort(setting, seed).cohort, {}
    for policy in ("keep", "model"):
        start = time.process_time()
        ri.fit(cohort, 3, members=5, seed=seed, workers=1, on_outlier=policy)
        result[policy] = time.process_time() - start
    return result


def measure_accuracy(setting: str, seed: int) -> dict[str, Any]:
    """Return the pattern C-index of a fit, and the number of patterns by the test."""
    task, kind = setting.split(": ")
    simulated = ri.simulate_cohort(task, seed)
    cohort = simulated.cohort
    share, options = 0.0, kind.split(", ")
    if kind != "clean":
        share = float(options[0].split()[0]) / 100
        rows = (
            cohort.is_patient
            if "patients" in options
            else np.ones(len(cohort), dtype=bool)
        )
        cohort, _ = plant_cells(
            cohort, share, rows, seed, BLOCK if "blocks" in options else 1
        )
    policy = "keep" if "kept" in options else "model"
    model = ri.fit(cohort, 3, members=5, seed=seed, workers=1, on_outlier=policy)
    assert model.indices is not None
    assert model.selection is not None
    absent = dict.fromkeys(
        set(NAMES) - set(model.indices), 0.0
    )  # of a study that ended with one index
    indices = model.indices.assign(**absent)[NAMES].to_numpy()[cohort.is_patient]
    known = np.isfinite(indices).all(axis=1)
    return {
        "c_index": pattern_c_index(simulated.truth[known], indices[known]).mean,
        "by_test": model.selection.number_of_patterns.by_test,
    }


WAYS = ("", ", blocks", ", patients", ", blocks, patients")
KINDS = (
    "clean",
    *(f"{share} %{way}" for share in ("0.03", "0.3", "1") for way in WAYS),
    "0.3 %, kept",
)
PARTS: dict[
    str, tuple[Callable[[str, int], dict[str, Any]], tuple[str, ...], range]
] = {
    "clean": (measure_clean, TASKS, range(950, 954)),
    "planted": (measure_planted, TASKS, range(950, 954)),
    "flagged": (measure_flagged, ("small", "basic"), range(900, 902)),
    "missing": (measure_missing, ("basic", "staged"), range(900, 902)),
    "null": (measure_null, ("IXI", "fcon1000"), range(900, 1100)),
    "cost": (measure_cost, ("basic",), range(900, 901)),
    "accuracy": (
        measure_accuracy,
        tuple(f"{task}: {kind}" for kind in KINDS for task in FITTED),
        range(900, 903),
    ),
}
"""What is measured by each part, its settings and its seeds."""


def format_tables(rows: Rows) -> str:
    """Return all tables in markdown."""
    lines = [
        "# Wrong cells and missing cells",
        "`python -m benchmarks.wrong_cells`; seeds 900 and up.",
        "",
    ]

    def select(part: str) -> dict[str, Rows]:
        found: dict[str, Rows] = {}
        for row in rows:
            if row["part"] == part:
                found.setdefault(row["setting"], []).append(row)
        return found

    def add(title: str, names: tuple[str, ...], table: list[list[object]]) -> None:
        if table:
            lines.extend(
                [title, "", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
            )
            lines.extend(
                [f"| {' | '.join(map(str, cells))} |" for cells in table] + [""]
            )

    def rate(group: Rows, name: str, first: int = 0) -> float:
        return sum(row[name][first] for row in group) / max(
            sum(row[name][first + 1] for row in group), 1
        )

    names = ("controls", "patients", "new people")
    table = [
        [t, len(g), *(f"{1e5 * rate(g, name):.1f}" for name in names)]
        for t, g in select("clean").items()
    ]
    add(
        "Clean cells that are called wrong, in 100,000:",
        ("task", "cohorts", *names),
        table,
    )
    names = ("0.3 %", "1 %", "0.3 % of patients", "0.3 % in blocks")
    table = [
        [
            t,
            len(g),
            *(f"{rate(g, name):.1%} ({1e5 * rate(g, name, 2):.1f})" for name in names),
        ]
        for t, g in select("planted").items()
    ]
    add(
        "Wrong cells that are found (and others called wrong, in 100,000):",
        ("task", "cohorts", *names),
        table,
    )
    table = []
    for task, group in select("flagged").items():
        sums = [
            np.sum([row[name] for row in group], axis=0) for name in ("wrong", "clean")
        ]
        table.append(
            [
                task,
                len(group),
                *(f"{own[k] / own[2]:.1%}" for own in sums for k in (0, 1)),
            ]
        )
    names = (
        "task",
        "cohorts",
        "wrong_cells",
        "unusual",
        "clean people: wrong_cells",
        "clean people: unusual",
    )
    add(
        "New people whom an ONNX graph flags, by planted single cell (0.3 %):",
        names,
        table,
    )
    table = []
    for task, group in select("missing").items():
        for share in ("0%", "10%", "30%", "50%", "60%"):
            means = [
                np.mean([row[share][name] for row in group])
                for name in ("healthy", "patients")
            ]
            single = [value for row in group for value in row[share]["healthy"]]
            names = ("c_index", "coverage", "information")
            others = [np.mean([row[share][name] for row in group]) for name in names]
            change = np.mean([row[share]["change"] for row in group])
            ends = f"{means[0]:.3f} ({min(single):.3f} to {max(single):.3f})"
            figures = (
                f"{means[1]:.3f}",
                f"{change:+.3f}",
                *(f"{value:.3f}" for value in others),
            )
            table.append([task, len(group), share, ends, *figures])
    names = (
        "task",
        "cohorts",
        "cells missing",
        "AUC, healthy (single indices)",
        "AUC, patients",
        "mean change",
    )
    title = (
        "People who lack cells against the same people with all cells; 0.5 is no shift:"
    )
    add(title, (*names, "C-index", "coverage", "information"), table)
    names = ("clean", "kept", "treated as missing")
    table = [
        [name, len(g), *(f"{np.mean([row[way][1] for row in g]):.1%}" for way in names)]
        for name, g in select("null").items()
    ]
    title = "Differences reported where there are none (level 5 %); 0.3 % of the cells of one group are wrong:"
    add(title, ("table", "draws", "no wrong cells", *names[1:]), table)
    for group in select("cost").values():
        ratio = np.mean([row["model"] for row in group]) / np.mean(
            [row["keep"] for row in group]
        )
        lines += [
            f"Processor seconds of a fit with the search, relative to none: {ratio:.3f} ({len(group)} runs).",
            "",
        ]
    fits, table = select("accuracy"), []
    for kind in KINDS:
        cells, numbers = list[str](), list[int]()
        for task in FITTED:
            group, clean = (fits.get(f"{task}: {each}", []) for each in (kind, "clean"))
            known = {row["seed"]: row["c_index"] for row in clean}
            pairs = [
                (row["c_index"], known[row["seed"]])
                for row in group
                if row["seed"] in known
            ]
            value, before = np.mean(pairs, axis=0) if pairs else (np.nan, np.nan)
            cells.append(
                f"{value:.4f}"
                if kind == "clean"
                else f"{value:.4f} ({value - before:+.4f})"
            )
            numbers += [row["by_test"] for row in group]
        if numbers:
            table.append(
                [
                    kind,
                    *cells,
                    f"{sum(number == 3 for number in numbers)} of {len(numbers)}",
                ]
            )
    title = "C-index of fits with three patterns and five members (less that of clean tables), means of three cohorts:"
    add(title, ("cells wrong", *FITTED, "three patterns by the test"), table)
    return "\n".join(lines)


def main() -> None:
    """Compute what is missing and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="*", choices=list(PARTS), default=list(PARTS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: Rows = json.loads(OUT.read_text("utf-8")) if OUT.is_file() else []
    done = {(row["part"], row["setting"], row["seed"]) for row in rows}
    for part in options.parts:
        measure, settings, seeds = PARTS[part]
        for seed in seeds:
            for setting in settings:
                if (part, setting, seed) not in done:
                    rows.append(
                        {"part": part, "setting": setting, "seed": seed}
                        | measure(setting, seed)
                    )
                    OUT.write_text(json.dumps(rows) + "\n", "utf-8")
                    OUT.with_suffix(".md").write_text(format_tables(rows), "utf-8")
    print(format_tables(rows))


if __name__ == "__main__":
    main()

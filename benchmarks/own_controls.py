"""Accuracy that ``rindices power --controls`` predicts from the controls of a study,
against that of the study.

``python -m benchmarks.own_controls [--studies 20] [--data ../shared/data]``

A study is of real healthy people: half of the studies of IXI (139 volumes), half of
fcon1000 (148 thicknesses, sites harmonised beforehand by their means). Of up to 700
people, two fifths are controls; the others are patients, who get one to three patterns
with an effect of d = 0.8, 1.2 or 1.6 in a region. ``power`` sees the controls, the
number of patients, d and the number of patterns, and simulates six cohorts. The study
itself is `rindices.fit` with the default method, five members and this number of
patterns; its cross-fitted R-indices are compared with the true severities. A study that
ends with one index has no such patterns, and is counted apart. Seeds are 900 and up.
Writes ``results/power/own_controls.json`` and ``.md``; studies that are there are not
computed again.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import rindices as ri
from rindices.experiments.power import (
    PowerConfig,
    PowerJob,
    convert_d_to_rates,
    fit_power_job,
)
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import make_task_with_patterns
from rindices.selection.agreement import pattern_c_index
from rindices.tables.cohort import Cohort

OUT = Path(__file__).parent / "results" / "power" / "own_controls"
FIRST_SEED, N_COHORTS = 900, 6
MAX_PEOPLE, EFFECTS = 700, (0.8, 1.2, 1.6)


def read_tables(data: Path) -> dict[str, Cohort]:
    """Return healthy people with age, sex and, for volumes, head size."""
    people = pd.read_csv(data / "ixi" / "demographics.csv").rename(
        columns={"Age": "age", "Sex": "sex"}
    )
    ixi = ri.read_cohort(
        data / "ixi" / "volumes.csv", people[["ID", "age", "sex"]], on_missing="drop"
    )
    table = pd.read_csv(data / "fcon1000" / "fcon1000.csv")
    thickness = [name for name in table if name.endswith("_thickness")]
    table = table.drop_duplicates(thickness)
    table = (
        table[table.groupby("site")["age"].transform("size") >= 10]
        .dropna(subset=["age", "sex"])
        .copy()
    )
    table[thickness] += table[thickness].mean() - table.groupby("site")[
        thickness
    ].transform("mean")
    options = {
        "id": "sub_id",
        "covariates": ["age", "sex"],
        "site": "none",
        "measure": "thickness",
    }
    return {"ixi": ixi, "fcon1000": ri.read_cohort(table, **options, on_missing="drop")}


def measure(name: str, healthy: Cohort, number: int) -> dict[str, Any]:
    """Return predicted and measured accuracy of one study."""
    seed, n_patterns = FIRST_SEED + number, 1 + number % 3
    d, rng = EFFECTS[number // 2 % 3], np.random.default_rng([seed, 77])
    part = healthy.take(np.sort(rng.permutation(len(healthy))[:MAX_PEOPLE]))
    task = make_task_with_patterns(n_patterns)
    everyone = PowerConfig(healthy=healthy, rates=(), effects=(d,))
    simulated = simulate_cohort(
        task,
        seed,
        healthy=part,
        rates=convert_d_to_rates(d, everyone.relative_sd, task),
    )
    cohort = simulated.cohort
    controls = cohort.take(cohort.is_control)
    config = PowerConfig(rates=(), effects=(d,), healthy=controls)
    rates = convert_d_to_rates(d, config.relative_sd, task)
    jobs = [
        PowerJob(
            config=config,
            n_controls=int(cohort.n_controls),
            n_patients=int(cohort.n_patients),
            rates=rates,
            seed=10_000 + k,
            patterns=n_patterns,
        )
        for k in range(N_COHORTS)
    ]
    predicted = [
        pattern_c_index(simulated.truth, indices).mean
        for simulated, indices in map(fit_power_job, jobs)
    ]
    row = {
        "table": name,
        "controls": int(cohort.n_controls),
        "patients": int(cohort.n_patients),
        "patterns": n_patterns,
        "d": d,
    }
    row |= {"predicted": float(np.mean(predicted)), "measured": None}
    model = ri.fit(cohort, n_patterns, members=5, seed=seed, workers=1)
    if model.selection.finding != "patterns":
        return row
    indices = model.indices
    values = indices.loc[
        indices["group"] == "patient", [f"r{k + 1}" for k in range(n_patterns)]
    ].to_numpy(dtype=float)
    known = np.isfinite(values).all(axis=1)
    return row | {
        "measured": pattern_c_index(simulated.truth[known], values[known]).mean
    }


def summarise(everything: list[dict[str, Any]]) -> str:
    rows = [row for row in everything if row["measured"] is not None]
    error = np.array([row["predicted"] - row["measured"] for row in rows])
    lines = ["`python -m benchmarks.own_controls`", ""]
    lines += [
        "| people | controls + patients | patterns | d | predicted | measured | difference |",
        "|---" * 7 + "|",
    ]
    for row in sorted(
        rows, key=lambda row: (row["table"], row["patterns"], row["d"], row["controls"])
    ):
        sizes = (
            f"{row['controls']} + {row['patients']} | {row['patterns']} | {row['d']:g}"
        )
        figures = f"{row['predicted']:.3f} | {row['measured']:.3f} | {row['predicted'] - row['measured']:+.3f}"
        lines.append(f"| {row['table']} | {sizes} | {figures} |")
    mean = f"Mean difference {error.mean():+.3f}, mean absolute difference {np.abs(error).mean():.3f}"
    lines += [
        "",
        f"{mean}, largest {np.abs(error).max():.3f}; {(np.abs(error) <= 0.03).sum()} of {len(error)} within 0.03.",
        f"{len(everything) - len(rows)} further studies ended with one index.",
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=20)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    path = OUT.with_suffix(".json")
    rows = json.loads(path.read_text("utf-8")) if path.is_file() else []
    tables = read_tables(options.data)
    while sum(row["measured"] is not None for row in rows) < options.studies:
        number = len(rows)
        name = list(tables)[number % 2]
        rows.append(measure(name, tables[name], number))
        print(rows[-1], flush=True)
        path.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        OUT.with_suffix(".md").write_text(summarise(rows), "utf-8")
    print(summarise(rows))


if __name__ == "__main__":
    main()

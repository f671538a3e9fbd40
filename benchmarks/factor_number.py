"""Why the number of patterns is not found in some scenarios of the suite real-factors:
people, or the test?

    python -m benchmarks.factor_number measure [--tables scenario] [--splits 0:2]
        [--draws 20]
    python -m benchmarks.factor_number table

Of each scenario:

- p of the first test of number by each statistic alone, and by a third one between the
  two, the largest eigenvalue of C^(-1/8) (P / c - S) C^(-1/8);
- the variance of patients over that of controls along each factor, with p of the F
  test, if the direction is given: the index of a ridge regression that is told the true
  values, in people whom it has not seen;
- power: people are drawn with the covariance that is left when the factors' effects are
  removed, get the effects of the factors of random participants of their group, and are
  tested; with as many people as in the table, and with more.

Rows are written to ``results/factor_number.json`` as they end, and not measured again.
Both commands write ``results/factor_number.md``.
"""

import argparse
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import f as f_distribution

from benchmarks.real_factors import read_rows, write_rows
from benchmarks.suites.factor_methods import METHODS
from benchmarks.suites.factor_tables import FactorTable, draw_table, find_tables
from rindices._typing import FloatArray
from rindices.learners.contrastive.whole_cohort_start import METRIC_EXPONENT
from rindices.preprocess.standardise import shrink_normal_covariance
from rindices.selection.dimensions import (
    EXCESS_STATISTICS,
    SIGNIFICANCE_LEVEL,
    AdjustedGroups,
    CovariateColumns,
    GroupContrast,
)
from rindices.selection.relabel import compute_min_p, draw_permuted_labels
from rindices.tables.cohort import SITE

OUT = Path(__file__).parent / "results" / "factor_number.json"
STATISTICS = (*EXCESS_STATISTICS, "between")
SIZES = (1, 2)
N_PERMUTATIONS, N_POWER_PERMUTATIONS = 199, 59
Row = dict[str, Any]


def build_groups(table: FactorTable) -> AdjustedGroups:
    """Return the people of a table as the test has them."""
    cohort = table.cohort
    columns = [
        CovariateColumns(
            pd.get_dummies(cohort.covariates[[name]], drop_first=True).to_numpy(float),
            not pd.api.types.is_numeric_dtype(cohort.covariates[name]),
        )
        for name in cohort.covariates
    ]
    site = cohort.people[SITE] if SITE in cohort.people else np.zeros(len(cohort))
    return AdjustedGroups.build(
        np.log(cohort.volumes.to_numpy(dtype=float)),
        columns,
        np.unique(site, return_inverse=True)[1],
        cohort.is_patient,
    )


def compute_statistics(contrast: GroupContrast) -> FloatArray:
    """Return the values of `STATISTICS` (3,)."""
    variances, axes = np.linalg.eigh(contrast.controls)
    root = (axes * variances ** (-METRIC_EXPONENT / 2)) @ axes.T
    ratio = np.trace(np.linalg.solve(contrast.controls, contrast.patients))
    excess = contrast.patients / (ratio / len(root)) - contrast.sample
    between = np.linalg.eigvalsh(root @ excess @ root)[-1]
    return np.r_[contrast.compute_excess(), between]


def compute_values(
    groups: AdjustedGroups,
    number: int,
    seed: int,
    compute: Callable[[GroupContrast], FloatArray],
) -> FloatArray:
    """Return the statistics under the observed labels, and under a number of permuted
    ones.
    """
    people = groups.people.remove_mean_difference(groups.patient)
    labels = draw_permuted_labels(
        groups.patient, groups.scheme, number, np.random.default_rng([seed, 0])
    )
    return np.array(
        [compute(people.compute_contrast(each)) for each in (groups.patient, *labels)]
    )


def test_statistics(table: FactorTable, split: int) -> Row:
    """Return p of each statistic, and of the smaller one of the first two."""
    groups = build_groups(table)
    values = compute_values(groups, N_PERMUTATIONS, split, compute_statistics)
    p = (values >= values[0]).mean(axis=0)
    return {"p": dict(zip(STATISTICS, np.round(p, 3).tolist(), strict=True))}


def test_told_directions(table: FactorTable, split: int) -> Row:
    """Return the ratio of variances of patients and controls along each factor, and p
    of the F test.
    """
    patient = table.cohort.is_patient
    indices = METHODS["ridge"].infer(table, split).indices
    first, second = (indices[patient == label].var(axis=0, ddof=1) for label in (1, 0))
    ratio = first / second
    p = f_distribution.sf(ratio, patient.sum() - 1, (~patient).sum() - 1)
    row = {"variance_ratio": ratio, "p_told": p}
    return {
        name: dict(zip(table.truth, np.round(each, 3).tolist(), strict=True))
        for name, each in row.items()
    }


def measure_power(table: FactorTable, split: int, size: int, draws: int) -> Row:
    """Return the share of draws in which the test finds that patients differ."""
    groups = build_groups(table)
    patient, design = groups.patient, groups.people.design
    truth = table.truth.to_numpy(dtype=float)
    truth = (truth - truth.mean(axis=0)) / truth.std(axis=0)
    columns = np.hstack([design, truth])
    effects = np.linalg.lstsq(columns, groups.people.shifts, rcond=None)[0]
    rest = groups.people.shifts - columns @ effects
    root = np.linalg.cholesky(
        shrink_normal_covariance(rest.T @ rest / len(rest), len(rest))
    )
    y = np.repeat([False, True], [size * (~patient).sum(), size * patient.sum()])
    found = 0
    for draw in range(draws):
        rng = np.random.default_rng([split, size, draw])
        factors = np.concatenate(
            [
                truth[rng.choice(np.flatnonzero(patient == label), (y == label).sum())]
                for label in (False, True)
            ]
        )
        noise = rng.standard_normal((len(y), len(root))) @ root.T
        shifts = noise + factors @ effects[-truth.shape[1] :]
        drawn = AdjustedGroups.build(shifts, [], np.zeros(len(y), dtype=np.intp), y)
        values = compute_values(
            drawn, N_POWER_PERMUTATIONS, draw, GroupContrast.compute_excess
        )
        found += int(compute_min_p(values) <= SIGNIFICANCE_LEVEL)
    return {"draws": draws, "found": found}


def format_report(rows: dict[str, Row]) -> str:
    """Return the report in Markdown."""
    lines = [
        "# Number of patterns in the scenarios of real factors",
        "`python -m benchmarks.factor_number measure`",
        "",
        "p of the hypothesis that patients do not differ from each other more than controls do. Alone: by one",
        "statistic, of which the test takes the first two together; the third is not used. Told: F test of the variance",
        "along each factor, if the direction is given. Power: simulated tables with these effects, numbers of people and",
        "normal variation in which the test finds a difference between patients.",
        "",
        "| table, split | controls + patients | p alone: "
        + ", ".join(name.replace("_", " ") for name in STATISTICS)
        + " | variance of patients over controls, p told | power: "
        + ", ".join(f"{size} times the people" for size in SIZES)
        + " |",
        "|---|---|---|---|---|",
    ]
    for key, row in rows.items():
        told = "; ".join(
            f"{name} {row['variance_ratio'][name]:.1f}, {row['p_told'][name]:.3f}"
            for name in row["p_told"]
        )
        power = ", ".join(
            f"{each['found']} of {each['draws']}"
            for size in SIZES
            if (each := row.get(f"power {size}"))
        )
        p = ", ".join(f"{row['p'][name]:.2f}" for name in STATISTICS)
        sizes = f"{row['controls']} + {row['patients']}"
        lines.append(f"| `{key}` | {sizes} | {p} | {told} | {power} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is not there yet, and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("measure", "table"))
    parser.add_argument(
        "--tables", default="scenario", help="names or roles, separated by commas"
    )
    parser.add_argument("--splits", default="0:2", help="a:b, from a to b - 1")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    if options.what == "measure":
        for split in range(*map(int, options.splits.split(":"))):
            for description in find_tables(options.tables):
                key = f"{description.name} {split}"
                if key in read_rows(OUT):
                    continue
                table = draw_table(description, split, options.data)
                row = {
                    "controls": table.cohort.n_controls,
                    "patients": table.cohort.n_patients,
                    **test_statistics(table, split),
                    **test_told_directions(table, split),
                }
                if split == 0:
                    for size in SIZES:
                        row[f"power {size}"] = measure_power(
                            table, split, size, options.draws
                        )
                write_rows(OUT, read_rows(OUT) | {key: row})
                print(key, row, flush=True)
    OUT.with_suffix(".md").write_text(format_report(read_rows(OUT)), "utf-8")


if __name__ == "__main__":
    main()

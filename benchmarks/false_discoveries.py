"""False discovery rate of `associate` and `compare` under the null hypothesis.

Usage: ``python -m benchmarks.false_discoveries [--tables 1000]``

R-indices are independent of clinical variables and of regions. Under this null
hypothesis the false discovery rate is the share of tables with any q below 0.05. Writes
``results/false_discoveries.md``.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, parallel_config

from rindices.analysis.associate import associate_indices
from rindices.analysis.compare import compare_subgroups
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS


def make_ids(n_people: int) -> list[str]:
    return [f"sub-{row:04d}" for row in range(n_people)]


def draw_correlated(
    rng: np.random.Generator, n_people: int, n_columns: int, correlation: float
) -> np.ndarray:
    """Return correlated columns (N, K) with a common factor."""
    shared = rng.normal(size=(n_people, 1))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.normal(
        size=(n_people, n_columns)
    )


def associate_null_table(
    seed: int, correlation: float, n_people: int, adjusted: bool
) -> float:
    """Return the smallest q of three R-indices against ten variables, two of them
    binary, with a tenth missing.
    """
    rng = np.random.default_rng([seed, n_people])
    indices = pd.DataFrame(
        draw_correlated(rng, n_people, 3, correlation), columns=["r1", "r2", "r3"]
    )
    values = draw_correlated(rng, n_people, 11, correlation)
    values[:, 8:10] = values[:, 8:10] > 0.5
    values[:, :10][rng.random((n_people, 10)) < 0.1] = np.nan
    clinical = pd.DataFrame(values).add_prefix("v").rename(columns={"v10": "age"})
    for frame in (indices, clinical):
        frame.insert(0, "participant_id", make_ids(n_people))
    variables = [f"v{k}" for k in range(10)]
    table = associate_indices(
        indices, clinical, variables=variables, covariates=["age"] if adjusted else ()
    )
    return float(table["q"].min())


def compare_null_cohort(seed: int) -> float:
    """Return the smallest q of the paper's subgroups by three random R-indices, in 139
    regions.
    """
    cohort = simulate_cohort(
        replace(TASKS["null"], n_controls=150, n_patients=400), seed
    ).cohort
    rng = np.random.default_rng([seed, 1])
    regions = cohort.volumes.assign(participant_id=cohort.people["participant_id"])
    indices = cohort.people.assign(
        **{f"r{k}": rng.uniform(size=len(cohort)) for k in (1, 2, 3)}
    )
    return float(compare_subgroups(indices, regions)["q"].min())


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent / "results" / "false_discoveries.md",
    )
    options = parser.parse_args()
    cases: dict[str, Callable[[int], float]] = {
        "associate, 200 people, variables correlated 0.3": lambda s: (
            associate_null_table(s, 0.3, 200, False)
        ),
        "associate, the same adjusted for age": lambda s: associate_null_table(
            s, 0.3, 200, True
        ),
        "associate, 30 people, variables correlated 0.3": lambda s: (
            associate_null_table(s, 0.3, 30, False)
        ),
        "compare, 150 controls and 400 patients, 139 regions": compare_null_cohort,
    }
    lines = [
        "| what | tables | with a false discovery | standard error |",
        "|---|---|---|---|",
    ]
    with parallel_config(backend="loky", inner_max_num_threads=1):
        for name, measure in cases.items():
            smallest = np.array(
                Parallel(n_jobs=2)(
                    delayed(measure)(seed) for seed in range(options.tables)
                )
            )
            share = (smallest < 0.05).mean()
            error = np.sqrt(share * (1 - share) / options.tables)
            lines.append(f"| {name} | {options.tables} | {share:.3f} | {error:.3f} |")
            print(lines[-1], flush=True)
    foot = "Nothing is there to be found; 0.05 of the tables is what a false discovery rate of 0.05 allows."
    options.out.write_text("\n".join([*lines, "", foot, ""]), "utf-8")


if __name__ == "__main__":
    main()

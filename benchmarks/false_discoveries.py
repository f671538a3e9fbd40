"""How often statistics find something where there is nothing.

Usage: ``python benchmarks/false_discoveries.py [--tables 1000]``

R-indices and clinical variables that have nothing to do with each other; R-indices and regions that have not. Under
such a null the false discovery rate is the share of tables with any q below 0.05. Writes
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


def ids(number: int) -> list[str]:
    return [f"sub-{place:04d}" for place in range(number)]


def correlated(rng: np.random.Generator, people: int, width: int, correlation: float) -> np.ndarray:
    """Return columns (N, K) that share a factor."""
    shared = rng.normal(size=(people, 1))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.normal(size=(people, width))


def null_associations(seed: int, correlation: float, people: int, adjusted: bool) -> float:
    """Return the smallest q of three R-indices against ten variables, two of them of two values, a tenth missing."""
    rng = np.random.default_rng([seed, people])
    indices = pd.DataFrame(correlated(rng, people, 3, correlation), columns=["r1", "r2", "r3"])
    values = correlated(rng, people, 11, correlation)
    values[:, 8:10] = values[:, 8:10] > 0.5
    values[:, :10][rng.random((people, 10)) < 0.1] = np.nan
    clinical = pd.DataFrame(values).add_prefix("v").rename(columns={"v10": "age"})
    for frame in (indices, clinical):
        frame.insert(0, "participant_id", ids(people))
    wanted = [f"v{k}" for k in range(10)]
    table = associate_indices(indices, clinical, variables=wanted, covariates=["age"] if adjusted else ())
    return float(table["q"].min())


def null_comparison(seed: int) -> float:
    """Return the smallest q of the paper's subgroups by three R-indices that say nothing, in 139 regions."""
    cohort = simulate_cohort(replace(TASKS["null"], n_controls=150, n_patients=400), seed).cohort
    rng = np.random.default_rng([seed, 1])
    regions = cohort.volumes.assign(participant_id=cohort.people["participant_id"])
    indices = cohort.people.assign(**{f"r{k}": rng.uniform(size=len(cohort)) for k in (1, 2, 3)})
    return float(compare_subgroups(indices, regions)["q"].min())


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "false_discoveries.md")
    asked = parser.parse_args()
    cases: dict[str, Callable[[int], float]] = {
        "associate, 200 people, variables correlated 0.3": lambda s: null_associations(s, 0.3, 200, False),
        "associate, the same adjusted for age": lambda s: null_associations(s, 0.3, 200, True),
        "associate, 30 people, variables correlated 0.3": lambda s: null_associations(s, 0.3, 30, False),
        "compare, 150 controls and 400 patients, 139 regions": null_comparison,
    }
    lines = ["| what | tables | with a false discovery | standard error |", "|---|---|---|---|"]
    with parallel_config(backend="loky", inner_max_num_threads=1):
        for name, measure in cases.items():
            smallest = np.array(Parallel(n_jobs=2)(delayed(measure)(seed) for seed in range(asked.tables)))
            share = (smallest < 0.05).mean()
            error = np.sqrt(share * (1 - share) / asked.tables)
            lines.append(f"| {name} | {asked.tables} | {share:.3f} | {error:.3f} |")
            print(lines[-1], flush=True)
    foot = "Nothing is there to be found; 0.05 of the tables is what a false discovery rate of 0.05 allows."
    asked.out.write_text("\n".join([*lines, "", foot, ""]), "utf-8")


if __name__ == "__main__":
    main()

"""How often a difference is reported in real tables whose labels were exchanged.

Usage: ``python -m benchmarks.patients_null [--draws 400] [--data
../shared/data/patients] [--workers 2]``

Labels are exchanged at random within each site, so the patients of a draw are no
patients. A test at the level 0.05 may report a difference in about 5 % of the draws.
The seeds of the draws (5000 and up) were used for no choice. Also writes what the tests
say of the true labels. Writes ``results/patients_null.json`` and ``.md``. A run that
was stopped goes on.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks.suites.patients import list_patient_tables
from rindices.study.group_tests import Finding, run_group_tests
from rindices.tables.cohort import GROUP, SITE, Cohort

OUT = Path(__file__).parent / "results" / "patients_null.json"
FIRST_SEED = 5000
TABLES = ("psychosis", "psychosis-thickness", "autism", "depression", "schizophrenia")


def exchange_labels(cohort: Cohort, seed: int) -> Cohort:
    """Return the cohort with labels exchanged within sites."""
    rng = np.random.default_rng(seed)
    labels = cohort.people[GROUP].to_numpy(dtype=object).copy()
    sites = (
        cohort.people[SITE].astype(str).to_numpy()
        if SITE in cohort.people
        else np.zeros(len(cohort))
    )
    for site in np.unique(sites):
        rows = np.flatnonzero(sites == site)
        labels[rows] = labels[rng.permutation(rows)]
    return replace(cohort, people=cohort.people.assign(**{GROUP: labels}))


def test_exchanged(cohort: Cohort, seed: int) -> tuple[float, str]:
    """Return p and the finding under exchanged labels."""
    tests = run_group_tests(exchange_labels(cohort, seed), seed)
    return tests.difference.p, str(tests.finding)


def measure_table(cohort: Cohort, draws: int, workers: int) -> dict[str, Any]:
    """Return the result of the true labels and the share of exchanged labels with a
    difference.
    """
    true = run_group_tests(cohort)
    runs = Parallel(n_jobs=workers)(
        delayed(test_exchanged)(cohort, seed)
        for seed in range(FIRST_SEED, FIRST_SEED + draws)
    )
    return {
        "controls": cohort.n_controls,
        "patients": cohort.n_patients,
        "regions": cohort.n_regions,
        "p": true.difference.p,
        "finding": str(true.finding),
        "smallest_effect": true.smallest_effect,
        "excess": true.dimensions.dimension_tests[0].excess,
        "draws": draws,
        "reported": float(
            np.mean([finding != Finding.NO_DIFFERENCE for _, finding in runs])
        ),
        "patterns_reported": float(
            np.mean([finding == Finding.PATTERNS for _, finding in runs])
        ),
    }


def format_table(results: dict[str, Any]) -> str:
    """Return the table in markdown."""
    lines = [
        "# Real tables, with true labels and with exchanged ones",
        "`python -m benchmarks.patients_null`; level 0.05.",
        "",
        "| table | controls + patients | regions | p, true labels | finding | smallest detectable d | draws "
        "| difference reported | patterns reported |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in results.items():
        size = f"{row['controls']} + {row['patients']}"
        cells = [
            name,
            size,
            row["regions"],
            f"{row['p']:.3f}",
            row["finding"].replace("_", " "),
        ]
        cells += [f"{row['smallest_effect']:.2f}", row["draws"]]
        cells += [f"{row['reported']:.1%}", f"{row['patterns_reported']:.1%}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/patients"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    tables = list_patient_tables(options.data)
    results: dict[str, Any] = json.loads(OUT.read_text("utf-8")) if OUT.exists() else {}
    for name in TABLES:
        if results.get(name, {}).get("draws") != options.draws:
            results[name] = measure_table(
                tables[name]().cohort, options.draws, options.workers
            )
            OUT.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    OUT.with_suffix(".md").write_text(format_table(results), "utf-8")
    print(format_table(results))


if __name__ == "__main__":
    main()

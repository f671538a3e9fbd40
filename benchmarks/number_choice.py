"""Which number of patterns `fit` ends with, where it is left to choose.

Usage: ``python -m benchmarks.number_choice [--cohorts 10] [--workers 2]``. Task basic
with 1, 2, 3 and 5 patterns that take 30 % or 20 % of a region, adjusted for age, sex
and head size; and patients who are all alike. Method contrastive, six members, seeds
3000 and up, which no choice was made on. Writes ``results/number_choice.json`` and
``.md``.
"""

import argparse
import json
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

import rindices as ri
from benchmarks.suites.trust_cohorts import (
    PATTERN_COUNTS,
    make_pattern_task,
    simulate_alike_cohort,
)
from rindices.experiments.simulate import simulate_cohort

OUT = Path(__file__).parent / "results" / "number_choice.json"
FIRST_SEED = 3000
ALIKE = 0


def fit_one(rate: float, true: int, seed: int) -> dict[str, Any]:
    """Fit one cohort; return what the test, agreement and the study say."""
    warnings.simplefilter("ignore", ri.StudyWarning)
    task = make_pattern_task(max(true, 1), rate)
    cohort = (
        simulate_alike_cohort(rate, seed)
        if true == ALIKE
        else simulate_cohort(task, seed).cohort
    )
    model = ri.fit(cohort, method="contrastive", members=6, workers=1, seed=seed)
    if model.finding == "no_difference":
        return {
            "rate": rate,
            "true": true,
            "seed": seed,
            "finding": "no difference",
            "test": 0,
            "agreement": {},
        }
    selection = model.selection
    assert selection is not None
    assert selection.number_of_patterns is not None
    finding = (
        f"{model.n_patterns} patterns"
        if selection.finding == "patterns"
        else "mean difference"
    )
    agreement = {
        str(row.setting.n_patterns): row.agreement.concordance for row in selection.grid
    }
    by_test = selection.number_of_patterns.by_test
    return {
        "rate": rate,
        "true": true,
        "seed": seed,
        "finding": finding,
        "test": by_test,
        "agreement": agreement,
    }


def format_table(rows: list[dict[str, Any]]) -> str:
    """Return the table in markdown."""
    lines = ["# What `fit` ends with", "`python -m benchmarks.number_choice`", ""]
    lines += [
        "| share lost | true patterns | right by the test | right in the end | ends with |",
        "|---|---|---|---|---|",
    ]
    for rate, true in dict.fromkeys((row["rate"], row["true"]) for row in rows):
        group = [row for row in rows if (row["rate"], row["true"]) == (rate, true)]
        right = "mean difference" if true == ALIKE else f"{true} patterns"
        by_test = sum(row["test"] == true for row in group) / len(group)
        in_the_end = sum(row["finding"] == right for row in group) / len(group)
        counts = Counter(row["finding"] for row in group)
        ends = ", ".join(f"{finding}: {counts[finding]}" for finding in sorted(counts))
        name = "alike" if true == ALIKE else str(true)
        lines.append(
            f"| {rate:.0%} | {name} | {by_test:.0%} | {in_the_end:.0%} | {ends} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    """Fit all cohorts and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + options.cohorts)
    cases = [
        (rate, true, seed)
        for rate in (0.3, 0.2)
        for true in (ALIKE, *PATTERN_COUNTS)
        for seed in seeds
    ]
    rows = Parallel(n_jobs=options.workers)(delayed(fit_one)(*case) for case in cases)
    OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    OUT.with_suffix(".md").write_text(format_table(rows), "utf-8")
    print(format_table(rows))


if __name__ == "__main__":
    main()

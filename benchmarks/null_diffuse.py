"""Real tables whose labels were exchanged: the test of number, the choice of the start,
and patterns that are forced.

    python -m benchmarks.null_diffuse tests|start|forced|table [--draws 100] [--data
    ../shared/data/patients]

- ``tests``: whether a difference and whether patterns are reported, and p of the first
  test of number, which is made whatever the test of a difference says.
- ``start``: whether two patterns are fitted from the whole-cohort start, which must be
  by the group loss of people whom members have not seen, and whether fits on disjoint
  halves agree, with the start of a study and with the whole-cohort start whatever the
  group loss says.
- ``forced``: ``ri.fit(cohort, 2)``: how often two patterns are reported, and the AUC of
  their cross-fitted R-indices.

Labels are exchanged within sites, as in ``benchmarks.patients_null``, with other seeds.
Four real tables, as many draws of each; ``forced`` has a quarter of the draws of each.
Rows are written as they end, and are not measured again.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

import rindices as ri
from benchmarks.patients_null import exchange_labels
from benchmarks.suites.patients import list_patient_tables
from rindices.learners.trajectory.members import (
    compare_trajectory_halves,
    fit_trajectory_members,
)
from rindices.selection.choose import MIN_STABLE_CONCORDANCE
from rindices.study.config import DataConfig, ModelConfig, RunConfig, StudyConfig
from rindices.study.group_tests import run_group_tests
from rindices.study.study import Study, StudyPeople
from rindices.tables.cohort import Cohort

OUT = Path(__file__).parent / "results" / "null_diffuse.json"
FIRST_SEED, N_PATTERNS = 9_000, 2
TABLES = ("psychosis", "autism", "depression", "schizophrenia")
Row = dict[str, Any]


def test_exchanged(cohort: Cohort, seed: int) -> Row:
    """Return what the tests find."""
    tests = run_group_tests(cohort, seed)
    first = tests.dimensions.dimension_tests[0]
    return {
        "finding": str(tests.finding),
        "p_difference": tests.difference.p,
        "p_number": first.p,
    }


def choose_start(cohort: Cohort, seed: int) -> Row:
    """Return which start is taken, and the agreement of halves with it and with the
    whole-cohort start.
    """
    model = ModelConfig(patterns=(N_PATTERNS,), members=5)
    config = StudyConfig(
        data=DataConfig(volumes=("memory",)), model=model, run=RunConfig(seed=seed)
    )
    people = StudyPeople(Study(cohort, config), model).prepare_set(range(5))
    row: Row = {}
    for name in ("auto", "whole-cohort"):
        members = fit_trajectory_members(people, N_PATTERNS, range(5), seed, start=name)
        if name == "auto":
            row["start"] = members[0].held_out.start  # type: ignore[union-attr]
        compared = compare_trajectory_halves(people, members, seed)
        row[f"halves, {name}"] = float(
            np.mean(
                [each.evidence[0] for each in compared if each.evidence is not None]
            )
        )
    return row


def fit_forced(cohort: Cohort, seed: int) -> Row:
    """Return the finding of two patterns that were asked for, and the AUC of their
    cross-fitted R-indices.
    """
    model = ri.fit(cohort, N_PATTERNS, seed=seed, workers=1, progress=False)
    indices = model.indices
    if indices is None:
        return {"finding": model.finding}
    is_patient = (indices["group"] == "patient").to_numpy()
    auc = [
        roc_auc_score(is_patient, indices[name])
        for name in indices.filter(regex=r"^r\d+$")
    ]
    return {"finding": model.selection["finding"], "auc": float(np.mean(auc))}


PARTS: dict[str, Callable[[Cohort, int], Row]] = {
    "tests": test_exchanged,
    "start": choose_start,
    "forced": fit_forced,
}


def describe_share(hits: int, number: int) -> str:
    """Return a count, and whether it is what the level of 5 % gives in 99 %
    of cases.
    """
    low, high = (int(each) for each in binom.interval(0.99, number, 0.05))
    return f"{hits} of {number} ({hits / number:.1%}; {low} to {high} expected at 5 %)"


def format_report(rows: dict[str, Row]) -> str:
    """Return the report in markdown."""
    lines = [
        "# Exchanged labels",
        "`python -m benchmarks.null_diffuse`; psychosis, autism, depression and schizophrenia, as many draws of each.",
        "",
    ]
    tests, start, forced = (
        [row for key, row in rows.items() if key.startswith(part)] for part in PARTS
    )
    if tests:
        difference = sum(row["finding"] != "no_difference" for row in tests)
        patterns = sum(row["finding"] == "patterns" for row in tests)
        number = sum(row["p_number"] <= 0.05 for row in tests)
        lines += [
            f"- A difference was reported in {describe_share(difference, len(tests))}, patterns in {patterns}.",
            f"- The first test of number alone is significant in {describe_share(number, len(tests))}.",
        ]
    if start:
        taken = sum(row["start"] == "whole-cohort" for row in start)
        stable = {
            name: sum(row[f"halves, {name}"] >= MIN_STABLE_CONCORDANCE for row in start)
            for name in ("auto", "whole-cohort")
        }
        lines += [
            f"- Two patterns were fitted from the whole-cohort start in {taken} of {len(start)} draws.",
            f"- Halves agree by {MIN_STABLE_CONCORDANCE} and more in {stable['auto']} of {len(start)} with the start "
            f"that a study takes, and in {stable['whole-cohort']} with the whole-cohort start whatever its group loss.",
        ]
    if forced:
        found = sum(row["finding"] == "patterns" for row in forced)
        aucs = [row["auc"] for row in forced if "auc" in row]
        lines.append(
            f"- With two patterns asked for, {found} of {len(forced)} studies end with patterns."
        )
        if aucs:
            error = (
                np.std(aucs, ddof=1) / len(aucs) ** 0.5
                if len(aucs) > 1
                else float("nan")
            )
            auc = f"{np.mean(aucs):.3f} +- {error:.3f}"
            lines.append(
                f"- AUC of the cross-fitted R-indices of the {len(aucs)} studies with a model: {auc}."
            )
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure a part, or write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=[*PARTS, "table"])
    parser.add_argument("--draws", type=int, default=100, help="of each table")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/patients"))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: dict[str, Row] = (
        json.loads(options.out.read_text("utf-8")) if options.out.is_file() else {}
    )
    if options.part in PARTS:
        tables = list_patient_tables(options.data)
        draws = options.draws // 4 if options.part == "forced" else options.draws
        for number in range(draws):
            for name in TABLES:
                key = f"{options.part} {name} {number}"
                if key not in rows:
                    seed = FIRST_SEED + number
                    rows[key] = PARTS[options.part](
                        exchange_labels(tables[name]().cohort, seed), seed
                    )
                    options.out.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    options.out.with_suffix(".md").write_text(format_report(rows), "utf-8")
    print(format_report(rows))


if __name__ == "__main__":
    main()

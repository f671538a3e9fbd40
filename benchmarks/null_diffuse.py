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
  cross-fitted R-indices: of the models that a study ends with, of which there are few,
  and in every draw of five members with two patterns, whatever the study says of them.

An AUC is computed in the fifth of the people whom a member has not seen, and averaged
over the fifths and indices: given who trained the member, labels of the others are
still exchanged at random, so that 0.5 is expected. Values of several members are never
pooled.

Labels are exchanged within sites, as in ``benchmarks.patients_null``, with other seeds.
Four real tables, as many draws of each; ``forced`` has a quarter of the draws of each.
Rows are written as they end, and are not measured again.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

import rindices as ri
from benchmarks.patients_null import exchange_labels
from benchmarks.suites.patients import list_patient_tables
from rindices.learners.prepared_people import PreparedPeople
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
FIRST_SEED, N_PATTERNS, MEMBERS = 9_000, 2, range(5)
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


def prepare_people(cohort: Cohort, seed: int) -> list[PreparedPeople]:
    """Return the people of each member."""
    model = ModelConfig(patterns=(N_PATTERNS,), members=len(MEMBERS))
    config = StudyConfig(
        data=DataConfig(volumes=("memory",)), model=model, run=RunConfig(seed=seed)
    )
    return StudyPeople(Study(cohort, config), model).prepare_set(MEMBERS)


def compute_member_auc(cohort: Cohort, seed: int) -> float:
    """Return the AUC of members with two patterns, in the people whom each has not
    seen: the mean over members and indices.
    """
    people = prepare_people(cohort, seed)
    members = fit_trajectory_members(people, N_PATTERNS, MEMBERS, seed)
    aucs = []
    for own, member in zip(people, members, strict=True):
        indices = member.head.infer(own.X[~own.seen])
        aucs += [roc_auc_score(own.y[~own.seen], each) for each in indices.T]
    return float(np.mean(aucs))


def choose_start(cohort: Cohort, seed: int) -> Row:
    """Return which start is taken, and the agreement of halves with it and with the
    whole-cohort start.
    """
    people = prepare_people(cohort, seed)
    row: Row = {}
    for name in ("auto", "whole-cohort"):
        members = fit_trajectory_members(people, N_PATTERNS, MEMBERS, seed, start=name)
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
    """Return the finding of two patterns that were asked for, and the AUC of
    cross-fitted R-indices.
    """
    row = {"auc of members": compute_member_auc(cohort, seed)}
    model = ri.fit(cohort, N_PATTERNS, seed=seed, workers=1, progress=False)
    indices = model.indices
    if indices is None:
        return row | {"finding": model.finding}
    is_patient = (indices["group"] == "patient").to_numpy()
    auc = [
        roc_auc_score(is_patient, indices[name])
        for name in indices.filter(regex=r"^r\d+$")
    ]
    return row | {"finding": model.finding, "auc": float(np.mean(auc))}


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


def describe_mean(values: Sequence[float]) -> str:
    """Return the mean, and its standard error over draws."""
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return f"{np.mean(values):.3f} ± {error:.3f}"


def describe_tests(rows: list[Row]) -> list[str]:
    """Return what the tests find."""
    difference = sum(row["finding"] != "no_difference" for row in rows)
    patterns = sum(row["finding"] == "patterns" for row in rows)
    number = sum(row["p_number"] <= 0.05 for row in rows)
    return [
        f"- A difference was reported in {describe_share(difference, len(rows))}, patterns in {patterns}.",
        f"- The first test of number alone is significant in {describe_share(number, len(rows))}.",
    ]


def describe_start(rows: list[Row]) -> list[str]:
    """Return which start was taken, and how fits on halves agree."""
    taken = [row for row in rows if row["start"] != "contrastive"]
    halves = {
        name: [row[f"halves, {name}"] for row in rows]
        for name in ("auto", "whole-cohort")
    }
    stable = {
        name: sum(value >= MIN_STABLE_CONCORDANCE for value in values)
        for name, values in halves.items()
    }
    both = sum(row["halves, auto"] >= MIN_STABLE_CONCORDANCE for row in taken)
    return [
        f"- Two patterns were fitted from the whole-cohort or the mixed start in {len(taken)} of {len(rows)} draws. "
        f"In {both} of these, halves agree by {MIN_STABLE_CONCORDANCE} and more.",
        f"- Halves agree by {MIN_STABLE_CONCORDANCE} and more in {stable['auto']} of {len(rows)} with the start "
        f"that a study takes (mean {np.mean(halves['auto']):.2f}, largest {max(halves['auto']):.2f}), and in "
        f"{stable['whole-cohort']} with the whole-cohort start whatever its group loss "
        f"(mean {np.mean(halves['whole-cohort']):.2f}, largest {max(halves['whole-cohort']):.2f}).",
    ]


def describe_forced(rows: list[Row]) -> list[str]:
    """Return how studies end that were asked for two patterns, and their AUC."""
    found = sum(row["finding"] == "patterns" for row in rows)
    indices = sum(row["finding"] == "mean_difference" for row in rows)
    aucs = [row["auc"] for row in rows if "auc" in row]
    lines = [
        f"- With two patterns asked for, {describe_share(found, len(rows))} end with patterns, and {indices} with "
        "one index of a mean difference.",
        f"- AUC of members with two patterns in the people whom they have not seen, all {len(rows)} draws: "
        f"{describe_mean([row['auc of members'] for row in rows])}.",
    ]
    if aucs:
        lines.append(
            f"- AUC of the cross-fitted R-indices of the {len(aucs)} studies with a model, which were chosen by a "
            f"difference or by agreement in the same people: {describe_mean(aucs)}."
        )
    return lines


def format_report(rows: dict[str, Row]) -> str:
    """Return the report in markdown."""
    lines = [
        "# Exchanged labels",
        "`python -m benchmarks.null_diffuse`; psychosis, autism, depression and schizophrenia, as many draws of each.",
        "",
    ]
    parts = zip(PARTS, (describe_tests, describe_start, describe_forced), strict=True)
    for part, describe in parts:
        own = [row for key, row in rows.items() if key.startswith(part)]
        lines += describe(own) if own else []
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

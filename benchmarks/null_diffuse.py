"""Real tables whose labels were exchanged: the test of number, the choice of the start,
and patterns that are forced.

    python -m benchmarks.null_diffuse tests|forced|start|studies|true|table
        [--draws 100] [--data ../shared/data/patients]

- ``tests``: whether a difference and whether patterns are reported, and p of the first
  test of number, which is made whatever the test of a difference says.
- ``forced``: two patterns that are asked for: whether the study ends with them. That
  rests on the fits to halves alone, so the tests of a difference are not made. Also
  which start was taken, the agreement of halves, and the AUC of the first five members.
- ``start``: the agreement of halves with the whole-cohort start, whatever the group
  loss of people whom members have not seen says.
- ``studies``: ``ri.fit(cohort, 2)``, which must end as ``forced`` says.
- ``true``: ``forced`` with the true labels, one draw.

An AUC is computed in the fifth of the people whom a member has not seen, and averaged
over the fifths and indices: given who trained the member, labels of the others are
still exchanged at random, so that 0.5 is expected. Values of several members are never
pooled.

Labels are exchanged within sites, as in ``benchmarks.patients_null``, with other seeds.
Four real tables, as many draws of each.
Rows are written as they end, and are not measured again.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

import rindices as ri
from benchmarks.patients_null import exchange_labels
from benchmarks.suites.patients import list_patient_tables
from rindices.engine.local import LocalEngine
from rindices.learners.contrastive.whole_cohort_start import CHANCE_LOSS
from rindices.learners.ensemble import STARTS, Member
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.trajectory.members import (
    compare_trajectory_halves,
    fit_trajectory_members,
)
from rindices.selection.choose import MIN_STABLE_CONCORDANCE, GridPoint
from rindices.study.candidates import make_start_record
from rindices.study.config import DataConfig, ModelConfig, RunConfig, StudyConfig
from rindices.study.group_tests import run_group_tests
from rindices.study.store import RunStore
from rindices.study.study import Study, StudyPeople
from rindices.study.train import CohortTraining
from rindices.tables.cohort import Cohort

OUT = Path(__file__).parent / "results" / "null_diffuse.json"
FIRST_SEED, N_PATTERNS, FIRST_SET = 9_000, 2, range(5)
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


def make_people(cohort: Cohort, seed: int) -> StudyPeople:
    """Return the people of a study with two patterns."""
    model = ModelConfig(patterns=(N_PATTERNS,))
    data, run = DataConfig(volumes=("memory",)), RunConfig(seed=seed)
    study = Study(cohort, StudyConfig(data=data, model=model, run=run))
    return StudyPeople(study, model)


def force_patterns(cohort: Cohort, seed: int) -> Row:
    """Return whether a study ends with two patterns that were asked for, its start, the
    agreement of halves, and the AUC in people whom members have not seen.
    """
    people = make_people(cohort, seed)
    with TemporaryDirectory() as folder:
        training = CohortTraining(people, RunStore(Path(folder)), LocalEngine(1))
        choice = training.choose()
    members = training.gathered[GridPoint(N_PATTERNS)][: len(FIRST_SET)]
    halves = [each.evidence[0] for each in members if each.evidence is not None]
    held_out = [each.held_out for each in members if each.held_out is not None]
    start = make_start_record(held_out)
    return {
        "patterns": choice.best is not None,
        "start": start.taken,
        "halves": float(np.mean(halves)),
        "auc": compute_auc(people.prepare_set(FIRST_SET), members),
        "losses": [start.contrastive_loss, start.whole_cohort_loss],
    }


def compute_auc(people: Sequence[PreparedPeople], members: Sequence[Member]) -> float:
    """Return the AUC in the people whom each member has not seen: the mean over members
    and indices.
    """
    aucs = []
    for own, member in zip(people, members, strict=True):
        assert own.seen is not None
        indices = member.head.infer(own.X[~own.seen])
        aucs += [roc_auc_score(own.y[~own.seen], each) for each in indices.T]
    return float(np.mean(aucs))


def start_from_whole_cohort(cohort: Cohort, seed: int) -> Row:
    """Return the agreement of halves with the whole-cohort start."""
    people = make_people(cohort, seed).prepare_set(FIRST_SET)
    members = fit_trajectory_members(
        people, N_PATTERNS, FIRST_SET, seed, start="whole-cohort"
    )
    compared = compare_trajectory_halves(people, members, seed)
    halves = [each.evidence[0] for each in compared if each.evidence is not None]
    return {"halves": float(np.mean(halves))}


def fit_study(cohort: Cohort, seed: int) -> Row:
    """Return the finding of a study that was asked for two patterns."""
    model = ri.fit(cohort, N_PATTERNS, seed=seed, workers=1, progress=False)
    return {"finding": model.finding}


PARTS: dict[str, Callable[[Cohort, int], Row]] = {
    "tests": test_exchanged,
    "forced": force_patterns,
    "start": start_from_whole_cohort,
    "studies": fit_study,
    "true": force_patterns,
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


def describe_forced(rows: list[Row]) -> list[str]:
    """Return how studies end that were asked for two patterns."""
    found = sum(row["patterns"] for row in rows)
    diffuse = [row for row in rows if row["start"] != STARTS[0]]
    return [
        f"- With two patterns asked for, {describe_share(found, len(rows))} end with patterns.",
        f"- The whole-cohort or the mixed start was taken in {len(diffuse)} of {len(rows)}, of which "
        f"{sum(row['patterns'] for row in diffuse)} end with patterns.",
        f"- Agreement of halves: {describe_halves(rows)}.",
        f"- AUC in people whom members have not seen: {describe_mean([row['auc'] for row in rows])}.",
    ]


def describe_start(rows: list[Row]) -> list[str]:
    """Return how halves agree with the whole-cohort start."""
    return [
        "- With the whole-cohort start, whatever its group loss, agreement of halves: "
        f"{describe_halves(rows)}."
    ]


def describe_halves(rows: list[Row]) -> str:
    """Return how fits to halves agree."""
    values = [row["halves"] for row in rows]
    stable = sum(value >= MIN_STABLE_CONCORDANCE for value in values)
    return (
        f"mean {np.mean(values):.2f}, largest {max(values):.2f}, {MIN_STABLE_CONCORDANCE} and more in {stable} of "
        f"{len(values)}"
    )


def describe_studies(rows: list[Row]) -> list[str]:
    """Return how whole studies end."""
    found = sum(row["finding"] == "patterns" for row in rows)
    return [
        f"- Of {len(rows)} whole studies that were asked for two patterns, {found} end with patterns."
    ]


def describe_true(rows: dict[str, Row]) -> list[str]:
    """Return what becomes of two patterns with the true labels of each table."""
    lines = [
        "",
        "Two patterns with the true labels. H: group loss of people whom members have not seen; guessing gives "
        f"{CHANCE_LOSS:.3f}, and less is better.",
        "",
        "| table | start that is taken | H, contrastive start | H, whole-cohort start | halves | AUC | patterns |",
        "|---" * 7 + "|",
    ]
    for key, row in rows.items():
        losses = " | ".join("" if x is None else f"{x:.3f}" for x in row["losses"])
        found = "yes" if row["patterns"] else "no"
        lines.append(
            f"| {key.split()[1]} | {row['start']} | {losses} | {row['halves']:.2f} | {row['auc']:.2f} | {found} |"
        )
    return lines


def format_report(rows: dict[str, Row]) -> str:
    """Return the report in markdown."""
    lines = [
        "# Exchanged labels",
        "`python -m benchmarks.null_diffuse`; psychosis, autism, depression and schizophrenia, with labels",
        "exchanged within sites, about as many draws of each.",
        "",
    ]
    describers = describe_tests, describe_forced, describe_start, describe_studies
    for part, describe in zip(PARTS, describers, strict=False):
        own = [row for key, row in rows.items() if key.startswith(part)]
        lines += describe(own) if own else []
    true = {key: row for key, row in rows.items() if key.startswith("true")}
    return "\n".join([*lines, *(describe_true(true) if true else []), ""])


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
        readers = list_patient_tables(options.data)
        cohorts = {name: readers[name]().cohort for name in TABLES}
        is_true = options.part == "true"
        for number in range(1 if is_true else options.draws):
            for name in TABLES:
                key = f"{options.part} {name} {number}"
                if key not in rows:
                    seed = number if is_true else FIRST_SEED + number
                    cohort = cohorts[name]
                    cohort = cohort if is_true else exchange_labels(cohort, seed)
                    rows[key] = PARTS[options.part](cohort, seed)
                    options.out.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    options.out.with_suffix(".md").write_text(format_report(rows), "utf-8")
    print(format_report(rows))


if __name__ == "__main__":
    main()

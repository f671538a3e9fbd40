"""Whether the seed decides a study whose p-value is near the level.

Usage: ``python -m benchmarks.near_level [--data ../shared/data/ixi] [--studies 2] [--seeds 12]``

Healthy people of IXI are called patients at random: half of them, by a seed of the labels. The first labels (seeds 0,
1, ...) with a p between 0.03 and 0.08 in seed 0 are the studies. Each is tested with other seeds. Written for each
study are the p-values, their Monte Carlo errors, the findings, and how often the output says that p is too near the
level to tell. Writes ``results/near_level.json``.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rindices.study.group_tests import GroupTests, run_group_tests
from rindices.tables.cohort import GROUP, Cohort, sort_people
from rindices.tables.readers import read_cohort
from rindices.tables.validation.groups import CONTROL, PATIENT

OUT = Path(__file__).parent / "results" / "near_level.json"
NEAR = (0.03, 0.08)
LEVEL = 0.05


def draw_labels(cohort: Cohort, seed: int) -> Cohort:
    """Return the cohort with a random half called patients."""
    rank = np.random.default_rng(seed).permutation(len(cohort))
    labels = np.where(rank < len(cohort) // 2, PATIENT, CONTROL).astype(object)
    return replace(cohort, people=cohort.people.assign(**{GROUP: labels}))


def test_study(cohort: Cohort, seed: int) -> GroupTests:
    """Test as ``fit`` does: people in the order of their values."""
    return run_group_tests(sort_people(cohort, seed), seed)


def measure_study(cohort: Cohort, labels: int, seeds: int) -> dict[str, Any]:
    """Return what the tests of one study say under several seeds."""
    tests = [test_study(draw_labels(cohort, labels), seed) for seed in range(seeds)]
    records = [each.make_difference_record() for each in tests]
    findings = [str(each.finding) for each in tests]
    return {
        "labels": labels,
        "p": [record.p for record in records],
        "p_error": [record.p_error for record in records],
        "permutations": [record.permutations for record in records],
        "findings": findings,
        "same_finding": max(findings.count(finding) for finding in set(findings)),
        "too_near": sum(record.is_too_near(LEVEL) for record in records),
    }


def main() -> None:
    """Find the studies and write what their seeds say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ixi"))
    parser.add_argument("--studies", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=12)
    options = parser.parse_args()
    cohort = read_cohort(
        options.data / "volumes.csv", options.data / "demographics.csv", covariates=["Age", "Sex"], on_missing="drop"
    )
    studies: list[dict[str, Any]] = []
    labels = 0
    while len(studies) < options.studies:
        if NEAR[0] <= test_study(draw_labels(cohort, labels), 0).difference.p <= NEAR[1]:
            studies.append(measure_study(cohort, labels, options.seeds))
            print(json.dumps(studies[-1]), flush=True)
        labels += 1
    OUT.write_text(json.dumps({"level": LEVEL, "scanned": labels, "studies": studies}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

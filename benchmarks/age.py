"""Patients who are older than controls: what ageing does to a study, and what
adjustment by controls does about it.

``python -m benchmarks.age [--seeds 900:910]``

People have the 139 MUSE regions of the package's healthy people. Controls are 55 years
old, with a standard deviation of 8; patients are older by 0 to 30 years. Volumes are
linear in age. From 60 years on, the regions of the third pattern of the task basic lose
another 1 % per year in everyone: ageing is a pattern, and not linear. Both groups have
200.

- Without disease: how often a study detects a difference, at a level of 5 %.
- With two patterns of disease, which take up to 20 % whatever the age: accuracy for the
  two (pattern-c-index) of three indices of the learner contrastive, and the largest
  rank correlation of an index with age in patients.

Overlap: share of patients whose age is between the 5th and the 95th percentile of
controls. Writes ``results/age.json`` and ``.md``; ``--seeds 900:900`` writes the latter
again. Seeds 100 to 104 were used to choose the overlap below which ``check`` and
``fit`` warn.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from rindices.experiments.reference import load_reference
from rindices.experiments.tasks import TASKS
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import pattern_c_index
from rindices.study.group_tests import Finding, run_group_tests
from rindices.tables.cohort import Cohort

OUT = Path(__file__).parent / "results" / "age"
GAPS = (0, 5, 10, 15, 20, 30)
N_PEOPLE, MEAN_AGE, SD_AGE, START, RATE = 200, 55.0, 8.0, 60.0, 0.2
ADJUSTMENTS = {"not adjusted": ["sex", "icv"], "adjusted": ["age", "sex", "icv"]}


def simulate(gap: float, seed: int, is_ill: bool) -> tuple[Cohort, np.ndarray]:
    """Return controls and patients, and the severities (patients, 2) of the disease."""
    rng, reference = np.random.default_rng([seed, int(gap), is_ill]), load_reference()
    shares = np.linspace(0.005, 0.995, 100)
    groups = [
        replace(reference, age=stats.norm.ppf(shares, MEAN_AGE + shift, SD_AGE))
        for shift in (0, gap)
    ]
    (volumes, covariates), (more, others) = (
        group.draw(N_PEOPLE, rng) for group in groups
    )
    volumes, covariates = (
        pd.concat(each, ignore_index=True)
        for each in ((volumes, more), (covariates, others))
    )
    patient, position = (
        np.arange(2 * N_PEOPLE) >= N_PEOPLE,
        {name: k for k, name in enumerate(volumes)},
    )
    patterns = [[position[name] for name in names] for names in TASKS["basic"].patterns]
    severities = np.zeros((2 * N_PEOPLE, 3))
    severities[patient, :2] = is_ill * rng.uniform(size=(N_PEOPLE, 2)) * RATE
    severities[:, 2] = 0.01 * np.maximum(covariates["age"] - START, 0)
    values = volumes.to_numpy(copy=True)
    for regions, share in zip(patterns, severities.T, strict=True):
        values[:, regions] *= 1 - share[:, None] * rng.normal(
            1, 0.05, size=(len(values), len(regions))
        )
    ids, group = (
        [f"s{k}" for k in range(len(values))],
        np.where(patient, "patient", "control"),
    )
    people = pd.DataFrame({"participant_id": ids, "group": group.astype(object)})
    return Cohort(
        volumes=pd.DataFrame(values, columns=volumes.columns),
        people=people,
        covariates=covariates,
        source="dlmuse",
        unit="mm3",
    ), severities[patient, :2]


def measure(gap: float, seed: int) -> dict[str, Any]:
    well, _ = simulate(gap, seed, is_ill=False)
    ill, truth = simulate(gap, seed, is_ill=True)
    age = ill.covariates["age"].to_numpy()
    low, high = np.quantile(age[ill.is_control], [0.05, 0.95])
    row: dict[str, Any] = {"gap": gap, "seed": seed}
    row["overlap"] = float(((age >= low) & (age <= high))[ill.is_patient].mean())
    for name, columns in ADJUSTMENTS.items():
        tests = run_group_tests(
            replace(well, covariates=well.covariates[columns]), seed
        )
        cohort = replace(ill, covariates=ill.covariates[columns])
        X = Preprocessing.fit(cohort).transform(cohort)
        indices = (
            ContrastiveICA(3, seed)
            .fit(X, cohort.is_patient.astype(np.intp))
            .transform(X[cohort.is_patient])
        )
        rho = [
            abs(stats.spearmanr(column, age[cohort.is_patient]).statistic)
            for column in indices.T
        ]
        row[name] = {
            "detected": tests.finding is not Finding.NO_DIFFERENCE,
            "test_overlap": tests.dimensions.overlap,
            "accuracy": pattern_c_index(truth, indices).mean,
            "with_age": float(max(rho)),
        }
    return row


def summarise(rows: list[dict[str, Any]]) -> str:
    head = (
        "| older by | overlap | detected without disease | accuracy | index with age |"
    )
    lines = [
        "# Patients who are older",
        "",
        "`python -m benchmarks.age`",
        "",
        head,
        "|---|---|---|---|---|",
    ]
    for gap in GAPS:
        chosen = [row for row in rows if row["gap"] == gap]
        cells = [f"{gap} years", f"{np.mean([row['overlap'] for row in chosen]):.0%}"]
        for figure, layout in (
            ("detected", ".0%"),
            ("accuracy", ".2f"),
            ("with_age", ".2f"),
        ):
            means = [
                float(np.mean([row[name][figure] for row in chosen]))
                for name in ADJUSTMENTS
            ]
            cells.append(" / ".join(format(mean, layout) for mean in means))
        lines.append(f"| {' | '.join(cells)} |")
    foot = [
        f"{len(rows) // len(GAPS)} studies per row; not adjusted / adjusted for age.",
        "Overlap: patients between the 5th and the 95th percentile of controls' ages.",
        "Accuracy: pattern-c-index of the disease. Index with age: largest rank correlation in patients.",
    ]
    return "\n".join([*lines, "", " ".join(foot), ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="900:910")
    seeds = range(*map(int, parser.parse_args().seeds.split(":")))
    rows = [] if seeds else json.loads(OUT.with_suffix(".json").read_text("utf-8"))
    for seed in seeds:
        rows += [measure(gap, seed) for gap in GAPS]
        print(seed, flush=True)
    if seeds.start >= 900:
        OUT.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        OUT.with_suffix(".md").write_text(summarise(rows), "utf-8")
    print(summarise(rows))


if __name__ == "__main__":
    main()

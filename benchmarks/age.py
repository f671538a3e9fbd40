"""Patients who are older than controls: what ageing does to a study, and what
adjustment by controls does about it.

``python -m benchmarks.age [--studies 10] [--healthy 40]``

People have the 139 MUSE regions of the package's healthy people. Controls are 55 years
old, with a standard deviation of 8; patients are older by 0 to 30 years. Volumes are
linear in age. From 60 years on, the regions of the third pattern of the task basic lose
another 1 % per year in everyone: ageing is a pattern, and not linear. Both groups have
200.

- Without disease: how often a study detects a difference, at a level of 5 %.
- With two patterns of disease, which take up to 20 % whatever the age: accuracy for the
  two (pattern-c-index) of three indices of the learner contrastive, and the largest
  rank correlation of an index with age in patients.
- New healthy people of the patients' ages whose index is above the 95th percentile of
  new healthy people of the controls' ages; mean over the three indices.

People are not adjusted for age, along a straight line, along a spline in any case, or
as held-out controls say (`rindices.preprocess.ageing`). Then the same without
acceleration, and the simulated tasks of the package: which are given a spline.

Overlap: share of patients whose age is between the 5th and the 95th percentile of
controls. Adds to ``results/age.json`` what is missing and writes ``.md``. Seeds 100 to
104 were used to choose the overlap below which ``check`` and ``fit`` warn.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from rindices.experiments.reference import load_reference
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.preprocess.ageing import choose_age_knots, place_knots
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import pattern_c_index
from rindices.study.group_tests import Finding, run_group_tests
from rindices.tables.cohort import Cohort

OUT = Path(__file__).parent / "results" / "age"
GAPS = (0, 5, 10, 15, 20, 30)
N_PEOPLE, MEAN_AGE, SD_AGE, START, RATE = 200, 55.0, 8.0, 60.0, 0.2
FIRST_SEED, HEALTHY_GAP = 900, 10
ADJUSTMENTS = ("not adjusted", "straight line", "spline", "as chosen")
"""Ways to adjust for age."""
COLUMNS = ["age", "sex", "icv"]
LINEAR_GAPS = (0, 10)
FIGURES = {"detected": ".0%", "accuracy": ".3f", "with_age": ".2f", "above": ".1%"}
NEVER = 1000.0  # age at which nobody's ageing accelerates


def simulate(
    gap: float, seed: int, is_ill: bool, start: float = START
) -> tuple[Cohort, np.ndarray]:
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
    severities[:, 2] = 0.01 * np.maximum(covariates["age"] - start, 0)
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


def get_knots(cohort: Cohort, name: str) -> tuple[float, ...]:
    """Return the knots of a way to adjust for age."""
    if name == "not adjusted" or name == "straight line":
        return ()
    if name == "spline":
        ages = cohort.covariates["age"][cohort.is_control]
        return place_knots(float(ages.mean()), float(ages.std(ddof=0)))
    volumes = np.log(cohort.volumes.to_numpy(dtype=float))
    return choose_age_knots(cohort, volumes, log=True, by_site=False)


def detect(gap: float, seed: int) -> dict[str, Any]:
    """Return whether a study of healthy people detects a difference."""
    well, _ = simulate(gap, seed, is_ill=False)
    chosen = get_knots(well, "as chosen")
    row: dict[str, Any] = {"gap": gap, "seed": seed, "bent": bool(chosen)}
    for name, knots in {"straight line": (), "as chosen": chosen}.items():
        same = name == "as chosen" and not chosen
        row[name] = (
            row["straight line"]
            if same
            else run_group_tests(well, seed, age_knots=knots).finding
            is not Finding.NO_DIFFERENCE
        )
    return row


def measure(gap: float, seed: int, start: float = START) -> dict[str, Any]:
    well, _ = simulate(gap, seed, is_ill=False, start=start)
    ill, truth = simulate(gap, seed, is_ill=True, start=start)
    age = ill.covariates["age"].to_numpy()
    low, high = np.quantile(age[ill.is_control], [0.05, 0.95])
    row: dict[str, Any] = {"gap": gap, "seed": seed}
    row["overlap"] = float(((age >= low) & (age <= high))[ill.is_patient].mean())
    for name in ADJUSTMENTS:
        columns = COLUMNS[1:] if name == "not adjusted" else COLUMNS
        knots, own = get_knots(ill, name), get_knots(well, name)
        if name == "as chosen":
            chosen = row["spline" if knots else "straight line"]
            tested = row["spline" if own else "straight line"]
            row[name] = {**chosen, "detected": tested["detected"], "bent": bool(knots)}
            continue
        tests = run_group_tests(
            replace(well, covariates=well.covariates[columns]), seed, age_knots=own
        )
        cohort = replace(ill, covariates=ill.covariates[columns])
        pipeline = Preprocessing.fit(cohort, age_knots=knots)
        X = pipeline.transform(cohort)
        learner = ContrastiveICA(3, seed).fit(X, cohort.is_patient.astype(np.intp))
        indices = learner.transform(X[cohort.is_patient])
        healthy = replace(well, covariates=well.covariates[columns])
        new = learner.transform(pipeline.transform(healthy))
        limit = np.quantile(new[healthy.is_control], 0.95, axis=0)
        rho = [
            abs(stats.spearmanr(column, age[cohort.is_patient]).statistic)
            for column in indices.T
        ]
        row[name] = {
            "detected": tests.finding is not Finding.NO_DIFFERENCE,
            "test_overlap": tests.dimensions.overlap,
            "accuracy": pattern_c_index(truth, indices).mean,
            "with_age": float(max(rho)),
            "above": float((new[healthy.is_patient] > limit).mean()),
        }
    return row


def list_bent_tasks(n_cohorts: int) -> dict[str, int]:
    """Return the number of cohorts of each simulated task that are given a spline."""
    return {
        task: sum(
            bool(get_knots(simulate_cohort(task, seed=seed).cohort, "as chosen"))
            for seed in range(n_cohorts)
        )
        for task in TASKS
    }


def summarise(content: dict[str, Any]) -> str:
    lines = ["# Patients who are older", "", "`python -m benchmarks.age`", ""]
    names = " / ".join(ADJUSTMENTS)
    for title, key in (
        ("Ageing accelerates from 60 years on", "bent"),
        ("Ageing is linear", "straight"),
    ):
        rows = content[key]
        if not rows:
            continue
        lines += [
            f"**{title}**",
            "",
            "| older by | studies | overlap | detected without disease | accuracy | index with age | healthy people above | spline chosen |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for gap in sorted({row["gap"] for row in rows}):
            own = [row for row in rows if row["gap"] == gap]
            cells = [f"{gap} years", str(len(own))]
            cells.append(f"{np.mean([row['overlap'] for row in own]):.0%}")
            for figure, layout in FIGURES.items():
                means = [
                    np.mean([row[name][figure] for row in own]) for name in ADJUSTMENTS
                ]
                cells.append(" / ".join(format(float(mean), layout) for mean in means))
            cells.append(f"{np.mean([row['as chosen']['bent'] for row in own]):.0%}")
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    changes = [
        row["as chosen"]["accuracy"] - row["straight line"]["accuracy"]
        for row in content["straight"]
    ]
    costs = [
        row["spline"]["accuracy"] - row["straight line"]["accuracy"]
        for row in content["straight"]
    ]
    changed = [
        f"Where ageing is linear, the choice changes the accuracy by {low:+.4f} to {high:+.4f}, and a spline in any case by "
        f"{np.mean(costs):+.4f} on average."
        for low, high in [(min(changes, default=0.0), max(changes, default=0.0))]
        if changes
    ]
    tasks, healthy = content["tasks"], content["healthy"]
    called = {
        name: f"{sum(row[name] for row in healthy)} of {len(healthy)}"
        for name in ("straight line", "as chosen")
    }
    lines += (
        []
        if not content["bent"]
        else [
            f"{names}. Overlap: patients between the 5th and the 95th percentile of controls' ages. Accuracy: pattern-c-index of "
            "the disease. Index with age: largest rank correlation in patients. Healthy people above: of the patients' ages, above "
            "the 95th percentile of healthy people of the controls' ages (5 % expected).",
            "",
        ]
    )
    lines += [
        f"Studies of healthy people who are {HEALTHY_GAP} years older, with ageing that accelerates, that detect a difference: "
        f"{called['straight line']} with a straight line, {called['as chosen']} as chosen (level 5 %; a spline is chosen in "
        f"{sum(row['bent'] for row in healthy)}).",
        "",
        *changed,
        f"Of {content['task_cohorts']} cohorts of each "
        f"simulated task, a spline is chosen in: {', '.join(f'{name} {number}' for name, number in tasks.items())}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=2, help="of each row")
    parser.add_argument("--healthy", type=int, default=40, help="studies at 10 years")
    parser.add_argument("--cohorts", type=int, default=3, help="of each task")
    options = parser.parse_args()
    path = OUT.with_suffix(".json")
    content: dict[str, Any] = {"bent": [], "straight": [], "tasks": {}, "healthy": []}
    if path.is_file():
        content = json.loads(path.read_text("utf-8"))
    if not content["tasks"]:
        content["task_cohorts"] = options.cohorts
        content["tasks"] = list_bent_tasks(options.cohorts)

    def add(key: str, gap: int, seed: int, take: Callable[[], dict[str, Any]]) -> None:
        done = {(row["gap"], row["seed"]) for row in content[key]}
        if (gap, seed) not in done:
            content[key].append(take())
            path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")

    for seed in range(FIRST_SEED, FIRST_SEED + options.healthy):
        add("healthy", HEALTHY_GAP, seed, partial(detect, HEALTHY_GAP, seed))
    for seed in range(FIRST_SEED, FIRST_SEED + options.studies):
        for gap in GAPS:
            add("bent", gap, seed, partial(measure, gap, seed))
            if gap in LINEAR_GAPS:
                add("straight", gap, seed, partial(measure, gap, seed, NEVER))
    OUT.with_suffix(".md").write_text(summarise(content), "utf-8")
    print(summarise(content))


if __name__ == "__main__":
    main()

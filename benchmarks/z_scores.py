"""What is lost where a table holds z-scores of a normative model instead of volumes.

Usage: ``python -m benchmarks.z_scores [--cohorts 3]``. Simulated cohorts of the tasks
basic and mild, seeds 0 and up. Each cohort is given to the default learner with three
patterns in three forms:

- log: volumes, adjusted for age, sex and head size on the log scale (the default of
  ``fit``);
- z: z-scores of a normative model of volumes, linear in age, sex and head size and
  fitted to the controls, without further adjustment;
- z of logs: the same of log volumes.

The score is the pattern-c-index of the patients; the oracle knows everything but the
severities. Writes ``results/z_scores.json`` and ``.md``; finished cohorts are not
computed again.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.suites.oracle import compute_oracle_severities
from rindices.experiments.simulate import SimulatedCohort, simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.learners.trajectory.estimator import DiseaseTrajectories
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import pattern_c_index
from rindices.tables.cohort import Cohort

OUT = Path(__file__).parent / "results" / "z_scores.json"
COHORT_TASKS = ("basic", "mild")
FORMS = ("oracle", "log", "z", "z of logs")


def make_z_scores(cohort: Cohort, take_logs: bool) -> Cohort:
    """Return z-scores of a linear normative model of volumes or of their logarithms,
    without covariates.
    """
    values = cohort.volumes.to_numpy(dtype=float)
    values = np.log(values) if take_logs else values
    design = np.column_stack(
        [
            np.ones(len(cohort)),
            pd.get_dummies(cohort.covariates, drop_first=True, dtype=float),
        ]
    )
    weights = np.linalg.lstsq(
        design[cohort.is_control], values[cohort.is_control], rcond=None
    )[0]
    deviations = values - design @ weights
    z = deviations / deviations[cohort.is_control].std(axis=0, ddof=design.shape[1])
    frame = pd.DataFrame(z, columns=cohort.volumes.columns)
    return replace(
        cohort,
        volumes=frame,
        covariates=cohort.covariates.iloc[:, :0],
        unit="standardised",
    )


def score_form(form: str, task: str, seed: int, simulated: SimulatedCohort) -> float:
    """Return the pattern-c-index of the default learner on one form of a cohort."""
    if form == "oracle":
        inferred = compute_oracle_severities(simulated, TASKS[task], adjusted=True)
        return float(pattern_c_index(simulated.truth, inferred).mean)
    cohort = (
        simulated.cohort
        if form == "log"
        else make_z_scores(simulated.cohort, form == "z of logs")
    )
    X, y = (
        Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    learner = DiseaseTrajectories(simulated.truth.shape[1], seed).fit(X, y)
    return float(pattern_c_index(simulated.truth, learner.transform(X[y == 1])).mean)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, default=3)
    results = json.loads(OUT.read_text("utf-8")) if OUT.exists() else []
    done = {(row["task"], row["seed"]) for row in results}
    for task in COHORT_TASKS:
        for seed in range(parser.parse_args().cohorts):
            if (task, seed) not in done:
                simulated = simulate_cohort(task, seed)
                results.append(
                    {
                        "task": task,
                        "seed": seed,
                        **{
                            form: score_form(form, task, seed, simulated)
                            for form in FORMS
                        },
                    }
                )
                OUT.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
                print(results[-1])
    OUT.with_suffix(".md").write_text(format_page(results), "utf-8")


def format_page(results: list[dict[str, object]]) -> str:
    """Return the table of means, and of the loss against log adjustment."""
    table = pd.DataFrame(results)
    lines = [
        "# Z-scores instead of volumes",
        "Pattern-c-index of the patients (mean over cohorts, seeds 0 and up), default learner with three patterns.",
        "`z` and `z of logs`: z-scores of a linear normative model of volumes and of log volumes, without further",
        "adjustment. Loss: `log` minus `z`, with the standard error over cohorts.",
        "",
        f"| task | cohorts | {' | '.join(FORMS)} | loss |",
        f"|{'---|' * (len(FORMS) + 3)}",
    ]
    for task, rows in table.groupby("task", sort=False):
        loss = rows["log"] - rows["z"]
        means = " | ".join(f"{rows[form].mean():.3f}" for form in FORMS)
        lines.append(
            f"| {task} | {len(rows)} | {means} | {loss.mean():.4f} ± {loss.sem():.4f} |"
        )
    return "\n".join([*lines, "", "By `python -m benchmarks.z_scores`.", ""])


if __name__ == "__main__":
    main()

"""Outcomes: false positives of Cox and logistic regression, and held-out concordance of
R-indices and raw regions.

    python -m benchmarks.outcomes [--nulls 1000] [--cohorts 3]

Results: ``results/outcomes.md``, ``.json``.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import rindices
from rindices.analysis.outcome_models import Outcome, fit_outcome
from rindices.analysis.predict import predict_outcome
from rindices.experiments.visits import VisitPlan, simulate_visits
from rindices.tables.cohort import keep_first_scans

RESULTS = Path(__file__).parent / "results"


def measure_false_positives(number: int) -> list[dict[str, object]]:
    """Return the share of cohorts in which an R-index that predicts nothing has p <
    0.05, adjusted for age.
    """
    rows = []
    for name, n_people in (
        ("cox", 100),
        ("cox", 300),
        ("logistic", 100),
        ("logistic", 300),
    ):
        found = 0
        for seed in range(number):
            rng = np.random.default_rng([seed, n_people])
            age = rng.normal(size=n_people)
            index = np.clip(rng.beta(1, 2, n_people) + 0.1 * age, 0, 1)  # age confounds
            years, end = (
                rng.exponential(4 * np.exp(-0.5 * age)),
                rng.uniform(1, 6, n_people),
            )
            outcome = Outcome(
                years <= end, np.minimum(years, end) if name == "cox" else None
            )
            fit = fit_outcome(outcome, np.column_stack([index / index.std(), age]))
            found += bool(
                abs(fit.coefficients[0]) > 1.959964 * np.sqrt(fit.covariance[0, 0])
            )
        rows.append(
            {
                "regression": name,
                "people": n_people,
                "cohorts": number,
                "p_below_0.05": found / number,
            }
        )
    return rows


def compare_predictors(task: str, seed: int) -> list[dict[str, object]]:
    """Compare R-indices with raw regions on events whose hazard grows with severity.

    The model of the R-indices is fitted to other people with the same disease, so that
    it has not seen any label of the people whose outcome is predicted.
    """
    visits, others = (
        simulate_visits(task, number, VisitPlan(visits=2))
        for number in (seed, seed + 1000)
    )
    cohort, training = (
        keep_first_scans(part.simulated.cohort)[0] for part in (visits, others)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = rindices.fit(training, patterns=3, method="contrastive", workers=1)
    indices = model.apply(cohort).reset_index(drop=True)
    outcomes = (
        visits.outcomes.set_index("participant_id")
        .loc[indices["participant_id"]]
        .reset_index()
    )
    regions = np.log(cohort.volumes.reset_index(drop=True))
    covariates = ["age", "sex", "icv"]
    result = predict_outcome(
        indices,
        outcomes,
        event="event",
        time="years",
        covariates=covariates,
        regions=regions,
    )
    rows = result.concordance[
        ["predictors", "n", "events", "concordance", "low", "high"]
    ].to_dict("records")
    return [
        {
            "task": task,
            "seed": seed,
            **{str(name): value for name, value in row.items()},
        }
        for row in rows
    ]


def format_rows(rows: list[dict[str, object]]) -> list[str]:
    names = list(rows[0])
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    for row in rows:
        cells = [
            f"{value:.3f}" if isinstance(value, float) else str(value)
            for value in row.values()
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nulls", type=int, default=1000)
    parser.add_argument("--cohorts", type=int, default=3)
    options = parser.parse_args()
    nulls = measure_false_positives(options.nulls)
    tasks = [
        (task, seed) for task in ("tiny", "small") for seed in range(options.cohorts)
    ]
    concordance = [
        row for task, seed in tasks for row in compare_predictors(task, seed)
    ]
    table = pd.DataFrame(concordance)
    means = (
        table.groupby(["task", "predictors"], sort=False)["concordance"]
        .mean()
        .reset_index()
        .to_dict("records")
    )
    (RESULTS / "outcomes.json").write_text(
        json.dumps(
            {"nulls": nulls, "concordance": concordance, "means": means}, indent=1
        )
        + "\n"
    )
    text = [
        "# Outcomes",
        "",
        "`python -m benchmarks.outcomes`",
        "",
        "## False positives",
        "",
        *format_rows(nulls),
    ]
    text += ["## Concordance on held-out people, mean of cohorts", ""]
    text += [
        "R-indices come from a model of as many other people with the same disease.",
        "",
        *format_rows(means),
    ]
    text += ["## Each cohort", "", *format_rows(concordance)]
    (RESULTS / "outcomes.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()

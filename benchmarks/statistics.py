"""Each statistic of outcomes and of change: before and after statsmodels took over, and
the cost of ours against statsmodels where ours stays.

    python -m benchmarks.statistics [--write-before]

Results: ``results/statistics.md``. ``--write-before`` wrote
``results/statistics_before.json`` with the code of 0.1.0.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from statsmodels.regression.mixed_linear_model import MixedLM

from rindices.analysis.outcome_models import (
    CoxLikelihood,
    Outcome,
    check_proportional_hazards,
    compare_predictors,
    compare_survival,
    fit_outcome,
)
from rindices.analysis.predict import predict_outcome
from rindices.analysis.slopes import Visits, fit_mixed_model, fit_robust_regression

RESULTS = Path(__file__).parent / "results"
Values = dict[str, list[float]]


def simulate_outcome(number: int, tied: bool = True) -> tuple[Outcome, np.ndarray]:
    rng = np.random.default_rng(number)
    design = rng.normal(size=(number, 4))
    years = rng.exponential(np.exp(-design @ [0.7, -0.4, 0.0, 0.2]))
    censored = rng.exponential(2.0, number)
    event, years = years <= censored, np.minimum(years, censored)
    return Outcome(event, np.ceil(years * 8) / 8 if tied else years), design


def simulate_visits() -> tuple[Visits, np.ndarray]:
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(60), 4)
    years = np.tile(np.arange(4.0), 60) + rng.uniform(-0.3, 0.3, 240)
    effects = rng.multivariate_normal([2.0, 0.5], [[1.0, 0.15], [0.15, 0.25]], 60)
    values = effects[person, 0] + effects[person, 1] * years + rng.normal(0, 0.4, 240)
    patient = (person % 2).astype(float)
    design = np.column_stack([np.ones(240), years, patient, patient * years])
    return Visits(
        values=values[:, None], time=years, person=person, n_people=60
    ), design


def simulate_predictions() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(3)
    ids = [f"p{k:03d}" for k in range(200)]
    indices = pd.DataFrame(rng.beta(1, 2, (200, 2)), columns=["r1", "r2"])
    indices.insert(0, "participant_id", ids)
    years = rng.exponential(6 * np.exp(-3 * indices["r1"]))
    end = rng.uniform(1, 6, 200)
    outcomes = pd.DataFrame(
        {
            "age": rng.normal(70, 6, 200),
            "sex": rng.choice(["F", "M"], 200),
            "site": np.where(np.arange(200) < 6, "C", rng.choice(["A", "B"], 200)),
            "years": np.minimum(years, end),
            "converted": ((years <= end) & (np.arange(200) >= 6)).astype(int),
        }
    )
    return indices, outcomes


def list_errors(covariance: np.ndarray) -> list[float]:
    return np.sqrt(np.diag(covariance)).tolist()


def measure() -> Values:
    """Return the numbers of each statistic."""
    values: Values = {}
    for number, tied in ((150, True), (150, False), (600, True)):
        outcome, design = simulate_outcome(number, tied)
        fit = fit_outcome(outcome, design)
        name = f"{number} people{', tied times' if tied else ''}"
        values[f"Cox, coefficients: {name}"] = fit.coefficients.tolist()
        values[f"Cox, standard errors: {name}"] = list_errors(fit.covariance)
        hazards = check_proportional_hazards(outcome, design, fit)
        values[f"Schoenfeld residuals against time, p: {name}"] = hazards.tolist()
        group = np.digitize(design[:, 0], [-0.4, 0.4])
        p = compare_survival(outcome.time, outcome.event, group)
        values[f"log-rank, p: {name}"] = [p]
        fit = fit_outcome(Outcome(outcome.event), design)
        values[f"logistic, coefficients: {name}"] = fit.coefficients.tolist()
        values[f"logistic, standard errors: {name}"] = list_errors(fit.covariance)
    outcome, design = simulate_outcome(150)
    for name, each in (("Cox", outcome), ("logistic", Outcome(outcome.event))):
        sets = {"covariates": np.zeros((150, 0)), "regions": design[:, 1:]}
        table = compare_predictors(each, design[:, :1], sets, "regions")
        numbers = table[["concordance", "low", "high"]].to_numpy().ravel()
        values[f"{name}, concordance of held-out people, ridge"] = numbers.tolist()
    visits, design = simulate_visits()
    model = fit_mixed_model(visits, design)
    values["mixed model, coefficients"] = model.coefficients.tolist()
    values["mixed model, standard errors"] = list_errors(model.covariance)
    values["mixed model, variances"] = model.random_covariance.ravel().tolist()
    slopes = visits.lines.slope[:, 0]
    between = np.column_stack([np.ones(60), np.arange(60) % 2])
    coefficients, covariance = fit_robust_regression(slopes, between)
    values["HC3, coefficients"] = coefficients.tolist()
    values["HC3, standard errors"] = list_errors(covariance)
    indices, outcomes = simulate_predictions()
    for name, years in (("Cox", "years"), ("logistic", None)):
        found = predict_outcome(
            indices,
            outcomes,
            event="converted",
            time=years,
            covariates=["age", "sex", "site"],
        )
        effects = found.effects[["ratio", "low", "high", "p", "q"]]
        values[f"`predict`, {name}, outcome_effects.tsv"] = (
            effects.to_numpy().ravel().tolist()
        )
        numbers = found.concordance[["concordance", "low", "high"]].to_numpy()
        values[f"`predict`, {name}, outcome_concordance.tsv"] = numbers.ravel().tolist()
    return values


def count_seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """Return processor seconds of one call."""
    call()
    started = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - started) / repeats


def compare_costs() -> list[dict[str, object]]:
    """Return processor time of statsmodels over ours, and the largest difference."""
    rows = []
    for number, tied in ((150, True), (150, False), (600, True), (600, False)):
        outcome, design = simulate_outcome(number, tied)
        status = outcome.event.astype(float)
        name = f"{number} people{', tied times' if tied else ''}"

        def fit_cox(years=outcome.time, design=design, status=status):
            model = sm.PHReg(years, design, status=status, ties="efron")
            return model.fit(tol=1e-12)

        ours, theirs = fit_outcome(outcome, design), fit_cox()
        differences = [
            np.abs(ours.coefficients - theirs.params).max(),
            np.abs(list_errors(ours.covariance) - theirs.bse).max(),
        ]
        ratio = count_seconds(fit_cox) / count_seconds(
            lambda each=outcome, design=design: fit_outcome(each, design)
        )
        row = {"statistic": f"Cox, Efron ties: {name}", "times": ratio}
        rows.append(row | {"difference": max(differences)})
        residuals = theirs.schoenfeld_residuals
        found = residuals[np.isfinite(residuals).all(axis=1)]
        likelihood = CoxLikelihood(outcome.time, outcome.event, design)
        _, own = likelihood.compute_residuals(ours.coefficients)
        difference = np.abs(np.sort(found, axis=0) - np.sort(own, axis=0)).max()
        ratio = count_seconds(lambda fit=theirs: _read_residuals(fit)) / count_seconds(
            lambda fit=ours, one=likelihood: one.compute_residuals(fit.coefficients)
        )
        row = {"statistic": f"Schoenfeld residuals: {name}", "times": ratio}
        rows.append(row | {"difference": difference})
    visits, design = simulate_visits()
    z = np.column_stack([np.ones_like(visits.time), visits.time])

    def fit_mixed():
        model = MixedLM(visits.values[:, 0], design, groups=visits.person, exog_re=z)
        return model.fit(reml=True, method=["lbfgs"])

    ours, theirs = fit_mixed_model(visits, design), fit_mixed()
    ratio = count_seconds(fit_mixed) / count_seconds(
        lambda: fit_mixed_model(visits, design)
    )
    difference = np.abs(ours.coefficients - theirs.fe_params).max()
    row = {"statistic": "mixed model, 60 people, 4 visits", "times": ratio}
    rows.append(row | {"difference": difference})
    return rows


def _read_residuals(fit) -> np.ndarray:
    """Return residuals that are not in the cache of the fit."""
    fit._cache.clear()
    return fit.schoenfeld_residuals


def format_results(
    before: Values, after: Values, costs: list[dict[str, object]]
) -> str:
    """Return the two tables as text."""
    lines = [
        "# Statistics of outcomes and of change",
        "",
        "`python -m benchmarks.statistics`",
        "",
        "Logistic regression and the log-rank test are those of statsmodels; 0.1.0 had its",
        "own. The first number of each statistic, and the largest difference of all.",
        "",
        "| statistic | by | 0.1.0 | now | largest difference |",
        "|---|---|---|---|---|",
    ]
    for name, values in after.items():
        moved = name.startswith("log-rank") or (
            "logistic" in name and "concordance" not in name
        )
        difference = np.nanmax(np.abs(np.subtract(before[name], values)))
        assert np.array_equal(np.isnan(before[name]), np.isnan(values))
        assert difference <= 1e-8, name
        numbers = f"{before[name][0]:.8g} | {values[0]:.8g} | {difference:.1e}"
        source = "statsmodels" if moved else "rindices"
        if "logistic" in name and not moved:
            source = "scikit-learn"
        lines.append(f"| {name} | {source} | {numbers} |")
    lines += [
        "",
        "## What stays",
        "",
        "Processor time of statsmodels over that of rindices, and the largest difference",
        "between the two. Residuals of statsmodels do not know tied times (Efron).",
        "`MixedLM` stops at the precision of its optimiser, and has no prior of slopes.",
        "",
        "| statistic | times | largest difference |",
        "|---|---|---|",
    ]
    lines += [
        f"| {row['statistic']} | {row['times']:.0f} | {row['difference']:.1e} |"
        for row in costs
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write-before", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    before, values = RESULTS / "statistics_before.json", measure()
    if arguments.write_before:
        before.write_text(json.dumps(values, indent=1) + "\n")
        return
    text = format_results(json.loads(before.read_text()), values, compare_costs())
    (RESULTS / "statistics.md").write_text(text)


if __name__ == "__main__":
    main()

"""The theoretical limit on simulated cohorts."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, multivariate_normal, norm

from benchmarks.suites.baselines.supervised import cross_validate_supervised
from benchmarks.suites.benchmark import BenchmarkPlan
from benchmarks.suites.bounds import supervised_c_index
from benchmarks.suites.figures import format_markdown
from benchmarks.suites.oracle import compute_oracle_severities, score_oracle
from benchmarks.suites.runner import run_jobs
from rindices._typing import FloatArray
from rindices.errors import InputError
from rindices.experiments.reference import AGE_CENTRE, LOG_ICV_CENTRE, load_reference
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS, SimulationTask
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import pattern_c_index

SMALL = replace(
    TASKS["hard"],
    n_controls=10,
    n_patients=6,
    patterns=TASKS["hard"].patterns[:2],
    noise=0.2,
)
NEW_TASKS = ("staged09", "together", "personal")


def compute_density(
    z: Sequence[float], task: SimulationTask, covariate_covariance: FloatArray
) -> Any:
    """Return the normal density of log volumes around the mean of healthy people, at
    the severities z.
    """
    reference = load_reference()
    change, scale, noise = np.zeros(139), np.ones(139), np.zeros(139)
    sd = np.sqrt(np.diag(reference.root @ reference.root.T))
    for k, pattern in enumerate(task.patterns):
        for onset, name in zip(
            np.linspace(0, task.last_onset, len(pattern)), pattern, strict=True
        ):
            r = reference.regions.index(name)
            following = z[(k + 1) % len(z)]
            loss = task.rate * np.clip((z[k] - onset) / (1 - onset), 0, 1)
            loss *= (1 + task.interaction * following) / (1 + task.interaction / 2)
            variance = (task.noise * loss / (1 - loss)) ** 2
            change[r] += np.log(1 - loss) - variance / 2
            scale[r] -= task.dependence * np.log(1 - loss) / sd[r]
            noise[r] += variance
    root = scale[:, None] * reference.root
    return multivariate_normal(
        change, covariate_covariance + root @ root.T + np.diag(noise)
    )


@pytest.mark.parametrize(
    ("task", "adjusted"),
    [
        (SMALL, True),
        (SMALL, False),
        (replace(SMALL, interaction=1.0), True),
        (replace(SMALL, dependence=0.25), True),
    ],
    ids=["hard", "hard, not adjusted", "together", "personal"],
)
def test_posterior_means_against_a_plain_sum_over_all_regions(
    task: SimulationTask, adjusted: bool
) -> None:
    simulated = simulate_cohort(task, seed=3)
    cohort = simulated.cohort.take(np.flatnonzero(simulated.cohort.is_patient))
    reference, n_levels = load_reference(), 5
    people = (
        cohort.covariates
        if adjusted
        else reference.draw(100_000, np.random.default_rng(0))[1]
    )
    design = np.column_stack(
        [
            np.ones(len(people)),
            people["age"] - AGE_CENTRE,
            people["sex"] == "M",
            np.log(people["icv"]) - LOG_ICV_CENTRE,
        ]
    ).astype(float)
    mean = design if adjusted else design.mean(axis=0)
    spread = np.zeros((4, 4)) if adjusted else np.cov(design.T)
    logs = np.log(cohort.volumes.to_numpy()) - mean @ reference.coefficients
    copula = multivariate_normal(
        np.zeros(2), [[1.0, task.correlation], [task.correlation, 1.0]]
    )
    middle = (np.arange(n_levels) + 0.5) / n_levels
    weights, points = [], []
    for u in product(middle, repeat=2):
        z, normal = beta.ppf(u, *task.beta), norm.ppf(u)
        density = compute_density(
            z, task, reference.coefficients.T @ spread @ reference.coefficients
        )
        weights.append(
            copula.logpdf(normal) - norm.logpdf(normal).sum() + density.logpdf(logs)
        )
        points.append(z)
    weight = np.exp(np.array(weights) - np.max(weights, axis=0))
    expected = weight.T @ np.array(points) / weight.sum(axis=0)[:, None]
    tolerance = (
        1e-6 if adjusted else 5e-3
    )  # the covariates of other people stand for the unknown ones
    severities = compute_oracle_severities(simulated, task, adjusted, n_levels)
    np.testing.assert_allclose(severities, expected, atol=tolerance)


@pytest.mark.parametrize("adjusted", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        NEW_TASKS[0],
        *(pytest.param(name, marks=pytest.mark.slow) for name in NEW_TASKS[1:]),
    ],
)
def test_the_oracle_is_better_than_ridge_the_contrastive_learner_and_a_wrong_task(
    name: str, adjusted: bool
) -> None:
    task = replace(TASKS[name], n_controls=300, n_patients=400)
    simulated = simulate_cohort(task, seed=1)
    truth, cohort = simulated.truth, simulated.cohort
    X = Preprocessing.fit(cohort, adjust=None if adjusted else "none").transform(cohort)
    patients = X[cohort.is_patient]
    severities = compute_oracle_severities(simulated, task, adjusted, n_levels=9)
    score = pattern_c_index(truth, severities).mean
    assert (truth - severities).mean() == pytest.approx(0.0, abs=0.02)
    assert np.polyfit(severities.ravel(), truth.ravel(), 1)[0] == pytest.approx(
        1.0, abs=0.06
    )
    contrastive = (
        ContrastiveICA(3, random_state=0)
        .fit(X, cohort.is_patient.astype(int))
        .transform(patients)
    )
    assert score > pattern_c_index(truth, contrastive).mean
    assert (
        score
        > supervised_c_index(
            truth, cross_validate_supervised(patients, truth, "ridge", 5, 0)
        ).test
    )
    wrong = compute_oracle_severities(simulated, TASKS["basic"], adjusted, n_levels=9)
    assert score > pattern_c_index(truth, wrong).mean + 0.005
    assert np.mean((truth - severities) ** 2) < 0.9 * np.mean((truth - wrong) ** 2)


def test_severities_are_unbiased_and_nothing_is_better() -> None:
    truth, severities = score_oracle("small", 0, adjusted=True)
    assert (truth - severities).mean() == pytest.approx(0.0, abs=0.02)
    slope = np.polyfit(severities.ravel(), truth.ravel(), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.06)
    plan = BenchmarkPlan(
        "stress", ("oracle", "contrastive"), 1, 0, None, ("small",), True
    )
    results = run_jobs(plan.jobs(), workers=1)
    scores = {result.learner: result.pattern_c_index for result in results}
    assert scores["oracle"] == pytest.approx(pattern_c_index(truth, severities).mean)
    assert scores["oracle"] > scores["contrastive"]
    assert (
        f"| **below the limit** | 0.000 | {scores['oracle'] - scores['contrastive']:.3f} |"
        in format_markdown(results)
    )


def test_real_people_have_no_oracle() -> None:
    with pytest.raises(InputError, match="knows simulated people alone"):
        BenchmarkPlan("real", ("oracle",), 1).jobs()

"""The theoretical limit on simulated cohorts."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import beta, multivariate_normal, norm

from rindices.errors import InputError
from rindices.experiments.benchmark import BenchmarkPlan, run_benchmark
from rindices.experiments.figures import format_markdown
from rindices.experiments.oracle import compute_oracle_severities, score_oracle
from rindices.experiments.reference import AGE_CENTRE, LOG_ICV_CENTRE, load_reference
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.selection.agreement import pattern_c_index

SMALL = replace(TASKS["hard"], n_controls=10, n_patients=6, patterns=TASKS["hard"].patterns[:2], noise=0.2)


def test_posterior_means_against_a_plain_sum_over_all_regions() -> None:
    simulated = simulate_cohort(SMALL, seed=3)
    cohort = simulated.cohort.take(np.flatnonzero(simulated.cohort.is_patient))
    reference, n_levels = load_reference(), 5
    covariance = reference.root @ reference.root.T
    middle = (np.arange(n_levels) + 0.5) / n_levels
    expected = []
    for person in range(len(cohort)):
        known = cohort.covariates.iloc[person]
        design = [1.0, known["age"] - AGE_CENTRE, float(known["sex"] == "M"), np.log(known["icv"]) - LOG_ICV_CENTRE]
        logs = np.log(cohort.volumes.iloc[person].to_numpy()) - design @ reference.coefficients
        weights, points = [], []
        for u in product(middle, repeat=2):
            z = beta.ppf(u, *SMALL.beta)
            change, noise = np.zeros(139), np.zeros(139)
            for severity, pattern in zip(z, SMALL.patterns, strict=True):
                for onset, name in zip(np.linspace(0, SMALL.last_onset, len(pattern)), pattern, strict=True):
                    loss = SMALL.rate * np.clip((severity - onset) / (1 - onset), 0, 1)
                    variance = (SMALL.noise * loss / (1 - loss)) ** 2
                    change[cohort.regions.index(name)] += np.log(1 - loss) - variance / 2
                    noise[cohort.regions.index(name)] += variance
            copula = np.array([[1.0, SMALL.correlation], [SMALL.correlation, 1.0]])
            normal = norm.ppf(u)
            prior = multivariate_normal(np.zeros(2), copula).pdf(normal) / norm.pdf(normal).prod()
            weights.append(np.log(prior) + multivariate_normal(change, covariance + np.diag(noise)).logpdf(logs))
            points.append(z)
        weight = np.exp(np.array(weights) - max(weights))
        expected.append(weight @ np.array(points) / weight.sum())
    np.testing.assert_allclose(compute_oracle_severities(simulated, SMALL, True, n_levels), expected, atol=1e-6)


@pytest.mark.parametrize("adjusted", [True, False])
def test_severities_are_unbiased_and_nothing_is_better(adjusted: bool) -> None:
    truth, severities = score_oracle("small", 0, adjusted)
    assert (truth - severities).mean() == pytest.approx(0.0, abs=0.02)
    slope = np.polyfit(severities.ravel(), truth.ravel(), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.06)
    plan = BenchmarkPlan("stress", ("oracle", "contrastive"), 1, 0, None, ("small",), adjusted)
    results = run_benchmark(plan, workers=1)
    scores = {result.learner: result.pattern_c_index for result in results}
    assert scores["oracle"] == pytest.approx(pattern_c_index(truth, severities).mean)
    assert scores["oracle"] > scores["contrastive"]
    assert f"| **below the limit** | 0.000 | {scores['oracle'] - scores['contrastive']:.3f} |" in format_markdown(
        results
    )


def test_real_people_have_no_oracle() -> None:
    with pytest.raises(InputError, match="knows simulated people alone"):
        BenchmarkPlan("real", ("oracle",), 1).jobs()

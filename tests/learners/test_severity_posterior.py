"""Posterior of the severities, against a plain computation for one person."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from rindices.learners.severity_points import make_severity_points
from rindices.learners.severity_posterior import SeverityPosterior


@pytest.mark.parametrize("n_patterns", [1, 2, 4])
def test_against_bayes_rule_for_each_point(n_patterns: int) -> None:
    rng = np.random.default_rng(0)
    n_regions, n_steps = 6, 5
    steps = rng.normal(-0.5, 0.3, (n_patterns, n_steps, n_regions))
    root = rng.normal(size=(n_regions, n_regions))
    noise = root @ root.T / n_regions + np.eye(n_regions)
    correlation = np.full((n_patterns, n_patterns), 0.4) + 0.6 * np.eye(n_patterns)
    weights = np.linalg.solve(noise, steps.reshape(-1, n_regions).T)
    people = rng.normal(-1, 1, (3, n_regions))
    posterior = SeverityPosterior.build(steps, weights, correlation)
    means = posterior.compute_means(people @ weights)
    log_sums = posterior.compute_probabilities(people @ weights)[1]

    points = make_severity_points(n_patterns)
    copula = multivariate_normal(np.zeros(n_patterns), correlation)
    for person, mean, log_sum in zip(people, means, log_sums, strict=True):
        density = np.zeros(len(points))
        for g, z in enumerate(points):
            change = np.zeros(n_regions)
            for m in range(n_patterns):
                for k in range(n_steps):
                    change += steps[m, k] * min(max(n_steps * z[m] - k, 0.0), 1.0)
            normal = norm.ppf(z)
            prior = copula.pdf(normal) / norm.pdf(normal).prod()
            density[g] = multivariate_normal(change, noise).pdf(person) * prior
        np.testing.assert_allclose(mean, density @ points / density.sum(), rtol=1e-9)
        healthy = multivariate_normal(np.zeros(n_regions), noise).logpdf(person)
        np.testing.assert_allclose(log_sum, np.log(density.mean()) - healthy, rtol=1e-9, atol=1e-9)

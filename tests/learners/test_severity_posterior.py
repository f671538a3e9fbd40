"""Posterior of the severities, against a plain computation for one person."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from rindices.learners.severity_posterior import (
    SeverityPosterior,
    compute_group_means,
    compute_log_copula,
    make_severity_points,
)


def compute_means_by_points(
    posterior: SeverityPosterior, numbers: np.ndarray
) -> np.ndarray:
    log_density = numbers @ posterior.basis.T + posterior.offset
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    return density @ posterior.points / density.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_patterns", [1, 2])
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
    log_sums = posterior.summarise(people @ weights).log_sum

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
        np.testing.assert_allclose(
            log_sum, np.log(density.mean()) - healthy, rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("n_patterns", [1, 2, 3, 4, 5])
def test_products_of_factors_against_sums_over_all_points(n_patterns: int) -> None:
    rng = np.random.default_rng(1)
    steps = rng.normal(-0.5, 0.4, (n_patterns, 5, 12))
    correlation = np.full((n_patterns, n_patterns), 0.5) + 0.5 * np.eye(n_patterns)
    posterior = SeverityPosterior.build(steps, steps.reshape(-1, 12).T, correlation)
    numbers = rng.normal(-2, 2, (40, 12)) @ steps.reshape(-1, 12).T
    by_factors, by_points = (
        posterior.summarise(numbers),
        posterior._summarise_by_points(numbers),
    )
    for name, values in by_points._asdict().items():
        np.testing.assert_allclose(
            getattr(by_factors, name), values, rtol=1e-9, atol=1e-12, err_msg=name
        )
    np.testing.assert_allclose(
        posterior.compute_means(numbers),
        compute_means_by_points(posterior, numbers),
        rtol=1e-9,
    )


@pytest.mark.parametrize("n_patterns", [1, 2, 3])
def test_no_people_have_no_means(n_patterns: int) -> None:
    steps = np.random.default_rng(1).normal(-0.5, 0.4, (n_patterns, 5, 12))
    posterior = SeverityPosterior.build(
        steps, steps.reshape(-1, 12).T, np.eye(n_patterns)
    )
    means = posterior.compute_means(np.zeros((0, n_patterns * 5)))
    assert means.shape == (0, n_patterns)


def test_interacting_patterns_are_summed_point_by_point() -> None:
    rng = np.random.default_rng(3)
    steps, people = rng.normal(-0.5, 0.4, (2, 5, 12)), rng.normal(-2, 2, (40, 12))
    weights, interaction = steps.reshape(-1, 12).T, np.array([[0.0, 0.5], [0.2, 0.0]])
    posterior = SeverityPosterior.build(steps, weights, np.eye(2), interaction)
    summary = posterior.summarise(people @ weights)
    density = np.exp(people @ weights @ posterior.basis.T + posterior.offset)
    np.testing.assert_allclose(summary.log_sum, np.log(density.mean(axis=1)), rtol=1e-9)


def test_variances_are_those_of_the_points() -> None:
    rng = np.random.default_rng(4)
    steps, people = rng.normal(-0.5, 0.4, (2, 5, 12)), rng.normal(-2, 2, (40, 12))
    weights = steps.reshape(-1, 12).T
    posterior = SeverityPosterior.build(steps, weights, np.eye(2))
    for person, variance in zip(
        people, posterior.compute_variances(people @ weights), strict=True
    ):
        density = np.exp(person @ weights @ posterior.basis.T + posterior.offset)
        for m, points in enumerate(posterior.points.T):
            mean = np.average(points, weights=density)
            assert variance[m] == pytest.approx(
                np.average((points - mean) ** 2, weights=density)
            )


def test_people_far_from_everyone_are_summed_point_by_point() -> None:
    rng = np.random.default_rng(2)
    steps = rng.normal(
        -2.0, 0.5, (3, 5, 12)
    )  # overlapping patterns: the most likely levels are not those of each alone
    posterior = SeverityPosterior.build(steps, steps.reshape(-1, 12).T, np.eye(3))
    numbers = (
        np.concatenate([rng.normal(0, 1, (3, 12)), rng.normal(-3000, 1, (2, 12))])
        @ steps.reshape(-1, 12).T
    )
    means = posterior.compute_means(numbers)
    assert np.isfinite(means).all()
    np.testing.assert_allclose(
        means, compute_means_by_points(posterior, numbers), rtol=1e-9
    )
    for rows in (slice(None), slice(3, None)):
        by_factors, by_points = (
            posterior.summarise(numbers[rows]),
            posterior._summarise_by_points(numbers[rows]),
        )
        np.testing.assert_allclose(by_factors.log_sum, by_points.log_sum, rtol=1e-9)


@pytest.mark.parametrize("n_people", [30, 200, 4_500])
@pytest.mark.parametrize("has_interaction", [False, True])
def test_means_of_groups_equal_those_of_a_posterior_for_each_group(
    n_people: int, has_interaction: bool
) -> None:
    rng = np.random.default_rng(0)
    n_groups = 10 if n_people < 1_000 else 400
    roots = rng.normal(size=(n_groups, 10, 10))
    grams = roots @ roots.transpose(0, 2, 1) / 10
    correlation = np.array([[1.0, 0.4], [0.4, 1.0]])
    interaction = np.array([[0.0, 0.8], [-0.5, 0.0]]) if has_interaction else None
    group = np.sort(
        np.concatenate(
            [np.arange(n_groups), rng.integers(n_groups, size=n_people - n_groups)]
        )
    )
    numbers = rng.normal(size=(n_people, 10))
    means = compute_group_means(numbers, group, grams, correlation, interaction)
    for k in range(0, n_groups, 7):
        posterior = SeverityPosterior.from_gram(
            grams[k], compute_log_copula(correlation), 2, interaction
        )
        expected = compute_means_by_points(posterior, numbers[group == k])
        np.testing.assert_allclose(means[group == k], expected, rtol=0, atol=1e-10)

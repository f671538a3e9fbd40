"""Severity weights and sparse refinement on data whose truth is known."""

import numpy as np
from scipy.stats import multivariate_normal

from rindices.learners.contrastive.rotation import (
    PeopleMoments,
    compute_severity_weights,
    refine_patterns,
)


def test_severity_weights_are_generalised_least_squares() -> None:
    rng = np.random.default_rng(0)
    noise = np.cov(rng.normal(size=(60, 8)) @ rng.normal(size=(8, 8)), rowvar=False)
    patterns, person = rng.normal(size=(8, 2)), rng.normal(size=8)
    severity = person @ compute_severity_weights(patterns, noise)
    likelihood = multivariate_normal(person, noise)
    best = likelihood.logpdf(patterns @ severity)
    for _ in range(50):
        assert (
            likelihood.logpdf(patterns @ (severity + 0.1 * rng.normal(size=2))) < best
        )


def test_refinement_brings_patterns_closer_to_the_truth() -> None:
    rng = np.random.default_rng(0)
    regions, true = 40, np.zeros((40, 2))
    true[:6, 0], true[20:26, 1] = -1.5, -1.5
    mixing = np.eye(regions) + 0.5
    noise = mixing @ mixing.T / regions
    patients = rng.uniform(0, 2, (200, 2)) @ true.T + rng.multivariate_normal(
        np.zeros(regions), noise, 200
    )
    rough = true + 0.3 * rng.normal(size=true.shape)
    refined = refine_patterns(PeopleMoments.compute(patients), rough, noise, 10)
    assert np.abs(refined - true).mean() < 0.5 * np.abs(rough - true).mean()


def test_refinement_returns_merged_patterns_unchanged() -> None:
    rng = np.random.default_rng(0)
    same = np.repeat(rng.normal(size=(10, 1)), 2, axis=1) + 1e-9 * rng.normal(
        size=(10, 2)
    )
    refined = refine_patterns(
        PeopleMoments.compute(rng.normal(size=(30, 10))), same, np.eye(10), 5
    )
    np.testing.assert_array_equal(refined, same)

"""Covariance of normal variation, with and without a reference population."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf

import rindices as ri
from rindices._typing import FloatArray
from rindices.learners.contrastive.estimator import compute_difference_weights
from rindices.learners.normal_variation import (
    REFERENCE_WEIGHTS,
    ReferenceTarget,
    _compute_log_likelihood,
    estimate_covariance,
)

N_REGIONS = 60


@pytest.fixture(scope="module")
def truth() -> FloatArray:
    """A correlation matrix with a few factors."""
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(N_REGIONS, 6))
    covariance = loadings @ loadings.T + np.diag(rng.uniform(1, 3, N_REGIONS))
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale)


def draw(covariance: FloatArray, number: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).multivariate_normal(
        np.zeros(len(covariance)), covariance, number
    )


def shuffle_regions(correlation: FloatArray, seed: int = 0) -> FloatArray:
    order = np.random.default_rng(seed).permutation(len(correlation))
    return correlation[np.ix_(order, order)]


def test_without_a_reference_it_is_the_ledoit_wolf_covariance(
    truth: FloatArray,
) -> None:
    people = draw(truth, 50, 1)
    np.testing.assert_allclose(
        estimate_covariance(people), ledoit_wolf(people)[0], atol=1e-8
    )
    assert ReferenceTarget.choose(people, None) is None


def test_the_log_likelihood_is_that_of_scipy(truth: FloatArray) -> None:
    people = draw(truth, 7, 2)
    expected = multivariate_normal(np.zeros(N_REGIONS), truth).logpdf(people).sum()
    constant = 0.5 * 7 * N_REGIONS * np.log(2 * np.pi)
    assert _compute_log_likelihood(people, truth) == pytest.approx(expected + constant)


def test_a_true_reference_gets_weight_and_a_wrong_one_hardly_any(
    truth: FloatArray,
) -> None:
    rights, wrongs = [], []
    for seed in range(5):
        people = draw(truth, 50, seed) * 3.0 + 1.0  # scale and mean are the study's own
        right = ReferenceTarget.choose(people, truth)
        wrong = ReferenceTarget.choose(people, shuffle_regions(truth, seed))
        assert right is not None
        assert wrong is not None
        rights.append(right.weight)
        wrongs.append(wrong.weight)
    assert min(rights) >= 0.6
    assert max(wrongs) <= 0.2
    assert set(rights) | set(wrongs) <= set(REFERENCE_WEIGHTS)


def test_the_covariance_is_nearer_to_the_truth(truth: FloatArray) -> None:
    people = draw(truth, 50, 3) * 2.0
    target = ReferenceTarget.choose(people, truth)
    errors = [
        np.linalg.norm(estimate_covariance(people, used) - 4.0 * truth)
        for used in (None, target)
    ]
    assert errors[1] < 0.7 * errors[0]


def test_the_mean_difference_is_sharper_with_a_reference_and_no_worse_with_a_wrong_one(
    truth: FloatArray,
) -> None:
    """Twenty studies of 55 people; the distance of the groups in the true population,
    in standard deviations.
    """
    y = np.repeat([0, 1], [25, 30])
    separation = np.zeros((20, 3))
    for seed in range(20):
        shift = np.where(np.random.default_rng(seed).random(N_REGIONS) < 0.3, -0.4, 0.0)
        people = draw(truth, 55, seed) + np.outer(y, shift)
        for k, reference in enumerate((None, truth, shuffle_regions(truth, seed))):
            weights = compute_difference_weights(people, y, reference)[:, 0]
            separation[seed, k] = shift @ weights / np.sqrt(weights @ truth @ weights)
    alone, right, wrong = separation.mean(axis=0)
    assert right > alone + 0.03
    assert wrong > alone - 0.01


@pytest.mark.parametrize("rotation", ["likelihood", "ica"])
def test_the_contrastive_learner_takes_a_reference(
    truth: FloatArray, rotation: str
) -> None:
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [40, 60])
    pattern = np.where(np.arange(N_REGIONS) < 10, -2.0, 0.0)
    severity = rng.uniform(size=100) * y
    people = draw(truth, 100, 5) + np.outer(severity, pattern)
    correlations = []
    for reference in (None, truth):
        learner = ri.ContrastiveICA(1, 0, rotation=rotation, reference=reference).fit(
            people, y
        )
        correlations.append(
            np.corrcoef(learner.transform(people)[y == 1, 0], severity[y == 1])[0, 1]
        )
    assert correlations[1] > correlations[0] + 0.01

"""The index of the mean difference."""

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf

import rindices as ri
from rindices.errors import InputError
from rindices.learners.contrastive.estimator import (
    SHRINKAGES,
    MeanDifference,
    compute_difference_weights,
)


def simulate(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [60, 80])
    X = rng.normal(size=(140, 8)) + rng.normal(size=(140, 1))
    X[y == 1, :4] -= 1.0
    return X, y


def test_weights_against_a_plain_computation() -> None:
    X, y = simulate()
    groups = [X[y == label] for label in (0, 1)]
    pooled = np.concatenate([group - group.mean(axis=0) for group in groups])
    scale = pooled.std(axis=0)
    covariance = ledoit_wolf(pooled / scale)[0]
    difference = (groups[1].mean(axis=0) - groups[0].mean(axis=0)) / scale
    expected = np.zeros(8)
    for share in SHRINKAGES:
        direction = (
            np.linalg.inv((1 - share) * covariance + share * np.eye(8)) @ difference
        )
        expected += (
            direction
            / np.sqrt(direction @ covariance @ direction)
            / len(SHRINKAGES)
            / scale
        )
    np.testing.assert_allclose(
        compute_difference_weights(X, y)[:, 0], expected, rtol=1e-6
    )


def test_the_index_is_zero_for_controls_and_one_for_severe_patients() -> None:
    X, y = simulate()
    learner = MeanDifference().fit(X, y)
    r = learner.transform(X)[:, 0]
    assert r[y == 0].mean() == pytest.approx(0.0, abs=1e-6)
    assert np.quantile(r[y == 1], 0.98) == pytest.approx(1.0, abs=1e-6)
    assert (learner.patterns_[0, :4] < 0).all()
    # the pattern at R-index 1 moves the average control by 1
    moved = learner.control_mean_ + learner.control_scale_ * learner.patterns_[0]
    assert learner.transform(moved[None, :])[0, 0] == pytest.approx(1.0, abs=1e-6)


def test_it_has_one_index_only() -> None:
    with pytest.raises(InputError, match="give 1"):
        MeanDifference(2).fit(*simulate())


def test_a_method_of_its_own() -> None:
    cohort = ri.simulate_cohort("tiny", seed=0).cohort
    model = ri.fit(cohort, 1, method="mean-difference", members=4)
    assert model.n_patterns == 1
    assert model.card.method is not None
    assert model.card.method.name == "mean-difference"

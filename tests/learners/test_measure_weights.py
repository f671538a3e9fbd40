"""Kinds of measures are weighted by how much they differ between the groups."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from rindices.learners.contrastive.estimator import (
    MIN_WEIGHT,
    MeanDifference,
    compute_difference_weights,
    compute_measure_weights,
)
from rindices.learners.ensemble import fit_linear_members
from rindices.learners.prepared_people import PreparedPeople

KINDS = np.repeat([0, 1], [60, 15])


def test_a_kind_that_differs_has_weight_1_and_one_that_does_not_the_least() -> None:
    rng = np.random.default_rng(0)
    difference = np.where(KINDS == 1, 0.6, 0.0) + rng.normal(0, 0.1, 75)
    weights = compute_measure_weights(difference, 0.1, np.eye(75), KINDS)
    np.testing.assert_array_equal(weights[KINDS == 1], 1.0)
    np.testing.assert_array_equal(weights[KINDS == 0], MIN_WEIGHT)


def test_weights_are_variances_of_the_true_differences() -> None:
    rng = np.random.default_rng(1)
    kinds = np.repeat([0, 1], 1000)
    difference = rng.normal(0, np.where(kinds == 1, 0.2, 0.4)) + rng.normal(
        0, 0.1, 2000
    )
    weights = compute_measure_weights(difference, 0.1, np.eye(2000), kinds)
    assert weights[0] == 1.0
    assert weights[-1] == pytest.approx(0.25, abs=0.04)


def test_correlations_are_allowed_for() -> None:
    """A difference that all regions of a kind share by chance, because they are
    correlated, is no evidence.
    """
    correlation = np.eye(75)
    shared = KINDS == 1
    correlation[np.ix_(shared, shared)] = 0.9 + 0.1 * np.eye(15)
    difference = np.where(shared, 0.15, np.random.default_rng(0).normal(0, 0.3, 75))
    weights = compute_measure_weights(difference, 0.1, correlation, KINDS)
    np.testing.assert_array_equal(weights[shared], MIN_WEIGHT)


def test_without_any_difference_all_weights_are_1() -> None:
    difference = np.random.default_rng(2).normal(0, 0.1, 75)
    np.testing.assert_array_equal(
        compute_measure_weights(difference, 0.1, np.eye(75), KINDS), 1.0
    )


def make_people(seed: int, n_people: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Return people whose groups differ in the second kind alone."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_people) % 2
    people = rng.normal(size=(n_people, 75))
    people[:, KINDS == 1] += 0.35 * y[:, None]
    return people, y.astype(np.intp)


def test_noise_of_one_kind_does_not_drown_the_other() -> None:
    aucs = []
    for seed in range(20):
        people, y = make_people(seed)
        new, labels = make_people(1000 + seed, 1000)
        alone = np.zeros((75, 1))
        alone[KINDS == 1] = compute_difference_weights(people[:, KINDS == 1], y)
        scores = [
            compute_difference_weights(people, y),
            compute_difference_weights(people, y, kinds=KINDS),
            alone,
        ]
        aucs.append(
            [roc_auc_score(labels, (new @ weights)[:, 0]) for weights in scores]
        )
    without, balanced, alone_auc = np.mean(aucs, axis=0)
    assert balanced > without + 0.02
    assert balanced > alone_auc - 0.01


def test_members_pass_the_kinds_on() -> None:
    people, y = make_people(0)
    X = 1 + 0.1 * people
    members = [
        fit_linear_members(
            [PreparedPeople(X=X, y=y, kinds=kinds)], 1, (0,), 0, learner=MeanDifference
        )[0]
        for kinds in (None, KINDS)
    ]
    shares = []
    for member in members:
        weights = member.head.weights[:, 0]  # type: ignore[union-attr]
        shares.append(np.abs(weights[KINDS == 0]).sum() / np.abs(weights).sum())
    assert shares[1] < 0.5 * shares[0]

"""Stability and carriers of patterns in simulated cohorts."""

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.suites.trust_cohorts import simulate_batch_cohort
from rindices._typing import FloatArray
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.learners.contrastive.estimator import (
    ContrastiveICA,
    MeanDifference,
    compute_difference_weights,
)
from rindices.learners.ensemble import (
    _estimate_auc,
    _estimate_carrier_share,
    assess_pattern_stability,
)
from rindices.learners.prepared_people import PreparedPeople
from rindices.preprocess.pipeline import Preprocessing


def test_share_of_carriers_equals_a_known_share() -> None:
    rng = np.random.default_rng(0)
    controls = rng.normal(size=(5000, 1))
    patients = np.concatenate(
        [rng.normal(size=(600, 1)), 50 + rng.normal(size=(400, 1))]
    )
    np.testing.assert_allclose(
        _estimate_carrier_share(controls, patients), 0.4, atol=0.02
    )
    np.testing.assert_allclose(
        _estimate_carrier_share(controls, controls), 0.0, atol=0.001
    )


def test_auc_equals_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    controls, patients = (
        rng.normal(size=(40, 2)).round(1),
        rng.normal(0.5, 1, size=(60, 2)).round(1),
    )  # with ties
    labels = np.repeat([0, 1], [40, 60])
    expected = [
        roc_auc_score(labels, column)
        for column in np.concatenate([controls, patients]).T
    ]
    np.testing.assert_allclose(_estimate_auc(controls, patients), expected)


def learn_difference(people: PreparedPeople, patterns: FloatArray) -> FloatArray:
    return compute_difference_weights(people.X, people.y)


def test_figures_are_those_of_people_who_were_left_out() -> None:
    """Where groups do not differ and regions are many, a fit separates its own people
    and nobody else.
    """
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(120, 60)), np.repeat([0, 1], 60)
    learner = MeanDifference().fit(X, y)
    indices = learner.transform(X)
    assert roc_auc_score(y, indices[:, 0]) > 0.8
    result = assess_pattern_stability(
        PreparedPeople(X=X, y=y),
        indices,
        learner.patterns_,
        learn_weights=learn_difference,
    )
    assert abs(result.split_half.mean()) < 0.3


def test_true_patterns_are_stable_and_a_shuffled_one_is_not() -> None:
    cohort = simulate_cohort("basic", 0).cohort
    X, y = (
        Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    learner = ContrastiveICA(3, 0).fit(X, y)
    shuffled = learner.patterns_.copy()
    shuffled[2] = np.random.default_rng(0).permutation(shuffled[2])
    result = assess_pattern_stability(
        PreparedPeople(X=X, y=y),
        learner.transform(X),
        learner.patterns_,
        bootstraps=4,
        splits=4,
    )
    assert result.stability.shape == result.split_half.shape == (4, 3)
    assert result.split_half.mean(axis=0).min() > 0.9
    assert result.stability.mean(axis=0).min() > 0.95
    other = assess_pattern_stability(
        PreparedPeople(X=X, y=y), learner.transform(X), shuffled, bootstraps=1, splits=4
    )
    assert other.split_half.mean(axis=0)[2] < result.split_half.mean(axis=0)[2] - 0.1


def test_a_batch_of_a_tenth_of_patients_is_less_stable_than_patterns() -> None:
    simulated, batch = simulate_batch_cohort(0, TASKS["basic"], 0.1)
    cohort = simulated.cohort
    X, y = (
        Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    learner = ContrastiveICA(4, 0, rotation="ica").fit(X, y)
    indices = learner.transform(X)
    difference = indices[y == 1][batch == 1].mean(axis=0) - indices[y == 1][
        batch == 0
    ].mean(axis=0)
    nuisance = int(np.argmax(difference / indices[y == 1].std(axis=0)))
    result = assess_pattern_stability(
        PreparedPeople(X=X, y=y), indices, learner.patterns_, bootstraps=4, splits=4
    )
    for figure in (result.stability.mean(axis=0), result.split_half.mean(axis=0)):
        assert figure[nuisance] < np.delete(figure, nuisance).min()

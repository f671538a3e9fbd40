"""What other people make of each pattern."""

import numpy as np
import pytest

from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.experiments.trust_cohorts import simulate_batch_cohort
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.learners.pattern_stability import (
    assess_pattern_stability,
    bootstrap_carrier_share,
    estimate_carrier_share,
)
from rindices.preprocess.pipeline import Preprocessing


def test_carriers_against_a_count() -> None:
    rng = np.random.default_rng(0)
    controls = rng.normal(size=(5000, 1))
    patients = np.concatenate([rng.normal(size=(600, 1)), 50 + rng.normal(size=(400, 1))])
    np.testing.assert_allclose(estimate_carrier_share(controls, patients), 0.4, atol=0.02)
    np.testing.assert_allclose(estimate_carrier_share(controls, controls), 0.0, atol=0.001)


def test_the_interval_of_carriers_covers_the_truth() -> None:
    """40 of 100 patients are far away, the others are controls; other people of both kinds are drawn."""
    rng = np.random.default_rng(2)
    held, cohorts = np.zeros(6), 40
    for _ in range(cohorts):
        controls, patients = rng.normal(size=(150, 6)), rng.normal(size=(200, 6))
        patients[rng.random((200, 6)) < 0.4] += 9.0
        low, high = bootstrap_carrier_share(controls, patients, rng)
        held += (low <= 0.4) & (high >= 0.4)
    assert held.mean() / cohorts == pytest.approx(0.95, abs=0.04)


def test_true_patterns_are_reproduced_and_a_made_up_one_is_not() -> None:
    cohort = simulate_cohort("basic", 0).cohort
    X, y = Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp)
    learner = ContrastiveICA(3, 0).fit(X, y)
    made_up = learner.patterns_.copy()
    made_up[2] = np.random.default_rng(0).permutation(made_up[2])
    seen = assess_pattern_stability(X, y, learner.transform(X), learner.patterns_, bootstraps=4, splits=4)
    assert seen.stability.shape == seen.split_half.shape == (4, 3)
    assert seen.split_half.mean(axis=0).min() > 0.9
    assert seen.stability.mean(axis=0).min() > 0.95
    assert seen.carriers.min() > 0.7
    other = assess_pattern_stability(X, y, learner.transform(X), made_up, bootstraps=1, splits=4)
    assert other.split_half.mean(axis=0)[2] < seen.split_half.mean(axis=0)[2] - 0.1


def test_a_batch_in_a_tenth_of_the_patients_ranks_below_the_patterns() -> None:
    made, batch = simulate_batch_cohort(0, TASKS["basic"], 0.1)
    cohort = made.cohort
    X, y = Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp)
    learner = ContrastiveICA(4, 0, rotation="ica").fit(X, y)
    indices = learner.transform(X)
    apart = indices[y == 1][batch == 1].mean(axis=0) - indices[y == 1][batch == 0].mean(axis=0)
    nuisance = int(np.argmax(apart / indices[y == 1].std(axis=0)))
    seen = assess_pattern_stability(X, y, indices, learner.patterns_, bootstraps=4, splits=4)
    for figure in (seen.stability.mean(axis=0), seen.split_half.mean(axis=0), seen.carriers):
        assert figure[nuisance] < np.delete(figure, nuisance).min()

"""The basis that is found in rounds is the one that the pooled learner finds."""

import numpy as np

from rindices.federated.adjustment import ask_for_adjustment, ask_for_transform
from rindices.federated.ensemble import ask_for_moments, fit_starts
from rindices.federated.rounds import Rounds
from rindices.federated.subsets import SubsetPlan
from rindices.learners.contrastive.estimator import fit_contrastive_likelihood
from rindices.learners.contrastive.stepwise import StartTask
from rindices.learners.normal_variation import estimate_covariance
from tests.federated.sites import make_transport, simulate_people, split_cohort

COHORT, PLAN = simulate_people(), SubsetPlan(0, 2)
ROUNDS = Rounds(make_transport(split_cohort(COHORT, 2)))
SUMS = ask_for_adjustment(ROUNDS, None)
PREPARED = ask_for_transform(ROUNDS, SUMS.fit_preprocessing(), COHORT.n_controls, PLAN)
MOMENTS = ask_for_moments(PREPARED)
PREPARATION = PREPARED.preparation
SHIFTS = PREPARATION.head.prepare(PREPARATION.preprocessing.transform(COHORT))


def test_covariance_is_that_of_pooled_people() -> None:
    np.testing.assert_allclose(
        MOMENTS["all", "patients"].estimate_covariance(),
        estimate_covariance(SHIFTS[COHORT.is_patient]),
        atol=1e-9,
    )


def test_basis_is_that_of_the_pooled_learner() -> None:
    controls, patients = SHIFTS[COHORT.is_control], SHIFTS[COHORT.is_patient]
    expected = fit_contrastive_likelihood(controls, patients, 3, seed=0).patterns
    before = len(ROUNDS.records)
    model = fit_starts(PREPARED, MOMENTS, ["all"], [3])["all", 3]
    assert len(ROUNDS.records) - before <= 32
    found = model.steps.sum(axis=1).T
    correlations = np.abs(np.corrcoef(found.T, expected.T)[:3, 3:])
    assert (correlations.max(axis=1) > 0.999).all()


def test_the_space_needs_no_round() -> None:
    before = len(ROUNDS.records)
    task = StartTask("all", 2, MOMENTS, np.random.default_rng(0))
    assert task.patterns.shape == (COHORT.n_regions, 2)
    assert len(ROUNDS.records) == before

"""Adjustment, transform and effects from sums equal those of the pooled people."""

import numpy as np

from rindices.federated.adjustment import SHARES, ask_for_adjustment, ask_for_transform
from rindices.federated.rounds import Rounds
from rindices.federated.subsets import SubsetPlan
from rindices.learners.inference import fit_log_transform
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.group_difference import estimate_region_effects
from tests.federated.sites import make_transport, simulate_people, split_cohort

COHORT = simulate_people()
ROUNDS = Rounds(make_transport(split_cohort(COHORT, 3)))
SUMS = ask_for_adjustment(ROUNDS, None)


def test_preprocessing_is_that_of_pooled_people() -> None:
    pooled, divided = Preprocessing.fit(COHORT), SUMS.fit_preprocessing()
    assert divided.adjust == pooled.adjust == "log"
    assert [coding.name for coding in divided.residualiser.codings] == ["age", "icv", "sex"]
    np.testing.assert_allclose(divided.transform(COHORT), pooled.transform(COHORT), atol=1e-9)


def test_no_extreme_value_of_a_covariate_leaves() -> None:
    coding = SUMS.fit_preprocessing().residualiser.codings[0]
    ages = COHORT.covariates["age"][COHORT.is_control]
    assert np.isclose(coding.high, ages.mean() + 2.5 * ages.std(ddof=0))


def test_effects_are_those_of_pooled_people() -> None:
    pooled = Preprocessing.fit(COHORT)
    design = np.column_stack([np.ones(len(COHORT)), pooled.residualiser.build_design(COHORT.covariates)])
    expected = estimate_region_effects(np.log(COHORT.volumes.to_numpy()), design, COHORT.is_patient)
    for own, other in zip(SUMS.estimate_effects(), expected, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-7)


def test_transform_is_that_of_pooled_people() -> None:
    preprocessing = SUMS.fit_preprocessing()
    head = ask_for_transform(ROUNDS, preprocessing, COHORT.n_controls, SubsetPlan(0, 2)).preparation.head
    values = preprocessing.transform(COHORT)
    z = (values - 1.0) / values[COHORT.is_control].std(axis=0)
    share = fit_log_transform([z[COHORT.is_control], z[COHORT.is_patient]])
    assert abs(float(head.share) - share) <= SHARES[1]
    shifts = head.prepare(values)[COHORT.is_control]
    np.testing.assert_allclose(shifts.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(shifts.std(axis=0), 1.0, atol=1e-9)


def test_training_distribution_is_that_of_pooled_people() -> None:
    preprocessing = SUMS.fit_preprocessing()
    distribution, number, own_share = SUMS.estimate_training_distribution(preprocessing)
    expected = TrainingDistribution.fit(preprocessing.transform(COHORT), range(len(COHORT)))
    assert number == len(COHORT)
    assert 0.5 < own_share <= 1.0
    np.testing.assert_allclose(distribution.mean, expected.mean, atol=1e-9)
    np.testing.assert_allclose(distribution.covariance, expected.covariance, rtol=0.2, atol=3e-4)

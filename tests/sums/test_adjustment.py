"""Adjustment, transform and effects from sums equal those of the pooled people."""

import numpy as np

from rindices.learners.contrastive.estimator import initialise_contrastive_head
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.group_difference import estimate_region_effects
from rindices.tables.cohort import ID
from tests.sums.sites import prepare_rounds, simulate_people, split_cohort

COHORT = simulate_people()
SUMS, PREPARED = prepare_rounds(split_cohort(COHORT, 3))


def test_preprocessing_is_that_of_pooled_people() -> None:
    pooled, divided = Preprocessing.fit(COHORT), SUMS.fit_preprocessing()
    assert divided.adjust == pooled.adjust == "log"
    assert [coding.name for coding in divided.residualiser.codings] == [
        "age",
        "icv",
        "sex",
    ]
    np.testing.assert_allclose(
        divided.transform(COHORT), pooled.transform(COHORT), atol=1e-9
    )


def test_no_extreme_value_of_a_covariate_leaves() -> None:
    coding = SUMS.fit_preprocessing().residualiser.codings[0]
    ages = COHORT.covariates["age"][COHORT.is_control]
    assert np.isclose(coding.high, ages.mean() + 2.5 * ages.std(ddof=0))


def test_effects_are_those_of_pooled_people() -> None:
    pooled = Preprocessing.fit(COHORT)
    design = np.column_stack(
        [np.ones(len(COHORT)), pooled.residualiser.build_design(COHORT.covariates)]
    )
    expected = estimate_region_effects(
        np.log(COHORT.volumes.to_numpy()), design, COHORT.is_patient
    )
    own = vars(SUMS.estimate_effects())
    for name, other in vars(expected).items():
        np.testing.assert_allclose(own[name], other, atol=1e-7)


def test_preparation_of_a_member_is_that_of_its_people() -> None:
    preparation, sites = PREPARED.preparations[1], PREPARED.rounds.transport.parts
    masks = {site.name: site.make_subsets(PREPARED.plan) for site in sites}
    seen = {
        group: [
            site.cohort.take(masks[site.name].find("member-1", group)) for site in sites
        ]
        for group in ("controls", "patients")
    }
    ids = {person for each in seen["controls"] for person in each.people[ID]}
    pooled = Preprocessing.fit(COHORT, seen=COHORT.people[ID].isin(ids).to_numpy())
    np.testing.assert_allclose(
        preparation.preprocessing.transform(COHORT), pooled.transform(COHORT), atol=1e-9
    )
    controls, patients = (
        np.concatenate([pooled.transform(each) for each in seen[group]])
        for group in seen
    )
    people, is_patient = (
        np.concatenate([controls, patients]),
        np.arange(len(controls) + len(patients)) >= len(controls),
    )
    expected = initialise_contrastive_head(people, is_patient, 1, straighten=True)
    for name in (
        "control_mean",
        "control_scale",
        "log_constant",
        "shift_mean",
        "shift_scale",
    ):
        np.testing.assert_allclose(
            getattr(preparation.head, name), getattr(expected, name), atol=1e-9
        )


def test_training_distribution_is_that_of_pooled_people() -> None:
    preprocessing = SUMS.fit_preprocessing()
    distribution, number, own_share = SUMS.estimate_training_distribution(preprocessing)
    expected = TrainingDistribution.fit(
        preprocessing.transform(COHORT), range(len(COHORT))
    )
    assert number == len(COHORT)
    assert 0.5 < own_share <= 1.0
    np.testing.assert_allclose(distribution.mean, expected.mean, atol=1e-9)
    np.testing.assert_allclose(
        distribution.covariance, expected.covariance, rtol=0.2, atol=3e-4
    )

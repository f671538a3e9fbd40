"""Sites answer the questions of a fit as people in memory do."""

from dataclasses import replace

import numpy as np
import pytest

from rindices.learners.contrastive.estimator import solve_people
from rindices.learners.contrastive.linear_start import (
    GroupMoments,
    MomentsQuestion,
    fit_linear_start,
)
from rindices.learners.contrastive.whole_cohort_start import (
    compute_group_loss,
    fit_whole_cohort_start,
    solve_whole_cohort,
    sum_group_losses,
)
from rindices.learners.people_source import PeopleSet
from rindices.learners.trajectory.expectation import (
    CurveQuestion,
    CurveSums,
    compute_log_ratio,
)
from rindices.learners.trajectory.model import make_trajectory_head
from rindices.learners.trajectory.starts import GroupLossQuestion, make_trajectory_start
from rindices.sums.messages import number_arrays
from rindices.sums.questions import PeopleInParts, ask_for_moments, pack_model
from rindices.sums.subsets import SAMPLE
from tests.sums.sites import prepare_rounds, simulate_people, split_cohort

COHORT, SEEN, UNSEEN = simulate_people(), PeopleSet(0, "seen"), PeopleSet(0, "unseen")
COHORTS = split_cohort(COHORT, 2)
PREPARED = prepare_rounds(COHORTS)[1]
ROUNDS, PREPARATION = PREPARED.rounds, PREPARED.preparations[0]
SOURCE = PeopleInParts(PREPARED, ask_for_moments(PREPARED))


def pool(name: str, group: str) -> np.ndarray:
    """Shifts of the people of a set at both sites."""
    parts = []
    for site in ROUNDS.transport.parts:
        mask = site.make_subsets(PREPARED.plan).find(name, group)
        parts.append(
            PREPARATION.head.prepare(
                PREPARATION.preprocessing.transform(site.cohort.take(mask))
            )
        )
    return np.concatenate(parts)


CONTROLS, PATIENTS = (pool("member-0", group) for group in ("controls", "patients"))


def test_moments_are_those_of_pooled_people() -> None:
    found = SOURCE.sum(MomentsQuestion(SEEN))
    np.testing.assert_allclose(
        found.patients.products, PATIENTS.T @ PATIENTS, atol=1e-8
    )
    np.testing.assert_allclose(found.controls.mean, CONTROLS.mean(axis=0), atol=1e-10)


def test_the_linear_start_is_that_of_pooled_people() -> None:
    before = len(ROUNDS.records)
    start = fit_linear_start(SOURCE, SEEN, 3, np.random.default_rng(0))
    assert len(ROUNDS.records) - before <= 60
    expected = solve_people(CONTROLS, PATIENTS, 3, seed=0)
    correlations = np.abs(np.corrcoef(start.patterns.T, expected.patterns.T)[:3, 3:])
    assert (correlations.max(axis=1) > 0.999).all()


def test_the_whole_cohort_start_is_that_of_pooled_people() -> None:
    before = len(ROUNDS.records)
    for n_patterns in (1, 2, 3):
        start = fit_whole_cohort_start(SOURCE, SEEN, n_patterns)
        expected = solve_whole_cohort(
            GroupMoments.compute(CONTROLS, PATIENTS), n_patterns
        )
        np.testing.assert_allclose(start.patterns, expected.patterns, atol=1e-10)
        np.testing.assert_allclose(start.noise, expected.noise, atol=1e-10)
        np.testing.assert_allclose(
            start.prior.quantiles, expected.prior.quantiles, rtol=1e-9
        )
    assert len(ROUNDS.records) == before  # moments are known


def test_group_losses_are_those_of_pooled_people() -> None:
    models = [
        make_trajectory_start(solve_people(CONTROLS, PATIENTS, number, seed=0))
        for number in (1, 2)
    ]
    before = len(ROUNDS.records)
    found = SOURCE.sum_each([GroupLossQuestion(UNSEEN, model) for model in models])
    assert len(ROUNDS.records) == before + 1
    people = [pool("held-out-0", group) for group in ("controls", "patients")]
    for loss, model in zip(found, models, strict=True):
        ratios = [compute_log_ratio(each, model) for each in people]
        sums = [
            sum_group_losses(each, is_patient)
            for each, is_patient in zip(ratios, (False, True), strict=True)
        ]
        assert loss == pytest.approx(
            compute_group_loss(*sums, *map(len, people)), rel=1e-10
        )


@pytest.mark.parametrize("interacting", [False, True])
def test_sums_of_curves_are_those_of_pooled_people(interacting: bool) -> None:
    model = make_trajectory_start(solve_people(CONTROLS, PATIENTS, 2, seed=0))
    if interacting:
        model = replace(model, interaction=np.array([[0.0, 0.3], [-0.1, 0.0]]))
    before = len(ROUNDS.records)
    found = SOURCE.sum(CurveQuestion(SEEN, UNSEEN, model))
    assert len(ROUNDS.records) == before + 1
    expected = CurveSums.compute(
        model, CONTROLS, PATIENTS, pool("held-out-0", "patients")
    )
    for name, other in vars(expected.patients).items():
        own = getattr(found.patients, name)
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-7)
    for own, other in zip(found.controls, expected.controls, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-7)
    assert found.likelihood == pytest.approx(expected.likelihood, rel=1e-10)


@pytest.mark.parametrize("interacting", [False, True])
def test_indices_at_a_site_are_those_of_the_model(interacting: bool) -> None:
    model = make_trajectory_start(solve_people(CONTROLS, PATIENTS, 2, seed=0))
    if interacting:
        model = replace(model, interaction=np.array([[0.0, 0.6], [-0.1, 0.0]]))
    total = PREPARED.ask(
        "agreement", [0], {"members": [0]}, number_arrays([pack_model(model)])
    )
    head = make_trajectory_head(PREPARATION.head, model)[0]
    indices = head.finish(pool(SAMPLE, "patients") @ head.weights)
    np.testing.assert_allclose(total.arrays["sum"][0], indices.sum(axis=0), rtol=1e-8)

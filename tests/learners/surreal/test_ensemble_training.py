"""Members of an ensemble: inference, patterns, evidence, and the people they are trained on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from rindices.learners.inference import ContrastiveHead
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.surreal.ensemble_training import (
    TrainingData,
    extract_head,
    train_members,
    train_surreal_members,
)
from rindices.learners.surreal.recipe import get_recipe
from rindices.learners.surreal.train import train_stacks
from rindices.learners.surreal.training_state import TrainingPlan
from rindices.selection.agreement import pattern_c_index
from tests.learners.helpers import LinearCohort
from tests.learners.surreal.helpers import BRIEF, COHORT, PEOPLE, SHORT, X, make_data
from tests.learners.surreal.reference import infer_r_indices


def test_the_head_of_a_member_is_g() -> None:
    (trained,) = train_stacks(*PEOPLE, TrainingPlan(3, SHORT, dtype="float64"))
    expected = infer_r_indices(trained.weights, torch.as_tensor(PEOPLE[1]))
    np.testing.assert_allclose(extract_head(trained.weights).infer(PEOPLE[1]), expected, atol=1e-12)


def test_default_members_rank_severities_and_bring_evidence() -> None:
    members = train_surreal_members(PreparedPeople(X, COHORT.y), 2, (0, 1), 0, BRIEF)
    for member in members:
        assert isinstance(member.head, ContrastiveHead)
        assert member.outcome is TrainingOutcome.CONVERGED
        assert pattern_c_index(COHORT.z, member.head.infer(X[COHORT.y == 1])).mean > 0.8
        assert member.evidence is not None
        assert member.evidence[0] > 0.7
        assert member.patterns.shape == (4, 2, 24)
    assert not np.array_equal(members[0].head.weights, members[1].head.weights)  # other people, other member


def test_evidence_is_trained_as_far_as_the_members_were() -> None:
    never = BRIEF.replace(telling_bar=5.0)  # a bar that no D reaches
    stopped, trained = (
        train_surreal_members(PreparedPeople(X, COHORT.y), 2, (0,), 0, chosen)
        for chosen in (BRIEF.replace(telling_bar=0.01), never)
    )
    assert (stopped[0].steps, trained[0].steps) == (30, 60)
    assert stopped[0].evidence != trained[0].evidence


def test_warm_members_that_read_by_g_bring_evidence_too() -> None:
    chosen = BRIEF.replace(straighten=False, inverse="g", telling_bar=5.0)
    (member,) = train_surreal_members(PreparedPeople(X, COHORT.y), 2, (0,), 0, chosen)
    assert member.head.kind == "surreal"
    assert member.evidence is not None
    assert 0 <= member.evidence[0] <= 1


def test_groups_may_come_interleaved() -> None:
    rng = np.random.default_rng(0)
    mixed = np.empty(250, dtype=int)  # controls and patients among each other, each group in its own order
    positions = rng.permutation(250)
    mixed[np.sort(positions[:90])], mixed[np.sort(positions[90:])] = np.arange(90), 90 + np.arange(160)
    assert not np.array_equal(COHORT.y[mixed], COHORT.y)
    first = train_members(make_data(), TrainingPlan(2, BRIEF, members=(0,)))[0]
    again = train_members(
        TrainingData.from_people(PreparedPeople(X[mixed], COHORT.y[mixed]), 2, BRIEF),
        TrainingPlan(2, BRIEF, members=(0,)),
    )[0]
    assert np.array_equal(again.head.weights, first.head.weights)


def test_people_in_another_order_give_as_good_a_member() -> None:
    shuffled = np.random.default_rng(0).permutation(250)
    member = train_members(
        TrainingData.from_people(PreparedPeople(X[shuffled], COHORT.y[shuffled]), 2, BRIEF),
        TrainingPlan(2, BRIEF, members=(0,)),
    )[0]
    assert pattern_c_index(COHORT.z, member.head.infer(X[COHORT.y == 1])).mean > 0.8


# members that stop at their start, and members that train on
@pytest.mark.parametrize("bar", [pytest.param(0.01, marks=pytest.mark.slow), 5.0])
def test_threads_of_the_machine_change_no_byte(bar: float) -> None:
    many = LinearCohort(controls=492, patients=900, regions=139)  # enough for a second thread to be used
    recipe = BRIEF.replace(telling_bar=bar, start_steps=40, held_steps=10, max_steps=20)
    before, members = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with threadpool_limits(threads):
                members += train_surreal_members(PreparedPeople(1 + 0.1 * many.people, many.y), 2, (0,), 0, recipe)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    one, two = members
    assert np.array_equal(one.head.weights, two.head.weights)
    assert np.array_equal(one.patterns, two.patterns)
    assert one.evidence == two.evidence


def test_every_element_can_be_switched_off_alone() -> None:
    """As in the ablation: each variant trains, infers, and gives numbers of its own."""
    plain = get_recipe("paper", min_steps=0, max_steps=20, check_every=10)
    changes = (
        {},
        {"conditioning": "controls"},
        {"inverse": "refit"},
        {"share": 0.8},
        {"start": "ica", "start_steps": 20},
        {"decay": "cosine"},
    )
    r_indices = []
    for change in changes:
        members = train_members(
            make_data(plain.replace(**change)), TrainingPlan(2, plain.replace(**change), members=(0, 1))
        )
        r_indices.append(members[0].head.infer(X[COHORT.y == 1]))
    assert all(np.isfinite(r).all() for r in r_indices)
    assert all(np.abs(a - b).max() > 1e-6 for index, a in enumerate(r_indices) for b in r_indices[:index])

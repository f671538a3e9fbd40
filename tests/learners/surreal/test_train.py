"""The training loop: outcomes, histories, workers, a frozen f."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rindices.errors import RindicesError
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.surreal.losses import LossTerms
from rindices.learners.surreal.recipe import get_recipe
from rindices.learners.surreal.train import decide_outcomes, run_steps, train_stacks
from rindices.learners.surreal.training_state import TrainingPlan
from tests.learners.surreal.helpers import BRIEF, PEOPLE, SHORT, are_equal, make_data, make_starts, make_warm_state


def test_the_same_seed_gives_the_same_bytes() -> None:
    plan = TrainingPlan(2, SHORT, members=(0, 1, 2), stack=2)
    first = train_stacks(*PEOPLE, plan)
    assert are_equal(first, train_stacks(*PEOPLE, plan))
    assert are_equal(first, train_stacks(*PEOPLE, plan, workers=2))
    other = train_stacks(*PEOPLE, TrainingPlan(2, SHORT, seed=1, members=(0, 1, 2), stack=2))
    assert not are_equal(first, other)


def test_a_member_does_not_depend_on_the_other_stacks() -> None:
    both = train_stacks(*PEOPLE, TrainingPlan(2, SHORT, members=(0, 1), stack=1))
    assert are_equal(both[1:], train_stacks(*PEOPLE, TrainingPlan(2, SHORT, members=(1,))))


def test_a_member_that_never_meets_the_bars_reaches_the_limit() -> None:
    (only,) = train_stacks(*PEOPLE, TrainingPlan(2, SHORT))
    assert only.outcome is TrainingOutcome.STEP_LIMIT
    assert only.steps == 60
    assert only.history.shape == (6, 1 + len(LossTerms._fields))
    assert only.history[:, 0].tolist() == [10, 20, 30, 40, 50, 60]


def test_a_member_below_the_bars_stops_after_the_minimum() -> None:
    easy = SHORT.replace(reconstruction_bar=1e3, monotonicity_bar=1e3)
    (only,) = train_stacks(*PEOPLE, TrainingPlan(2, easy))
    assert only.outcome is TrainingOutcome.CONVERGED
    assert only.steps == 20


def test_members_leave_a_stack_one_by_one() -> None:
    free = SHORT.replace(min_steps=0)
    plan = TrainingPlan(2, free, members=(0, 1, 2), stack=3)
    losses = {
        m.member: m.history[:, 1 + LossTerms._fields.index("reconstruction")] for m in train_stacks(*PEOPLE, plan)
    }
    firsts = sorted(float(row[0]) for row in losses.values())
    bar = (firsts[0] + firsts[1]) / 2
    eager = TrainingPlan(2, free.replace(reconstruction_bar=bar, monotonicity_bar=1e3), members=(0, 1, 2), stack=3)
    trained = train_stacks(*PEOPLE, eager)
    assert [m.member for m in trained] == [0, 1, 2]
    assert min(m.steps for m in trained) == 10
    assert max(m.steps for m in trained) > 10


def test_a_diverging_member_is_named_and_the_others_go_on() -> None:
    wild = SHORT.replace(explosion_bar=1e-6)
    (only,) = train_stacks(*PEOPLE, TrainingPlan(2, wild))
    assert only.outcome is TrainingOutcome.DIVERGED
    assert only.steps == 10


def test_bad_tables_are_refused_with_a_cure() -> None:
    controls, patients = PEOPLE
    with pytest.raises(RindicesError, match="same regions"):
        train_stacks(controls[:, :5], patients, TrainingPlan(2, SHORT))
    holes = patients.copy()
    holes[7, 2] = np.nan
    with pytest.raises(RindicesError, match=r"rows \[7\]"):
        train_stacks(controls, holes, TrainingPlan(2, SHORT))
    with pytest.raises(RindicesError, match="people x regions"):
        train_stacks(controls[0], patients, TrainingPlan(2, SHORT))


def test_threads_of_the_machine_change_no_byte() -> None:
    plan = TrainingPlan(2, SHORT, members=(0, 1))
    before = torch.get_num_threads()
    trained = []
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            trained.append(train_stacks(*PEOPLE, plan))
    finally:
        torch.set_num_threads(before)
    assert are_equal(trained[0], trained[1])
    assert are_equal(trained[0], trained[2])


def test_f_is_frozen_and_then_released_gently() -> None:
    data = make_data(BRIEF.replace(telling_bar=0))
    state = make_warm_state(data, make_starts(data))
    f = torch.cat([w.flatten() for w in state.stack.weights.networks.f])
    g = state.stack.weights.networks.g1.weight.clone()
    run_steps(state, 30)
    frozen = torch.cat([w.flatten() for w in state.stack.weights.networks.f])
    assert torch.equal(f, frozen)
    assert not torch.equal(g, state.stack.weights.networks.g1.weight)
    run_steps(state, 1)
    moved = torch.cat([w.flatten() for w in state.stack.weights.networks.f]) - frozen
    assert 0 < moved.abs().max() <= 3 * BRIEF.learning_rate  # with fresh moments it would be 16 times the rate


def test_a_warm_member_stops_when_the_discriminator_is_at_chance() -> None:
    terms = LossTerms(*(torch.full((2,), 0.5) for _ in LossTerms._fields))
    at_chance = torch.tensor([True, False])
    assert decide_outcomes(terms, 20, BRIEF, at_chance) == [None, None]  # f is frozen
    assert decide_outcomes(terms, 30, BRIEF, at_chance) == [TrainingOutcome.CONVERGED, None]
    assert decide_outcomes(terms, 60, BRIEF, at_chance) == [TrainingOutcome.CONVERGED, TrainingOutcome.CONVERGED]
    assert decide_outcomes(terms, 60, get_recipe("paper", min_steps=0, max_steps=60))[0] is TrainingOutcome.STEP_LIMIT

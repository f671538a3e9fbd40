"""Training: the step against autograd and an unstacked reference, outcomes, histories,
workers, shares of people.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from rindices.learners.ensemble import TrainingOutcome
from rindices.learners.gan import losses, train
from rindices.learners.gan.losses import LossTerms
from rindices.learners.gan.recipe import TrainingPlan
from rindices.learners.gan.state import MemberStack, make_training_state
from rindices.learners.gan.train import (
    extract_head,
    train_stacks,
    train_surreal_members,
)
from rindices.learners.prepared_people import PreparedPeople
from tests.learners.gan.helpers import (
    PAPER,
    PEOPLE,
    SHORT,
    are_equal,
    draw_people,
    make_stack,
)
from tests.learners.gan.reference import Reference, infer_r_indices
from tests.learners.helpers import LinearCohort


def test_the_same_seed_gives_the_same_bytes() -> None:
    plan = TrainingPlan(patterns=2, recipe=SHORT, members=(0, 1, 2), stack=2)
    first = train_stacks(*PEOPLE, plan)
    assert are_equal(first, train_stacks(*PEOPLE, plan))
    assert are_equal(first, train_stacks(*PEOPLE, plan, workers=2))
    other = train_stacks(
        *PEOPLE,
        TrainingPlan(patterns=2, recipe=SHORT, seed=1, members=(0, 1, 2), stack=2),
    )
    assert not are_equal(first, other)


def test_a_member_does_not_depend_on_the_other_stacks() -> None:
    both = train_stacks(
        *PEOPLE, TrainingPlan(patterns=2, recipe=SHORT, members=(0, 1), stack=1)
    )
    assert are_equal(
        both[1:],
        train_stacks(*PEOPLE, TrainingPlan(patterns=2, recipe=SHORT, members=(1,))),
    )


def test_a_member_that_never_meets_the_bars_reaches_the_limit() -> None:
    (only,) = train_stacks(*PEOPLE, TrainingPlan(patterns=2, recipe=SHORT))
    assert only.outcome is TrainingOutcome.STEP_LIMIT
    assert only.steps == 60


def test_a_member_below_the_bars_stops_after_the_minimum() -> None:
    easy = SHORT.replace(reconstruction_bar=1e3, monotonicity_bar=1e3)
    (only,) = train_stacks(*PEOPLE, TrainingPlan(patterns=2, recipe=easy))
    assert only.outcome is TrainingOutcome.CONVERGED
    assert only.steps == 20


def test_bars_that_are_met_before_the_minimum_are_not_convergence() -> None:
    easy = SHORT.replace(reconstruction_bar=1e3, monotonicity_bar=1e3, min_steps=100)
    (only,) = train_stacks(*PEOPLE, TrainingPlan(patterns=2, recipe=easy))
    assert (only.outcome, only.met_bars, only.steps) == (
        TrainingOutcome.STEP_LIMIT,
        True,
        60,
    )
    (hard,) = train_stacks(*PEOPLE, TrainingPlan(patterns=2, recipe=SHORT))
    assert not hard.met_bars


def test_a_check_has_the_means_of_the_losses_since_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken, take_step = [], train.take_step
    monkeypatch.setattr(
        train, "take_step", lambda *a: taken.append(take_step(*a)) or taken[-1]
    )
    (only,) = train_stacks(
        *PEOPLE, TrainingPlan(patterns=2, recipe=SHORT.replace(max_steps=25))
    )
    each = torch.stack([terms.stack()[:, 0] for terms in taken])
    wanted = torch.stack(
        [each[:10].mean(dim=0), each[10:20].mean(dim=0), each[20:].mean(dim=0)]
    )
    torch.testing.assert_close(only.losses, wanted)
    assert only.checks.tolist() == [10, 20, 25]
    assert only.losses.dtype == torch.float32


def test_rates_are_those_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = SHORT.replace(
        f_ratio=0.1, discriminator_ratio=0.5, last_rate=0.05, max_steps=20
    )
    state = make_training_state(
        (0,),
        TrainingPlan(patterns=2, recipe=recipe),
        *(torch.as_tensor(p).float() for p in PEOPLE),
    )
    train.run_steps(
        state, 11
    )  # the eleventh of twenty steps is the middle of the cosine
    rates = {
        name: optimiser.param_groups[0]["lr"]
        for name, optimiser in state.stack.optimisers.items()
    }
    middle = 8e-4 * (0.05 + 0.95 / 2)
    assert rates["g"] == pytest.approx(middle)
    assert rates["f"] == pytest.approx(0.1 * middle)
    assert rates["d"] == pytest.approx(0.5 * middle)


def test_a_detached_inversion_does_not_train_f() -> None:
    only_inversion = {
        "adversarial": 0,
        "change": 0,
        "orthogonality": 0,
        "monotonicity": 0,
        "near_zero": 0,
    }
    for detached in (True, False):
        stack = make_stack(
            12, 2, [0], PAPER.replace(**only_inversion, detached_inversion=detached)
        )
        before = stack.networks.get_member(0)
        train.take_step(stack, *draw_people(stack, 8, torch.Generator().manual_seed(3)))
        moved = {
            name
            for name, weight in stack.networks.get_member(0).items()
            if not torch.equal(weight, before[name])
        }
        assert ("f.encode1" in moved) != detached
        assert moved >= {"g1.weight", "g2.weight1", "d.weight1"}


def test_members_leave_a_stack_one_by_one() -> None:
    free = SHORT.replace(min_steps=0)
    plan = TrainingPlan(patterns=2, recipe=free, members=(0, 1, 2), stack=3)
    people = (torch.as_tensor(group, dtype=torch.float32) for group in PEOPLE)
    firsts = sorted(
        train.run_steps(
            make_training_state((0, 1, 2), plan, *people), 10
        ).reconstruction.tolist()
    )
    bar = (firsts[0] + firsts[1]) / 2
    eager = TrainingPlan(
        patterns=2,
        recipe=free.replace(reconstruction_bar=bar, monotonicity_bar=1e3),
        members=(0, 1, 2),
        stack=3,
    )
    trained = train_stacks(*PEOPLE, eager)
    assert [m.member for m in trained] == [0, 1, 2]
    assert min(m.steps for m in trained) == 10
    assert max(m.steps for m in trained) > 10


def test_a_diverging_member_is_named_and_the_others_go_on() -> None:
    wild = SHORT.replace(explosion_bar=1e-6)
    (only,) = train_stacks(*PEOPLE, TrainingPlan(patterns=2, recipe=wild))
    assert only.outcome is TrainingOutcome.DIVERGED
    assert only.steps == 10


def test_threads_of_the_machine_change_no_byte() -> None:
    plan = TrainingPlan(patterns=2, recipe=SHORT, members=(0, 1))
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


def test_members_see_their_own_share_of_the_people() -> None:
    plan = TrainingPlan(patterns=2, recipe=SHORT.replace(share=0.8), members=(0, 1))
    first, second = train_stacks(*PEOPLE, plan)
    assert not torch.equal(first.weights["g1.weight"], second.weights["g1.weight"])
    state = make_training_state(
        (0, 1), plan, *(torch.as_tensor(people) for people in PEOPLE)
    )
    assert [order.shape for order in state.batches.orders] == [(2, 32), (2, 72)]
    assert not torch.equal(*(order.sort().values for order in state.batches.orders[1]))


class CheckedStack:
    """A stack and the plain reference of each of its members, which take their steps
    with the same numbers.
    """

    def __init__(self, stack: MemberStack) -> None:
        self.stack, recipe = stack, stack.recipe
        members = range(len(stack.members))
        weights = [stack.networks.get_member(m) for m in members]
        self.plains = [
            Reference(each, recipe.learning_rate, recipe.weights) for each in weights
        ]

    def take_step(self, x: torch.Tensor, y: torch.Tensor) -> LossTerms:
        stack = self.stack
        states = [stream.get_state() for stream in stack.streams]
        z = losses.draw_severities(
            stack.streams,
            x.shape[1],
            stack.recipe.near_zero_bound,
            stack.networks.copula.phi,
        )
        for stream, state in zip(stack.streams, states, strict=True):
            stream.set_state(state)
        for member, plain in enumerate(self.plains):
            plain.step(
                x[member],
                y[member],
                z.drawn[member],
                z.higher[member],
                z.near_zero[member],
            )
        return train.take_step(stack, x, y)

    def check(self, tolerance: float) -> None:
        for member, plain in enumerate(self.plains):
            for name, weight in plain.p.items():
                got = self.stack.networks.get_parameter(name)[member].detach()
                torch.testing.assert_close(
                    got, weight.data, rtol=0, atol=tolerance, msg=name
                )


@pytest.mark.parametrize(("regions", "patterns"), [(11, 3), (4, 1), (1, 2), (9, 5)])
def test_steps_equal_the_unstacked_reference(regions: int, patterns: int) -> None:
    checked = CheckedStack(
        make_stack(regions, patterns, (0, 1), PAPER.replace(init_sd=0.3), torch.float64)
    )
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):  # Some people are far off, so that g1's leaky ReLU bends.
        terms = checked.take_step(*draw_people(checked.stack, 6, generator, sd=0.6))
        for member, plain in enumerate(checked.plains):
            for name, term in plain.last.items():
                torch.testing.assert_close(
                    getattr(terms, name)[member], term, rtol=0, atol=1e-9
                )
    checked.check(1e-8)


def test_forty_steps_equal_the_unstacked_reference() -> None:
    # From the paper's small start f first shrinks to the kink of the l1 losses, where
    # any rounding is amplified without bound; a larger start stays clear of it.
    checked = CheckedStack(
        make_stack(40, 3, (0, 1, 2), PAPER.replace(init_sd=0.3), torch.float64)
    )
    generator = torch.Generator().manual_seed(2)
    for _ in range(40):
        checked.take_step(*draw_people(checked.stack, 30, generator))
    checked.check(1e-7)


def test_a_member_alone_and_in_a_stack_agree() -> None:
    recipe = PAPER.replace(init_sd=0.3)
    stack, alone = make_stack(21, 3, range(4), recipe), make_stack(21, 3, [2], recipe)
    generator = torch.Generator().manual_seed(2)
    for _ in range(30):
        x, y = draw_people(stack, 10, generator)
        train.take_step(stack, x, y)
        train.take_step(alone, x[2:3], y[2:3])
    for name, weight in alone.networks.get_member(0).items():
        torch.testing.assert_close(
            weight, stack.networks.get_member(2)[name], rtol=0, atol=1e-5, msg=name
        )


def test_one_broken_member_leaves_the_others_alone() -> None:
    healthy, broken = make_stack(12, 2, range(3)), make_stack(12, 2, range(3))
    broken.networks.f.encode1.detach()[1] = torch.nan
    generator = torch.Generator().manual_seed(3)
    for _ in range(5):
        x, y = draw_people(healthy, 8, generator)
        train.take_step(healthy, x, y)
        train.take_step(broken, x, y)
    for name, weight in healthy.networks.state_dict().items():
        assert torch.equal(
            weight[[0, 2]], broken.networks.state_dict()[name][[0, 2]]
        ), name
    assert not torch.isfinite(broken.networks.f.encode1[1]).any()


def test_weights_of_f_and_g_stay_within_the_clip() -> None:
    stack = make_stack(12, 2, [0], PAPER.replace(clip=0.2))
    train.take_step(stack, *draw_people(stack, 8, torch.Generator().manual_seed(3)))
    largest = {
        name: float(weight.detach().abs().max())
        for name, weight in stack.networks.named_parameters()
    }
    assert max(
        size for name, size in largest.items() if name.startswith(("f.", "g1.", "g2."))
    ) == pytest.approx(0.2)
    assert max(size for name, size in largest.items() if name.startswith("d.")) > 0.2


@pytest.mark.parametrize(
    "removed", ["decomposition", "orthogonality", "reconstruction"]
)
def test_an_ablation_is_a_recipe_with_a_weight_at_zero(removed: str) -> None:
    recipe = PAPER.replace(**{removed: 0.0, "init_sd": 0.3})
    checked = CheckedStack(make_stack(10, 2, [0], recipe, torch.float64))
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        checked.take_step(*draw_people(checked.stack, 6, generator))
    checked.check(1e-8)


def test_only_public_names_of_torch_are_used() -> None:
    for path in Path(train.__file__).parent.glob("*.py"):
        # names in quotation marks are those that a pickle may hold
        assert not re.search(
            r"(?<!\")\btorch(\.\w+)*\._[a-zA-Z]", path.read_text("utf-8")
        ), path.name


def test_the_head_of_a_member_is_g() -> None:
    (trained,) = train_stacks(
        *PEOPLE, TrainingPlan(patterns=3, recipe=SHORT, dtype="float64")
    )
    expected = infer_r_indices(trained.weights, torch.as_tensor(PEOPLE[1]))
    np.testing.assert_allclose(
        extract_head(trained.weights).infer(PEOPLE[1]), expected, atol=1e-12
    )


def test_groups_may_come_interleaved() -> None:
    people, y = np.concatenate(PEOPLE), np.repeat([0, 1], [40, 90])
    mixed = np.empty(
        130, dtype=int
    )  # controls and patients among each other, each group in its own order
    positions = np.random.default_rng(0).permutation(130)
    mixed[np.sort(positions[:40])], mixed[np.sort(positions[40:])] = (
        np.arange(40),
        40 + np.arange(90),
    )
    plan = TrainingPlan(patterns=2, recipe=SHORT, members=(3,))
    (first,) = train_surreal_members([PreparedPeople(X=people, y=y)], plan)
    (again,) = train_surreal_members(
        [PreparedPeople(X=people[mixed], y=y[mixed])], plan
    )
    assert first.number == 3
    assert first.patterns.shape == (4, 2, 9)
    np.testing.assert_array_equal(again.head.infer(people), first.head.infer(people))
    np.testing.assert_array_equal(again.patterns, first.patterns)


def test_threads_of_the_machine_change_no_byte_of_a_large_training() -> None:
    many = LinearCohort(
        controls=492, patients=900, regions=139
    )  # enough for a second thread to be used
    people, plan = (
        PreparedPeople(X=1 + 0.1 * many.people, y=many.y),
        TrainingPlan(patterns=2, recipe=SHORT.replace(max_steps=20)),
    )
    before, members = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with threadpool_limits(threads):
                members += train_surreal_members([people], plan)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    one, two = members
    np.testing.assert_array_equal(one.head.infer(people.X), two.head.infer(people.X))
    np.testing.assert_array_equal(one.patterns, two.patterns)

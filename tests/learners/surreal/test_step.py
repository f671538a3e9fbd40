"""The step against autograd and against an unstacked reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from rindices.learners.surreal import networks, step
from rindices.learners.surreal.losses import LossTerms
from rindices.learners.surreal.networks import NetworkSizes
from rindices.learners.surreal.recipe import Recipe
from rindices.learners.surreal.state import MemberStack, Workspace, make_member_stack
from tests.learners.surreal.helpers import PAPER, fill_people, make_stack
from tests.learners.surreal.reference import Reference


def make_reference(stack: MemberStack, member: int, recipe: Recipe) -> Reference:
    weights = {n: w[member] for n, w in networks.named_weights(stack.weights.networks).items()}
    return Reference(weights, recipe.learning_rate, recipe.weights)


def get_batch(work: Workspace, member: int) -> tuple[torch.Tensor, ...]:
    """x, y, z, z' and z_cn of one member."""
    x, y = work.people[member, :, :-1].chunk(2)
    return x, y, work.z.drawn[member], work.z.higher[member], work.z.near_zero[member]


@pytest.mark.parametrize(("regions", "patterns"), [(11, 3), (4, 1), (1, 2), (9, 5)])
def test_one_step_gives_autograds_gradients_and_losses(regions: int, patterns: int) -> None:
    stack, work = make_stack(NetworkSizes(regions, patterns), 2, 6, dtype=torch.float64)
    # Some people are far off, so that g1's leaky ReLU bends.
    fill_people(work, torch.Generator().manual_seed(1), sd=0.6)
    plains = [make_reference(stack, member, PAPER) for member in range(2)]
    terms = step.take_step(stack, work, with_losses=True)
    assert isinstance(terms, LossTerms)
    for member, plain in enumerate(plains):
        for name, grad in plain.step(*get_batch(work, member)).items():
            got = networks.named_weights(work.grads.networks)[name][member]
            torch.testing.assert_close(got, grad, rtol=1e-9, atol=1e-10, msg=name)
        for name, term in plain.last.items():
            torch.testing.assert_close(getattr(terms, name)[member], term, rtol=0, atol=1e-10)


def test_forty_steps_equal_the_unstacked_reference() -> None:
    # From the paper's small start f first shrinks to the kink of the l1 losses, where any
    # rounding is amplified without bound; a larger start stays clear of it.
    recipe = PAPER.replace(init_sd=0.3)
    stack, work = make_stack(NetworkSizes(40, 3), 3, 30, recipe)
    plains = [make_reference(stack, member, recipe) for member in range(3)]
    generator = torch.Generator().manual_seed(2)
    for _ in range(40):
        fill_people(work, generator)
        step.take_step(stack, work)
        for member, plain in enumerate(plains):
            plain.step(*get_batch(work, member))
    for member, plain in enumerate(plains):
        for name, tensor in networks.named_weights(stack.weights.networks).items():
            torch.testing.assert_close(tensor[member], plain.p[name].data, rtol=0, atol=1e-4)


def test_a_member_alone_and_in_a_stack_agree() -> None:
    recipe = PAPER.replace(init_sd=0.3)
    stack, work = make_stack(NetworkSizes(21, 3), 4, 10, recipe)
    alone = make_member_stack([2], stack.sizes, recipe, 7, torch.zeros(()))
    lone_work = Workspace(stack.sizes, 1, 10, recipe, torch.zeros(()))
    generator = torch.Generator().manual_seed(2)
    for _ in range(30):
        fill_people(work, generator)
        lone_work.people.copy_(work.people[2:3])
        step.take_step(stack, work)
        step.take_step(alone, lone_work)
    mine, theirs = networks.named_weights(alone.weights.networks), networks.named_weights(stack.weights.networks)
    for name, tensor in mine.items():
        torch.testing.assert_close(tensor[0], theirs[name][2], rtol=0, atol=1e-5, msg=name)


def test_one_broken_member_leaves_the_others_alone() -> None:
    healthy, work = make_stack(NetworkSizes(12, 2), 3, 8)
    broken, broken_work = make_stack(NetworkSizes(12, 2), 3, 8)
    broken.weights.networks.f.encode1[1] = torch.nan
    generator = torch.Generator().manual_seed(3)
    for _ in range(5):
        fill_people(work, generator)
        broken_work.people.copy_(work.people)
        step.take_step(healthy, work)
        step.take_step(broken, broken_work)
    for name, tensor in networks.named_weights(healthy.weights.networks).items():
        other = networks.named_weights(broken.weights.networks)[name]
        assert torch.equal(tensor[[0, 2]], other[[0, 2]]), name
    assert not torch.isfinite(broken.weights.networks.f.encode1[1]).any()


def test_weights_of_f_and_g_stay_within_the_clip() -> None:
    recipe = PAPER.replace(clip=0.2)
    stack, work = make_stack(NetworkSizes(12, 2), 1, 8, recipe)
    fill_people(work, torch.Generator().manual_seed(3))
    step.take_step(stack, work)
    assert stack.weights.generator.abs().max() <= 0.2


@pytest.mark.parametrize("removed", ["decomposition", "orthogonality", "reconstruction"])
def test_an_ablation_is_a_recipe_with_a_weight_at_zero(removed: str) -> None:
    recipe = PAPER.replace(**{removed: 0.0})
    stack, work = make_stack(NetworkSizes(10, 2), 1, 6, recipe, torch.float64)
    fill_people(work, torch.Generator().manual_seed(1))
    plain = make_reference(stack, 0, recipe)
    step.take_step(stack, work)
    for name, grad in plain.step(*get_batch(work, 0)).items():
        got = networks.named_weights(work.grads.networks)[name][0]
        torch.testing.assert_close(got, grad, rtol=1e-9, atol=1e-10, msg=name)


def test_only_public_names_of_torch_are_used() -> None:
    for path in Path(step.__file__).parent.glob("*.py"):
        # names in quotation marks are those that a pickle may hold
        assert not re.search(r"(?<!\")\btorch(\.\w+)*\._[a-zA-Z]", path.read_text("utf-8")), path.name

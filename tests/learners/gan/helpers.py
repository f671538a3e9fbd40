"""Small tables, short recipes and stacks for the tests of Surreal-GAN."""

from __future__ import annotations

import numpy as np
import torch

from rindices.learners.gan.gradients import Workspace
from rindices.learners.gan.networks import NetworkSizes
from rindices.learners.gan.recipe import Recipe
from rindices.learners.gan.state import MemberStack, TrainedMember, make_member_stack

PAPER = Recipe().replace(learning_rate=8e-4)
SHORT = Recipe().replace(min_steps=20, max_steps=60, check_every=10)
PEOPLE = (
    1 + 0.1 * np.random.default_rng(0).standard_normal((40, 9)),
    1 + 0.1 * np.random.default_rng(1).standard_normal((90, 9)),
)


def make_stack(
    sizes: NetworkSizes, members: int, batch: int, recipe: Recipe = PAPER, dtype: torch.dtype = torch.float32
) -> tuple[MemberStack, Workspace]:
    like = torch.zeros((), dtype=dtype)
    stack = make_member_stack(range(members), sizes, recipe, 7, like)
    return stack, Workspace(sizes, members, batch, recipe, like)


def fill_people(work: Workspace, generator: torch.Generator, sd: float = 0.1) -> None:
    people = work.people[..., :-1]
    noise = torch.randn(people.shape, generator=generator, dtype=people.dtype)
    people.copy_(1 + sd * noise)


def are_equal(first: list[TrainedMember], second: list[TrainedMember]) -> bool:
    return all(
        a.member == b.member
        and a.outcome is b.outcome
        and np.array_equal(a.history, b.history)
        and all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)
        for a, b in zip(first, second, strict=True)
    )

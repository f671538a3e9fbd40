"""Small tables, short recipes and stacks for the tests of Surreal-GAN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rindices.learners.gan.recipe import Recipe, TrainingPlan
from rindices.learners.gan.state import MemberStack, TrainedMember, make_member_stack

PAPER = Recipe().replace(learning_rate=8e-4)
SHORT = PAPER.replace(min_steps=20, max_steps=60, check_every=10)
PEOPLE = (
    1 + 0.1 * np.random.default_rng(0).standard_normal((40, 9)),
    1 + 0.1 * np.random.default_rng(1).standard_normal((90, 9)),
)


def make_stack(
    regions: int,
    patterns: int,
    members: Sequence[int],
    recipe: Recipe = PAPER,
    dtype: torch.dtype = torch.float32,
) -> MemberStack:
    plan = TrainingPlan(patterns=patterns, recipe=recipe, seed=7)
    return make_member_stack(members, plan, regions, torch.zeros((), dtype=dtype))


def draw_people(
    stack: MemberStack, batch: int, generator: torch.Generator, sd: float = 0.1
) -> tuple[Tensor, Tensor]:
    """Random controls and patients of every member, (S, B, R) each."""
    weight = stack.networks.f.encode1
    shape = (2, len(weight), batch, weight.shape[1])
    x, y = 1 + sd * torch.randn(shape, generator=generator, dtype=weight.dtype)
    return x, y


def are_equal(first: list[TrainedMember], second: list[TrainedMember]) -> bool:
    return all(
        a.member == b.member
        and a.outcome is b.outcome
        and a.met_bars == b.met_bars
        and torch.equal(a.checks, b.checks)
        and torch.equal(a.losses, b.losses)
        and all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)
        for a, b in zip(first, second, strict=True)
    )

"""Small tables, short recipes and stacks for the tests of Surreal-GAN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from rindices.learners.contrastive.linear_start import LinearStart
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.subsampling import draw_subsample
from rindices.learners.surreal.ensemble_training import TrainingData
from rindices.learners.surreal.networks import NetworkSizes
from rindices.learners.surreal.recipe import Recipe, get_recipe
from rindices.learners.surreal.state import MemberStack, Workspace, make_member_stack
from rindices.learners.surreal.training_state import TrainedMember, TrainingPlan, TrainingState, make_training_state
from tests.learners.helpers import LinearCohort

PAPER = get_recipe("paper", learning_rate=8e-4)
SHORT = get_recipe("paper", min_steps=20, max_steps=60, check_every=10)
PEOPLE = (
    1 + 0.1 * np.random.default_rng(0).standard_normal((40, 9)),
    1 + 0.1 * np.random.default_rng(1).standard_normal((90, 9)),
)
BRIEF = get_recipe("default", start_steps=150, held_steps=30, max_steps=60, check_every=10)
COHORT = LinearCohort(controls=90, patients=160, regions=24)
X = 1 + 0.1 * COHORT.people


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


def make_data(recipe: Recipe = BRIEF) -> TrainingData:
    return TrainingData.from_people(PreparedPeople(X, COHORT.y), 2, recipe)


def make_starts(data: TrainingData, members: Sequence[int] = (0, 1)) -> dict[int, LinearStart]:
    generators = {number: np.random.default_rng(number) for number in members}
    subsamples = {number: draw_subsample(data.y, data.recipe.share, rng) for number, rng in generators.items()}
    return {number: data.fit_start(subsample, 2, number) for number, subsample in subsamples.items()}


def make_warm_state(data: TrainingData, starts: Mapping[int, LinearStart]) -> TrainingState:
    plan = TrainingPlan(2, data.recipe, members=tuple(starts))
    x, y = (torch.as_tensor(data.scale_group(label), dtype=torch.float32) for label in (0, 1))
    return make_training_state(plan.members, plan, x, y, starts)


def are_equal(first: list[TrainedMember], second: list[TrainedMember]) -> bool:
    return all(
        a.member == b.member
        and a.outcome is b.outcome
        and np.array_equal(a.history, b.history)
        and all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)
        for a, b in zip(first, second, strict=True)
    )

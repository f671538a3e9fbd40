"""The copula finds the correlation of simulated severities, given the right patterns.

f is first fitted to the true patterns and then moves a thousand times slower than D, so
that the test asks of the copula alone. (With a free f the copula also answers for what
the patterns still mix.)
"""

from __future__ import annotations

import pytest
import torch

from rindices.learners.surreal import latents, networks
from rindices.learners.surreal.networks import Transformation
from rindices.learners.surreal.recipe import get_recipe
from rindices.learners.surreal.train import train_stack
from rindices.learners.surreal.training_state import TrainingPlan, make_training_state

PEOPLE, REGIONS, MEMBERS = 2000, 32, 3
PATTERNS = -0.3 * torch.eye(2).repeat_interleave(REGIONS // 2, dim=1)
RECIPE = get_recipe(
    "paper",
    learning_rate=1e-6,
    discriminator_ratio=1000,
    copula_ratio=300,
    copula_after=1000,
    correlated=True,
    max_batch=128,
    init_sd=0.2,
)


def simulate(correlation: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = 1 + 0.1 * torch.randn(2, PEOPLE, REGIONS, generator=generator)
    root = torch.linalg.cholesky(torch.tensor([[1, correlation], [correlation, 1]]))
    severities = torch.special.ndtr(torch.randn(PEOPLE, 2, generator=generator) @ root.T)
    return x, y + severities @ PATTERNS


def fit_patterns(f: Transformation) -> None:
    """Least squares of f's change on the true patterns, within the clip."""
    free = [weight.clone().requires_grad_() for weight in f]
    adam = torch.optim.Adam(free, lr=3e-3)
    generator = torch.Generator().manual_seed(1)
    for _ in range(1500):
        x = 1 + 0.1 * torch.randn(MEMBERS, 64, REGIONS, generator=generator)
        z = torch.rand(MEMBERS, 64, 2, generator=generator)
        change = networks.apply_transformation(Transformation(*free), x, networks.append_ones(z)).change
        adam.zero_grad()
        (change - z @ PATTERNS).square().mean().backward()
        adam.step()
        for weight in free:
            weight.data.clamp_(-RECIPE.clip, RECIPE.clip)
    for weight, found in zip(f, free, strict=True):
        weight.copy_(found.detach())


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "low", "high"), [(0.5, 0.3, 0.7), (0.0, -0.15, 0.15)])
def test_the_learnt_correlation(truth: float, low: float, high: float) -> None:
    group = make_training_state(range(MEMBERS), TrainingPlan(2, RECIPE), *simulate(truth))
    fit_patterns(group.stack.weights.networks.f)
    train_stack(group, RECIPE, until=2500)
    learnt = latents.copula_correlation(group.stack.phi)[:, 0, 1]
    assert ((low < learnt) & (learnt < high)).all(), learnt


def test_the_copula_holds_still_until_its_time() -> None:
    group = make_training_state(range(MEMBERS), TrainingPlan(2, RECIPE.replace(copula_after=100)), *simulate(0.5))
    train_stack(group, group.work.recipe, until=100)
    assert torch.equal(group.stack.phi, torch.eye(2).repeat(MEMBERS, 1, 1))
    train_stack(group, group.work.recipe, until=200)
    assert not torch.equal(group.stack.phi, torch.eye(2).repeat(MEMBERS, 1, 1))

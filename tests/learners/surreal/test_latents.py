"""Severities and the copula."""

from __future__ import annotations

import pytest
import torch

from rindices.learners.surreal import latents, networks
from rindices.learners.surreal.latents import RowsByRole
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


def draw(members: list[int], factor: torch.Tensor | None = None) -> RowsByRole:
    rows = torch.zeros(len(members), 500 * 6, 3)
    z = RowsByRole(rows, 500)
    streams = [latents.make_member_generator(3, member) for member in members]
    latents.draw_severities(z, torch.zeros(len(members), 3, 500, 3), streams, 0.05, factor)
    return z


def test_severities_keep_their_ranges() -> None:
    z = draw([0, 1])
    assert ((z.drawn >= 0) & (z.drawn <= 1)).all()
    assert ((z.higher >= z.drawn) & (z.higher <= 1)).all()
    assert ((z.near_zero >= 0) & (z.near_zero <= 0.05)).all()
    assert abs(float(z.drawn.mean()) - 0.5) < 0.03


def test_single_patterns_hold_one_component_each() -> None:
    z = draw([0])
    assert torch.equal(z.singles, torch.diag_embed(z.drawn))


def test_a_member_draws_the_same_in_any_company() -> None:
    together, alone = draw([4, 5, 6]), draw([5])
    assert torch.equal(together.drawn[1], alone.drawn[0])
    assert not torch.equal(together.drawn[0], together.drawn[1])


def test_a_copula_keeps_uniform_margins_and_correlates() -> None:
    phi = torch.tensor([[[1.0, 0, 0], [0.8, 0.6, 0], [0, 0, 1]]])
    z = draw([0], latents.copula_factor(phi)).drawn[0]
    quarters = torch.quantile(z, torch.tensor([0.25, 0.5, 0.75]), dim=0)
    torch.testing.assert_close(quarters[:, 1], torch.tensor([0.25, 0.5, 0.75]), rtol=0, atol=0.06)
    correlation = torch.corrcoef(z.T)
    assert 0.7 < correlation[0, 1] < 0.85
    assert abs(correlation[0, 2]) < 0.12


def test_the_factor_has_unit_rows_and_a_positive_diagonal() -> None:
    factor = latents.copula_factor(torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(factor.norm(dim=2), torch.ones(4, 3))
    assert (factor.diagonal(dim1=1, dim2=2) > 0).all()
    assert torch.equal(factor, factor.tril())


def test_the_divergence_equals_torchs() -> None:
    factor = latents.copula_factor(torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(1)))
    normal = torch.distributions.MultivariateNormal
    wanted = torch.distributions.kl_divergence(
        normal(torch.zeros(3), scale_tril=torch.eye(3)),
        normal(torch.zeros(3), scale_tril=factor[0]),
    )
    torch.testing.assert_close(latents.copula_divergence(factor)[0], wanted)
    assert float(latents.copula_divergence(torch.eye(3)[None])) == 0


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
    for weight, fitted in zip(f, free, strict=True):
        weight.copy_(fitted.detach())


# f is fitted to the true patterns and then moves a thousand times slower than D, so that only the copula is tested.
# If f were free, the copula would also reflect what the patterns still mix.
@pytest.mark.slow
@pytest.mark.parametrize(("truth", "low", "high"), [(0.5, 0.3, 0.7), (0.0, -0.15, 0.15)])
def test_the_learnt_correlation(truth: float, low: float, high: float) -> None:
    state = make_training_state(range(MEMBERS), TrainingPlan(2, RECIPE), *simulate(truth))
    fit_patterns(state.stack.weights.networks.f)
    train_stack(state, RECIPE, until=2500)
    learnt = latents.copula_correlation(state.stack.phi)[:, 0, 1]
    assert ((low < learnt) & (learnt < high)).all(), learnt


def test_the_copula_holds_still_until_its_time() -> None:
    state = make_training_state(range(MEMBERS), TrainingPlan(2, RECIPE.replace(copula_after=100)), *simulate(0.5))
    train_stack(state, state.work.recipe, until=100)
    assert torch.equal(state.stack.phi, torch.eye(2).repeat(MEMBERS, 1, 1))
    train_stack(state, state.work.recipe, until=200)
    assert not torch.equal(state.stack.phi, torch.eye(2).repeat(MEMBERS, 1, 1))

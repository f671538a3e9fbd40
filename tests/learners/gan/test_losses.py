"""Severities, the copula between them, and the losses, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rindices.learners.gan import losses, networks
from rindices.learners.gan.losses import ByRole
from rindices.learners.gan.recipe import Recipe, TrainingPlan
from rindices.learners.gan.state import make_training_state
from rindices.learners.gan.train import train_stack
from tests.learners.gan.helpers import make_stack

S, B, M, R = 2, 4, 3, 5
Numbers = list[Tensor]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + len(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def plain_change(change: Tensor) -> float:
    return sum(abs(float(v)) for v in change.flatten()) / change.numel()


def plain_decomposition(shares: Tensor, singles: Tensor) -> float:
    pairs = zip(shares.flatten().tolist(), singles.flatten().tolist(), strict=True)
    return sum((a - b) ** 2 for a, b in pairs) / shares.numel()


def plain_monotonicity(low: Tensor, high: Tensor) -> float:
    pairs = zip(low.flatten().tolist(), high.flatten().tolist(), strict=True)
    return sum(max(abs(a) - abs(b), 0.0) ** 2 for a, b in pairs) / low.numel()


def plain_orthogonality(singles: Tensor) -> float:
    total = 0.0
    for person in singles.tolist():
        unit = [[abs(v) / math.sqrt(sum(w * w for w in q)) for v in q] for q in person]
        for i in range(M):
            for j in range(M):
                product = sum(a * b for a, b in zip(unit[i], unit[j], strict=True))
                total += (product - (i == j)) ** 2
    return total / (len(singles) * M * M)


def plain_adversarial(logits: Tensor) -> float:
    return sum(math.log(1 + math.exp(a - b)) for a, b in logits.tolist()) / len(logits)


def plain_discrimination(fake: Tensor, real: Tensor) -> float:
    return plain_adversarial(real) + plain_adversarial(fake.flip(1))


CASES: dict[
    str, tuple[Callable[..., Tensor], Callable[..., float], list[tuple[int, ...]]]
] = {
    "change": (losses.change_loss, plain_change, [(S, B, R)]),
    "near_zero": (losses.near_zero_loss, plain_change, [(S, B, R)]),
    "decomposition": (
        losses.decomposition_loss,
        plain_decomposition,
        [(S, B, M, R)] * 2,
    ),
    "reconstruction": (
        losses.reconstruction_loss,
        plain_decomposition,
        [(S, B, M)] * 2,
    ),
    "orthogonality": (losses.orthogonality_loss, plain_orthogonality, [(S, B, M, R)]),
    "monotonicity": (losses.monotonicity_loss, plain_monotonicity, [(S, B, R)] * 2),
    "adversarial": (losses.adversarial_loss, plain_adversarial, [(S, B, 2)]),
    "discrimination": (
        losses.discrimination_loss,
        plain_discrimination,
        [(S, B, 2)] * 2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loss_equals_the_papers_formula(name: str) -> None:
    loss, plain, shapes = CASES[name]
    inputs = [numbers(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    values = loss(*inputs)
    assert values.shape == (S,)
    for member in range(S):
        assert float(values[member]) == pytest.approx(
            plain(*(x[member] for x in inputs)), abs=1e-12
        )


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_equals_the_slope_of_the_papers_formula(name: str) -> None:
    loss, plain, shapes = CASES[name]
    inputs = [
        numbers(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)
    ]
    grads = torch.autograd.grad(loss(*inputs).sum(), inputs)
    for x, grad in zip(inputs, grads, strict=True):
        slopes = [slope(plain, inputs, x, entry) for entry in range(x.numel())]
        torch.testing.assert_close(
            grad.flatten(),
            torch.tensor(slopes, dtype=torch.float64),
            rtol=0,
            atol=1e-10,
        )


def slope(plain: Callable[..., float], inputs: Numbers, x: Tensor, entry: int) -> float:
    """Two fourth-order central differences, extrapolated to the sixth order."""
    coarse, fine = (difference(plain, inputs, (x, entry), h) for h in (1e-3, 5e-4))
    return (16 * fine - coarse) / 15


def difference(
    plain: Callable[..., float], inputs: Numbers, entry_of: tuple[Tensor, int], h: float
) -> float:
    (x, entry), total = entry_of, 0.0
    member, flat = entry // (x.numel() // S), x.data.view(-1)
    original = flat[entry].clone()
    for k, weight in {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}.items():
        flat[entry] = original + k * h
        total += weight * plain(*(each.data[member] for each in inputs)) / h
    flat[entry] = original
    return total


def test_orthogonality_of_a_pattern_without_change_has_no_gradient() -> None:
    singles = numbers(1, 2, M, R)
    singles[:, :, 0] = 0
    singles.requires_grad_()
    losses.orthogonality_loss(singles).sum().backward()
    assert singles.grad is not None
    assert torch.isfinite(singles.grad).all()


@pytest.mark.parametrize("size", [1e-50, 1e-100])
def test_orthogonality_knows_directions_alone_down_to_the_smallest_change(
    size: float,
) -> None:
    grads = []
    for scale in (1.0, size):
        singles = (scale * numbers(S, B, M, R)).requires_grad_()
        grads.append(
            scale
            * torch.autograd.grad(losses.orthogonality_loss(singles).sum(), singles)[0]
        )
    torch.testing.assert_close(grads[1], grads[0], rtol=0, atol=1e-12)


def test_terms_stay_finite_for_certain_logits() -> None:
    logits = torch.tensor([[[-1e4, 1e4], [1e4, -1e4]]])
    assert torch.isfinite(losses.adversarial_loss(logits)).all()


PEOPLE, REGIONS, MEMBERS = 2000, 32, 3
PATTERNS = -0.3 * torch.eye(2).repeat_interleave(REGIONS // 2, dim=1)
RECIPE = Recipe().replace(
    learning_rate=1e-6,
    discriminator_ratio=1000,
    copula_ratio=300,
    copula_after=1000,
    correlated=True,
    max_batch=128,
    init_sd=0.2,
)


def draw(members: list[int], phi: torch.Tensor | None = None) -> ByRole:
    streams = [losses.make_member_generator(3, member) for member in members]
    eye = torch.eye(3).repeat(len(members), 1, 1)
    return losses.draw_severities(
        streams, 500, 0.05, eye if phi is None else phi, phi is not None
    )


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
    z = draw([0], phi).drawn[0]
    quarters = torch.quantile(z, torch.tensor([0.25, 0.5, 0.75]), dim=0)
    torch.testing.assert_close(
        quarters[:, 1], torch.tensor([0.25, 0.5, 0.75]), rtol=0, atol=0.06
    )
    correlation = torch.corrcoef(z.T)
    assert 0.7 < correlation[0, 1] < 0.85
    assert abs(correlation[0, 2]) < 0.12


def test_the_factor_has_unit_rows_and_a_positive_diagonal() -> None:
    factor = losses.copula_factor(
        torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(0))
    )
    torch.testing.assert_close(factor.norm(dim=2), torch.ones(4, 3))
    assert (factor.diagonal(dim1=1, dim2=2) > 0).all()
    assert torch.equal(factor, factor.tril())


def test_the_divergence_equals_torchs() -> None:
    factor = losses.copula_factor(
        torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(1))
    )
    normal = torch.distributions.MultivariateNormal
    wanted = torch.distributions.kl_divergence(
        normal(torch.zeros(3), scale_tril=torch.eye(3)),
        normal(torch.zeros(3), scale_tril=factor[0]),
    )
    torch.testing.assert_close(losses.copula_divergence(factor)[0], wanted)
    assert float(losses.copula_divergence(torch.eye(3)[None])) == 0


def simulate(correlation: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = 1 + 0.1 * torch.randn(2, PEOPLE, REGIONS, generator=generator)
    root = torch.linalg.cholesky(torch.tensor([[1, correlation], [correlation, 1]]))
    severities = torch.special.ndtr(
        torch.randn(PEOPLE, 2, generator=generator) @ root.T
    )
    return x, y + severities @ PATTERNS


def fit_patterns(f: networks.Transformation) -> None:
    """Least squares of f's change on the true patterns, within the clip."""
    adam = torch.optim.Adam(f.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1)
    for _ in range(1500):
        x = 1 + 0.1 * torch.randn(MEMBERS, 64, REGIONS, generator=generator)
        z = torch.rand(MEMBERS, 64, 2, generator=generator)
        change = f.decode(f.encode(x), z)
        adam.zero_grad()
        (change - z @ PATTERNS).square().mean().backward()
        adam.step()
        for weight in f.parameters():
            weight.data.clamp_(-RECIPE.clip, RECIPE.clip)


# f is fitted to the true patterns and then moves a thousand times slower than D, so
# that only the copula is tested. If f were free, the copula would also reflect what the
# patterns still mix.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("truth", "low", "high"), [(0.5, 0.3, 0.7), (0.0, -0.15, 0.15)]
)
def test_the_learnt_correlation(truth: float, low: float, high: float) -> None:
    state = make_training_state(
        range(MEMBERS), TrainingPlan(patterns=2, recipe=RECIPE), *simulate(truth)
    )
    fit_patterns(state.stack.networks.f)
    train_stack(state, RECIPE, until=2500)
    factor = losses.copula_factor(state.stack.networks.copula.phi)
    learnt = (factor @ factor.mT)[:, 0, 1]
    assert ((low < learnt) & (learnt < high)).all(), learnt


def test_the_copula_follows_the_slope_of_its_loss() -> None:
    """Against differences of the loss over phi, through Phi, f and D."""
    stacked = make_stack(7, 3, (0, 1), dtype=torch.float64).networks
    phi = torch.eye(3).double().repeat(2, 1, 1) + 0.3 * torch.ones(3, 3).tril(-1)
    x = 1 + 0.1 * numbers(2, 6, 7)

    def compute(phi: torch.Tensor) -> torch.Tensor:
        z = losses.draw_severities(
            [losses.make_member_generator(0, m) for m in (0, 1)], 6, 0.05, phi, True
        )
        return losses.copula_loss(stacked.judge(stacked.f(x, z.drawn)), phi, 0.02).sum()

    assert torch.autograd.gradcheck(compute, phi.requires_grad_())


def test_the_copula_holds_still_until_its_time() -> None:
    state = make_training_state(
        range(MEMBERS),
        TrainingPlan(patterns=2, recipe=RECIPE.replace(copula_after=100)),
        *simulate(0.5),
    )
    train_stack(state, state.stack.recipe, until=100)
    assert torch.equal(
        state.stack.networks.copula.phi, torch.eye(2).repeat(MEMBERS, 1, 1)
    )
    train_stack(state, state.stack.recipe, until=200)
    assert not torch.equal(
        state.stack.networks.copula.phi, torch.eye(2).repeat(MEMBERS, 1, 1)
    )

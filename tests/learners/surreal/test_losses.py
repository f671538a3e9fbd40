"""Each loss and its gradient against plain loops over people, patterns and regions."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rindices.learners.surreal import losses

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


CASES: dict[str, tuple[Callable[..., Tensor], Callable[..., float], list[tuple[int, ...]]]] = {
    "change": (losses.change_loss, plain_change, [(S, B, R)]),
    "near_zero": (losses.near_zero_loss, plain_change, [(S, B, R)]),
    "decomposition": (losses.decomposition_loss, plain_decomposition, [(S, B, M, R)] * 2),
    "reconstruction": (losses.reconstruction_loss, plain_decomposition, [(S, B, M)] * 2),
    "orthogonality": (losses.orthogonality_loss, plain_orthogonality, [(S, B, M, R)]),
    "monotonicity": (losses.monotonicity_loss, plain_monotonicity, [(S, B, R)] * 2),
    "adversarial": (losses.adversarial_loss, plain_adversarial, [(S, B, 2)]),
    "discrimination": (losses.discrimination_loss, plain_discrimination, [(S, B, 2)] * 2),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loss_equals_the_papers_formula(name: str) -> None:
    loss, plain, shapes = CASES[name]
    inputs = [numbers(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    values = loss(*inputs)
    assert values.shape == (S,)
    for member in range(S):
        assert float(values[member]) == pytest.approx(plain(*(x[member] for x in inputs)), abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_equals_the_slope_of_the_papers_formula(name: str) -> None:
    loss, plain, shapes = CASES[name]
    inputs = [numbers(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)]
    grads = torch.autograd.grad(loss(*inputs).sum(), inputs)
    for x, grad in zip(inputs, grads, strict=True):
        slopes = [slope(plain, inputs, x, entry) for entry in range(x.numel())]
        torch.testing.assert_close(grad.flatten(), torch.tensor(slopes, dtype=torch.float64), rtol=0, atol=1e-10)


def slope(plain: Callable[..., float], inputs: Numbers, x: Tensor, entry: int) -> float:
    """Two fourth-order central differences, extrapolated to the sixth order."""
    coarse, fine = (difference(plain, inputs, (x, entry), h) for h in (1e-3, 5e-4))
    return (16 * fine - coarse) / 15


def difference(plain: Callable[..., float], inputs: Numbers, entry_of: tuple[Tensor, int], h: float) -> float:
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


def test_terms_stay_finite_for_certain_logits() -> None:
    logits = torch.tensor([[[-1e4, 1e4], [1e4, -1e4]]])
    assert torch.isfinite(losses.adversarial_loss(logits)).all()

"""The losses of Surreal-GAN: pure functions that return one value per member.

Norms are means over people and regions: the mean absolute value for l1, the mean square for l2. The paper's weights and
stopping bars are made for this scale.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

REAL_LOGIT = 1
"""Index of "real patient" among D's two logits (e_1 in Algorithm 1)."""


class LossTerms(NamedTuple):
    """Unweighted terms of one step, (S,) each; the seven of the objective come last."""

    discrimination: Tensor  # minimised by D
    adversarial: Tensor
    change: Tensor  # gamma
    decomposition: Tensor  # kappa
    reconstruction: Tensor  # zeta
    orthogonality: Tensor  # lambda
    monotonicity: Tensor  # mu
    near_zero: Tensor  # eta


def cross_entropy(logits: Tensor, *, real: bool) -> Tensor:
    """Return the mean of l_c(D(.), e_1) if ``real``, else of l_c(D(.), e_0): (S, B, 2) -> (S,)."""
    margin = logits[..., REAL_LOGIT] - logits[..., 1 - REAL_LOGIT]
    return functional.softplus(-margin if real else margin).mean(dim=1)


def discrimination_loss(fake: Tensor, real: Tensor) -> Tensor:
    """Return the loss of D on logits of synthesised and real patients: (S, B, 2) x2 -> (S,)."""
    return cross_entropy(fake, real=False) + cross_entropy(real, real=True)


def adversarial_loss(fake: Tensor) -> Tensor:
    """Return the loss of f against D: synthesised patients should pass as real; (S, B, 2) -> (S,)."""
    return cross_entropy(fake, real=True)


def change_loss(changes: Tensor) -> Tensor:
    """Return the mean of |f(x, z) - x|, which keeps the transformation sparse: (S, B, R) -> (S,)."""
    return changes.abs().mean(dim=(1, 2))


def decomposition_loss(shares: Tensor, singles: Tensor) -> Tensor:
    """Return the mean square of g1(f(x, z)) - q: (S, B, M, R) x2 -> (S,)."""
    return (shares - singles).square().mean(dim=(1, 2, 3))


def reconstruction_loss(r: Tensor, z: Tensor) -> Tensor:
    """Return the mean square of g(f(x, z)) - z: (S, B, M) x2 -> (S,)."""
    return (r - z).square().mean(dim=(1, 2))


def orthogonality_loss(singles: Tensor) -> Tensor:
    """Return the mean square of A^T A - I, where A has columns abs(q_i) / norm(q_i): (S, B, M, R) -> (S,)."""
    unit = functional.normalize(singles.abs(), dim=-1, eps=smallest_norm(singles))
    excess = unit @ unit.mT - torch.eye(unit.shape[2], dtype=unit.dtype, device=unit.device)
    return excess.square().mean(dim=(1, 2, 3))


def monotonicity_loss(low: Tensor, high: Tensor) -> Tensor:
    """Return the mean square of max(|change at z| - |change at z'|, 0): (S, B, R) x2 -> (S,)."""
    return (low.abs() - high.abs()).clamp_min(0).square().mean(dim=(1, 2))


near_zero_loss = change_loss
"""The cn loss, mean |f(x, z_cn) - x|: (S, B, R) -> (S,)."""


def smallest_norm(like: Tensor) -> float:
    """Return the smallest norm of a change that has a direction; below it, gradients are zero instead of NaN."""
    return float(torch.finfo(like.dtype).tiny ** 0.5)

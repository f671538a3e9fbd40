"""Severities z of a step, the copula between them, and the losses of Surreal-GAN.

A step needs K = 3 + M severity vectors per person. They are in one tensor (S, B, K, M), so that f decodes them in one
product:

===========  =====================================================================
``z[0]``     z, uniform on [0, 1]^M
``z[1]``     z', uniform between z and 1 in each component (monotonicity)
``z[2]``     z_cn, uniform on (0, 0.05)^M (near-zero loss)
``z[3 + i]`` a^i, equal to z in component i and zero elsewhere (decomposition)
===========  =====================================================================

With a copula, z = Phi(L e) with e standard normal and L a lower triangular factor with rows of norm one: each component
stays uniform, and L L^T is the correlation before Phi. The gradient reaches L through Phi.

The losses are pure functions that return one value per member. Norms are means over people and regions: the mean
absolute value for l1, the mean square for l2. The paper's weights and stopping bars are made for this scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

REAL_LOGIT = 1
"""Index of "real patient" among D's two logits (e_1 in Algorithm 1)."""


def make_member_generator(seed: int, member: int) -> torch.Generator:
    """Return the random stream of one member of one training."""
    mixed = np.random.SeedSequence((seed, member)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(mixed[0] >> np.uint64(1)))


class RowsByRole:
    """Views of rows (S, B * K, C), one for each role of their severities.

    rows: the K rows of a person are adjacent; batch: B.
    """

    def __init__(self, rows: Tensor, batch: int) -> None:
        by_person = torch.unflatten(rows, 1, (batch, -1))
        self.drawn = by_person[:, :, 0]  # (S, B, C)
        self.higher = by_person[:, :, 1]  # (S, B, C)
        self.near_zero = by_person[:, :, 2]  # (S, B, C)
        self.singles = by_person[:, :, 3:]  # (S, B, M, C)


def draw_severities(
    z: RowsByRole, draws: Tensor, generators: Sequence[torch.Generator], near_zero: float, factor: Tensor | None = None
) -> None:
    """Fill the severities of one step, each member from its own stream.

    z: written to. Entries of the single-pattern rows outside their pattern are not written and must be zero; draws:
    buffer on the CPU, (S, 3, B, M). With a copula, ``draws[:, 0]`` holds the normal numbers e behind z, for
    :func:`copula_gradient`; generators: one per member; near_zero: upper bound of z_cn; factor: L, (S, M, M), for
    correlated severities.
    """
    for member, generator in zip(draws, generators, strict=True):
        member.uniform_(generator=generator)
        if factor is not None:
            member[0].normal_(generator=generator)
    drawn, higher, low = draws.to(z.drawn.device).unbind(1)
    if factor is not None:
        drawn = torch.special.ndtr(torch.bmm(drawn, factor.mT))
    z.drawn.copy_(drawn)
    torch.lerp(drawn, torch.ones_like(drawn), higher, out=z.higher)
    torch.mul(low, near_zero, out=z.near_zero)
    z.singles.diagonal(dim1=2, dim2=3).copy_(drawn)


def copula_factor(phi: Tensor) -> Tensor:
    """Return L for free parameters phi: lower triangle, positive diagonal, rows of norm one; (S, M, M)."""
    diagonal = phi.diagonal(dim1=1, dim2=2).abs()
    return functional.normalize(phi.tril(-1) + torch.diag_embed(diagonal), dim=2)


def copula_correlation(phi: Tensor) -> Tensor:
    """Return the correlation L L^T behind the severities: (S, M, M) -> (S, M, M)."""
    factor = copula_factor(phi)
    return factor @ factor.mT


def copula_divergence(factor: Tensor) -> Tensor:
    """Return the KL divergence of independent severities from those of the copula: (S, M, M) -> (S,)."""
    identity = torch.eye(factor.shape[1], dtype=factor.dtype, device=factor.device)
    inverse = torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=False)
    log_det = 2 * factor.diagonal(dim1=1, dim2=2).log().sum(dim=1)
    trace: Tensor = inverse.square().sum(dim=(1, 2))
    return (trace - factor.shape[1] + log_det) / 2


def copula_gradient(phi: Tensor, normals: Tensor, d_z: Tensor, divergence: float) -> Tensor:
    """Return the gradient of the copula's free parameters.

    phi: free parameters, (S, M, M); normals: e, (S, B, M); d_z: gradient of the adversarial loss with respect to z, (S,
    B, M). Only this loss depends on the distribution of patients; the others would fit z to f; divergence: weight of
    the divergence from independence.
    """
    with torch.inference_mode(False), torch.enable_grad():
        free = phi.clone().requires_grad_()
        factor = copula_factor(free)
        z = torch.special.ndtr(torch.bmm(normals.clone(), factor.mT))
        loss = (z * d_z.clone()).sum() + divergence * copula_divergence(factor).sum()
        return torch.autograd.grad(loss, free)[0]


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

"""Severities z of a step, the copula between them, and the losses of Surreal-GAN.

A step needs 3 + M severity vectors per person:

============  =====================================================================
``drawn``     z, uniform on [0, 1]^M
``higher``    z', uniform between z and 1 in each component (monotonicity)
``near_zero`` z_cn, uniform on (0, 0.05)^M (near-zero loss)
``singles``   a^i, equal to z in component i and zero elsewhere (decomposition)
============  =====================================================================

With a copula, z = Phi(L e) with e standard normal and L a lower triangular factor with
rows of norm one: each component stays uniform, and L L^T is the correlation before Phi.
The gradient reaches L through Phi.

The losses are pure functions that return one value per member. Norms are means over
people and regions: the mean absolute value for l1, the mean square for l2. The paper's
weights and stopping bars are made for this scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rindices.learners.gan.recipe import LOSS_NAMES

REAL_LOGIT = 1
"""Index of "real patient" among D's two logits (e_1 in Algorithm 1)."""


def make_member_generator(seed: int, member: int) -> torch.Generator:
    """Return the random stream of one member of one training."""
    mixed = np.random.SeedSequence((seed, member)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(mixed[0] >> np.uint64(1)))


@dataclass(frozen=True, kw_only=True)
class ByRole:
    """Severities of a step (C = M), or the changes of regions that they cause (C = R).

    Attributes
    ----------
    drawn : Tensor
    higher : Tensor
    near_zero : Tensor
    singles : Tensor
    """

    drawn: Tensor  # (S, B, C)
    higher: Tensor  # (S, B, C)
    near_zero: Tensor  # (S, B, C)
    singles: Tensor  # (S, B, M, C)

    def apply(self, function: Callable[[Tensor], Tensor]) -> ByRole:
        """Return a function of each of the four."""
        return ByRole(
            drawn=function(self.drawn),
            higher=function(self.higher),
            near_zero=function(self.near_zero),
            singles=function(self.singles),
        )


def draw_severities(
    streams: Sequence[torch.Generator],
    batch: int,
    near_zero: float,
    phi: Tensor,
    correlated: bool = False,
) -> ByRole:
    """Draw the severities of one step, each member from its own stream on the CPU.

    Parameters
    ----------
    batch : int
        B.
    near_zero : float
        Upper bound of z_cn.
    phi : Tensor
        Free parameters of the copula, (S, M, M), used if ``correlated``.
    """
    draws = torch.empty(len(streams), 3, batch, phi.shape[-1], dtype=phi.dtype)
    for member, stream in zip(draws, streams, strict=True):
        member.uniform_(generator=stream)
        if correlated:
            member[0].normal_(generator=stream)
    drawn, higher, low = draws.to(phi.device).unbind(1)
    if correlated:
        drawn = torch.special.ndtr(torch.bmm(drawn, copula_factor(phi).mT))
    return ByRole(
        drawn=drawn,
        higher=torch.lerp(drawn, torch.ones_like(drawn), higher),
        near_zero=near_zero * low,
        singles=torch.diag_embed(drawn),
    )


def copula_factor(phi: Tensor) -> Tensor:
    """Return L for free parameters phi: lower triangle, positive diagonal, rows of norm
    one; (S, M, M).
    """
    diagonal = phi.diagonal(dim1=1, dim2=2).abs()
    return functional.normalize(phi.tril(-1) + torch.diag_embed(diagonal), dim=2)


def copula_divergence(factor: Tensor) -> Tensor:
    """Return the KL divergence of independent severities from those of the copula: (S,
    M, M) -> (S,).
    """
    identity = torch.eye(factor.shape[1], dtype=factor.dtype, device=factor.device)
    inverse = torch.linalg.solve_triangular(
        factor, identity.expand_as(factor), upper=False
    )
    log_det = 2 * factor.diagonal(dim1=1, dim2=2).log().sum(dim=1)
    trace: Tensor = inverse.square().sum(dim=(1, 2))
    return (trace - factor.shape[1] + log_det) / 2


def copula_loss(fake: Tensor, phi: Tensor, divergence: float) -> Tensor:
    """Return the loss of the copula, (S,).

    It is the loss of D's logits of synthesised patients plus a weighted divergence. No
    other loss enters: only D depends on the distribution of patients, and the others
    would fit z to f.

    Parameters
    ----------
    fake : Tensor of shape (S, B, 2)
        Logits of synthesised patients.
    phi : Tensor
        Free parameters of the copula.
    divergence : float
        Weight of the divergence from independence.
    """
    margin = fake[..., 1 - REAL_LOGIT] - fake[..., REAL_LOGIT]
    return margin.mean(dim=1) + divergence * copula_divergence(copula_factor(phi))


@dataclass(frozen=True, kw_only=True)
class LossTerms:
    """Unweighted terms of one step, (S,) each; the seven of the objective come last.

    Attributes
    ----------
    discrimination : Tensor
    adversarial : Tensor
    change : Tensor
    decomposition : Tensor
    reconstruction : Tensor
    orthogonality : Tensor
    monotonicity : Tensor
    near_zero : Tensor
    """

    discrimination: Tensor  # minimised by D
    adversarial: Tensor
    change: Tensor  # gamma
    decomposition: Tensor  # kappa
    reconstruction: Tensor  # zeta
    orthogonality: Tensor  # lambda
    monotonicity: Tensor  # mu
    near_zero: Tensor  # eta

    def stack(self) -> Tensor:
        """Return the terms in the order of `LOSS_NAMES`, (T, S)."""
        return torch.stack([getattr(self, name) for name in LOSS_NAMES])

    @classmethod
    def unstack(cls, values: Tensor) -> LossTerms:
        """Return the terms of which `stack` made an array."""
        return cls(**dict(zip(LOSS_NAMES, values, strict=True)))


def cross_entropy(logits: Tensor, *, real: bool) -> Tensor:
    """Return the mean of l_c(D(.), e_1) if ``real``, else of l_c(D(.), e_0): (S, B, 2)
    -> (S,).
    """
    margin = logits[..., REAL_LOGIT] - logits[..., 1 - REAL_LOGIT]
    return functional.softplus(-margin if real else margin).mean(dim=1)


def discrimination_loss(fake: Tensor, real: Tensor) -> Tensor:
    """Return the loss of D on logits of synthesised and real patients: (S, B, 2) x2 ->
    (S,).
    """
    return cross_entropy(fake, real=False) + cross_entropy(real, real=True)


def adversarial_loss(fake: Tensor) -> Tensor:
    """Return the loss of f against D: synthesised patients should pass as real; (S, B,
    2) -> (S,).
    """
    return cross_entropy(fake, real=True)


def change_loss(changes: Tensor) -> Tensor:
    """Return the mean of |f(x, z) - x|, which keeps the transformation sparse: (S, B,
    R) -> (S,).
    """
    return _average(changes.abs())


def decomposition_loss(shares: Tensor, singles: Tensor) -> Tensor:
    """Return the mean square of g1(f(x, z)) - q: (S, B, M, R) x2 -> (S,)."""
    return _average(functional.mse_loss(shares, singles, reduction="none"))


def reconstruction_loss(r: Tensor, singles: Tensor) -> Tensor:
    """Return the mean square of g2's M outputs for each share less a^i: (S, B, M, M) x2
    -> (S,).
    """
    return _average(functional.mse_loss(r, singles, reduction="none"))


def orthogonality_loss(singles: Tensor) -> Tensor:
    """Return the mean square of A^T A - I, where A has columns abs(q_i) / norm(q_i):
    (S, B, M, R) -> (S,).
    """
    sizes = singles.abs()
    half = (
        sizes @ sizes.detach().mT
    )  # its gradient is half of that of the symmetric product, at half the cost
    gram = 2 * half - half.detach()
    # below the smallest number, gradients of a change without direction are zero
    # instead of NaN
    inverse_norm = (
        gram.diagonal(dim1=2, dim2=3).clamp_min(torch.finfo(gram.dtype).tiny).rsqrt()
    )
    unit = gram * inverse_norm.unsqueeze(2) * inverse_norm.unsqueeze(3)
    return _average(
        (unit - torch.eye(unit.shape[2], dtype=unit.dtype, device=unit.device)).square()
    )


def monotonicity_loss(low: Tensor, high: Tensor) -> Tensor:
    """Return the mean square of max(|change at z| - |change at z'|, 0): (S, B, R) x2 ->
    (S,).
    """
    return _average((low.abs() - high.abs()).relu().square())


def _average(values: Tensor) -> Tensor:
    """Return the mean of each member: (S, ...) -> (S,).

    The gradient of the sum needs no array of its own.
    """
    return values.flatten(1).sum(dim=1) / values[0].numel()


near_zero_loss = change_loss
"""The cn loss, mean |f(x, z_cn) - x|: (S, B, R) -> (S,)."""

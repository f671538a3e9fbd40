"""Starting at a solution: f taught the linear model of a member's people, and what D and the copula start from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rindices._typing import FloatArray
from rindices.learners.contrastive.linear_start import LinearStart
from rindices.learners.contrastive.severity_prior import QUANTILE_GRID
from rindices.learners.surreal import networks
from rindices.learners.surreal.batches import BatchSampler
from rindices.learners.surreal.networks import Transformation, append_ones
from rindices.learners.surreal.recipe import Recipe
from rindices.learners.surreal.state import MemberStack
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD

_BATCH_SIZE = 128
_SINGLE_PATTERN_SHARE, _NEAR_ZERO_SHARE = (
    0.3,
    0.05,
)  # shares of the lessons in one pattern alone, and in almost no disease
_UNWHITENED_WEIGHT = 0.1  # weight of the error in control standard deviations beside the whitened one


def warm_start_members(
    stack: MemberStack, batches: BatchSampler, starts: Sequence[LinearStart], recipe: Recipe, seed: int
) -> None:
    """Bring members to their starts, in place.

    Parameters
    ----------
    starts : sequence of Start
        One per member, in the order of the stack.
    """
    like = stack.phi
    if recipe.conditioning != "none":
        stack.conditioner = torch.stack([_make_conditioner(start.whitening_covariance) for start in starts]).to(like)
    if not recipe.warm_start:
        return
    stack.phi.copy_(torch.as_tensor(np.stack([start.prior.factor for start in starts])))
    pretrain_transformation(stack, batches, starts, recipe, seed)


def _make_conditioner(covariance: FloatArray) -> Tensor:
    """The map (R + 1, R + 1) that makes people of this covariance, in control sd, white with sd 0.1 about zero."""
    root = compute_whitening_matrix(covariance)
    full = np.eye(len(root) + 1)
    full[:-1, :-1] = root
    full[-1, :-1] = -CONTROL_MEAN * root.sum(axis=0)
    return torch.as_tensor(full)


def compute_whitening_matrix(covariance: FloatArray) -> FloatArray:
    """The symmetric inverse root, (R, R)."""
    values, vectors = np.linalg.eigh(covariance)
    floor = 1e-9 * max(float(values.max()), 1e-12)
    return np.asarray(vectors / np.sqrt(np.maximum(values, floor)) @ vectors.T)


def pretrain_transformation(
    stack: MemberStack, batches: BatchSampler, starts: Sequence[LinearStart], recipe: Recipe, seed: int
) -> None:
    """Fit f to x + D q(z) by Adam, the error measured where normal variation is white.

    In the plain metric small errors in directions of little variation would ruin the inverse.
    """
    like = stack.phi
    shifts = CONTROL_SD * torch.as_tensor(np.stack([start.patterns.T for start in starts])).to(like)
    quantiles = torch.as_tensor(np.stack([start.prior.quantiles for start in starts])).to(like)
    white = torch.as_tensor(np.stack([compute_whitening_matrix(start.noise) for start in starts])).to(like)
    streams = [np.random.default_rng([seed, member, 2]) for member in stack.members]
    with torch.inference_mode(False), torch.enable_grad():
        weights = [torch.nn.Parameter(weight.clone()) for weight in stack.weights.networks.f]
        adam = torch.optim.Adam(weights, lr=recipe.start_rate, fused=True)
        for step in range(recipe.start_steps):
            for group in adam.param_groups:
                group["lr"] = recipe.start_rate * min(1.0, 2.0 - 2.0 * step / recipe.start_steps)
            x, z = _draw_pretraining_batch(batches, streams, like)
            change = networks.apply_transformation(Transformation(*weights), x, append_ones(z)).change
            error = (change - torch.bmm(_interpolate_quantiles(z, quantiles), shifts)) / CONTROL_SD
            loss = (
                torch.bmm(error, white).square().mean(dim=(1, 2)) + _UNWHITENED_WEIGHT * error.square().mean(dim=(1, 2))
            ).sum()
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            with torch.no_grad():
                for taught in weights:
                    taught.clamp_(-recipe.clip, recipe.clip)
        for own, taught in zip(stack.weights.networks.f, weights, strict=True):
            own.copy_(taught.detach())


def _draw_pretraining_batch(
    batches: BatchSampler, streams: Sequence[np.random.Generator], like: Tensor
) -> tuple[Tensor, Tensor]:
    """Controls (S, B, R) and severities z (S, B, M) of one step, each member from its own stream."""
    order, width = batches.orders[0], like.shape[1]
    size = (min(_BATCH_SIZE, order.shape[1]),)
    rows, drawn = [], []
    for place, stream in enumerate(streams):
        rows.append(order[place][torch.as_tensor(stream.integers(order.shape[1], size=size), device=order.device)])
        z, kind = stream.random((*size, width)), stream.random((*size, 1))
        alone = np.eye(width)[stream.integers(width, size=size)]
        z = np.where(kind < _SINGLE_PATTERN_SHARE, z * alone, z)
        drawn.append(np.where(kind > 1 - _NEAR_ZERO_SHARE, 0.05 * z, z))
    x = batches.table[torch.stack(rows).flatten()].view(len(streams), *size, -1)[..., :-1]
    return x, torch.as_tensor(np.stack(drawn)).to(like)


def _interpolate_quantiles(z: Tensor, quantiles: Tensor) -> Tensor:
    """q_k(z_k) on the grid of the prior: (S, B, M), (S, M, Q) -> (S, B, M)."""
    last = len(QUANTILE_GRID) - 1
    place = (z.mT * last).clamp(0, last - 1e-3)  # (S, M, B)
    low = place.long()
    left, right = quantiles.gather(2, low), quantiles.gather(2, low + 1)
    return torch.lerp(left, right, place - low).mT

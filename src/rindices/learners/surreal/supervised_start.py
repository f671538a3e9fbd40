"""Warm start: fit f to the linear model of a member's people, and set the map before D and the copula."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
_SINGLE_PATTERN_SHARE = 0.3  # share of the training examples with one pattern alone
_NEAR_ZERO_SHARE = 0.05  # share of the training examples with almost no disease
_UNWHITENED_WEIGHT = 0.1  # weight of the error in control standard deviations, relative to the whitened error


def warm_start_members(
    stack: MemberStack, batches: BatchSampler, starts: Sequence[LinearStart], recipe: Recipe, seed: int
) -> None:
    """Initialise members from their linear starts, one per member of the stack, in place."""
    if recipe.conditioning != "none":
        conditioners = [_make_conditioner(start.whitening_covariance) for start in starts]
        stack.conditioner = torch.stack(conditioners).to(stack.phi)
    if recipe.warm_start:
        stack.phi.copy_(torch.as_tensor(np.stack([start.prior.factor for start in starts])))
        pretrain_transformation(stack, batches, starts, recipe, seed)


def _make_conditioner(covariance: FloatArray) -> Tensor:
    """Return the map (R + 1, R + 1) that centres people of this covariance and makes them white with sd 0.1."""
    root = compute_whitening_matrix(covariance)
    conditioner = np.eye(len(root) + 1)
    conditioner[:-1, :-1] = root
    conditioner[-1, :-1] = -CONTROL_MEAN * root.sum(axis=0)
    return torch.as_tensor(conditioner)


def compute_whitening_matrix(covariance: FloatArray) -> FloatArray:
    """Return the symmetric inverse square root of a covariance, (R, R)."""
    values, vectors = np.linalg.eigh(covariance)
    floor = 1e-9 * max(float(values.max()), 1e-12)
    return np.asarray(vectors / np.sqrt(np.maximum(values, floor)) @ vectors.T)


def pretrain_transformation(
    stack: MemberStack, batches: BatchSampler, starts: Sequence[LinearStart], recipe: Recipe, seed: int
) -> None:
    """Fit f to x + D q(z), the linear starts of the members."""
    like = stack.phi
    shifts = CONTROL_SD * torch.as_tensor(np.stack([start.patterns.T for start in starts])).to(like)
    quantiles = torch.as_tensor(np.stack([start.prior.quantiles for start in starts])).to(like)

    def compute_change(z: Tensor) -> Tensor:
        return torch.bmm(_interpolate_quantiles(z, quantiles), shifts)

    fit_transformation(stack, batches, compute_change, [start.noise for start in starts], recipe, seed)


def fit_transformation(
    stack: MemberStack,
    batches: BatchSampler,
    compute_change: Callable[[Tensor], Tensor],
    noise: Sequence[FloatArray],
    recipe: Recipe,
    seed: int,
) -> None:
    """Fit f to x + change(z) by Adam, mainly in the metric in which normal variation is white.

    In the plain metric, small errors in directions of little variation would ruin the inverse.

    Parameters
    ----------
    stack : MemberStack
        Its f is changed in place.
    batches : BatchSampler
    compute_change : callable
        Takes severities (S, B, M); returns the change (S, B, R) on the scale of the networks.
    noise : sequence of (R, R)
        Covariance of normal variation, one for each member.
    recipe : Recipe
    seed : int
    """
    like = stack.phi
    whitening = torch.as_tensor(np.stack([compute_whitening_matrix(each) for each in noise])).to(like)
    streams = [np.random.default_rng([seed, member, 2]) for member in stack.members]
    with torch.inference_mode(False), torch.enable_grad():
        weights = [torch.nn.Parameter(weight.clone()) for weight in stack.weights.networks.f]
        adam = torch.optim.Adam(weights, lr=recipe.start_rate, fused=True)
        for step in range(recipe.start_steps):
            for group in adam.param_groups:
                group["lr"] = recipe.start_rate * min(1.0, 2.0 - 2.0 * step / recipe.start_steps)
            x, z = _draw_pretraining_batch(batches, streams, like)
            change = networks.apply_transformation(Transformation(*weights), x, append_ones(z)).change
            error = (change - compute_change(z)) / CONTROL_SD
            whitened_loss = torch.bmm(error, whitening).square().mean(dim=(1, 2))
            loss = (whitened_loss + _UNWHITENED_WEIGHT * error.square().mean(dim=(1, 2))).sum()
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            with torch.no_grad():
                for weight in weights:
                    weight.clamp_(-recipe.clip, recipe.clip)
        for target, weight in zip(stack.weights.networks.f, weights, strict=True):
            target.copy_(weight.detach())


def _draw_pretraining_batch(
    batches: BatchSampler, streams: Sequence[np.random.Generator], like: Tensor
) -> tuple[Tensor, Tensor]:
    """Return controls (S, B, R) and severities z (S, B, M) of one step, each member from its own stream."""
    order, n_patterns = batches.orders[0], like.shape[1]
    size = (min(_BATCH_SIZE, order.shape[1]),)
    rows, severities = [], []
    for position, stream in enumerate(streams):
        rows.append(order[position][torch.as_tensor(stream.integers(order.shape[1], size=size), device=order.device)])
        z, kind = stream.random((*size, n_patterns)), stream.random((*size, 1))
        one_pattern = np.eye(n_patterns)[stream.integers(n_patterns, size=size)]
        z = np.where(kind < _SINGLE_PATTERN_SHARE, z * one_pattern, z)
        severities.append(np.where(kind > 1 - _NEAR_ZERO_SHARE, 0.05 * z, z))
    x = batches.table[torch.stack(rows).flatten()].view(len(streams), *size, -1)[..., :-1]
    return x, torch.as_tensor(np.stack(severities)).to(like)


def _interpolate_quantiles(z: Tensor, quantiles: Tensor) -> Tensor:
    """Return q_k(z_k) on the grid of the prior: (S, B, M), (S, M, Q) -> (S, B, M)."""
    last = len(QUANTILE_GRID) - 1
    position = (z.mT * last).clamp(0, last - 1e-3)  # (S, M, B)
    below = position.long()
    left, right = quantiles.gather(2, below), quantiles.gather(2, below + 1)
    return torch.lerp(left, right, position - below).mT

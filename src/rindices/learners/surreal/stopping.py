"""Stopping rule of warm starts: D on held-out people."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rindices.learners.surreal import latents, losses, networks
from rindices.learners.surreal.networks import append_ones
from rindices.learners.surreal.training_state import TrainingState

CHANCE_LOSS = 2 * math.log(2)
"""Loss of a D that cannot tell synthesised from real patients."""
_DRAWS_PER_CONTROL = 4  # synthesised patients for each held-out control


def discriminator_at_chance(state: TrainingState) -> Tensor | None:
    """Return whether D cannot tell held-out patients from synthesised ones, (S,).

    None if the recipe has no such rule or nobody is held out.
    """
    bar = state.work.recipe.telling_bar
    if not bar or not all(rows.shape[1] for rows in state.batches.unseen):
        return None
    return held_out_discrimination_loss(state) >= bar * CHANCE_LOSS


@torch.inference_mode()
def held_out_discrimination_loss(state: TrainingState) -> Tensor:
    """Return D's loss on the people that each member has not seen, (S,)."""
    stack, batches = state.stack, state.batches
    nets, table = stack.weights.networks, batches.table
    x, real = (table[rows.flatten()].view(*rows.shape, -1) for rows in batches.unseen)
    x = x[..., :-1].repeat_interleave(_DRAWS_PER_CONTROL, dim=1)
    z = torch.stack([_draw_severities(state, position, x.shape[1]) for position in range(len(stack.members))])
    fake = append_ones(x + networks.apply_transformation(nets.f, x, append_ones(z)).change)
    if stack.conditioner is not None:
        fake, real = (torch.bmm(people, stack.conditioner) for people in (fake, real))
    return losses.discrimination_loss(*(networks.apply_perceptron(nets.d, people).top for people in (fake, real)))


def _draw_severities(state: TrainingState, position: int, count: int) -> Tensor:
    """Return severities for one member at this step, (U, M), from a stream of their own."""
    phi = state.stack.phi
    entropy = (state.seed, state.stack.members[position], state.steps, 1)
    rng = np.random.default_rng(np.random.SeedSequence(entropy))
    shape = (count, phi.shape[1])
    if not state.work.recipe.correlated:
        return torch.as_tensor(rng.random(shape)).to(phi)
    normals = torch.as_tensor(rng.standard_normal(shape)).to(phi)
    z: Tensor = torch.special.ndtr(normals @ latents.copula_factor(phi)[position].T)
    return z

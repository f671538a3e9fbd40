"""D on people that a member has not seen: the honest word on whether there is anything left to learn."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rindices.learners.surreal import latents, losses, networks
from rindices.learners.surreal.networks import append_ones
from rindices.learners.surreal.training_state import TrainingState

CHANCE_LOSS = 2 * math.log(2)
"""Loss of a D that knows nothing."""
_DRAWS_PER_CONTROL = 4  # synthesised patients for each unseen control


def discriminator_at_chance(group: TrainingState) -> Tensor | None:
    """Whether D cannot tell unseen patients from synthesised ones, (S,); None where nobody is unseen or asks."""
    bar = group.work.recipe.telling_bar
    if not bar or not group.batches.unseen[0].shape[1] or not group.batches.unseen[1].shape[1]:
        return None
    return held_out_discrimination_loss(group) >= bar * CHANCE_LOSS


@torch.inference_mode()
def held_out_discrimination_loss(group: TrainingState) -> Tensor:
    """D's loss on people whom the member has not seen, (S,)."""
    stack, batches = group.stack, group.batches
    nets, table = stack.weights.networks, batches.table
    x, real = (table[rows.flatten()].view(*rows.shape, -1) for rows in batches.unseen)
    x = x[..., :-1].repeat_interleave(_DRAWS_PER_CONTROL, dim=1)
    z = torch.stack([_draw_severities(group, place, x.shape[1]) for place in range(len(stack.members))])
    made = append_ones(x + networks.apply_transformation(nets.f, x, append_ones(z)).change)
    if stack.conditioner is not None:
        made, real = (torch.bmm(people, stack.conditioner) for people in (made, real))
    return losses.discrimination_loss(*(networks.apply_perceptron(nets.d, people).top for people in (made, real)))


def _draw_severities(group: TrainingState, place: int, number: int) -> Tensor:
    """Severities for one member at this step, (U, M), from a stream of their own."""
    phi = group.stack.phi
    entropy = (group.seed, group.stack.members[place], group.steps, 1)
    rng = np.random.default_rng(np.random.SeedSequence(entropy))
    shape = (number, phi.shape[1])
    if not group.work.recipe.correlated:
        return torch.as_tensor(rng.random(shape)).to(phi)
    normals = torch.as_tensor(rng.standard_normal(shape)).to(phi)
    z: Tensor = torch.special.ndtr(normals @ latents.copula_factor(phi)[place].T)
    return z

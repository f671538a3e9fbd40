"""The members in training, and the buffers that a step writes to."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from rindices.learners.surreal import latents, networks
from rindices.learners.surreal.gradients import TransformationInputs, make_orthogonality_buffers
from rindices.learners.surreal.latents import RowsByRole
from rindices.learners.surreal.networks import (
    FlatWeights,
    NetworkSizes,
    PerceptronTrace,
    TransformationTrace,
    append_ones,
)
from rindices.learners.surreal.recipe import LossWeights, Recipe


def compute_gradient_scales(weights: LossWeights, sizes: NetworkSizes, batch: int) -> LossWeights:
    """Divide the weight of each loss by the number of entries that its mean runs over.

    The 2 of a square and the 4 of a Gram matrix are included.
    """
    m, entries = sizes.patterns, batch * sizes.regions
    return LossWeights(
        adversarial=weights.adversarial / batch,
        change=weights.change / entries,
        decomposition=2 * weights.decomposition / (entries * m),
        reconstruction=2 * weights.reconstruction / (batch * m),
        orthogonality=4 * weights.orthogonality / (batch * m * m),
        monotonicity=2 * weights.monotonicity / entries,
        near_zero=weights.near_zero / entries,
    )


class GradientScaleTensors(NamedTuple):
    """Gradient scales as scalar tensors, which multiply faster than Python floats."""

    change: Tensor
    reconstruction: Tensor
    near_zero: Tensor
    minus_monotonicity: Tensor
    minus_adversarial: Tensor

    @classmethod
    def from_scales(cls, scales: LossWeights, like: Tensor) -> GradientScaleTensors:
        """Return tensors of the dtype and device of ``like``."""
        positive = scales.change, scales.reconstruction, scales.near_zero
        return cls(*map(like.new_tensor, (*positive, -scales.monotonicity, -scales.adversarial)))


class Workspace:
    """Buffers of a step of S members on batches of B people, and views of them.

    All are made once: at these sizes, making a tensor or a view costs as much as the arithmetic on it. A name with the
    prefix ``d_`` holds the gradient of the name that follows.

    Parameters
    ----------
    sizes : NetworkSizes
        Regions and patterns.
    members, batch : int
        S and B.
    recipe : Recipe
        Source of loss weights and learning rates. The loop sets ``rate_factor`` and ``f_frozen`` before each step.
    like : Tensor
        Tensor with the dtype and device to use.
    """

    def __init__(self, sizes: NetworkSizes, members: int, batch: int, recipe: Recipe, like: Tensor) -> None:
        r, m, h, n = sizes.regions, sizes.patterns, sizes.wide, sizes.narrow
        s, b, rows = members, batch, batch * latents.count_severity_vectors(sizes.patterns)

        def new(*shape: int) -> Tensor:
            return like.new_zeros(shape)

        def perceptron(rows: int, outputs: int) -> PerceptronTrace:
            return PerceptronTrace(new(s, rows, h), new(s, rows, n), new(s, rows, outputs))

        def transformation() -> TransformationTrace:
            per_person = new(s, b, h), new(s, b, n)
            per_row = new(s, rows, n), new(s, rows, n), new(s, rows, h), new(s, rows, r)
            return TransformationTrace(*per_person, *per_row)

        self.sizes, self.batch, self.recipe = sizes, batch, recipe
        self.rate_factor, self.f_frozen = 1.0, False
        self.gradient_scales = compute_gradient_scales(recipe.weights, sizes, batch)
        self.scale_tensors = GradientScaleTensors.from_scales(self.gradient_scales, like)
        self.people, self.fake_and_real = append_ones(new(s, 2 * b, r)), append_ones(new(s, 2 * b, r))
        self.discriminator_input = (
            self.fake_and_real if recipe.conditioning == "none" else append_ones(new(s, 2 * b, r))
        )
        self.draws = torch.zeros(s, 3, b, m, dtype=like.dtype)
        self.z_rows = append_ones(new(s, rows, m))
        self.f, self.d_f = transformation(), transformation()
        self.d, self.d_d = perceptron(2 * b, 2), perceptron(2 * b, 2)
        self.fake, self.d_fake = perceptron(b, 2), perceptron(b, 2)
        self.g2, self.d_g2 = perceptron(b * m, 1), perceptron(b * m, 1)
        self.y_leaky, self.d_y = new(s, b, r + 1), new(s, b, r)
        self.shares, self.d_shares = new(s, b, m, r), new(s, b, m, r)
        self.magnitude_rows = new(s, rows, r)  # absolute changes
        self.excess, self.d_magnitude = new(s, b, r), new(s, b, m, r)
        self.targets = new(2 * b)
        self.targets[b:] = -1 / b
        self.orthogonality_buffers = make_orthogonality_buffers(s * b, m, self.gradient_scales.orthogonality, like)
        self.grads = networks.allocate_weights(sizes, s, like)
        self._make_views()

    def _make_views(self) -> None:
        """Make the views that the step would otherwise make every time."""
        self.controls = self.people[:, : self.batch, :-1]
        self.synthetic_with_one = self.fake_and_real[:, : self.batch]
        self.synthetic = self.synthetic_with_one[..., :-1]  # y'
        self.r, self.d_r = (trace.top.view(-1, self.batch, self.sizes.patterns) for trace in (self.g2, self.d_g2))
        self.share_rows, self.d_share_rows = self.shares.flatten(1, 2), self.d_shares.flatten(1, 2)
        self.share_blocks, self.d_share_blocks = self.shares.flatten(2), self.d_shares.flatten(2)
        self.magnitude = RowsByRole(self.magnitude_rows, self.batch)
        self.magnitude_by_person = self.magnitude.singles.flatten(0, 1)
        self.d_magnitude_by_person = self.d_magnitude.flatten(0, 1)
        self.z = RowsByRole(self.z_rows[..., :-1], self.batch)
        self.change, self.d_change = (RowsByRole(t.change, self.batch) for t in (self.f, self.d_f))
        self.inputs = TransformationInputs(self.controls, self.z_rows)


@dataclass
class MemberStack:
    """S members in training.

    Parameters
    ----------
    members : tuple of int
        Their numbers within the run; each has its own random stream.
    sizes : NetworkSizes
        Regions and patterns.
    step_count : Tensor
        Steps taken, a scalar.
    weights, first_moments, second_moments : FlatWeights
        The four networks and Adam's two moments of each weight.
    phi, phi_first_moment, phi_second_moment : Tensor
        Free parameters of the copula and their moments, (S, M, M).
    streams : list of torch.Generator
        One random stream per member.
    conditioner : Tensor, optional
        Fixed linear map before D, (S, R + 1, R + 1); its last row and column belong to the constant one.
    """

    members: tuple[int, ...]
    sizes: NetworkSizes
    step_count: Tensor
    weights: FlatWeights
    first_moments: FlatWeights
    second_moments: FlatWeights
    phi: Tensor
    phi_first_moment: Tensor
    phi_second_moment: Tensor
    streams: list[torch.Generator]
    conditioner: Tensor | None = None

    def select(self, positions: Sequence[int]) -> MemberStack:
        """Return a stack of the members at these positions of the S axis."""
        index = torch.tensor(list(positions), dtype=torch.long, device=self.phi.device)
        select_weights = functools.partial(networks.select_member_weights, sizes=self.sizes, index=index)
        return replace(
            self,
            members=tuple(self.members[position] for position in positions),
            weights=select_weights(self.weights),
            first_moments=select_weights(self.first_moments),
            second_moments=select_weights(self.second_moments),
            phi=self.phi[index],
            phi_first_moment=self.phi_first_moment[index],
            phi_second_moment=self.phi_second_moment[index],
            streams=[self.streams[position] for position in positions],
            conditioner=None if self.conditioner is None else self.conditioner[index],
        )


def make_member_stack(
    members: Sequence[int], sizes: NetworkSizes, recipe: Recipe, seed: int, like: Tensor
) -> MemberStack:
    """Return members with random initial weights, of the dtype and device of ``like``."""
    weights, first, second = (networks.allocate_weights(sizes, len(members), like) for _ in range(3))
    streams = [latents.make_member_generator(seed, member) for member in members]
    networks.initialise_weights(weights, recipe.init_sd, streams)
    phi = torch.eye(sizes.patterns).to(like).repeat(len(members), 1, 1)
    step_count = torch.zeros((), dtype=torch.float32, device=like.device)
    phi_moments = torch.zeros_like(phi), torch.zeros_like(phi)
    return MemberStack(tuple(members), sizes, step_count, weights, first, second, phi, *phi_moments, streams=streams)

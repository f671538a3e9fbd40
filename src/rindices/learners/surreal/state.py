"""What S members in training consist of, and the buffers their steps write to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rindices.learners.surreal import latents, networks
from rindices.learners.surreal.gradients import TransformationInputs, make_orthogonality_buffers
from rindices.learners.surreal.latents import DRAWN_INDEX, FIRST_SINGLE_INDEX, HIGHER_INDEX, NEAR_ZERO_INDEX
from rindices.learners.surreal.networks import (
    FlatWeights,
    NetworkSizes,
    PerceptronTrace,
    TransformationTrace,
    append_ones,
)
from rindices.learners.surreal.recipe import Recipe


class GradientScales(NamedTuple):
    """Weight of each loss divided by the number of entries its mean runs over."""

    adversarial: float
    change: float
    decomposition: float
    reconstruction: float
    orthogonality: float
    monotonicity: float
    near_zero: float

    @classmethod
    def of(cls, recipe: Recipe, sizes: NetworkSizes, batch: int) -> GradientScales:
        """Factors of the gradients, the 2 of a square and the 4 of a Gram included."""
        w, m = recipe.weights, sizes.patterns
        entries = batch * sizes.regions
        return cls(
            adversarial=w.adversarial / batch,
            change=w.change / entries,
            decomposition=2 * w.decomposition / (entries * m),
            reconstruction=2 * w.reconstruction / (batch * m),
            orthogonality=4 * w.orthogonality / (batch * m * m),
            monotonicity=2 * w.monotonicity / entries,
            near_zero=w.near_zero / entries,
        )


class GradientScaleTensors(NamedTuple):
    """Pulls as scalar tensors, which multiply faster than Python's numbers do."""

    change: Tensor
    reconstruction: Tensor
    near_zero: Tensor
    minus_monotonicity: Tensor  # minus that of the monotonicity
    minus_adversarial: Tensor  # minus that of the adversarial loss

    @classmethod
    def of(cls, pulls: GradientScales, like: Tensor) -> GradientScaleTensors:
        """Of the dtype and device of ``like``."""
        kept = pulls.change, pulls.reconstruction, pulls.near_zero
        return cls(*map(like.new_tensor, (*kept, -pulls.monotonicity, -pulls.adversarial)))


class RowsByRole:
    """Rows (S, B * K, C) of a step by the role of their severities, as views.

    Parameters
    ----------
    rows : Tensor
        The K rows of a person together.
    batch : int
        B.
    """

    def __init__(self, rows: Tensor, batch: int) -> None:
        by_person = torch.unflatten(rows, 1, (batch, -1))
        self.drawn = by_person[:, :, DRAWN_INDEX]  # (S, B, C)
        self.higher = by_person[:, :, HIGHER_INDEX]  # (S, B, C)
        self.near_zero = by_person[:, :, NEAR_ZERO_INDEX]  # (S, B, C)
        self.singles = by_person[:, :, FIRST_SINGLE_INDEX:]  # (S, B, M, C)


class Workspace:
    """Buffers of a step of S members on batches of B people, and views of them.

    All are made once: at these sizes making a tensor or a view costs as much as the
    arithmetic on it. A name with ``d_`` holds the gradient of the name behind it.

    Parameters
    ----------
    sizes : Sizes
        Regions and patterns.
    members, batch : int
        S and B.
    recipe : Recipe
        Its loss weights. ``pace``, the share of its rates, and ``held``, whether f stands still, are set step by step.
    like : Tensor
        Gives dtype and device.
    """

    def __init__(self, sizes: NetworkSizes, members: int, batch: int, recipe: Recipe, like: Tensor) -> None:
        r, m, h, n = sizes.regions, sizes.patterns, sizes.wide, sizes.narrow
        s, b, rows = members, batch, batch * latents.count_severity_vectors(sizes.patterns)

        def new(*shape: int) -> Tensor:
            return like.new_zeros(shape)

        def perceptron(rows: int, outputs: int) -> PerceptronTrace:
            return PerceptronTrace(new(s, rows, h), new(s, rows, n), new(s, rows, outputs))

        def transformation() -> TransformationTrace:
            person = new(s, b, h), new(s, b, n)
            row = new(s, rows, n), new(s, rows, n), new(s, rows, h), new(s, rows, r)
            return TransformationTrace(*person, *row)

        self.sizes, self.batch, self.recipe = sizes, batch, recipe
        self.pace, self.f_frozen = 1.0, False
        self.gradient_scales = GradientScales.of(recipe, sizes, batch)
        self.people, self.pair = append_ones(new(s, 2 * b, r)), append_ones(new(s, 2 * b, r))
        self.discriminator_input = (
            self.pair if recipe.conditioning == "none" else append_ones(new(s, 2 * b, r))
        )  # what D sees
        self.controls = self.people[:, :b, :-1]
        self.synthetic_with_one = self.pair[:, :b]
        self.synthetic = self.synthetic_with_one[..., :-1]  # y'; the real patients follow it in ``pair``
        self.draws = torch.zeros(s, 3, b, m, dtype=like.dtype)
        self.z_rows = append_ones(new(s, rows, m))
        self.f, self.d_f = transformation(), transformation()
        self.d, self.d_d = perceptron(2 * b, 2), perceptron(2 * b, 2)
        self.fake, self.d_fake = perceptron(b, 2), perceptron(b, 2)
        self.g2, self.d_g2 = perceptron(b * m, 1), perceptron(b * m, 1)
        self.y_leaky, self.d_y = new(s, b, r + 1), new(s, b, r)
        self.shares, self.d_shares = new(s, b, m, r), new(s, b, m, r)
        self.excess, self.growth = new(s, b, r), new(s, b, m, r)
        self.size_rows = new(s, rows, r)
        self.scale_tensors = GradientScaleTensors.of(self.gradient_scales, like)
        self.targets = new(2 * b)
        self.targets[b:] = -1 / b
        self.orthogonality_buffers = make_orthogonality_buffers(s * b, m, self.gradient_scales.orthogonality, like)
        self.grads = networks.allocate_weights(sizes, s, like)
        self._make_views()

    def _make_views(self) -> None:
        """Views that the step would otherwise make again and again."""
        self.r, self.d_r = (trace.top.view(-1, self.batch, self.sizes.patterns) for trace in (self.g2, self.d_g2))
        self.share_rows, self.d_share_rows = self.shares.flatten(1, 2), self.d_shares.flatten(1, 2)
        self.share_blocks, self.d_share_blocks = self.shares.flatten(2), self.d_shares.flatten(2)
        self.size = RowsByRole(self.size_rows, self.batch)
        self.single_people = self.size.singles.flatten(0, 1)
        self.growth_people = self.growth.flatten(0, 1)
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
    sizes : Sizes
        Regions and patterns.
    count : Tensor
        Steps taken, a scalar.
    weights, first, second : Weights
        The four networks and Adam's two moments of each weight.
    phi, phi_first, phi_second : Tensor
        Free numbers of the copula and their moments, (S, M, M).
    streams : list of torch.Generator
        One per member.
    conditioner : Tensor, optional
        The fixed linear map before D, (S, R + 1, R + 1), its last row and column those of the constant one.
    """

    members: tuple[int, ...]
    sizes: NetworkSizes
    count: Tensor
    weights: FlatWeights
    first: FlatWeights
    second: FlatWeights
    phi: Tensor
    phi_first: Tensor
    phi_second: Tensor
    streams: list[torch.Generator]
    conditioner: Tensor | None = None

    def keep(self, places: Sequence[int]) -> MemberStack:
        """A stack of only the members at these places of the S axis."""
        index = torch.tensor(list(places), dtype=torch.long, device=self.phi.device)
        return MemberStack(
            members=tuple(self.members[place] for place in places),
            sizes=self.sizes,
            count=self.count,
            weights=networks.select_member_weights(self.weights, self.sizes, index),
            first=networks.select_member_weights(self.first, self.sizes, index),
            second=networks.select_member_weights(self.second, self.sizes, index),
            phi=self.phi[index],
            phi_first=self.phi_first[index],
            phi_second=self.phi_second[index],
            streams=[self.streams[place] for place in places],
            conditioner=None if self.conditioner is None else self.conditioner[index],
        )


def make_member_stack(
    members: Sequence[int], sizes: NetworkSizes, recipe: Recipe, seed: int, like: Tensor
) -> MemberStack:
    """Members at their random start, of the dtype and device of ``like``."""
    weights, first, second = (networks.allocate_weights(sizes, len(members), like) for _ in range(3))
    streams = [latents.make_member_generator(seed, member) for member in members]
    networks.initialise_weights(weights, recipe.init_sd, streams)
    phi = torch.eye(sizes.patterns).to(like).repeat(len(members), 1, 1)
    count = torch.zeros((), dtype=torch.float32, device=like.device)
    moments = torch.zeros_like(phi), torch.zeros_like(phi)
    return MemberStack(tuple(members), sizes, count, weights, first, second, phi, *moments, streams=streams)

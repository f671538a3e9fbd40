"""The four networks of Surreal-GAN, for a stack of members.

The leading axis of every tensor is that of the members. Shape letters, here and in all of ``learners.gan``: S
members, B people of a batch, R regions, M patterns, K severity vectors per person (3 + M in a step); H = R // 2 and
L = R // 4 are the widths of the hidden layers (69 and 34 in the paper, where R = 139).

Inputs that are assembled here end in a constant one, and the bias is the last row of the weights: the same product then
adds the bias, and the same transposed product gives its gradient.

The weights of f, g1 and g2 are in one flat buffer and those of D in another, so that the optimiser and the clipping are
one pass each; the named weights are views. The forward functions are pure and differentiable. Training calls them with
``out``, the buffers to write to, and uses the hand-written gradients of :mod:`.gradients`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rindices.learners.inference import LEAKY_RELU_SLOPE, compute_hidden_widths


@dataclass(frozen=True)
class NetworkSizes:
    """Numbers of regions and patterns, and the resulting widths of the hidden layers.

    regions: R, called S in the paper; patterns: M.
    """

    regions: int
    patterns: int

    @property
    def hidden(self) -> tuple[int, int]:
        """Widths H and L of the hidden layers."""
        return compute_hidden_widths(self.regions)


class Transformation(NamedTuple):
    """Weights of f (Table 3): the change of a control's regions under severities z."""

    encode1: Tensor  # (S, R, H)
    encode2: Tensor  # (S, H, L)
    gate: Tensor  # (S, M + 1, L), the bias last
    decode1: Tensor  # (S, L, H)
    decode2: Tensor  # (S, H, R)


class Decomposer(NamedTuple):
    """Weights of g1 (Table 4): M blocks of R outputs."""

    weight: Tensor  # (S, R + 1, M * R), the bias last


class Perceptron(NamedTuple):
    """Weights of g2 (one output) or of D (two outputs), Table 4."""

    weight1: Tensor  # (S, R, H); of D (S, R + 1, H), the bias last
    bias1: Tensor | None  # (S, 1, H); of D None
    weight2: Tensor  # (S, H, L)
    bias2: Tensor  # (S, 1, L)
    weight3: Tensor  # (S, L, outputs)
    bias3: Tensor  # (S, 1, outputs)


WEIGHTS_WITH_BIAS_ROW = ("f.gate", "g1.weight", "d.weight1")
"""Weights whose last row is a bias."""


class Networks(NamedTuple):
    """The four networks of all members; also the shape of their gradients."""

    f: Transformation
    g1: Decomposer
    g2: Perceptron
    d: Perceptron


class FlatWeights(NamedTuple):
    """Named views into flat storage, and the free parameters phi (S, M, M) of the copula.

    ``generator`` holds f, then g1, then g2; ``discriminator`` holds D. The members of each weight are contiguous, as
    batched products need them.
    """

    generator: Tensor
    discriminator: Tensor
    networks: Networks
    phi: Tensor


class TransformationTrace(NamedTuple):
    """Activations of f, after their nonlinearity; the K rows of a person are adjacent."""

    code1: Tensor  # (S, B, H)
    code2: Tensor  # (S, B, L)
    gate: Tensor  # (S, B * K, L)
    product: Tensor  # (S, B * K, L)
    hidden: Tensor  # (S, B * K, H)
    change: Tensor  # (S, B * K, R)


class PerceptronTrace(NamedTuple):
    """Activations of g2 or D; ``top`` is linear."""

    hidden1: Tensor  # (S, B, H)
    hidden2: Tensor  # (S, B, L)
    top: Tensor  # (S, B, outputs)


def allocate_weights(sizes: NetworkSizes, members: int, like: Tensor) -> FlatWeights:
    """Return zero weights for a number of members, of the dtype and device of ``like``."""
    r, m, (h, n) = sizes.regions, sizes.patterns, sizes.hidden
    f = (r, h), (h, n), (m + 1, n), (n, h), (h, r)
    g1 = ((r + 1, m * r),)
    g2 = (r, h), (1, h), (h, n), (1, n), (n, 1), (1, 1)
    d = (r + 1, h), (h, n), (1, n), (n, 2), (1, 2)
    generator, views = _allocate_views((*f, *g1, *g2), members, like)
    discriminator, d_views = _allocate_views(d, members, like)
    networks = Networks(
        Transformation(*views[:5]),
        Decomposer(views[5]),
        Perceptron(*views[6:]),
        Perceptron(d_views[0], None, *d_views[1:]),
    )
    return FlatWeights(generator, discriminator, networks, like.new_zeros(members, m, m))


def _allocate_views(shapes: Sequence[tuple[int, int]], members: int, like: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return a flat buffer and consecutive views (S, *shape) of it."""
    lengths = [members * math.prod(shape) for shape in shapes]
    flat = like.new_zeros(sum(lengths))
    parts = zip(torch.split(flat, lengths), shapes, strict=True)
    return flat, [part.view(members, *shape) for part, shape in parts]


def named_weights(networks: Networks) -> dict[str, Tensor]:
    """Return the weights by name, such as ``f.encode1``, in a fixed order."""
    return {
        f"{name}.{field}": tensor
        for name, network in networks._asdict().items()
        for field, tensor in network._asdict().items()
        if tensor is not None
    }


def initialise_weights(weights: FlatWeights, sd: float, generators: Sequence[torch.Generator]) -> None:
    """Fill with normal(0, sd) weights and zero biases, each member from its own stream.

    Numbers are drawn on the CPU, so that all devices start with the same weights.
    """
    for name, tensor in named_weights(weights.networks).items():
        tensor.zero_()
        if "bias" not in name:
            without_bias = tensor[:, :-1] if name in WEIGHTS_WITH_BIAS_ROW else tensor
            for member, generator in zip(without_bias, generators, strict=True):
                member.copy_(torch.randn(member.shape, generator=generator) * sd)


def select_member_weights(weights: FlatWeights, sizes: NetworkSizes, index: Tensor) -> FlatWeights:
    """Return a copy of the members at these positions of the S axis."""
    selected = allocate_weights(sizes, len(index), weights.generator)
    source = named_weights(weights.networks)
    for name, tensor in named_weights(selected.networks).items():
        tensor.copy_(source[name][index])
    selected.phi.copy_(weights.phi[index])
    return selected


def apply_linear(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
    """Return x weight + bias: (S, B, in), (S, in, out), (S, 1, out) -> (S, B, out)."""
    if bias is None:
        return torch.bmm(x, weight, out=out)
    return torch.baddbmm(bias, x, weight, out=out)


def append_ones(x: Tensor) -> Tensor:
    """Append the constant one that a bias is multiplied with: (..., C) -> (..., C + 1)."""
    return functional.pad(x, (0, 1), value=1.0)


def leaky_relu_inplace(x: Tensor) -> Tensor:
    """Apply a leaky ReLU in place; its result has the sign of its input."""
    return functional.leaky_relu_(x, LEAKY_RELU_SLOPE)


def apply_transformation(
    f: Transformation, x: Tensor, z: Tensor, out: TransformationTrace | None = None
) -> TransformationTrace:
    """Compute the change of each person under each of K severity vectors; x is encoded once.

    f: weights; x: controls, (S, B, R); z: severities with a one, (S, B * K, M + 1); the K rows of a person are
    adjacent; out: buffers to write to. Returns ``change`` is f(x, z) - x, (S, B * K, R).
    """
    buffers: Sequence[Tensor | None] = out or [None] * 6
    code1 = leaky_relu_inplace(apply_linear(x, f.encode1, None, buffers[0]))
    code2 = leaky_relu_inplace(apply_linear(code1, f.encode2, None, buffers[1]))
    gate = apply_linear(z, f.gate, None, buffers[2]).sigmoid_()
    product = apply_gates(gate, code2, buffers[3])
    hidden = leaky_relu_inplace(apply_linear(product, f.decode1, None, buffers[4]))
    change = leaky_relu_inplace(apply_linear(hidden, f.decode2, None, buffers[5]))
    return TransformationTrace(code1, code2, gate, product, hidden, change)


def apply_gates(gate: Tensor, code: Tensor, out: Tensor | None = None) -> Tensor:
    """Multiply each person's code by that person's K gates: (S, B * K, L), (S, B, L) -> (S, B * K, L)."""
    per_person = (*code.shape[:2], -1, code.shape[2])
    view = None if out is None else out.view(per_person)
    return torch.mul(gate.view(per_person), code.unsqueeze(2), out=view).view(gate.shape)


def apply_perceptron(network: Perceptron, x: Tensor, out: PerceptronTrace | None = None) -> PerceptronTrace:
    """Apply g2, or D to people with a one: (S, B, R or R + 1) -> (S, B, outputs)."""
    buffers: Sequence[Tensor | None] = out or [None] * 3
    hidden1 = leaky_relu_inplace(apply_linear(x, network.weight1, network.bias1, buffers[0]))
    hidden2 = leaky_relu_inplace(apply_linear(hidden1, network.weight2, network.bias2, buffers[1]))
    top = apply_linear(hidden2, network.weight3, network.bias3, buffers[2])
    return PerceptronTrace(hidden1, hidden2, top)

"""The four networks of Surreal-GAN, many members side by side.

Every tensor carries the members on its leading axis. Shape letters, here and in
all of ``learners.surreal``: S members, B people of a batch, R regions, M patterns,
K severities per person (3 + M in a step); H = R // 2 and L = R // 4 are the widths
of the hidden layers (69 and 34 in the paper, where R = 139).

Where a layer's input is ours to lay out, it ends in a constant one and the bias is the
last row of the weights: the product then adds the bias, and its transpose yields the
bias' gradient, without passes of their own.

The weights of f, g1 and g2 lie in one flat buffer and those of D in another, so
that the optimiser and the clipping are one pass each; the named weights are views.
The forward functions are pure and differentiable. Training calls the very same
functions with ``out``, the buffers to write to, and differentiates by hand
(see :mod:`.gradients`).
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

WeightShapes = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class NetworkSizes:
    """Number of regions and patterns, and the widths that follow from them.

    Parameters
    ----------
    regions : int
        R, called S in the paper.
    patterns : int
        M.
    """

    regions: int
    patterns: int

    @property
    def wide(self) -> int:
        """H, width of the first hidden layer."""
        return compute_hidden_widths(self.regions)[0]

    @property
    def narrow(self) -> int:
        """L, width of the second hidden layer."""
        return compute_hidden_widths(self.regions)[1]


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
    """Named views into flat storage.

    ``generator`` holds f, then g1, then g2, so a tail of it is g alone;
    ``discriminator`` holds D. Each weight is contiguous with all its members, which
    batched products ask for.
    """

    generator: Tensor
    discriminator: Tensor
    networks: Networks


class TransformationTrace(NamedTuple):
    """Activations of f, after their nonlinearity; the K rows of a person lie together."""

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
    """Zero weights for ``members`` members, of the dtype and device of ``like``."""
    r, m, h, n = sizes.regions, sizes.patterns, sizes.wide, sizes.narrow
    f = (r, h), (h, n), (m + 1, n), (n, h), (h, r)
    g1 = ((r + 1, m * r),)
    g2 = (r, h), (1, h), (h, n), (1, n), (n, 1), (1, 1)
    d = (r + 1, h), (h, n), (1, n), (n, 2), (1, 2)
    generator, cut = _split_flat_buffer((*f, *g1, *g2), members, like)
    discriminator, rest = _split_flat_buffer(d, members, like)
    networks = Networks(
        Transformation(*cut[:5]),
        Decomposer(cut[5]),
        Perceptron(*cut[6:]),
        Perceptron(rest[0], None, *rest[1:]),
    )
    return FlatWeights(generator, discriminator, networks)


def _split_flat_buffer(shapes: WeightShapes, members: int, like: Tensor) -> tuple[Tensor, list[Tensor]]:
    """A flat buffer and its views (S, *shape), one after the other."""
    lengths = [members * math.prod(shape) for shape in shapes]
    flat = like.new_zeros(sum(lengths))
    pieces = torch.split(flat, lengths)
    return flat, [p.view(members, *shape) for p, shape in zip(pieces, shapes, strict=True)]


def named_weights(networks: Networks) -> dict[str, Tensor]:
    """The weights by name, such as ``f.encode1``, in a fixed order."""
    parts = [
        networks.f._asdict(),
        networks.g1._asdict(),
        networks.g2._asdict(),
        networks.d._asdict(),
    ]
    return {
        f"{name}.{field}": tensor
        for name, part in zip(Networks._fields, parts, strict=True)
        for field, tensor in part.items()
        if tensor is not None
    }


def initialise_weights(weights: FlatWeights, sd: float, generators: Sequence[torch.Generator]) -> None:
    """Fill with normal(0, sd) weights and zero biases, each member from its own stream.

    Numbers are drawn on the CPU, so that every device starts alike.
    """
    for name, tensor in named_weights(weights.networks).items():
        tensor.zero_()
        if "bias" not in name:
            drawn = tensor[:, :-1] if name in WEIGHTS_WITH_BIAS_ROW else tensor
            for member, generator in zip(drawn, generators, strict=True):
                member.copy_(torch.randn(member.shape, generator=generator) * sd)


def select_member_weights(weights: FlatWeights, sizes: NetworkSizes, index: Tensor) -> FlatWeights:
    """Copy only the members at these places of the S axis."""
    chosen = allocate_weights(sizes, len(index), weights.generator)
    kept = named_weights(weights.networks)
    for name, tensor in named_weights(chosen.networks).items():
        tensor.copy_(kept[name][index])
    return chosen


def apply_linear(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
    """(S, B, in) by (S, in, out), plus (S, 1, out) -> (S, B, out)."""
    if bias is None:
        return torch.bmm(x, weight, out=out)
    return torch.baddbmm(bias, x, weight, out=out)


def append_ones(x: Tensor) -> Tensor:
    """Append the constant one that carries a bias: (..., C) -> (..., C + 1)."""
    return functional.pad(x, (0, 1), value=1.0)


def leaky_relu_inplace(x: Tensor) -> Tensor:
    """Leaky ReLU in place; its result still tells the sign of its input."""
    return functional.leaky_relu_(x, LEAKY_RELU_SLOPE)


def apply_transformation(
    f: Transformation, x: Tensor, z: Tensor, out: TransformationTrace | None = None
) -> TransformationTrace:
    """Change of each person under each of K severity vectors; x is encoded once.

    Parameters
    ----------
    f : Transformation
        Weights.
    x : Tensor
        Controls, (S, B, R).
    z : Tensor
        Severities with a one, (S, B * K, M + 1), the K rows of a person together.
    out : TransformationTrace, optional
        Buffers to write to.

    Returns
    -------
    TransformationTrace
        Its ``change`` is f(x, z) - x, (S, B * K, R).
    """
    to: Sequence[Tensor | None] = out or [None] * 6
    code1 = leaky_relu_inplace(apply_linear(x, f.encode1, None, to[0]))
    code2 = leaky_relu_inplace(apply_linear(code1, f.encode2, None, to[1]))
    gate = apply_linear(z, f.gate, None, to[2]).sigmoid_()
    product = apply_gates(gate, code2, to[3])
    hidden = leaky_relu_inplace(apply_linear(product, f.decode1, None, to[4]))
    change = leaky_relu_inplace(apply_linear(hidden, f.decode2, None, to[5]))
    return TransformationTrace(code1, code2, gate, product, hidden, change)


def apply_gates(gate: Tensor, code: Tensor, out: Tensor | None = None) -> Tensor:
    """Each person's code times that person's K gates: (S, B * K, L), (S, B, L)."""
    per_person = (*code.shape[:2], -1, code.shape[2])
    to = None if out is None else out.view(per_person)
    return torch.mul(gate.view(per_person), code.unsqueeze(2), out=to).view(gate.shape)


def apply_decomposer(g1: Decomposer, y: Tensor) -> Tensor:
    """g1: (S, B, R) -> (S, B, M, R), the share of each pattern in the change."""
    blocks = apply_linear(append_ones(functional.leaky_relu(y, LEAKY_RELU_SLOPE)), g1.weight, None)
    return blocks.view(*y.shape[:2], -1, y.shape[2])


def apply_perceptron(network: Perceptron, x: Tensor, out: PerceptronTrace | None = None) -> PerceptronTrace:
    """g2, or D of people with a one: (S, B, R or R + 1) -> (S, B, outputs)."""
    to: Sequence[Tensor | None] = out or [None] * 3
    hidden1 = leaky_relu_inplace(apply_linear(x, network.weight1, network.bias1, to[0]))
    hidden2 = leaky_relu_inplace(apply_linear(hidden1, network.weight2, network.bias2, to[1]))
    top = apply_linear(hidden2, network.weight3, network.bias3, to[2])
    return PerceptronTrace(hidden1, hidden2, top)


def apply_reconstructor(g2: Perceptron, shares: Tensor) -> Tensor:
    """g2 on each pattern's share: (S, B, M, R) -> (S, B, M)."""
    return apply_perceptron(g2, shares.flatten(1, 2)).top.view(shares.shape[:3])


def infer_r_indices(networks: Networks, y: Tensor) -> Tensor:
    """R-indices r = g(y) = g2(g1(y)): (S, B, R) -> (S, B, M)."""
    return apply_reconstructor(networks.g2, apply_decomposer(networks.g1, y))

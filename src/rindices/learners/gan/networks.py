"""The four networks of Surreal-GAN, for a stack of members.

The leading axis of every tensor is that of the members. Shape letters, here and in all of ``learners.gan``: S
members, B people of a batch, R regions, M patterns; H = R // 2 and L = R // 4 are the widths of the hidden layers (69
and 34 in the paper, where R = 139).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from rindices.learners.inference import LEAKY_RELU_SLOPE, compute_hidden_widths

Weights = dict[str, Tensor]
"""Weights by the names of `list_weight_shapes`, with an axis of members first; ``phi`` of the copula, (S, M, M)."""


def list_weight_shapes(n_regions: int, n_patterns: int) -> dict[str, tuple[int, int]]:
    """Return the shape of each weight of f (Table 3), g1, g2 and D (Table 4); biases have one row."""
    r, m, (h, n) = n_regions, n_patterns, compute_hidden_widths(n_regions)
    f = {
        "encode1": (r, h),
        "encode2": (h, n),
        "gate": (m, n),
        "gate_bias": (1, n),
        "decode1": (n, h),
        "decode2": (h, r),
    }
    shapes = {f"f.{name}": shape for name, shape in f.items()}
    shapes |= {"g1.weight": (r, m * r), "g1.bias": (1, m * r)}
    for name, n_outputs in (("g2", m), ("d", 2)):
        for layer, (n_inputs, width) in enumerate(((r, h), (h, n), (n, n_outputs)), start=1):
            shapes |= {f"{name}.weight{layer}": (n_inputs, width), f"{name}.bias{layer}": (1, width)}
    return shapes


def draw_weights(
    n_regions: int, n_patterns: int, sd: float, streams: Sequence[torch.Generator], like: Tensor
) -> Weights:
    """Return normal weights from the stream of each member, and biases of zero, of the dtype and device of ``like``."""
    weights = {}
    for name, shape in list_weight_shapes(n_regions, n_patterns).items():
        scale = 0.0 if "bias" in name else sd
        members = [torch.randn(shape, generator=stream) * scale if scale else torch.zeros(shape) for stream in streams]
        weights[name] = torch.stack(members).to(like)
    weights["phi"] = torch.eye(n_patterns).repeat(len(streams), 1, 1).to(like)
    return {name: weight.requires_grad_() for name, weight in weights.items()}


def encode_controls(weights: Weights, x: Tensor) -> Tensor:
    """Return the code from which f computes changes: (S, B, R) -> (S, B, L)."""
    hidden = _leaky_relu_(torch.bmm(x, weights["f.encode1"]))
    return _leaky_relu_(torch.bmm(hidden, weights["f.encode2"]))


def compute_change(weights: Weights, code: Tensor, z: Tensor) -> Tensor:
    """Return f(x, z) - x for controls with a code (S, B, L) and severities (S, B, ..., M): (S, B, ..., R)."""
    gate = torch.baddbmm(weights["f.gate_bias"], z.flatten(1, -2), weights["f.gate"]).sigmoid_()
    product = gate.view(*code.shape[:2], -1, code.shape[2]) * code.unsqueeze(2)
    hidden = _leaky_relu_(torch.bmm(product.flatten(1, 2), weights["f.decode1"]))
    return _leaky_relu_(torch.bmm(hidden, weights["f.decode2"])).view(*z.shape[:-1], -1)


def decompose(weights: Weights, y: Tensor) -> Tensor:
    """Return g1(y), the part of each pattern in the regions: (S, B, R) -> (S, B, M, R)."""
    people = functional.leaky_relu(y, LEAKY_RELU_SLOPE)
    return torch.baddbmm(weights["g1.bias"], people, weights["g1.weight"]).view(*y.shape[:2], -1, y.shape[2])


def apply_perceptron(weights: Weights, name: str, x: Tensor) -> Tensor:
    """Return g2 or D of people, without a last activation: (S, B, R) -> (S, B, outputs)."""
    for layer in (1, 2):
        x = torch.baddbmm(weights[f"{name}.bias{layer}"], x, weights[f"{name}.weight{layer}"])
        x = _leaky_relu_(x)
    return torch.baddbmm(weights[f"{name}.bias3"], x, weights[f"{name}.weight3"])


def _leaky_relu_(x: Tensor) -> Tensor:
    return functional.leaky_relu_(x, LEAKY_RELU_SLOPE)

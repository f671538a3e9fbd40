"""Hand-written gradients of the networks and losses, written into buffers.

Autograd costs more than the arithmetic at these sizes: it allocates every intermediate result and cannot accumulate
inside a product. An argument ``d`` holds gradients in the shape of the trace it belongs to; gradients of hidden layers
are taken before their nonlinearity. Tests compare each function with autograd in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rindices.learners.inference import LEAKY_RELU_SLOPE
from rindices.learners.surreal.losses import smallest_norm
from rindices.learners.surreal.networks import Perceptron, PerceptronTrace, Transformation, TransformationTrace

_leaky_relu_backward = torch.ops.aten.leaky_relu_backward.grad_input


def leaky_relu_gradient(grad: Tensor, result: Tensor, out: Tensor) -> None:
    """Propagate a gradient through a leaky ReLU; the sign of its result is that of its input."""
    _leaky_relu_backward(grad, result, LEAKY_RELU_SLOPE, True, grad_input=out)


def abs_leaky_relu_gradient(d_magnitude: Tensor, result: Tensor, out: Tensor) -> None:
    """Propagate a gradient of the absolute value of a leaky ReLU's result.

    A slope of -0.2 covers the sign and the slope of a negative result at once.
    """
    _leaky_relu_backward(d_magnitude, result, -LEAKY_RELU_SLOPE, False, grad_input=out)


def weight_gradient(x: Tensor, d: Tensor, weight: Tensor, bias: Tensor | None = None) -> None:
    """Write the gradient of a linear layer's weight and bias, from its input and its output's gradient."""
    torch.bmm(x.mT, d, out=weight)
    if bias is not None:
        torch.sum(d, dim=1, keepdim=True, out=bias)


def perceptron_backward(network: Perceptron, trace: PerceptronTrace, d: PerceptronTrace) -> None:
    """Propagate ``d.top`` to both hidden layers."""
    torch.bmm(d.top, network.weight3.mT, out=d.hidden2)
    leaky_relu_gradient(d.hidden2, trace.hidden2, d.hidden2)
    torch.bmm(d.hidden2, network.weight2.mT, out=d.hidden1)
    leaky_relu_gradient(d.hidden1, trace.hidden1, d.hidden1)


def perceptron_weight_gradients(x: Tensor, trace: PerceptronTrace, d: PerceptronTrace, grads: Perceptron) -> None:
    """Write the gradients of the weights of g2 or D, once ``d`` is complete."""
    weight_gradient(trace.hidden2, d.top, grads.weight3, grads.bias3)
    weight_gradient(trace.hidden1, d.hidden2, grads.weight2, grads.bias2)
    weight_gradient(x, d.hidden1, grads.weight1, grads.bias1)


class TransformationInputs(NamedTuple):
    """Inputs of f."""

    x: Tensor  # (S, B, R)
    z: Tensor  # (S, B * K, M + 1)


def transformation_backward(
    f: Transformation,
    inputs: TransformationInputs,
    trace: TransformationTrace,
    d: TransformationTrace,
    grads: Transformation,
) -> None:
    """Propagate ``d.change``, taken before its nonlinearity, to the weights of f."""
    weight_gradient(trace.hidden, d.change, grads.decode2)
    torch.bmm(d.change, f.decode2.mT, out=d.hidden)
    leaky_relu_gradient(d.hidden, trace.hidden, d.hidden)
    weight_gradient(trace.product, d.hidden, grads.decode1)
    torch.bmm(d.hidden, f.decode1.mT, out=d.product)
    torch.mul(d.product, trace.gate, out=d.gate)
    torch.sum(d.gate.view(*d.code2.shape[:2], -1, d.code2.shape[2]), dim=2, out=d.code2)
    torch.mul(d.product, trace.product, out=d.gate)
    d.gate.addcmul_(d.gate, trace.gate, value=-1)  # d_product code2 gate (1 - gate)
    weight_gradient(inputs.z, d.gate, grads.gate)
    leaky_relu_gradient(d.code2, trace.code2, d.code2)
    weight_gradient(trace.code1, d.code2, grads.encode2)
    torch.bmm(d.code2, f.encode2.mT, out=d.code1)
    leaky_relu_gradient(d.code1, trace.code1, d.code1)
    weight_gradient(inputs.x, d.code1, grads.encode1)


def severity_gradient(f: Transformation, trace: TransformationTrace, d_change: Tensor) -> Tensor:
    """Return the gradient of the first severities of each person: (S, B, R) -> (S, B, M)."""
    people = d_change.shape[1]
    gate, product, hidden, change = (rows.view(len(rows), people, -1, rows.shape[2])[:, :, 0] for rows in trace[2:])
    d_hidden = torch.bmm(d_change * _leaky_relu_slope(change), f.decode2.mT)
    d_product = torch.bmm(d_hidden * _leaky_relu_slope(hidden), f.decode1.mT)
    return torch.bmm(d_product * product * (1 - gate), f.gate[:, :-1].mT)


def _leaky_relu_slope(result: Tensor) -> Tensor:
    return torch.ones_like(result).masked_fill_(result <= 0, LEAKY_RELU_SLOPE)


def cross_entropy_backward(logits: Tensor, target: Tensor, scale: float, d: Tensor) -> None:
    """Write the gradient of ``scale`` times the sum of cross entropies.

    Parameters
    ----------
    logits : Tensor
        Logits of D, (S, B, 2).
    target : Tensor
        Minus ``scale`` for people who should pass as real, 0 for others; broadcast to (S, B).
    scale : float
        Weight of the loss divided by the number of people in its mean.
    d : Tensor
        Written to, (S, B, 2).
    """
    fake, real = logits.unbind(2)
    d_fake, d_real = d.unbind(2)
    probability = torch.sub(real, fake).sigmoid_()
    torch.add(target, probability, alpha=scale, out=d_real)
    torch.neg(d_real, out=d_fake)


class OrthogonalityBuffers(NamedTuple):
    """Buffers of :func:`compute_orthogonality_coefficients` for P people and M patterns."""

    gram: Tensor  # (P, M, M), abs(q_i) . abs(q_j)
    root_weight: Tensor  # (M, M), the square root of the weight off the diagonal, 0 on it
    scale: Tensor  # (P, M, M)
    result: Tensor  # (P, M, M)


def make_orthogonality_buffers(people: int, patterns: int, weight: float, like: Tensor) -> OrthogonalityBuffers:
    """Return buffers for one weight of the gradient."""
    gram, scale, result = (like.new_zeros(people, patterns, patterns) for _ in range(3))
    root_weight = like.new_full((patterns, patterns), weight**0.5).fill_diagonal_(0)
    return OrthogonalityBuffers(gram, root_weight, scale, result)


def compute_orthogonality_coefficients(buffers: OrthogonalityBuffers) -> None:
    """Compute the coefficients of the orthogonality gradient, from the Gram matrix of absolute changes.

    The gradient with respect to abs(q_i) is the sum over j of c_ij abs(q_j), person by person. With n_i = norm(q_i) and
    N_ij = gram_ij / (n_i n_j), c_ij is proportional to N_ij / (n_i n_j) off the diagonal and to
    -sum over j != i of N_ij^2 / n_i^2 on it.
    """
    gram, root_weight, scale, result = buffers
    inverse_norm = gram.diagonal(dim1=1, dim2=2).clamp_min(smallest_norm(gram) ** 2).rsqrt_()
    torch.mul(inverse_norm.unsqueeze(2), inverse_norm.unsqueeze(1), out=scale).mul_(root_weight)
    torch.mul(gram, scale, out=result)
    on_diagonal = torch.linalg.vecdot(result, result).mul_(inverse_norm).mul_(inverse_norm)
    result.mul_(scale)
    torch.neg(on_diagonal, out=result.diagonal(dim1=1, dim2=2))

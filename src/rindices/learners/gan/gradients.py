"""Hand-written gradients of the networks and losses, and the buffers that a step writes to.

Autograd takes twice as long at these sizes: it allocates every intermediate result and cannot accumulate inside a
product. An argument ``d`` holds gradients in the shape of the trace it belongs to; gradients of hidden layers are taken
before their nonlinearity. First the layers, then the buffers, then the losses; tests compare all of them with autograd
in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rindices.learners.gan import losses, networks
from rindices.learners.gan.networks import Networks, Perceptron, PerceptronTrace, Transformation, TransformationTrace
from rindices.learners.gan.recipe import LossWeights, Recipe
from rindices.learners.inference import LEAKY_RELU_SLOPE

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


def transformation_backward(
    f: Transformation, x: Tensor, z: Tensor, trace: TransformationTrace, d: TransformationTrace, grads: Transformation
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
    weight_gradient(z, d.gate, grads.gate)
    leaky_relu_gradient(d.code2, trace.code2, d.code2)
    weight_gradient(trace.code1, d.code2, grads.encode2)
    torch.bmm(d.code2, f.encode2.mT, out=d.code1)
    leaky_relu_gradient(d.code1, trace.code1, d.code1)
    weight_gradient(x, d.code1, grads.encode1)


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

    logits: logits of D, (S, B, 2); target: minus ``scale`` for people who should pass as real, 0 for others; broadcast
    to (S, B); scale: weight of the loss divided by the number of people in its mean; d: written to, (S, B, 2).
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
    inverse_norm = gram.diagonal(dim1=1, dim2=2).clamp_min(losses.smallest_norm(gram) ** 2).rsqrt_()
    torch.mul(inverse_norm.unsqueeze(2), inverse_norm.unsqueeze(1), out=scale).mul_(root_weight)
    torch.mul(gram, scale, out=result)
    on_diagonal = torch.linalg.vecdot(result, result).mul_(inverse_norm).mul_(inverse_norm)
    result.mul_(scale)
    torch.neg(on_diagonal, out=result.diagonal(dim1=1, dim2=2))


def compute_gradient_scales(weights: LossWeights, sizes: networks.NetworkSizes, batch: int) -> LossWeights:
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


class Workspace:
    """Buffers of a step of S members on batches of B people, and views of them.

    All are made once: at these sizes, making a tensor or a view costs as much as the arithmetic on it. A name with the
    prefix ``d_`` holds the gradient of the name that follows.

    sizes: regions and patterns; members, batch: S and B; recipe: source of loss weights and learning rates; like:
    tensor with the dtype and device to use.
    """

    def __init__(self, sizes: networks.NetworkSizes, members: int, batch: int, recipe: Recipe, like: Tensor) -> None:
        r, m, (h, n) = sizes.regions, sizes.patterns, sizes.hidden
        s, b, rows = members, batch, batch * (3 + m)  # K severity vectors per person

        def new(*shape: int) -> Tensor:
            return like.new_zeros(shape)

        def perceptron(rows: int, outputs: int) -> PerceptronTrace:
            return PerceptronTrace(new(s, rows, h), new(s, rows, n), new(s, rows, outputs))

        def transformation() -> TransformationTrace:
            per_person = new(s, b, h), new(s, b, n)
            per_row = new(s, rows, n), new(s, rows, n), new(s, rows, h), new(s, rows, r)
            return TransformationTrace(*per_person, *per_row)

        self.sizes, self.batch, self.recipe = sizes, batch, recipe
        self.gradient_scales = scales = compute_gradient_scales(recipe.weights, sizes, batch)
        signed = scales.change, scales.reconstruction, scales.near_zero, -scales.monotonicity, -scales.adversarial
        self.scale_tensors = GradientScaleTensors(*map(like.new_tensor, signed))
        self.people, self.fake_and_real = networks.append_ones(new(s, 2 * b, r)), networks.append_ones(new(s, 2 * b, r))
        self.draws = torch.zeros(s, 3, b, m, dtype=like.dtype)
        self.z_rows = networks.append_ones(new(s, rows, m))
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
        self.magnitude = losses.RowsByRole(self.magnitude_rows, self.batch)
        self.magnitude_by_person = self.magnitude.singles.flatten(0, 1)
        self.d_magnitude_by_person = self.d_magnitude.flatten(0, 1)
        self.z = losses.RowsByRole(self.z_rows[..., :-1], self.batch)
        self.change, self.d_change = (losses.RowsByRole(t.change, self.batch) for t in (self.f, self.d_f))


def adversarial_gradient(nets: Networks, work: Workspace) -> None:
    """Apply the updated D to y', and propagate back to its first hidden layer."""
    networks.apply_perceptron(nets.d, work.synthetic_with_one, work.fake)
    scale = work.gradient_scales.adversarial
    cross_entropy_backward(work.fake.top, work.scale_tensors.minus_adversarial, scale, work.d_fake.top)
    perceptron_backward(nets.d, work.fake, work.d_fake)


def reconstruction_gradient(nets: Networks, work: Workspace) -> None:
    """Compute the gradient of g2's weights, and propagate back to its first hidden layer."""
    torch.sub(work.r, work.z.drawn, out=work.d_r).mul_(work.scale_tensors.reconstruction)
    perceptron_backward(nets.g2, work.g2, work.d_g2)
    perceptron_weight_gradients(work.share_rows, work.g2, work.d_g2, work.grads.networks.g2)


def penalty_gradient(work: Workspace) -> None:
    """Compute the gradient of every change, except for the part that reaches y' through g and D.

    The penalties act on the magnitude of a change, so their gradients are first taken with respect to the magnitude.
    """
    change, d_change, scales = work.change, work.d_change, work.scale_tensors
    torch.abs(work.f.change, out=work.magnitude_rows)
    # monotonicity: never positive at z', the opposite at z
    excess = torch.sub(work.magnitude.drawn, work.magnitude.higher, out=work.excess).relu_()
    excess.mul_(scales.minus_monotonicity)
    abs_leaky_relu_gradient(excess, change.higher, d_change.higher)
    abs_leaky_relu_gradient(torch.sub(scales.change, excess, out=excess), change.drawn, d_change.drawn)
    abs_leaky_relu_gradient(scales.near_zero, change.near_zero, d_change.near_zero)
    # orthogonality, person by person
    magnitudes, buffers = work.magnitude_by_person, work.orthogonality_buffers
    torch.bmm(magnitudes, magnitudes.mT, out=buffers.gram)
    compute_orthogonality_coefficients(buffers)
    torch.bmm(buffers.result, magnitudes, out=work.d_magnitude_by_person)
    abs_leaky_relu_gradient(work.d_magnitude, change.singles, d_change.singles)
    torch.sub(work.shares, change.singles, out=work.d_shares)
    leaky_relu_gradient(work.d_shares, change.singles, work.d_magnitude)
    d_change.singles.sub_(work.d_magnitude, alpha=work.gradient_scales.decomposition)


def synthetic_gradient(nets: Networks, work: Workspace) -> None:
    """Compute the gradient of g1's weights, and of y' through g and D."""
    scale, d_y = work.gradient_scales.decomposition, work.d_y
    work.d_share_rows.baddbmm_(work.d_g2.hidden1, nets.g2.weight1.mT, beta=scale)
    weight_gradient(work.y_leaky, work.d_share_blocks, work.grads.networks.g1.weight)
    torch.bmm(work.d_share_blocks, nets.g1.weight[:, :-1].mT, out=d_y)
    leaky_relu_gradient(d_y, work.synthetic, d_y)
    d_y.baddbmm_(work.d_fake.hidden1, nets.d.weight1[:, :-1].mT)
    leaky_relu_gradient(d_y, work.change.drawn, d_y)
    work.d_change.drawn.add_(d_y)

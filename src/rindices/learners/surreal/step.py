"""One training step of S members (Algorithm 1), with hand-written gradients.

A step updates D on the adversarial loss and then f, g1 and g2 together on the full objective. It allocates nothing
large: all buffers are in a :class:`.state.Workspace`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim.adam import adam

from rindices.learners.inference import LEAKY_RELU_SLOPE
from rindices.learners.surreal import gradients, latents, losses, networks
from rindices.learners.surreal.losses import LossTerms
from rindices.learners.surreal.networks import Networks
from rindices.learners.surreal.recipe import Recipe
from rindices.learners.surreal.state import MemberStack, Workspace


def take_step(stack: MemberStack, work: Workspace, with_losses: bool = False) -> LossTerms | None:
    """Draw severities and update D, then f, g1 and g2, on the people in ``work``.

    Parameters
    ----------
    stack : MemberStack
        Members, changed in place.
    work : Workspace
        ``work.people`` holds the batch, ``work.recipe`` the learning rates.
    with_losses : bool
        Whether to compute the losses; training needs only their gradients.

    Returns
    -------
    LossTerms or None
        Losses of the batch, with the weights for which the gradients were taken.
    """
    nets, recipe = stack.weights.networks, work.recipe
    stack.step_count += 1
    factor = latents.copula_factor(stack.phi) if recipe.correlated else None
    latents.draw_severities(work.z, work.draws, stack.streams, recipe.near_zero_bound, factor)
    _synthesise_patients(nets, work)
    discrimination = _update_discriminator(stack, work, with_losses)
    _adversarial_gradient(nets, work)
    _infer_severities(nets, work)
    terms = None if discrimination is None else _compute_losses(work, discrimination)
    _reconstruction_gradient(nets, work)
    _penalty_gradient(work)
    _synthetic_gradient(stack, work)
    if recipe.correlated and stack.step_count > recipe.copula_after:
        _update_copula(stack, work)
    _update_generator(stack, work)
    return terms


def _synthesise_patients(nets: Networks, work: Workspace) -> None:
    """Compute all changes in one pass of f, and y' = x + change."""
    networks.apply_transformation(nets.f, work.controls, work.z_rows, work.f)
    work.fake_and_real.copy_(work.people)
    work.synthetic.add_(work.change.drawn)


def _update_discriminator(stack: MemberStack, work: Workspace, with_losses: bool) -> Tensor | None:
    """Train D to tell y' from y; return its loss if asked for."""
    d, b = stack.weights.networks.d, work.batch
    if stack.conditioner is not None:
        torch.bmm(work.fake_and_real, stack.conditioner, out=work.discriminator_input)
    trace = networks.apply_perceptron(d, work.discriminator_input, work.d)
    loss = losses.discrimination_loss(trace.top[:, :b], trace.top[:, b:]) if with_losses else None
    gradients.cross_entropy_backward(trace.top, work.targets, 1 / b, work.d_d.top)
    gradients.perceptron_backward(d, trace, work.d_d)
    gradients.perceptron_weight_gradients(work.discriminator_input, trace, work.d_d, work.grads.networks.d)
    weights, grad = stack.weights.discriminator, work.grads.discriminator
    moments = stack.first_moments.discriminator, stack.second_moments.discriminator
    rate = work.recipe.learning_rate * work.recipe.discriminator_ratio * work.rate_factor
    adam_step_(weights, grad, moments, step_count=stack.step_count, rate=rate, recipe=work.recipe)
    return loss


def _adversarial_gradient(nets: Networks, work: Workspace) -> None:
    """Apply the updated D to y', and propagate back to its first hidden layer."""
    networks.apply_perceptron(nets.d, work.discriminator_input[:, : work.batch], work.fake)
    scale = work.gradient_scales.adversarial
    gradients.cross_entropy_backward(work.fake.top, work.scale_tensors.minus_adversarial, scale, work.d_fake.top)
    gradients.perceptron_backward(nets.d, work.fake, work.d_fake)


def _infer_severities(nets: Networks, work: Workspace) -> None:
    """Apply g1 and g2 to y'."""
    torch.ops.aten.leaky_relu.out(work.synthetic_with_one, LEAKY_RELU_SLOPE, out=work.y_leaky)
    networks.apply_linear(work.y_leaky, nets.g1.weight, None, work.share_blocks)
    networks.apply_perceptron(nets.g2, work.share_rows, work.g2)


def _compute_losses(work: Workspace, discrimination: Tensor) -> LossTerms:
    """Return the losses of the step whose activations are in ``work``."""
    change, z = work.change, work.z
    return LossTerms(
        discrimination=discrimination,
        adversarial=losses.adversarial_loss(work.fake.top),
        change=losses.change_loss(change.drawn),
        decomposition=losses.decomposition_loss(work.shares, change.singles),
        reconstruction=losses.reconstruction_loss(work.r, z.drawn),
        orthogonality=losses.orthogonality_loss(change.singles),
        monotonicity=losses.monotonicity_loss(change.drawn, change.higher),
        near_zero=losses.near_zero_loss(change.near_zero),
    )


def _reconstruction_gradient(nets: Networks, work: Workspace) -> None:
    """Compute the gradient of g2's weights, and propagate back to its first hidden layer."""
    torch.sub(work.r, work.z.drawn, out=work.d_r).mul_(work.scale_tensors.reconstruction)
    gradients.perceptron_backward(nets.g2, work.g2, work.d_g2)
    gradients.perceptron_weight_gradients(work.share_rows, work.g2, work.d_g2, work.grads.networks.g2)


def _penalty_gradient(work: Workspace) -> None:
    """Compute the gradient of every change, except for the part that reaches y' through g and D.

    The penalties act on the magnitude of a change, so their gradients are first taken with respect to the magnitude.
    """
    change, d_change, scales = work.change, work.d_change, work.scale_tensors
    torch.abs(work.f.change, out=work.magnitude_rows)
    excess = _monotonicity_gradient(work)
    backward = gradients.abs_leaky_relu_gradient
    backward(excess, change.higher, d_change.higher)
    backward(torch.sub(scales.change, excess, out=excess), change.drawn, d_change.drawn)
    backward(scales.near_zero, change.near_zero, d_change.near_zero)
    _orthogonality_gradient(work)
    backward(work.d_magnitude, change.singles, d_change.singles)
    torch.sub(work.shares, change.singles, out=work.d_shares)
    gradients.leaky_relu_gradient(work.d_shares, change.singles, work.d_magnitude)
    d_change.singles.sub_(work.d_magnitude, alpha=work.gradient_scales.decomposition)


def _monotonicity_gradient(work: Workspace) -> Tensor:
    """Return the gradient of the magnitude at z', never positive; at z it is the opposite."""
    excess = torch.sub(work.magnitude.drawn, work.magnitude.higher, out=work.excess).relu_()
    return excess.mul_(work.scale_tensors.minus_monotonicity)


def _orthogonality_gradient(work: Workspace) -> None:
    """Compute the gradient of the magnitudes of single-pattern changes, person by person."""
    magnitudes, buffers = work.magnitude_by_person, work.orthogonality_buffers
    torch.bmm(magnitudes, magnitudes.mT, out=buffers.gram)
    gradients.compute_orthogonality_coefficients(buffers)
    torch.bmm(buffers.result, magnitudes, out=work.d_magnitude_by_person)


def _synthetic_gradient(stack: MemberStack, work: Workspace) -> None:
    """Compute the gradient of g1's weights, and of y' through g and D."""
    nets, scale, d_y = stack.weights.networks, work.gradient_scales.decomposition, work.d_y
    work.d_share_rows.baddbmm_(work.d_g2.hidden1, nets.g2.weight1.mT, beta=scale)
    gradients.weight_gradient(work.y_leaky, work.d_share_blocks, work.grads.networks.g1.weight)
    torch.bmm(work.d_share_blocks, nets.g1.weight[:, :-1].mT, out=d_y)
    gradients.leaky_relu_gradient(d_y, work.synthetic, d_y)
    if stack.conditioner is None:
        d_y.baddbmm_(work.d_fake.hidden1, nets.d.weight1[:, :-1].mT)
    else:
        d_y.add_(_discriminator_backward(stack, work))
    gradients.leaky_relu_gradient(d_y, work.change.drawn, d_y)
    work.d_change.drawn.add_(d_y)


def _discriminator_backward(stack: MemberStack, work: Workspace) -> Tensor:
    """Return the gradient of y' through D and the linear map before it, (S, B, R)."""
    d_input = torch.bmm(work.d_fake.hidden1, stack.weights.networks.d.weight1[:, :-1].mT)
    return d_input if stack.conditioner is None else torch.bmm(d_input, stack.conditioner[:, :-1, :-1].mT)


def _update_generator(stack: MemberStack, work: Workspace) -> None:
    """Compute the gradient of f, then apply Adam and the clipping to f, g1 and g2."""
    weights, recipe, f_weights = stack.weights.generator, work.recipe, stack.weights.networks.f
    gradients.transformation_backward(f_weights, work.inputs, work.f, work.d_f, work.grads.networks.f)
    f = weights[: sum(weight.numel() for weight in f_weights)]  # f is first in the flat buffer
    frozen_f = f.clone() if work.f_frozen else None
    adam_step_(
        weights,
        work.grads.generator,
        (stack.first_moments.generator, stack.second_moments.generator),
        step_count=stack.step_count,
        rate=recipe.learning_rate * work.rate_factor,
        recipe=recipe,
    )
    weights.clamp_(-recipe.clip, recipe.clip)
    if frozen_f is not None:  # restore f after Adam, so that its moments are warm when f is released
        f.copy_(frozen_f)


def _update_copula(stack: MemberStack, work: Workspace) -> None:
    """Train the copula to raise D's log-odds that y' is real.

    This is the gradient of KL(synthesised || real) under the best D. The adversarial loss of f would not do: it is
    convex in the log-odds, so while f's mean change is slightly wrong it rewards a smaller spread, and drives the
    severities apart whatever the data.
    """
    nets, recipe = stack.weights.networks, work.recipe
    for logit, sign in ((1 - losses.REAL_LOGIT, 1), (losses.REAL_LOGIT, -1)):
        work.d_fake.top[..., logit] = sign / work.batch
    gradients.perceptron_backward(nets.d, work.fake, work.d_fake)
    d_y = _discriminator_backward(stack, work)
    d_z = gradients.severity_gradient(nets.f, work.f, d_y)
    normals = work.draws[:, 0].to(d_z.device)
    adam_step_(
        stack.phi,
        latents.copula_gradient(stack.phi, normals, d_z, recipe.copula_divergence),
        (stack.phi_first_moment, stack.phi_second_moment),
        step_count=stack.step_count - recipe.copula_after,
        rate=recipe.learning_rate * recipe.copula_ratio * work.rate_factor,
        recipe=recipe,
    )


def adam_step_(
    weights: Tensor,
    grad: Tensor,
    moments: tuple[Tensor, Tensor],
    *,
    step_count: Tensor,
    rate: float,
    recipe: Recipe,
) -> None:
    """Take one step of Adam on a flat buffer, in one pass; ``step_count`` already includes this step."""
    adam(
        [weights],
        [grad],
        [moments[0]],
        [moments[1]],
        [],
        [step_count - 1],  # a new tensor, to which torch adds the step
        fused=True,
        lr=rate,
        beta1=recipe.beta1,
        beta2=recipe.beta2,
        weight_decay=0.0,
        eps=recipe.epsilon,
        amsgrad=False,
        maximize=False,
    )

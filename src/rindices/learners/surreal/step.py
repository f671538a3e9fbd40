"""One training step of S members (Algorithm 1), by hand-written gradients.

The step updates D on the adversarial loss and then f, g1 and g2 together on the full
objective. Nothing large is allocated: all buffers live in a :class:`.state.Workspace`.
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


def take_step(stack: MemberStack, work: Workspace, look: bool = False) -> LossTerms | None:
    """Draw severities and update D, then f, g1 and g2, on the people in ``work``.

    Parameters
    ----------
    stack : Stack
        Members, changed in place.
    work : Workspace
        Its ``people`` hold the batch, its ``recipe`` the rates.
    look : bool
        Whether to compute the losses; training itself needs only their gradients.

    Returns
    -------
    Terms or None
        Losses of the batch, each network as it was when its gradient was taken.
    """
    nets, recipe = stack.weights.networks, work.recipe
    stack.count += 1
    factor = latents.copula_factor(stack.phi) if recipe.correlated else None
    latents.draw_severities(work.z, work.draws, stack.streams, recipe.near_zero_bound, factor)
    _synthesise_patients(nets, work)
    discrimination = _update_discriminator(stack, work, look)
    _adversarial_gradient(nets, work)
    _infer_severities(nets, work)
    terms = None if discrimination is None else _compute_losses(work, discrimination)
    _reconstruction_gradient(nets, work)
    _penalty_gradient(work)
    _synthetic_gradient(stack, work)
    if recipe.correlated and stack.count > recipe.copula_after:
        _update_copula(stack, work)
    _update_generator(stack, work)
    return terms


def _synthesise_patients(nets: Networks, work: Workspace) -> None:
    """All changes of f in one pass, and y' = x + change beside the real patients."""
    networks.apply_transformation(nets.f, work.controls, work.z_rows, work.f)
    work.pair.copy_(work.people)
    work.synthetic.add_(work.change.drawn)


def _update_discriminator(stack: MemberStack, work: Workspace, look: bool) -> Tensor | None:
    """D learns to tell y' from y; its loss, if asked for."""
    d, b = stack.weights.networks.d, work.batch
    if stack.conditioner is not None:
        torch.bmm(work.pair, stack.conditioner, out=work.discriminator_input)
    trace = networks.apply_perceptron(d, work.discriminator_input, work.d)
    loss = losses.discrimination_loss(trace.top[:, :b], trace.top[:, b:]) if look else None
    gradients.cross_entropy_backward(trace.top, work.targets, 1 / b, work.d_d.top)
    gradients.perceptron_backward(d, trace, work.d_d)
    gradients.perceptron_weight_gradients(work.discriminator_input, trace, work.d_d, work.grads.networks.d)
    flat, grad = stack.weights.discriminator, work.grads.discriminator
    moments = stack.first.discriminator, stack.second.discriminator
    rate = work.recipe.learning_rate * work.recipe.discriminator_ratio * work.pace
    adam_step_(flat, grad, moments, count=stack.count, rate=rate, recipe=work.recipe)
    return loss


def _adversarial_gradient(nets: Networks, work: Workspace) -> None:
    """The updated D on y', and back to its first hidden layer."""
    networks.apply_perceptron(nets.d, work.discriminator_input[:, : work.batch], work.fake)
    pull = work.gradient_scales.adversarial
    gradients.cross_entropy_backward(work.fake.top, work.scale_tensors.minus_adversarial, pull, work.d_fake.top)
    gradients.perceptron_backward(nets.d, work.fake, work.d_fake)


def _infer_severities(nets: Networks, work: Workspace) -> None:
    """g1 and g2 on y'."""
    torch.ops.aten.leaky_relu.out(work.synthetic_with_one, LEAKY_RELU_SLOPE, out=work.y_leaky)
    networks.apply_linear(work.y_leaky, nets.g1.weight, None, work.share_blocks)
    networks.apply_perceptron(nets.g2, work.share_rows, work.g2)


def _compute_losses(work: Workspace, discrimination: Tensor) -> LossTerms:
    """The losses of the step whose activations are in ``work``."""
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
    """Weights of g2, and back to its first hidden layer."""
    torch.sub(work.r, work.z.drawn, out=work.d_r).mul_(work.scale_tensors.reconstruction)
    gradients.perceptron_backward(nets.g2, work.g2, work.d_g2)
    gradients.perceptron_weight_gradients(work.share_rows, work.g2, work.d_g2, work.grads.networks.g2)


def _penalty_gradient(work: Workspace) -> None:
    """Gradient of every change, but for what reaches y' through g and D.

    The penalties act on the size of a change, so they give the growth of that size.
    """
    change, d_change, factors = work.change, work.d_change, work.scale_tensors
    torch.abs(work.f.change, out=work.size_rows)
    excess = _monotonicity_gradient(work)
    backward = gradients.abs_leaky_relu_gradient
    backward(excess, change.higher, d_change.higher)
    backward(torch.sub(factors.change, excess, out=excess), change.drawn, d_change.drawn)
    backward(factors.near_zero, change.near_zero, d_change.near_zero)
    _orthogonality_gradient(work)
    backward(work.growth, change.singles, d_change.singles)
    torch.sub(work.shares, change.singles, out=work.d_shares)
    gradients.leaky_relu_gradient(work.d_shares, change.singles, work.growth)
    d_change.singles.sub_(work.growth, alpha=work.gradient_scales.decomposition)


def _monotonicity_gradient(work: Workspace) -> Tensor:
    """Growth of the change at z', never positive; at z it is the opposite."""
    excess = torch.sub(work.size.drawn, work.size.higher, out=work.excess).relu_()
    return excess.mul_(work.scale_tensors.minus_monotonicity)


def _orthogonality_gradient(work: Workspace) -> None:
    """Growth of the single-pattern changes, person by person."""
    sizes, mixing = work.single_people, work.orthogonality_buffers
    torch.bmm(sizes, sizes.mT, out=mixing.gram)
    gradients.compute_orthogonality_coefficients(mixing)
    torch.bmm(mixing.result, sizes, out=work.growth_people)


def _synthetic_gradient(stack: MemberStack, work: Workspace) -> None:
    """Weights of g1, and the gradient of y' through g and D."""
    nets, pull, d_y = stack.weights.networks, work.gradient_scales.decomposition, work.d_y
    work.d_share_rows.baddbmm_(work.d_g2.hidden1, nets.g2.weight1.mT, beta=pull)
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
    """Gradient of y' through D, and through the map before it, (S, B, R)."""
    d_shown = torch.bmm(work.d_fake.hidden1, stack.weights.networks.d.weight1[:, :-1].mT)
    return d_shown if stack.conditioner is None else torch.bmm(d_shown, stack.conditioner[:, :-1, :-1].mT)


def _update_generator(stack: MemberStack, work: Workspace) -> None:
    """Gradient of f, then Adam and clipping of f, g1 and g2."""
    flat, recipe = stack.weights.generator, work.recipe
    gradients.transformation_backward(stack.weights.networks.f, work.inputs, work.f, work.d_f, work.grads.networks.f)
    moments = stack.first.generator, stack.second.generator
    f = flat[: sum(weight.numel() for weight in stack.weights.networks.f)]  # f lies first
    held = f.clone() if work.f_frozen else None
    rate = recipe.learning_rate * work.pace
    adam_step_(flat, work.grads.generator, moments, count=stack.count, rate=rate, recipe=recipe)
    flat.clamp_(-recipe.clip, recipe.clip)
    if held is not None:  # its moments have moved all the same, so that it does not leap when it is let go
        f.copy_(held)


def _update_copula(stack: MemberStack, work: Workspace) -> None:
    """Move the copula so that D's log-odds of y' being real rise.

    That is the gradient of KL(synthesised || real) under the best D. The adversarial loss
    of f will not do: it is convex in the log-odds, so while f's mean change is a little
    off it rewards a smaller spread, and drives the severities apart whatever the data.
    """
    nets, recipe = stack.weights.networks, work.recipe
    for logit, sign in ((1 - losses.REAL_LOGIT, 1), (losses.REAL_LOGIT, -1)):
        work.d_fake.top[..., logit] = sign / work.batch
    gradients.perceptron_backward(nets.d, work.fake, work.d_fake)
    d_y = _discriminator_backward(stack, work)
    d_z = gradients.severity_gradient(nets.f, work.f, d_y)
    normals = work.draws[:, 0].to(d_z.device)
    grad = latents.copula_gradient(stack.phi, normals, d_z, recipe.copula_divergence)
    rate = recipe.learning_rate * recipe.copula_ratio * work.pace
    moments, count = (stack.phi_first, stack.phi_second), stack.count - recipe.copula_after
    adam_step_(stack.phi, grad, moments, count=count, rate=rate, recipe=recipe)


def adam_step_(
    flat: Tensor,
    grad: Tensor,
    moments: tuple[Tensor, Tensor],
    *,
    count: Tensor,
    rate: float,
    recipe: Recipe,
) -> None:
    """One step of Adam on a flat buffer, in one pass.

    ``count`` already includes this step; torch's function adds it itself, to a tensor of its own.
    """
    adam(
        [flat],
        [grad],
        [moments[0]],
        [moments[1]],
        [],
        [count - 1],
        fused=True,
        lr=rate,
        beta1=recipe.beta1,
        beta2=recipe.beta2,
        weight_decay=0.0,
        eps=recipe.epsilon,
        amsgrad=False,
        maximize=False,
    )

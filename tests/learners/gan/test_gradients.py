"""Hand-written gradients against autograd."""

from __future__ import annotations

import pytest
import torch

from rindices.learners.gan import gradients, losses, networks, train
from rindices.learners.gan.networks import NetworkSizes, append_ones
from tests.learners.gan.helpers import PAPER, fill_people, make_stack
from tests.learners.gan.test_losses import B, M, R, S, numbers


@pytest.mark.parametrize("size", [1.0, 1e-100])  # it knows directions alone, down to the smallest change
def test_handwritten_orthogonality_gradient(size: float) -> None:
    singles, weight = (size * numbers(S, B, M, R)).requires_grad_(), 0.7
    (weight * losses.orthogonality_loss(singles)).sum().backward()
    sizes = singles.detach().abs().flatten(0, 1)
    buffers = gradients.make_orthogonality_buffers(S * B, M, 4 * weight / (B * M * M), sizes)
    buffers.gram.copy_(sizes @ sizes.mT)
    gradients.compute_orthogonality_coefficients(buffers)
    got = (buffers.result @ sizes).view_as(singles) * singles.detach().sign()
    assert singles.grad is not None
    torch.testing.assert_close(got * size, singles.grad * size, rtol=0, atol=1e-12)


def test_handwritten_orthogonality_gradient_is_finite_without_change() -> None:
    buffers = gradients.make_orthogonality_buffers(2, 3, 1.0, torch.zeros(()))
    gradients.compute_orthogonality_coefficients(buffers)
    assert torch.isfinite(buffers.result).all()


def test_the_copulas_gradient_reaches_through_f_and_phi() -> None:
    generator = torch.Generator().manual_seed(5)
    weights = networks.allocate_weights(NetworkSizes(7, 3), 2, torch.zeros((), dtype=torch.float64))
    networks.initialise_weights(weights, 0.5, [losses.make_member_generator(0, m) for m in (0, 1)])
    x, d_change, normals = (torch.randn(2, 6, n, generator=generator, dtype=torch.float64) for n in (7, 7, 3))
    phi = torch.eye(3).double().repeat(2, 1, 1) + 0.3 * torch.ones(3, 3).tril(-1)
    free = phi.clone().requires_grad_()
    factor = losses.copula_factor(free)
    z = torch.special.ndtr(normals @ factor.mT)
    trace = networks.apply_transformation(weights.networks.f, x, networks.append_ones(z))
    loss = (trace.change * d_change).sum() + 0.02 * losses.copula_divergence(factor).sum()
    (wanted,) = torch.autograd.grad(loss, free)
    detached = networks.TransformationTrace(*(t.detach() for t in trace))
    d_z = gradients.severity_gradient(weights.networks.f, detached, d_change)
    got = losses.copula_gradient(phi, normals, d_z, 0.02)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


def test_gradients_through_the_discriminator_are_autograds() -> None:
    stack, work = make_stack(NetworkSizes(7, 2), 2, 5, PAPER, torch.float64)
    fill_people(work, torch.Generator().manual_seed(1), sd=0.6)
    before = {name: w.clone() for name, w in networks.named_weights(stack.weights.networks).items()}
    train.take_step(stack, work)
    for member in range(2):
        d = networks.Perceptron(
            *(
                before[f"d.{n}"][member][None].clone().requires_grad_() if f"d.{n}" in before else None
                for n in networks.Perceptron._fields
            )
        )
        top = networks.apply_perceptron(d, work.fake_and_real[member][None]).top[0]
        labels = torch.repeat_interleave(torch.tensor([0, 1]), 5)
        loss = 2 * torch.nn.functional.cross_entropy(top, labels)
        loss.backward()
        torch.testing.assert_close(work.grads.networks.d.weight1[member], d.weight1.grad[0])
    # f: what reaches y' through the updated D, by the adversarial loss alone
    adversarial_only = PAPER.replace(
        change=0, decomposition=0, reconstruction=0, orthogonality=0, monotonicity=0, near_zero=0
    )
    stack, work = make_stack(NetworkSizes(7, 2), 1, 5, adversarial_only, torch.float64)
    fill_people(work, torch.Generator().manual_seed(1), sd=0.6)
    start = stack.weights.networks.f.decode2.clone()
    rest = networks.Transformation(*(w.clone() for w in stack.weights.networks.f))
    train.take_step(stack, work)
    d = stack.weights.networks.d
    decode2 = start.requires_grad_()
    change = networks.apply_transformation(rest._replace(decode2=decode2), work.controls, work.z_rows).change
    top = networks.apply_perceptron(d, append_ones(work.controls + change.view(1, 5, -1, 7)[:, :, 0])).top[0]
    torch.nn.functional.cross_entropy(top, torch.ones(5, dtype=torch.long)).backward()
    torch.testing.assert_close(work.grads.networks.f.decode2, decode2.grad, rtol=1e-8, atol=1e-10)

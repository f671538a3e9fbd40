"""Severities and the copula."""

from __future__ import annotations

import torch

from rindices.learners.surreal import gradients, latents, networks
from rindices.learners.surreal.networks import NetworkSizes
from rindices.learners.surreal.state import RowsByRole


def severities(members: list[int], factor: torch.Tensor | None = None) -> RowsByRole:
    rows = torch.zeros(len(members), 500 * 6, 3)
    z = RowsByRole(rows, 500)
    streams = [latents.make_member_generator(3, member) for member in members]
    latents.draw_severities(z, torch.zeros(len(members), 3, 500, 3), streams, 0.05, factor)
    return z


def test_severities_keep_their_ranges() -> None:
    z = severities([0, 1])
    assert ((z.drawn >= 0) & (z.drawn <= 1)).all()
    assert ((z.higher >= z.drawn) & (z.higher <= 1)).all()
    assert ((z.near_zero >= 0) & (z.near_zero <= 0.05)).all()
    assert abs(float(z.drawn.mean()) - 0.5) < 0.03


def test_single_patterns_hold_one_component_each() -> None:
    z = severities([0])
    assert torch.equal(z.singles, torch.diag_embed(z.drawn))


def test_a_member_draws_the_same_in_any_company() -> None:
    together, alone = severities([4, 5, 6]), severities([5])
    assert torch.equal(together.drawn[1], alone.drawn[0])
    assert not torch.equal(together.drawn[0], together.drawn[1])


def test_a_copula_keeps_uniform_margins_and_correlates() -> None:
    phi = torch.tensor([[[1.0, 0, 0], [0.8, 0.6, 0], [0, 0, 1]]])
    z = severities([0], latents.copula_factor(phi)).drawn[0]
    quarters = torch.quantile(z, torch.tensor([0.25, 0.5, 0.75]), dim=0)
    torch.testing.assert_close(quarters[:, 1], torch.tensor([0.25, 0.5, 0.75]), rtol=0, atol=0.06)
    correlation = torch.corrcoef(z.T)
    assert 0.7 < correlation[0, 1] < 0.85
    assert abs(correlation[0, 2]) < 0.12


def test_the_factor_has_unit_rows_and_a_positive_diagonal() -> None:
    factor = latents.copula_factor(torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(factor.norm(dim=2), torch.ones(4, 3))
    assert (factor.diagonal(dim1=1, dim2=2) > 0).all()
    assert torch.equal(factor, factor.tril())


def test_the_divergence_equals_torchs() -> None:
    factor = latents.copula_factor(torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(1)))
    normal = torch.distributions.MultivariateNormal
    wanted = torch.distributions.kl_divergence(
        normal(torch.zeros(3), scale_tril=torch.eye(3)),
        normal(torch.zeros(3), scale_tril=factor[0]),
    )
    torch.testing.assert_close(latents.copula_divergence(factor)[0], wanted)
    assert float(latents.copula_divergence(torch.eye(3)[None])) == 0


def test_the_copulas_gradient_reaches_through_f_and_phi() -> None:
    generator = torch.Generator().manual_seed(5)
    weights = networks.allocate_weights(NetworkSizes(7, 3), 2, torch.zeros((), dtype=torch.float64))
    networks.initialise_weights(weights, 0.5, [latents.make_member_generator(0, m) for m in (0, 1)])
    x, d_change, normals = (torch.randn(2, 6, n, generator=generator, dtype=torch.float64) for n in (7, 7, 3))
    phi = torch.eye(3).double().repeat(2, 1, 1) + 0.3 * torch.ones(3, 3).tril(-1)
    free = phi.clone().requires_grad_()
    factor = latents.copula_factor(free)
    z = torch.special.ndtr(normals @ factor.mT)
    trace = networks.apply_transformation(weights.networks.f, x, networks.append_ones(z))
    loss = (trace.change * d_change).sum() + 0.02 * latents.copula_divergence(factor).sum()
    (wanted,) = torch.autograd.grad(loss, free)
    detached = networks.TransformationTrace(*(t.detach() for t in trace))
    d_z = gradients.severity_gradient(weights.networks.f, detached, d_change)
    got = latents.copula_gradient(phi, normals, d_z, 0.02)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)

"""Contrastive VAE: the example of its paper, and its loss."""

import numpy as np
import pytest
import torch

from benchmarks.suites.baselines.contrastive_vae import (
    ContrastiveNetwork,
    ContrastiveVAE,
    Posterior,
)
from tests.benchmarks.baselines.test_contrastive_pca import correlate_subgroups
from tests.learners.helpers import make_hidden_subgroups


@pytest.mark.slow
def test_hidden_subgroups_are_in_the_salient_variables():
    x, y, subgroups = make_hidden_subgroups()
    model = ContrastiveVAE(2, random_state=0, n_shared=3).fit(x, y)
    assert min(correlate_subgroups(model, x, y, subgroups)) > 0.8
    assert model.patterns_.shape == (2, 30)


@pytest.mark.slow
def test_training_lowers_the_loss():
    x, y, _ = make_hidden_subgroups(people=60, regions=8)
    model = ContrastiveVAE(
        2, random_state=0, n_hidden=16, n_steps=100, learning_rate=1e-2
    ).fit(x, y)
    assert model.losses_[-20:].mean() < model.losses_[:5].mean() - 2


def test_divergence_from_the_standard_normal_distribution():
    posterior = Posterior(
        torch.tensor([[0.0, 2.0]]), torch.tensor([[0.0, np.log(4.0)]])
    )
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(2.0, 2.0), normal(0.0, 1.0))
    assert posterior.divergence().item() == pytest.approx(expected.item())


def test_controls_are_decoded_without_salient_variables():
    network = ContrastiveNetwork(6, 2, 3, 4)
    decoded = []
    network.decode.register_forward_pre_hook(
        lambda module, inputs: decoded.append(inputs[0].detach())
    )
    network.compute_loss(torch.randn(5, 6), torch.randn(7, 6))
    (latent,) = decoded
    assert latent.shape == (12, 5)
    assert (latent[:5] != 0.0).all()
    assert (latent[5:, :2] == 0.0).all()


def test_training_does_not_touch_the_global_generator():
    x, y, _ = make_hidden_subgroups(people=20)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    ContrastiveVAE(2, random_state=0, n_steps=2).fit(x, y)
    assert torch.rand(1) == expected

"""The four networks and their flat storage."""

from __future__ import annotations

import torch

from rindices.learners.gan import losses, networks
from rindices.learners.gan.networks import NetworkSizes


def make_weights(members: int) -> networks.FlatWeights:
    weights = networks.allocate_weights(NetworkSizes(9, 3), members, torch.zeros(()))
    networks.initialise_weights(weights, 0.5, [losses.make_member_generator(0, member) for member in range(members)])
    return weights


def test_named_weights_are_views_of_the_flat_buffers() -> None:
    weights = make_weights(2)
    named = networks.named_weights(weights.networks)
    assert sum(tensor.numel() for tensor in named.values()) == len(weights.generator) + len(weights.discriminator)
    weights.generator.fill_(3.0)
    weights.discriminator.fill_(3.0)
    assert all((tensor == 3.0).all() for tensor in named.values())


def test_initial_biases_are_zero_and_other_weights_are_not() -> None:
    for name, tensor in networks.named_weights(make_weights(1).networks).items():
        bias = tensor if "bias" in name else tensor[:, -1] if name in networks.WEIGHTS_WITH_BIAS_ROW else None
        assert bias is None or not bias.any(), name
        assert "bias" in name or tensor.any(), name


def test_selected_members_are_copies() -> None:
    weights = make_weights(3)
    selected = networks.select_member_weights(weights, NetworkSizes(9, 3), torch.tensor([2, 0]))
    for name, tensor in networks.named_weights(weights.networks).items():
        assert torch.equal(networks.named_weights(selected.networks)[name], tensor[[2, 0]]), name
    selected.generator.zero_()
    assert weights.generator.any()


def test_gates_multiply_the_code_of_their_person() -> None:
    gate, code = torch.arange(12.0).view(1, 6, 2), torch.tensor([[[1.0, 2.0], [10.0, 20.0]]])
    expected = gate * code.repeat_interleave(3, dim=1)
    assert torch.equal(networks.apply_gates(gate, code), expected)
    buffer = torch.zeros(1, 6, 2)
    networks.apply_gates(gate, code, buffer)
    assert torch.equal(buffer, expected)

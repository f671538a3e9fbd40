"""The four networks of a stack."""

from __future__ import annotations

import torch

from rindices.learners.gan import losses, networks
from tests.learners.gan.helpers import draw_people, make_stack
from tests.learners.gan.reference import Reference


def test_initial_biases_are_zero_and_other_weights_are_not() -> None:
    streams = [losses.make_member_generator(0, member) for member in (0, 1)]
    for name, tensor in networks.draw_weights(9, 3, 0.5, streams, torch.zeros(())).items():
        assert tensor.requires_grad
        assert bool(tensor.any()) != ("bias" in name), name


def test_f_decodes_each_severity_of_a_person() -> None:
    stack = make_stack(7, 3, (0, 1), dtype=torch.float64)
    x, _ = draw_people(stack, 4, torch.Generator().manual_seed(0))
    z = torch.rand(2, 4, 5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    change = networks.compute_change(stack.weights, networks.encode_controls(stack.weights, x), z)
    assert change.shape == (2, 4, 5, 7)
    for member in (0, 1):
        plain = Reference({name: weight[member] for name, weight in stack.weights.items()}, 1.0, None)
        for k in range(5):
            torch.testing.assert_close(change[member, :, k], plain.change(x[member], z[member, :, k]))

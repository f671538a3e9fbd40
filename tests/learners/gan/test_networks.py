"""The four networks of a stack."""

from __future__ import annotations

import torch

from rindices.learners.gan import losses, networks
from tests.learners.gan.helpers import PAPER, draw_people, make_stack
from tests.learners.gan.reference import Reference


def test_initial_biases_are_zero_and_other_weights_are_not() -> None:
    drawn = networks.SurrealNetworks(2, 9, 3)
    drawn.draw_weights(
        0.5, [losses.make_member_generator(0, member) for member in (0, 1)]
    )
    for name, parameter in drawn.named_parameters():
        assert parameter.requires_grad
        assert bool(parameter.any()) != ("bias" in name), name
    assert torch.equal(drawn.copula.phi, torch.eye(3).expand(2, -1, -1))


def test_f_decodes_each_severity_of_a_person() -> None:
    stack = make_stack(7, 3, (0, 1), dtype=torch.float64)
    x, _ = draw_people(stack, 4, torch.Generator().manual_seed(0))
    z = torch.rand(
        2, 4, 5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    f = stack.networks.f
    change = f.decode(f.encode(x), z)
    assert change.shape == (2, 4, 5, 7)
    for member in (0, 1):
        plain = Reference(stack.networks.get_member(member), 1.0, None)
        for k in range(5):
            torch.testing.assert_close(
                change[member, :, k], plain.change(x[member], z[member, :, k])
            )
    torch.testing.assert_close(f(x, z[:, :, 0]), x + change[:, :, 0])


def test_the_weights_of_a_stack_are_those_of_its_members() -> None:
    stack = make_stack(7, 3, (0, 1, 2), PAPER.replace(standardised_d=True))
    again = networks.SurrealNetworks.from_members(
        [stack.networks.get_member(k) for k in (2, 0)], True
    )
    selected = stack.networks.select([2, 0])
    x, _ = draw_people(stack, 4, torch.Generator().manual_seed(0))
    assert again.state_dict().keys() == selected.state_dict().keys()
    for network in (again, selected):
        torch.testing.assert_close(
            network.judge(x[[2, 0]]), stack.networks.judge(x)[[2, 0]]
        )
        torch.testing.assert_close(network.g1(x[[2, 0]]), stack.networks.g1(x)[[2, 0]])


def test_a_standardised_d_reads_deviations_in_control_standard_deviations() -> None:
    stack = make_stack(7, 3, (0,), PAPER.replace(standardised_d=True))
    x, _ = draw_people(stack, 4, torch.Generator().manual_seed(0))
    plain = Reference(stack.networks.get_member(0), 1.0, None)
    torch.testing.assert_close(
        stack.networks.judge(x)[0], plain.perceptron("d", (x[0] - 1) / 0.1)
    )

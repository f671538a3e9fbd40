"""Members in training and their buffers."""

from __future__ import annotations

import torch

from rindices.learners.surreal import step
from rindices.learners.surreal.networks import NetworkSizes, named_weights
from rindices.learners.surreal.state import compute_gradient_scales
from tests.learners.surreal.helpers import PAPER, fill_people, make_stack


def test_constant_ones_survive_the_steps() -> None:
    stack, work = make_stack(NetworkSizes(12, 2), 2, 8)
    fill_people(work, torch.Generator().manual_seed(3))
    for _ in range(3):
        step.take_step(stack, work)
    for rows in (work.people, work.fake_and_real, work.y_leaky, work.z_rows):
        assert (rows[..., -1] == 1).all()


def test_scales_are_weights_over_the_entries_of_their_means() -> None:
    scales = compute_gradient_scales(PAPER.weights, NetworkSizes(10, 2), 5)
    assert scales.adversarial == 1 / 5
    assert scales.change == scales.near_zero == 6 / 50
    assert scales.decomposition == 2 * 80 / 100
    assert scales.reconstruction == 2 * 80 / 10
    assert scales.orthogonality == 4 * 0.2 / 20
    assert scales.monotonicity == 2 * 500 / 50


def test_a_selected_stack_keeps_weights_moments_and_streams() -> None:
    stack, work = make_stack(NetworkSizes(12, 2), 3, 8)
    fill_people(work, torch.Generator().manual_seed(3))
    step.take_step(stack, work)
    selected = stack.select([2, 0])
    assert selected.members == (2, 0)
    assert selected.streams == [stack.streams[2], stack.streams[0]]
    for name in ("weights", "first_moments", "second_moments"):
        before, after = (named_weights(getattr(each, name).networks) for each in (stack, selected))
        assert all(torch.equal(after[key], before[key][[2, 0]]) for key in before), name

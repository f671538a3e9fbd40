"""Heads: fast inference equals the definition, arrays round-trip, changes have their
documented meaning.
"""

from dataclasses import replace

import numpy as np
import pytest

from rindices.learners.inference import (
    HEADS_BY_KIND,
    ContrastiveHead,
    compute_hidden_widths,
    leaky_relu,
    make_inference_function,
)

N, R, M = 7, 9, 2


def make_head(kind: str, share: float = 0.1, seed: int = 0):
    rng = np.random.default_rng(seed)
    arrays = {
        name: 0.5 * rng.random(shape) + 0.5
        for name, shape in HEADS_BY_KIND[kind].shapes(R, M).items()
    }
    return HEADS_BY_KIND[kind].from_arrays(
        arrays | ({"share": np.array(share)} if kind == "contrastive" else {})
    )


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_contrastive_inference_equals_preparation_and_weights(share: float) -> None:
    head, people = (
        make_head("contrastive", share),
        np.random.default_rng(1).normal(size=(N, R)) * 3,
    )
    np.testing.assert_allclose(
        head.infer(people.copy()), head.prepare(people) @ head.weights
    )


def test_joined_layers_equal_g2_after_g1() -> None:
    head, people = make_head("surreal"), np.random.default_rng(1).normal(size=(N, R))
    components = leaky_relu(np.c_[people, np.ones(N)]) @ head.g1
    outputs = []
    for block in np.split(components, M, axis=1):
        hidden = leaky_relu(block @ head.g2_weight1 + head.g2_bias1)
        hidden = leaky_relu(hidden @ head.g2_weight2 + head.g2_bias2)
        outputs.append(hidden @ head.g2_weight3 + head.g2_bias3)
    np.testing.assert_allclose(head.infer(people), sum(outputs))


@pytest.mark.parametrize("kind", list(HEADS_BY_KIND))
def test_arrays_round_trip_with_the_declared_shapes(kind: str) -> None:
    head = make_head(kind)
    arrays = head.to_arrays()
    assert {name: array.shape for name, array in arrays.items()} == head.shapes(R, M)
    people = np.random.default_rng(1).normal(size=(N, R))
    np.testing.assert_array_equal(
        type(head).from_arrays(arrays).infer(people.copy()), head.infer(people.copy())
    )


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_a_change_of_the_average_control_is_in_control_sd(share: float) -> None:
    head = replace(make_head("contrastive", share), shift_mean=np.zeros(R))
    average, change = head.control_mean[None], np.full((1, R), -0.5)
    np.testing.assert_allclose(
        head.apply_change(average, change), average - 0.5 * head.control_scale
    )
    np.testing.assert_allclose(
        head.to_control_sd(head.prepare(average + change * head.control_scale)), change
    )


def test_members_are_inferred_side_by_side() -> None:
    same = make_head("contrastive")
    heads = [same, replace(same, weights=same.weights + 1.0)]
    people = np.random.default_rng(1).normal(size=(N, R))
    for members in (
        heads,
        [*heads, make_head("contrastive", seed=1)],
        [make_head("surreal"), make_head("surreal")],
    ):
        expected = np.concatenate(
            [head.infer(people.copy()) for head in members], axis=1
        )
        np.testing.assert_allclose(
            make_inference_function(members)([people.copy()]), expected
        )
        prepared = [people + k for k in range(len(members))]
        expected = np.concatenate(
            [
                head.infer(each.copy())
                for head, each in zip(members, prepared, strict=True)
            ],
            axis=1,
        )
        np.testing.assert_allclose(make_inference_function(members)(prepared), expected)
    assert heads[0].has_same_preparation(heads[1])
    assert not heads[0].has_same_preparation(make_head("surreal"))
    assert isinstance(same, ContrastiveHead)


def test_hidden_widths_of_the_paper() -> None:
    assert compute_hidden_widths(139) == (69, 34)
    assert compute_hidden_widths(1) == (1, 1)

"""Recipes check themselves."""

from __future__ import annotations

import dataclasses

import pytest

from rindices.errors import RindicesError
from rindices.learners.surreal.recipe import LossWeights, Recipe, get_recipe


def test_the_paper_recipe_holds_section_3_3() -> None:
    paper = get_recipe("paper")
    assert dataclasses.astuple(paper.weights) == (1, 6, 80, 80, 0.2, 500, 6)
    assert paper.learning_rate == 2e-4
    assert paper.learning_rate * paper.discriminator_ratio == pytest.approx(4e-5)
    assert (paper.beta1, paper.beta2, paper.clip) == (0.5, 0.999, 0.5)
    assert (paper.min_steps, paper.reconstruction_bar, paper.monotonicity_bar) == (
        100_000,
        0.003,
        6e-4,
    )


def test_weights_are_replaced_by_their_own_names() -> None:
    changed = get_recipe("paper", orthogonality=0.4, learning_rate=1e-3)
    assert changed.weights.orthogonality == 0.4
    assert changed.learning_rate == 1e-3
    assert get_recipe("paper").weights.orthogonality == 0.2


def test_a_misspelt_field_is_answered_with_the_nearest() -> None:
    with pytest.raises(RindicesError, match="did you mean 'orthogonality'"):
        get_recipe("paper", ortogonality=0.4)
    with pytest.raises(RindicesError, match="did you mean 'paper'"):
        get_recipe("papr")


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": 0.0},
        {"beta1": 1.0},
        {"min_steps": 10, "max_steps": 5},
        {"change": -1.0},
        {"max_batch": 0},
        {"near_zero_bound": 2.0},
        {"copula_divergence": -0.1},
    ],
)
def test_impossible_values_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(RindicesError):
        get_recipe("paper", **wrong)


def test_a_recipe_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Recipe().clip = 1.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        LossWeights().change = 1.0  # type: ignore[misc]


def test_the_batch_is_an_eighth_of_the_patients_capped() -> None:
    assert get_recipe("paper").batch_size(492, 900) == 112
    assert get_recipe("paper").batch_size(50, 900) == 50
    assert get_recipe("paper", max_batch=64).batch_size(492, 900) == 64
    assert get_recipe("paper").batch_size(10, 3) == 1

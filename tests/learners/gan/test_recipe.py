"""Recipes check themselves."""

from __future__ import annotations

import dataclasses
import json

import pytest

from rindices.errors import RindicesError
from rindices.learners.gan.recipe import (
    LossWeights,
    Recipe,
    customise_recipe,
    recipe_from_dict,
)


def test_the_paper_recipe_holds_section_3_3() -> None:
    paper = Recipe()
    assert dataclasses.astuple(paper.weights) == (1, 6, 80, 80, 0.2, 500, 6)
    assert paper.learning_rate == 4 * 2e-4  # as the authors' package; the text has 2e-4 for f and 4e-5 for D
    assert paper.discriminator_ratio == pytest.approx(4e-5 / 2e-4)
    assert (paper.beta1, paper.beta2, paper.clip) == (0.5, 0.999, 0.5)
    assert (paper.min_steps, paper.reconstruction_bar, paper.monotonicity_bar) == (
        100_000,
        0.003,
        6e-4,
    )


def test_weights_are_replaced_by_their_own_names() -> None:
    changed = Recipe().replace(orthogonality=0.4, learning_rate=1e-3)
    assert changed.weights.orthogonality == 0.4
    assert changed.learning_rate == 1e-3
    assert Recipe().weights.orthogonality == 0.2


def test_a_misspelt_field_is_answered_with_the_nearest() -> None:
    with pytest.raises(RindicesError, match="did you mean 'orthogonality'"):
        Recipe().replace(ortogonality=0.4)


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
        {"share": 0.0},
    ],
)
def test_impossible_values_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(RindicesError):
        Recipe().replace(**wrong)


def test_a_recipe_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Recipe().clip = 1.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        LossWeights().change = 1.0  # type: ignore[misc]


def test_the_batch_is_an_eighth_of_the_patients_capped() -> None:
    assert Recipe().batch_size(492, 900) == 112
    assert Recipe().batch_size(50, 900) == 50
    assert Recipe().replace(max_batch=64).batch_size(492, 900) == 64
    assert Recipe().batch_size(10, 3) == 1


def test_a_cap_below_the_minimum_lowers_the_minimum() -> None:
    capped = customise_recipe(Recipe(), max_steps=100)
    assert (capped.max_steps, capped.min_steps) == (100, 100)
    with pytest.raises(RindicesError, match="lower min_steps"):
        customise_recipe(Recipe(), max_steps=100, min_steps=200)


def test_values_become_json_and_back() -> None:
    recipe = Recipe().replace(orthogonality=0.4, share=0.8)
    assert recipe_from_dict(json.loads(json.dumps(dataclasses.asdict(recipe)))) == recipe


def test_a_field_without_effect_is_refused() -> None:
    with pytest.raises(RindicesError, match="copula_ratio has no effect"):
        customise_recipe(Recipe(), copula_ratio=0.1)
    learnt = customise_recipe(Recipe(), learn_copula=True, copula_ratio=0.1)
    assert (learnt.correlated, learnt.copula_ratio, learnt.copula_after) == (True, 0.1, 0)


def test_a_shortened_training_ends_at_a_quarter_of_the_steps() -> None:
    short = Recipe().replace(orthogonality=0.4).shorten()
    assert (short.min_steps, short.max_steps, short.weights.orthogonality) == (25_000, 25_000, 0.4)
    assert short.learning_rate == Recipe().learning_rate

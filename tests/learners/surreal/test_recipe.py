"""Recipes check themselves."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest

from rindices.errors import RindicesError
from rindices.learners.surreal.recipe import (
    LossWeights,
    Recipe,
    customise_recipe,
    get_recipe,
    recipe_from_dict,
    recipe_to_dict,
)


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


@pytest.mark.parametrize("name", ["default", "paper"])
def test_a_cap_below_the_minimum_lowers_the_minimum_and_the_held_steps(name: str) -> None:
    capped = customise_recipe(get_recipe(name), max_steps=100)
    assert (capped.max_steps, capped.min_steps, capped.held_steps) == (
        100,
        min(100, get_recipe(name).min_steps),
        min(100, get_recipe(name).held_steps),
    )
    with pytest.raises(RindicesError, match="lower min_steps"):
        customise_recipe(get_recipe(name), max_steps=100, min_steps=200)


def test_a_copula_is_learnt_once_f_is_trained() -> None:
    default, paper = get_recipe("default"), get_recipe("paper")
    assert default.copula_after > default.max_steps
    assert customise_recipe(default, learn_copula=True).copula_after == default.held_steps
    assert customise_recipe(default, learn_copula=True, held_steps=30).copula_after == 30
    assert customise_recipe(default, learn_copula=True, copula_after=500).copula_after == 500
    learnt = customise_recipe(paper, learn_copula=True)
    assert (learnt.correlated, learnt.copula_after) == (True, 0)
    assert customise_recipe(default) == default


@pytest.mark.parametrize("name", ["default", "paper"])
def test_values_of_earlier_versions_are_read(name: str) -> None:
    chosen = get_recipe(name)
    values = recipe_to_dict(chosen)
    assert values["averaging"] == 0.0  # a removed field: written on, so that names of runs stay the same
    assert recipe_from_dict(values) == chosen
    assert recipe_from_dict({key: value for key, value in values.items() if key != "averaging"}) == chosen
    with pytest.raises(RindicesError, match="'averaging' was removed"):
        recipe_from_dict(values | {"averaging": 0.99})


def test_rates_decay_after_the_held_steps() -> None:
    recipe = get_recipe("default", held_steps=30, max_steps=60)
    assert [recipe.rate_factor(step) for step in (1, 30)] == [1.0, 1.0]
    factors = [recipe.rate_factor(step) for step in range(31, 61)]
    assert all(a > b for a, b in pairwise(factors))
    assert 0 < factors[-1] < 0.01 < 0.99 < factors[0] < 1
    assert recipe.replace(decay="constant").rate_factor(59) == 1.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"start": "warm"}, "start is 'warm'"),
        ({"share": 0.0}, "share is 0.0"),
        ({"averaging": 0.9}, "'averaging' was removed"),
        ({"held_steps": 5_000}, "held_steps is 5000"),
        ({"inverse": "g"}, "g reads volumes"),
        ({"start": "ica"}, "conditioning='controls'"),
    ],
)
def test_fields_that_exclude_each_other_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(RindicesError, match=message):
        get_recipe("default", **wrong)

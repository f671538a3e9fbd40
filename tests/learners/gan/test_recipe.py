"""Recipes check themselves."""

from __future__ import annotations

import dataclasses
import json

import pytest

from rindices.errors import RindicesError
from rindices.learners.gan.recipe import (
    LOSS_NAMES,
    PUBLISHED,
    SURREAL_GAN,
    LossWeights,
    Recipe,
    customise_recipe,
    recipe_from_dict,
)


def test_the_published_recipe_holds_section_3_3() -> None:
    paper = PUBLISHED
    assert paper == Recipe()
    assert dataclasses.astuple(paper.weights) == (1, 6, 80, 80, 0.2, 500, 6)
    assert paper.learning_rate * paper.f_ratio == 2e-4
    assert paper.learning_rate * paper.discriminator_ratio == pytest.approx(4e-5)
    assert (paper.start, paper.draw_controls, paper.last_rate, paper.share) == (
        "random",
        "people",
        1,
        1,
    )
    assert [paper.standardised_d, paper.detached_inversion, paper.correlated] == [
        False
    ] * 3
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


def test_the_names_of_the_losses_are_those_of_the_terms() -> None:
    pytest.importorskip("torch")
    from rindices.learners.gan.losses import LossTerms

    assert tuple(each.name for each in dataclasses.fields(LossTerms)) == LOSS_NAMES


def test_a_misspelt_field_is_answered_with_the_nearest() -> None:
    with pytest.raises(RindicesError, match="did you mean 'orthogonality'"):
        Recipe().replace(ortogonality=0.4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": 0.0},
        {"beta1": 1.0},
        {"min_steps": -1},
        {"start": "warm"},
        {"draw_controls": "all"},
        {"standardised_d": 1},
        {"last_rate": 0.0},
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


def test_a_cap_below_the_minimum_leaves_the_minimum() -> None:
    capped = customise_recipe(Recipe(), max_steps=100)
    assert (capped.max_steps, capped.min_steps) == (100, 100_000)


def test_rates_fall_along_a_cosine_and_keep_members_to_the_end() -> None:
    recipe = Recipe(learning_rate=1.0, last_rate=0.2, min_steps=10, max_steps=100)
    assert recipe.compute_rate(1) == 1.0
    assert recipe.compute_rate(51) == pytest.approx(0.6)
    assert recipe.compute_rate(101) == pytest.approx(0.2)
    assert recipe.first_stop == 100
    constant = recipe.replace(last_rate=1.0)
    assert {constant.compute_rate(step) for step in (1, 30, 100)} == {1.0}
    assert constant.first_stop == 10


def test_the_bar_of_the_tuned_recipe_is_a_tenth_of_the_variance_of_the_severities() -> (
    None
):
    assert SURREAL_GAN.get_reconstruction_bar(3) == pytest.approx(0.9 * (1 / 12) / 3)
    assert PUBLISHED.get_reconstruction_bar(3) == 0.003


def test_trainings_that_differ_after_the_start_share_it() -> None:
    tuned = SURREAL_GAN.replace(orthogonality=0.8, f_ratio=1.0, max_steps=50)
    assert tuned.forget_training() == SURREAL_GAN.forget_training()
    for changed in (
        {"reconstruction": 1.0},
        {"share": 0.5},
        {"start_steps": 1},
        {"discriminator_ratio": 1.0},
    ):
        assert (
            SURREAL_GAN.replace(**changed).forget_training()
            != SURREAL_GAN.forget_training()
        )


def test_values_become_json_and_back() -> None:
    recipe = Recipe().replace(orthogonality=0.4, share=0.8)
    assert (
        recipe_from_dict(json.loads(json.dumps(dataclasses.asdict(recipe)))) == recipe
    )


def test_a_field_without_effect_is_refused() -> None:
    with pytest.raises(RindicesError, match="start_steps has no effect"):
        customise_recipe(Recipe(), start_steps=10)
    with pytest.raises(RindicesError, match="copula_ratio has no effect"):
        customise_recipe(Recipe(), copula_ratio=0.1)
    learnt = customise_recipe(Recipe(), learn_copula=True, copula_ratio=0.1)
    assert (learnt.correlated, learnt.copula_ratio, learnt.copula_after) == (
        True,
        0.1,
        0,
    )


def test_a_shortened_training_ends_at_a_quarter_of_the_steps() -> None:
    short = Recipe().replace(orthogonality=0.4).shorten()
    assert (short.min_steps, short.max_steps, short.weights.orthogonality) == (
        25_000,
        25_000,
        0.4,
    )
    assert short.learning_rate == Recipe().learning_rate

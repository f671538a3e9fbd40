"""SurrealGAN's options: a cap on the steps, a learnt copula."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from rindices.learners.surreal.estimator import SurrealGAN
from rindices.learners.surreal.recipe import get_recipe
from tests.learners.helpers import make_cohort


@pytest.mark.parametrize("training", ["default", "paper"])
def test_a_cap_below_the_recipes_minimum_is_obeyed(training: str) -> None:
    x, y, _ = make_cohort(controls=60, patients=80, regions=12)
    chosen = get_recipe(training, start_steps=5)
    model = SurrealGAN(2, random_state=0, members=1, training=chosen, max_steps=15)
    with pytest.warns(ConvergenceWarning) if training == "paper" else np.errstate():
        model.fit(x, y)
    assert model.members_[0].steps == 15


def test_correlated_learns_the_copula_of_the_default_recipe() -> None:
    x, y, _ = make_cohort(controls=60, patients=80, regions=12)
    trained_on = get_recipe("default", start_steps=5, held_steps=5, max_steps=40, check_every=20, telling_bar=0.0)
    fixed, learnt = (
        SurrealGAN(2, random_state=0, members=1, training=trained_on, correlated=correlated).fit(x, y)
        for correlated in (False, True)
    )
    assert not np.array_equal(fixed.transform(x), learnt.transform(x))

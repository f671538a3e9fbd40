"""SurrealGAN's options: a cap on the steps, a learnt copula."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from rindices.learners.gan.estimator import SurrealGAN
from tests.learners.helpers import BRIEF, make_cohort


def test_a_cap_below_the_recipes_minimum_is_obeyed() -> None:
    x, y, _ = make_cohort(controls=60, patients=80, regions=12)
    model = SurrealGAN(2, random_state=0, members=1, max_steps=15)
    with pytest.warns(ConvergenceWarning):
        model.fit(x, y)
    assert model.members_[0].steps == 15


def test_correlated_learns_a_copula() -> None:
    x, y, _ = make_cohort(controls=60, patients=80, regions=12)
    fixed, learnt = (
        SurrealGAN(2, random_state=0, members=1, training=BRIEF, correlated=correlated).fit(x, y)
        for correlated in (False, True)
    )
    assert not np.array_equal(fixed.transform(x), learnt.transform(x))

"""SurrealGAN's options: a cap on the steps, a learnt copula, the choice of lambda."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from rindices.learners.gan import estimator
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


def test_lambda_is_the_one_at_which_members_agree_best(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = make_cohort(controls=60, patients=80, regions=12)
    short, agreement = BRIEF.replace(batch_share=8, min_steps=100, max_steps=100), {}
    for weight in (0.0, 1e4):
        tried = SurrealGAN(2, random_state=0, members=3, training=short, orthogonality=weight).fit(x, y)
        agreement[weight] = tried.agreement_
    worst, best = sorted(agreement, key=lambda weight: agreement[weight])
    assert agreement[worst] < agreement[best]
    monkeypatch.setattr(estimator, "ORTHOGONALITY_WEIGHTS", (worst, best))
    with pytest.warns(ConvergenceWarning):
        model = SurrealGAN(2, random_state=0, members=3, max_steps=400).fit(x, y)
    assert model.orthogonality_ == best

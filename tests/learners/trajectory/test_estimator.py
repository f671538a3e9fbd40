"""Score and convergence of the estimators."""

import numpy as np
import pytest

import rindices as ri
from rindices.errors import InputError
from tests.cohorts import simulate_few_regions


def test_the_score_is_a_held_out_likelihood() -> None:
    cohort = simulate_few_regions("tiny", 0).cohort
    X, y = (
        ri.Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    seen = np.arange(len(X)) % 2 == 0
    models = [
        ri.DiseaseTrajectories(k, random_state=0, members=1, shape="proportional").fit(
            X[seen], y[seen]
        )
        for k in (1, 3)
    ]
    few, true = (model.score(X[~seen], y[~seen]) for model in models)
    assert true > few  # three patterns were simulated
    assert models[1].score(3 * X[~seen], y[~seen]) < true
    assert 1 <= models[1].n_iter_ <= 40
    assert models[1].converged_ == (models[1].n_iter_ < 40)
    with pytest.raises(InputError, match="no patient"):
        models[0].score(X[y == 0], y[y == 0])


def test_a_learner_without_a_likelihood_says_so() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), np.arange(40) % 2
    model = ri.ContrastiveICA(1, random_state=0).fit(X, y)
    assert (model.n_iter_, model.converged_) == (20, None)
    with pytest.raises(AttributeError, match="has no attribute 'score'"):
        model.score(X, y)

"""What is particular to the paper's baselines; the contract they share is in test_contract.py."""

import numpy as np
import pytest

from rindices.errors import InputError
from rindices.learners.baselines.decompositions import LDABaseline, NMFBaseline, OpNMFBaseline
from rindices.selection.agreement import pattern_c_index
from tests.learners.test_contract import cohort, make


@pytest.mark.parametrize("learner", [NMFBaseline, OpNMFBaseline, LDABaseline])
def test_atrophy_learners_find_clear_patterns(learner):
    x, y, severity = cohort()
    model = make(learner).fit(x, y)
    score = pattern_c_index(severity, model.transform(x[y == 1]))
    assert score.mean > (0.75 if learner is LDABaseline else 0.9)
    for true, found in enumerate(score.matching):
        own = np.arange(24) % 3 == true
        assert model.patterns_[found][own].max() < model.patterns_[found][~own].min() <= 0


@pytest.mark.parametrize("learner", [NMFBaseline, OpNMFBaseline, LDABaseline])
def test_no_atrophy_at_all_is_said(learner):
    x, y, _ = cohort()
    x[y == 1] = x[y == 0].max() * 2
    with pytest.raises(InputError, match="no atrophy to decompose"):
        make(learner).fit(x, y)


def test_opnmf_patterns_are_orthonormal_and_its_error_never_grows():
    x, y, _ = cohort()
    model = make(OpNMFBaseline).fit(x, y)
    np.testing.assert_allclose(model.patterns_ @ model.patterns_.T, np.eye(3), atol=1e-3)
    assert (np.diff(model.errors_) <= 0).all()
    assert model.converged_


def test_lda_indices_are_shares():
    x, y, _ = cohort()
    model = make(LDABaseline).fit(x, y)
    np.testing.assert_allclose(model.transform(x).sum(axis=1), 1.0)
    np.testing.assert_allclose(model.patterns_.sum(axis=1), -1.0)

"""Properties of single baselines; the common protocol is tested in
``tests/learners/test_base.py``.
"""

import numpy as np
import pytest

from benchmarks.suites.baselines.decompositions import (
    LDABaseline,
    NMFBaseline,
    OpNMFBaseline,
)
from rindices.errors import InputError
from rindices.selection.agreement import pattern_c_index
from tests.learners.helpers import make_cohort, make_learner


@pytest.mark.parametrize("learner", [NMFBaseline, OpNMFBaseline, LDABaseline])
def test_atrophy_learners_find_clear_patterns(learner):
    x, y, severity = make_cohort()
    model = make_learner(learner).fit(x, y)
    score = pattern_c_index(severity, model.transform(x[y == 1]))
    assert score.mean > (0.75 if learner is LDABaseline else 0.9)
    for true, index in enumerate(score.matching):
        affected = np.arange(24) % 3 == true
        assert (
            model.patterns_[index][affected].max()
            < model.patterns_[index][~affected].min()
            <= 0
        )


@pytest.mark.parametrize("learner", [NMFBaseline, OpNMFBaseline, LDABaseline])
def test_patients_without_atrophy_raise_an_error(learner):
    x, y, _ = make_cohort()
    x[y == 1] = x[y == 0].max() * 2
    with pytest.raises(InputError, match="no atrophy to decompose"):
        make_learner(learner).fit(x, y)


def test_opnmf_patterns_are_orthonormal_and_its_error_never_grows():
    x, y, _ = make_cohort()
    model = make_learner(OpNMFBaseline).fit(x, y)
    np.testing.assert_allclose(
        model.patterns_ @ model.patterns_.T, np.eye(3), atol=1e-3
    )
    assert (np.diff(model.errors_) <= 0).all()
    assert model.converged_


def test_lda_indices_sum_to_one():
    x, y, _ = make_cohort()
    model = make_learner(LDABaseline).fit(x, y)
    np.testing.assert_allclose(model.transform(x).sum(axis=1), 1.0)
    np.testing.assert_allclose(model.patterns_.sum(axis=1), -1.0)

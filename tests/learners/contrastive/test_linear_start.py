"""The linear model that the trajectory learner starts from, on data whose truth is known."""

import numpy as np
import pytest

from rindices.errors import InputError
from rindices.learners.contrastive.estimator import fit_linear_start
from rindices.learners.contrastive.rotation import compute_severity_weights
from rindices.learners.normal_variation import estimate_covariance
from rindices.learners.prepared_people import Subsample, draw_subsample
from rindices.selection.agreement import pattern_c_index
from tests.learners.helpers import LinearCohort


def keep_everyone(y):
    return Subsample(np.arange(len(y)), np.zeros(0, dtype=np.intp))


@pytest.mark.parametrize("patients", [20, 60])
@pytest.mark.parametrize("seed", range(4))
def test_data_without_patterns_still_give_a_start(patients, seed):
    rng = np.random.default_rng(seed)
    people, y = rng.normal(size=(40 + patients, 30)), np.repeat([0, 1], [40, patients])
    for width in (1, 2, 4):
        start = fit_linear_start(people, y, keep_everyone(y), width, seed)
        assert all(np.isfinite(values).all() for values in (start.patterns, *start.prior))


def test_a_start_ranks_severities():
    truth = LinearCohort(controls=150, patients=400)
    start = fit_linear_start(truth.people, truth.y, keep_everyone(truth.y), 2, 0)
    weights = compute_severity_weights(start.patterns, start.noise)
    assert pattern_c_index(truth.z, truth.patients @ weights).mean > 0.82
    np.testing.assert_allclose(start.noise, estimate_covariance(truth.controls))


def test_the_prior_has_the_correlation_of_the_severities():
    truth = LinearCohort(controls=400, patients=900, correlation=0.8)
    start = fit_linear_start(truth.people, truth.y, keep_everyone(truth.y), 2, 0)
    assert 0.5 < (start.prior.factor @ start.prior.factor.T)[0, 1] < 0.98


def test_too_few_patients_raise_an_error():
    truth = LinearCohort(controls=10, patients=6)
    subsample = draw_subsample(truth.y, 0.5, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"3 patients cannot give 3 patterns .* of 6"):
        fit_linear_start(truth.people, truth.y, subsample, 3, 0)

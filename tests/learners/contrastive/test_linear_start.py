"""The linear model that warm trainings start from, on data whose truth is known."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from rindices.errors import InputError
from rindices.learners.contrastive.linear_start import (
    compute_inverse_weights,
    compute_start_curves,
    compute_start_weights,
    fit_linear_start,
)
from rindices.learners.contrastive.sparse_patterns import compute_severity_weights
from rindices.learners.normal_variation import estimate_covariance
from rindices.learners.subsampling import Subsample, draw_subsample
from rindices.selection.agreement import pattern_c_index
from tests.learners.helpers import LinearCohort


@pytest.mark.parametrize("patients", [20, 60])
@pytest.mark.parametrize("seed", range(4))
def test_data_without_patterns_still_give_a_start(patients, seed):
    rng = np.random.default_rng(seed)
    people, y = rng.normal(size=(40 + patients, 30)), np.repeat([0, 1], [40, patients])
    for width in (1, 2, 4):
        start = fit_linear_start(
            people, y, Subsample(np.arange(len(y)), np.zeros(0, int)), width, "likelihood", "shared", seed
        )
        assert np.isfinite(compute_start_weights(start, rng)).all()
        assert np.isfinite(compute_start_curves(start, (0.5, 1.0))).all()


def test_the_inverse_is_the_regression_of_z_on_changed_people():
    truth = LinearCohort(controls=60_000, patients=60_000, regions=12, correlation=0.5)
    regression = LinearRegression().fit(truth.patients, truth.z).coef_.T
    weights = compute_inverse_weights(truth.z, truth.z @ truth.patterns.T, truth.noise)
    np.testing.assert_allclose(weights, regression, atol=0.01)


@pytest.mark.parametrize(("kind", "floor"), [("ica", 0.78), ("contrastive", 0.82), ("likelihood", 0.85)])
def test_a_start_ranks_severities(kind, floor):
    truth = LinearCohort(controls=150, patients=400)
    everyone = Subsample(np.arange(len(truth.y)), np.zeros(0, dtype=np.intp))
    start = fit_linear_start(truth.people, truth.y, everyone, 2, kind, "controls", 0)
    weights = compute_start_weights(start, np.random.default_rng(0))
    assert pattern_c_index(truth.z, truth.patients @ weights).mean > floor
    curves = compute_start_curves(start, (0.25, 1.0))
    assert curves.shape == (2, 2, 40)
    assert (np.abs(curves[1]).sum() > np.abs(curves[0]).sum()).all()
    np.testing.assert_allclose(start.whitening_covariance, estimate_covariance(truth.controls))


def test_a_random_start_has_the_prior_of_ica() -> None:
    truth = LinearCohort(controls=100, patients=200, correlation=0.6)
    everyone = Subsample(np.arange(len(truth.y)), np.zeros(0, dtype=np.intp))
    random, ica = (
        fit_linear_start(truth.people, truth.y, everyone, 2, kind, "controls", 0).prior for kind in ("random", "ica")
    )
    np.testing.assert_array_equal(random.factor, ica.factor)
    np.testing.assert_array_equal(random.quantiles, ica.quantiles)


def test_the_prior_improves_the_inverse_for_correlated_severities():
    truth = LinearCohort(controls=400, patients=900, correlation=0.8)
    everyone = Subsample(np.arange(len(truth.y)), np.zeros(0, dtype=np.intp))
    start = fit_linear_start(truth.people, truth.y, everyone, 2, "likelihood", "shared", 0)
    assert 0.5 < (start.prior.factor @ start.prior.factor.T)[0, 1] < 0.98
    with_prior = truth.patients @ compute_start_weights(start, np.random.default_rng(0))
    without_prior = truth.patients @ compute_severity_weights(start.patterns, start.noise)
    assert pattern_c_index(truth.z, with_prior).mean > pattern_c_index(truth.z, without_prior).mean


def test_too_few_patients_raise_an_error():
    truth = LinearCohort(controls=10, patients=6)
    subsample = draw_subsample(truth.y, 0.5, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"3 patients cannot give 3 patterns .* of 6"):
        fit_linear_start(truth.people, truth.y, subsample, 3, "likelihood", "shared", 0)

"""Shared covariance of controls and patients, on data whose truth is known."""

import numpy as np

from rindices.learners.contrastive.shared_noise import _estimate_shared_covariance, fit_factor_model
from rindices.learners.contrastive.sparse_patterns import compute_severity_weights
from rindices.learners.normal_variation import estimate_covariance
from rindices.selection.agreement import pattern_c_index
from tests.learners.helpers import LinearCohort


def compute_relative_error(estimate, truth):
    """Return the relative error of a covariance."""
    return np.linalg.norm(estimate - truth) / np.linalg.norm(truth)


def test_patients_improve_the_covariance():
    truth = LinearCohort()
    control_covariance = estimate_covariance(truth.controls)
    model = fit_factor_model(truth.controls, truth.patients, truth.patterns, control_covariance)
    control_error = compute_relative_error(control_covariance, truth.noise)
    assert compute_relative_error(model.noise, truth.noise) < 0.7 * control_error
    np.testing.assert_allclose(np.abs(model.patterns - truth.patterns).mean(), 0, atol=0.25)


def test_the_true_covariance_is_a_fixed_point_for_many_people():
    truth = LinearCohort(controls=20_000, patients=20_000, regions=10)
    covariance = _estimate_shared_covariance(truth.controls, truth.patients, truth.patterns, truth.noise, None)
    np.testing.assert_allclose(covariance, truth.noise, atol=0.05)


def test_fit_keeps_the_basis_of_the_first_solution():
    truth = LinearCohort(correlation=0.6)
    mixed = truth.patterns @ np.array([[1.0, 0.4], [0.0, 1.0]])
    noise = estimate_covariance(truth.controls)
    model = fit_factor_model(truth.controls, truth.patients, mixed, noise)
    before = truth.patients @ compute_severity_weights(mixed, noise)
    after = truth.patients @ compute_severity_weights(model.patterns, model.noise)
    assert pattern_c_index(before, after).mean > 0.9
    np.testing.assert_allclose(np.corrcoef(before.T)[0, 1], np.corrcoef(after.T)[0, 1], atol=0.12)

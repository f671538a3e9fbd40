"""The linear model that warm trainings start from, on data whose truth is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from rindices.errors import InputError
from rindices.learners.contrastive.estimator import estimate_control_covariance
from rindices.learners.contrastive.linear_start import (
    compute_inverse_weights,
    compute_start_curves,
    compute_start_weights,
    fit_linear_start,
)
from rindices.learners.contrastive.severity_prior import QUANTILE_GRID, fit_prior_to_moments, make_independent_prior
from rindices.learners.contrastive.shared_noise import estimate_shared_covariance, fit_factor_model
from rindices.learners.contrastive.sparse_patterns import compute_severity_weights
from rindices.learners.subsampling import Subsample, draw_subsample, split_into_halves
from rindices.selection.agreement import pattern_c_index


class Truth:
    """Controls e, patients D s + e with two overlapping sparse patterns and uniform severities."""

    def __init__(self, controls=80, patients=300, regions=40, correlation=0.0, seed=0):
        rng = np.random.default_rng(seed)
        loadings = rng.normal(size=(regions, 3))
        self.noise = loadings @ loadings.T / 3 + 0.5 * np.eye(regions)
        root = np.linalg.cholesky(self.noise)
        self.patterns = np.zeros((regions, 2))
        self.patterns[:12, 0], self.patterns[8:20, 1] = -2.5, -2.5
        normals = rng.normal(size=(patients, 2))
        normals[:, 1] = correlation * normals[:, 0] + np.sqrt(1 - correlation**2) * normals[:, 1]
        self.z = normals.argsort(axis=0).argsort(axis=0) / patients
        self.controls = rng.normal(size=(controls, regions)) @ root.T
        self.patients = self.z @ self.patterns.T + rng.normal(size=(patients, regions)) @ root.T
        self.people = np.concatenate([self.controls, self.patients])
        self.y = np.repeat([0, 1], [controls, patients])


def off(found, truth):
    """Relative error of a covariance where it counts: of the severities' error."""
    return np.linalg.norm(found - truth) / np.linalg.norm(truth)


def test_patients_help_to_learn_normal_variation():
    truth = Truth()
    alone = estimate_control_covariance(truth.controls)
    found = fit_factor_model(truth.controls, truth.patients, truth.patterns, alone)
    assert off(found.noise, truth.noise) < 0.7 * off(alone, truth.noise)
    np.testing.assert_allclose(np.abs(found.patterns - truth.patterns).mean(), 0, atol=0.25)


@pytest.mark.parametrize("patients", [20, 60])
@pytest.mark.parametrize("seed", range(4))
def test_where_there_is_nothing_a_start_still_comes_back(patients, seed):
    rng = np.random.default_rng(seed)
    people, y = rng.normal(size=(40 + patients, 30)), np.repeat([0, 1], [40, patients])
    for width in (1, 2, 4):
        start = fit_linear_start(
            people, y, Subsample(np.arange(len(y)), np.zeros(0, int)), width, "likelihood", "shared", seed
        )
        assert np.isfinite(compute_start_weights(start, rng)).all()
        assert np.isfinite(compute_start_curves(start, (0.5, 1.0))).all()


def test_shared_covariance_stays_at_the_truth_when_people_are_many():
    truth = Truth(controls=20_000, patients=20_000, regions=10)
    found = estimate_shared_covariance(truth.controls, truth.patients, truth.patterns, truth.noise)
    np.testing.assert_allclose(found, truth.noise, atol=0.05)


def test_refit_keeps_the_basis_it_was_given():
    truth = Truth(correlation=0.6)
    mixed = truth.patterns @ np.array([[1.0, 0.4], [0.0, 1.0]])
    noise = estimate_control_covariance(truth.controls)
    found = fit_factor_model(truth.controls, truth.patients, mixed, noise)
    before = truth.patients @ compute_severity_weights(mixed, noise)
    after = truth.patients @ compute_severity_weights(found.patterns, found.noise)
    assert pattern_c_index(before, after).mean > 0.9
    np.testing.assert_allclose(np.corrcoef(before.T)[0, 1], np.corrcoef(after.T)[0, 1], atol=0.12)


@given(
    st.lists(st.floats(0.1, 0.9), min_size=2, max_size=2),
    st.lists(st.floats(0.05, 0.3), min_size=2, max_size=2),
    st.floats(-0.8, 0.8),
)
@settings(max_examples=30, deadline=None)
def test_prior_has_the_moments_it_was_made_from(mean, sd, correlation):
    covariance = np.outer(sd, sd) * np.array([[1, correlation], [correlation, 1]])
    prior = fit_prior_to_moments(np.array(mean), covariance)
    z, s = prior.draw(20_000, np.random.default_rng(0))
    assert s.min() >= 0
    np.testing.assert_allclose(z.mean(axis=0), 0.5, atol=0.02)
    np.testing.assert_allclose(z.std(axis=0), 12**-0.5, atol=0.01)
    np.testing.assert_allclose(s.mean(axis=0), mean, atol=0.02)
    # A spread beyond the mean fits no distribution from 0 on, and a narrow one is coarse in the grid's first cell.
    ordinary = [k for k in (0, 1) if 0.25 < sd[k] / mean[k] < 0.55]
    np.testing.assert_allclose(s.std(axis=0)[ordinary], np.array(sd)[ordinary], rtol=0.1)
    np.testing.assert_allclose(np.corrcoef(z.T)[0, 1], correlation, atol=0.06)


def test_uniform_severities_give_the_papers_prior():
    upper = np.array([0.8, 1.3])
    mean, covariance = upper / 2, np.diag(upper**2 / 12)
    for prior in (fit_prior_to_moments(mean, covariance), make_independent_prior(mean, covariance)):
        np.testing.assert_allclose(prior.quantiles, np.outer(upper, QUANTILE_GRID), atol=1e-6)
        np.testing.assert_allclose(prior.factor, np.eye(2), atol=1e-12)


def test_the_inverse_is_the_regression_of_z_on_changed_people():
    truth = Truth(controls=60_000, patients=60_000, regions=12, correlation=0.5)
    oracle = LinearRegression().fit(truth.patients, truth.z).coef_.T
    found = compute_inverse_weights(truth.z, truth.z @ truth.patterns.T, truth.noise)
    np.testing.assert_allclose(found, oracle, atol=0.01)


@pytest.mark.parametrize(("kind", "floor"), [("ica", 0.78), ("likelihood", 0.85)])
def test_a_start_ranks_severities(kind, floor):
    truth = Truth(controls=150, patients=400)
    everyone = Subsample(np.arange(len(truth.y)), np.zeros(0, dtype=np.intp))
    start = fit_linear_start(truth.people, truth.y, everyone, 2, kind, "controls", 0)
    weights = compute_start_weights(start, np.random.default_rng(0))
    assert pattern_c_index(truth.z, truth.patients @ weights).mean > floor
    curves = compute_start_curves(start, (0.25, 1.0))
    assert curves.shape == (2, 2, 40)
    assert (np.abs(curves[1]).sum() > np.abs(curves[0]).sum()).all()
    np.testing.assert_allclose(start.whitening_covariance, estimate_control_covariance(truth.controls))


def test_where_severities_are_correlated_the_inverse_knows_it():
    truth = Truth(controls=400, patients=900, correlation=0.8)
    everyone = Subsample(np.arange(len(truth.y)), np.zeros(0, dtype=np.intp))
    start = fit_linear_start(truth.people, truth.y, everyone, 2, "likelihood", "shared", 0)
    assert 0.5 < (start.prior.factor @ start.prior.factor.T)[0, 1] < 0.98
    knowing = pattern_c_index(truth.z, truth.patients @ compute_start_weights(start, np.random.default_rng(0))).mean
    blind = pattern_c_index(truth.z, truth.patients @ compute_severity_weights(start.patterns, start.noise)).mean
    assert knowing > blind


@given(st.integers(4, 60), st.integers(4, 60), st.floats(0.3, 1.0), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_seats(controls, patients, share, seed):
    y = np.random.default_rng(seed).permutation(np.repeat([0, 1], [controls, patients]))
    seats = draw_subsample(y, share, np.random.default_rng(seed))
    assert sorted([*seats.seen, *seats.unseen]) == list(range(len(y)))
    if share < 1:
        for label, number in enumerate((controls, patients)):
            assert (y[seats.seen] == label).sum() == max(2, round(share * number))
    first, second = split_into_halves(y, np.random.default_rng(seed))
    assert not set(first.seen) & set(second.seen)
    assert len(first.seen) == len(second.seen) == controls // 2 + patients // 2
    assert list(first.unseen) == list(second.seen)


def test_too_few_patients_for_the_patterns():
    truth = Truth(controls=10, patients=6)
    seats = draw_subsample(truth.y, 0.5, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"3 patients cannot give 3 patterns .* of 6"):
        fit_linear_start(truth.people, truth.y, seats, 3, "likelihood", "shared", 0)

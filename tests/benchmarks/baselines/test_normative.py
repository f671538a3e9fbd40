"""Decompositions of deviations from the controls: recovery of planted components."""

import numpy as np
import pytest

from benchmarks.suites.baselines.decompositions import NMFBaseline
from benchmarks.suites.baselines.normative import (
    DeviationNMF,
    NormativeICA,
    NormativePCA,
)
from rindices.selection.agreement import pattern_c_index


def make_planted_people(seed=0, people=2000, regions=12, strengths=(6.0, 4.0)):
    """Return controls with unit noise and patients with uniform severities along two
    orthonormal directions.
    """
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(regions, 2)))[0].T
    severity = rng.uniform(0, 1, (people, 2))
    x = rng.normal(size=(2 * people, regions))
    x[people:] += (severity * strengths) @ directions
    return x, np.repeat([0, 1], people), severity, directions


def test_principal_components_are_the_planted_directions_where_variances_differ():
    x, y, severity, directions = make_planted_people(strengths=(12.0, 6.0))
    model = NormativePCA(2, random_state=0).fit(x, y)
    np.testing.assert_allclose(
        abs(model.patterns_ @ directions.T), np.eye(2), atol=0.05
    )
    assert pattern_c_index(severity, model.transform(x[y == 1])).mean > 0.85


def test_independent_components_separate_equal_variances_and_principal_components_do_not():
    x, y, severity, _ = make_planted_people(strengths=(9.0, 9.0))
    scores = {
        learner: pattern_c_index(
            severity, learner(2, random_state=0).fit(x, y).transform(x[y == 1])
        ).mean
        for learner in (NormativeICA, NormativePCA)
    }
    assert scores[NormativeICA] > 0.87
    assert scores[NormativePCA] < scores[NormativeICA] - 0.03


def test_loadings_of_independent_components_reconstruct_patients():
    x, y, _, _ = make_planted_people(strengths=(9.0, 9.0))
    model = NormativeICA(2, random_state=0).fit(x, y)
    assert model.converged_
    z = (x - model.control_mean_) / model.control_scale_
    residual = z[y == 1] - model.transform(x[y == 1]) @ model.patterns_
    assert residual.var(axis=0).sum() == pytest.approx(
        10, abs=0.5
    )  # the noise of 12 regions but two directions


def make_hidden_losses():
    """Return nonnegative losses of two groups of regions, under strong variation shared
    with the controls.
    """
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(600, 3)) @ rng.normal(size=(3, 40)) * 2
    x, y = shared + 0.5 * rng.normal(size=(600, 40)), np.repeat([0, 1], 300)
    severity = rng.uniform(0, 1, (300, 2))
    x[y == 1, :5] -= 5 * severity[:, [0]]
    x[y == 1, 20:25] -= 5 * severity[:, [1]]
    return x, y, severity


def test_losses_hidden_by_normal_variation_are_found():
    x, y, severity = make_hidden_losses()
    model, plain = (
        DeviationNMF(2, random_state=0, n_latent=3),
        NMFBaseline(2, random_state=0),
    )
    score, plain_score = (
        pattern_c_index(severity, m.fit(x, y).transform(x[y == 1]))
        for m in (model, plain)
    )
    assert score.mean > 0.9
    assert plain_score.mean < score.mean - 0.15
    losses = -model.patterns_[score.matching]
    assert losses[0, :5].min() > 2 * losses[0, 20:25].max()
    assert losses[1, 20:25].min() > 2 * losses[1, :5].max()


def test_indices_do_not_change_along_the_normal_variation():
    x, y, _ = make_hidden_losses()
    model = DeviationNMF(2, random_state=0, n_latent=3).fit(x, y)
    assert model.latent_patterns_.shape == (3, 40)
    moved = x + 4.0 * model.latent_patterns_[0] * model.control_scale_
    np.testing.assert_allclose(model.transform(moved), model.transform(x), atol=1e-4)


def test_without_latent_variables_only_the_scale_of_regions_differs_from_nmf():
    x, y, _ = make_hidden_losses()
    model = DeviationNMF(2, random_state=0, n_latent=0).fit(x, y)
    losses = np.maximum(-(x - model.control_mean_) / model.control_scale_, 0.0)
    np.testing.assert_allclose(model.deviation_range_, losses[y == 1].max(axis=0))
    assert -model.patterns_.min() == pytest.approx(
        np.max(model.model_.components_ * model.deviation_range_)
    )

"""opNMF and DNMF against the published update, scikit-learn's NMF and known
solutions.
"""

import numpy as np
import pytest
from sklearn.decomposition import NMF

from benchmarks.suites.baselines.nmf import (
    _compute_projection_error,
    _compute_update_ratio,
    _update_coefficients,
    discriminant_nmf,
    initialise_nndsvd,
    orthogonal_nmf,
)


def make_data(seed, regions=20, people=60, common=2.0):
    """Nonnegative regions by people with a common factor, as brains have."""
    rng = np.random.default_rng(seed)
    return np.maximum(
        rng.normal(size=(regions, people)) + common * rng.normal(size=people), 0
    )


def fit_opnmf(x, m, seed=0, **options):
    return orthogonal_nmf(
        x @ x.T, initialise_nndsvd(x, m, np.random.default_rng(seed)), **options
    )


def test_update_is_the_published_one():
    x, w = make_data(0), np.random.default_rng(1).random((20, 3))
    expected = w * (x @ x.T @ w) / (w @ w.T @ x @ x.T @ w)
    np.testing.assert_allclose(w * _compute_update_ratio(x @ x.T, w), expected)


def test_projection_error_equals_its_definition():
    x, w = make_data(0), 0.1 * np.random.default_rng(1).random((20, 3))
    expected = np.linalg.norm(x - w @ w.T @ x) ** 2 / np.linalg.norm(x) ** 2
    assert _compute_projection_error(x @ x.T, w) == pytest.approx(expected)


@pytest.mark.parametrize("m", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("seed", range(4))
def test_opnmf_is_orthonormal_and_its_error_never_grows(m, seed):
    result = fit_opnmf(make_data(seed, common=seed), m)
    assert (result.factor >= 0).all()
    np.testing.assert_allclose(result.factor.T @ result.factor, np.eye(m), atol=1e-3)
    assert (np.diff(result.errors) <= 0).all()
    assert (np.diff(result.relaxed_errors) <= 0).all()
    assert result.converged
    x = make_data(seed, common=seed)
    assert result.errors[-1] == pytest.approx(
        _compute_projection_error(x @ x.T, result.factor)
    )


@pytest.mark.parametrize(
    ("regions", "people", "m"), [(139, 5, 3), (4, 3, 4), (2, 100, 2), (1, 9, 1)]
)
def test_opnmf_with_few_people_or_few_regions(regions, people, m):
    result = fit_opnmf(make_data(0, regions, people), m)
    np.testing.assert_allclose(result.factor.T @ result.factor, np.eye(m), atol=1e-3)
    assert (np.diff(result.errors) <= 0).all()


def test_opnmf_accepts_regions_without_atrophy_and_equal_regions():
    x = np.repeat(make_data(0, regions=2), [3, 3], axis=0)
    x = np.vstack([x, np.zeros((3, x.shape[1]))])
    result = fit_opnmf(x, 5)
    np.testing.assert_allclose(result.factor.T @ result.factor, np.eye(5), atol=1e-3)
    assert np.isfinite(result.factor).all()


def test_opnmf_of_one_pattern_is_the_leading_singular_vector():
    x = make_data(2)
    leading = np.abs(np.linalg.svd(x)[0][:, 0])
    np.testing.assert_allclose(
        fit_opnmf(x, 1, tol=1e-14).factor[:, 0], leading, atol=1e-5
    )


def test_opnmf_finds_disjoint_blocks():
    rng = np.random.default_rng(0)
    w = np.kron(np.eye(3), np.ones((5, 1)))
    result = fit_opnmf(w @ rng.random((3, 80)) + 0.01 * rng.random((15, 80)), 3)
    columns = result.factor.argmax(axis=1).reshape(3, 5)
    assert (columns == columns[:, :1]).all()
    assert len(set(columns[:, 0])) == 3


def test_opnmf_reports_the_iteration_limit():
    assert not fit_opnmf(make_data(0), 3, max_iter=2, tol=0.0).converged


def test_multiplicative_update_alone_does_not_reach_orthonormality():
    """The reason for the second stage."""
    x = make_data(0, common=3.0)
    w = initialise_nndsvd(x, 3, np.random.default_rng(0))
    for _ in range(5000):
        w = w * _compute_update_ratio(x @ x.T, w)
    assert np.abs(w.T @ w - np.eye(3)).max() > 0.01


@pytest.mark.parametrize("m", [1, 3, 30])
def test_nndsvd_is_nonnegative_and_fills_columns_beyond_the_rank(m):
    start = initialise_nndsvd(make_data(0, people=5), m, np.random.default_rng(0))
    assert start.shape == (20, m)
    assert (start >= 0).all()
    assert start.any(axis=0).all()


def make_groups(seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], [40, 60])
    return rng.random((100, 12)) - 0.3 * labels[:, None] * rng.random(
        (100, 12)
    ) + 0.3, labels


def compute_separation(h, labels):
    """Between over within scatter, summed over columns."""
    means = np.stack([h[labels == g].mean(axis=0) for g in (0, 1)])
    within = ((h - means[labels]) ** 2).sum()
    return ((means[labels] - h.mean(axis=0)) ** 2).sum() / within


def test_dnmf_separates_groups_better_than_without_its_penalty():
    x, labels = make_groups()
    plain = discriminant_nmf(x, labels, 3, np.random.default_rng(0), 0.0, 0.0)
    penalised = discriminant_nmf(x, labels, 3, np.random.default_rng(0), 0.5, 0.5)
    assert compute_separation(
        penalised.coefficients, labels
    ) > 1.5 * compute_separation(plain.coefficients, labels)


def test_dnmf_without_penalty_is_nmf():
    x, labels = make_groups()
    result = discriminant_nmf(
        x, labels, 2, np.random.default_rng(0), 0.0, 0.0, max_iter=20000, tol=1e-9
    )
    error = np.linalg.norm(x - result.coefficients @ result.components)
    reference = NMF(2, init="random", random_state=0, max_iter=20000, tol=1e-9).fit(x)
    assert error == pytest.approx(reference.reconstruction_err_, rel=1e-3)


def test_dnmf_update_lowers_the_penalised_objective():
    x, labels = make_groups()
    rng = np.random.default_rng(0)
    h, w = rng.random((100, 3)), rng.random((3, 12))

    def objective(h):
        means = np.stack([h[labels == g].mean(axis=0) for g in (0, 1)])[labels]
        scatters = ((h - means) ** 2).sum() - ((means - h.mean(axis=0)) ** 2).sum()
        return ((x - h @ w) ** 2).sum() + 0.2 * scatters

    values = [objective(h)]
    for _ in range(50):
        h = _update_coefficients(x, labels, h, w, 0.2, 0.2)
        values.append(objective(h))
    assert (np.diff(values) <= 1e-9).all()

"""Points of the severities, their basis and copula."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from rindices.learners.severity_posterior import (
    compute_log_copula,
    compute_step_basis,
    make_normal_points,
    make_severity_points,
)


@pytest.mark.parametrize("n_patterns", range(1, 9))
def test_points_are_spread_evenly(n_patterns: int) -> None:
    points = make_severity_points(n_patterns)
    assert points.shape[1] == n_patterns
    assert ((points > 0) & (points < 1)).all()
    np.testing.assert_allclose(points.mean(axis=0), 0.5, atol=0.01)
    np.testing.assert_allclose(
        np.cov(points.T, bias=True), np.eye(n_patterns) / 12, atol=0.005
    )
    np.testing.assert_allclose(
        make_normal_points(n_patterns), norm.ppf(points), rtol=1e-12, atol=1e-12
    )


def test_the_basis_is_a_line_of_proportional_pieces() -> None:
    z = np.array([[0.0, 1.0], [0.5, 0.1]])
    expected = [[0, 0, 0, 0, 0, 1, 1, 1, 1, 1], [1, 1, 0.5, 0, 0, 0.5, 0, 0, 0, 0]]
    np.testing.assert_allclose(compute_step_basis(z, 5), expected)


def test_the_copula_against_scipy() -> None:
    correlation = np.array([[1.0, 0.6, 0.1], [0.6, 1.0, -0.2], [0.1, -0.2, 1.0]])
    normal = norm.ppf(make_severity_points(3))
    expected = multivariate_normal(np.zeros(3), correlation).logpdf(
        normal
    ) - norm.logpdf(normal).sum(axis=1)
    np.testing.assert_allclose(compute_log_copula(correlation), expected, atol=1e-10)

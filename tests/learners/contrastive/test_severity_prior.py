"""Severity prior: its moments, and the paper's prior as a special case."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rindices.learners.contrastive.rotation import (
    QUANTILE_GRID,
    draw_from_copula,
    fit_prior_to_moments,
)


@given(
    st.lists(st.floats(0.1, 0.9), min_size=2, max_size=2),
    st.lists(st.floats(0.05, 0.3), min_size=2, max_size=2),
    st.floats(-0.8, 0.8),
)
@settings(max_examples=30, deadline=None)
def test_prior_has_the_moments_it_was_fitted_to(mean, sd, correlation):
    covariance = np.outer(sd, sd) * np.array([[1, correlation], [correlation, 1]])
    prior = fit_prior_to_moments(np.array(mean), covariance)
    z = draw_from_copula(prior.factor, 20_000, np.random.default_rng(0))
    s = np.stack(
        [
            np.interp(z[:, k], QUANTILE_GRID, row)
            for k, row in enumerate(prior.quantiles)
        ],
        axis=1,
    )
    assert s.min() >= 0
    np.testing.assert_allclose(z.mean(axis=0), 0.5, atol=0.02)
    np.testing.assert_allclose(z.std(axis=0), 12**-0.5, atol=0.01)
    np.testing.assert_allclose(s.mean(axis=0), mean, atol=0.02)
    # No distribution on [0, upper] has a much larger spread than its mean, and the grid
    # is too coarse for a narrow one.
    ordinary = [k for k in (0, 1) if 0.25 < sd[k] / mean[k] < 0.55]
    np.testing.assert_allclose(
        s.std(axis=0)[ordinary], np.array(sd)[ordinary], rtol=0.1
    )
    np.testing.assert_allclose(np.corrcoef(z.T)[0, 1], correlation, atol=0.06)


def test_uniform_severities_give_the_papers_prior():
    upper = np.array([0.8, 1.3])
    mean, covariance = upper / 2, np.diag(upper**2 / 12)
    prior = fit_prior_to_moments(mean, covariance)
    np.testing.assert_allclose(
        prior.quantiles, np.outer(upper, QUANTILE_GRID), atol=1e-6
    )
    np.testing.assert_allclose(prior.factor, np.eye(2), atol=1e-12)

"""Retest noise has the measured size and correlations."""

import numpy as np
import pytest

from rindices.experiments.visits import (
    draw_noise_fractions,
    draw_retest_noise,
    load_retest_figures,
)


def test_noise_has_the_measured_correlations() -> None:
    figures = load_retest_figures()
    pairs = np.array([0.0, 0.0, 1.0, 1.0, 2.0])
    deviations = np.array([0.01, 0.02, 0.03, 0.04, 0.05])
    noise = draw_retest_noise(deviations, pairs, 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(noise.std(axis=0), deviations, rtol=0.03)
    correlation = np.corrcoef(noise.T)
    assert correlation[0, 1] == pytest.approx(
        figures["noise_correlation_of_sides"], abs=0.03
    )
    assert correlation[0, 2] == pytest.approx(figures["noise_correlation"], abs=0.03)


def test_a_tenth_of_the_variance_of_a_visit_is_noise() -> None:
    fractions = draw_noise_fractions(5000, np.random.default_rng(0))
    assert fractions.mean() == pytest.approx(0.1, abs=0.01)
    assert fractions.min() > 0
    assert fractions.max() < 0.35

"""Sizes of trials equal a published formula, and trials of this size have the stated power."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from rindices.analysis.change_models import compute_trial_size
from rindices.errors import AnalysisError

SCHEDULE = np.linspace(0, 2, 5)


def test_simulated_trials_have_the_stated_power() -> None:
    number = int(compute_trial_size(0.1, 0.05**2, 0.04**2, SCHEDULE, slowing=0.3))
    rng = np.random.default_rng(0)
    centred = SCHEDULE - SCHEDULE.mean()
    slopes = rng.normal(0.1, 0.05, (1000, 2, number)) - np.array([0.0, 0.03])[:, None]
    noise = rng.normal(0, 0.04, (1000, 2, number, 5)) @ centred / (centred @ centred)
    measured = slopes + noise
    p = ttest_ind(measured[:, 0], measured[:, 1], axis=1).pvalue
    assert np.mean(p < 0.05) == pytest.approx(0.8, abs=0.04)


def test_no_change_needs_an_infinite_trial_and_wrong_shares_are_refused() -> None:
    assert compute_trial_size(0.0, 1.0, 1.0, SCHEDULE) == np.inf
    with pytest.raises(AnalysisError, match="slowing 30 is not between 0 and 1"):
        compute_trial_size(0.1, 1.0, 1.0, SCHEDULE, slowing=30)
    with pytest.raises(AnalysisError, match="visits at two times"):
        compute_trial_size(0.1, 1.0, 1.0, np.zeros(2))

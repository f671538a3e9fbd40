"""Kaplan-Meier curves and the log-rank test equal statsmodels; concordance equals the area under the ROC curve."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

from rindices.analysis.outcome_models import Outcome
from rindices.analysis.survival import compare_survival, compute_concordance, estimate_survival
from tests.analysis.test_outcome_models import simulate_survival


def test_curves_equal_statsmodels() -> None:
    outcome, _ = simulate_survival()
    assert outcome.time is not None
    table = estimate_survival(outcome.time, outcome.event)
    expected = SurvfuncRight(outcome.time, outcome.event.astype(float))
    shown = table[table["events"] > 0]
    np.testing.assert_allclose(shown["time"], expected.surv_times)
    np.testing.assert_allclose(shown["survival"], expected.surv_prob)
    np.testing.assert_array_equal(shown["at_risk"], expected.n_risk)
    assert (table["low"] <= table["survival"]).all()
    assert (table["high"] >= table["survival"]).all()


def test_log_rank_equals_statsmodels() -> None:
    outcome, design = simulate_survival()
    assert outcome.time is not None
    group = np.digitize(design[:, 0], [-0.4, 0.4])
    expected = survdiff(outcome.time, outcome.event.astype(float), group)[1]
    assert compare_survival(outcome.time, outcome.event, group) == pytest.approx(expected, rel=1e-8)


def test_concordance_counts_pairs() -> None:
    rng = np.random.default_rng(0)
    event, risk = rng.random(50) < 0.4, rng.integers(0, 9, 50).astype(float)
    assert compute_concordance(Outcome(event), risk) == pytest.approx(roc_auc_score(event, risk))
    outcome = Outcome(np.array([True, True, False, False]), np.array([1.0, 2.0, 2.0, 0.5]))
    assert compute_concordance(outcome, np.array([3.0, 2.0, 2.0, 9.0])) == pytest.approx((2 + 0.5) / 3)
    assert np.isnan(compute_concordance(Outcome(np.zeros(3, dtype=bool)), np.arange(3.0)))

"""Held-out concordance finds what predicts, and is one half where nothing does."""

import numpy as np
import pytest

from rindices.analysis.held_out_outcomes import N_FOLDS, PredictorSet, compare_predictors, draw_folds
from rindices.analysis.outcome_models import Outcome
from rindices.errors import AnalysisError
from tests.analysis.test_outcome_models import simulate_survival


def test_folds_share_nobody_and_have_equal_numbers_of_events() -> None:
    outcome, _ = simulate_survival()
    folds = draw_folds(outcome, N_FOLDS, [0])
    assert sorted(np.concatenate(folds)) == list(range(150))
    events = [outcome.event[fold].sum() for fold in folds]
    assert max(events) - min(events) <= 1
    assert max(map(len, folds)) - min(map(len, folds)) <= 1


def test_the_right_predictors_win_and_noise_does_not() -> None:
    outcome, design = simulate_survival(200)
    noise = np.random.default_rng(5).normal(size=(200, 8))
    sets = {
        "covariates": PredictorSet(np.zeros((200, 0))),
        "index": PredictorSet(design[:, :1]),
        "regions": PredictorSet(np.column_stack([design[:, :1] + noise[:, :1], noise]), is_penalised=True),
    }
    table = compare_predictors(outcome, design[:, 2:], sets).set_index("predictors")
    assert table.loc["covariates", "concordance"] == pytest.approx(0.5, abs=0.08)
    assert table.loc["index", "difference_low"] > 0
    assert table.loc["index", "concordance"] > table.loc["regions", "concordance"] > 0.5
    assert list(table["columns"]) == [1, 2, 10]


def test_few_events_are_refused() -> None:
    outcome = Outcome(np.arange(60) < 9)
    with pytest.raises(AnalysisError, match="9 of 60 people have the event"):
        compare_predictors(outcome, np.zeros((60, 0)), {"covariates": PredictorSet(np.zeros((60, 0)))})

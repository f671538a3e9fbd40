"""Real people with a truth from outside: the rank correlation within folds."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks.outside import correlate


def test_rank_correlations_within_folds_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    score, truth = rng.integers(0, 9, (2, 40)).astype(float)  # with ties
    folds = [rng.choice(40, (3, size)) for size in (7, 12)]
    expected = [
        np.average(
            [spearmanr(score[fold[k]], truth[fold[k]]).statistic for fold in folds],
            weights=[7, 12],
        )
        for k in range(3)
    ]
    assert correlate(score, truth, folds) == pytest.approx(expected, abs=1e-12)


def test_scores_of_folds_need_no_common_scale() -> None:
    truth = np.arange(20.0)
    folds = [np.arange(10)[None], np.arange(10, 20)[None]]
    score = np.concatenate([truth[:10] * 100, truth[10:]])
    assert correlate(score, truth, folds) == pytest.approx([1.0])

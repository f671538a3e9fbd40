import numpy as np
import pytest

from benchmarks.suites.baselines.decompositions import NMFBaseline
from benchmarks.suites.baselines.supervised import cross_validate_supervised
from benchmarks.suites.bounds import practical_upper_bound, supervised_c_index
from rindices.selection.agreement import c_index, pattern_c_index


def cohort():
    rng = np.random.default_rng(0)
    x = np.exp(rng.normal(7, 0.12, (200, 12)))
    severity = rng.random((120, 3))
    x[80:] *= 1 - 0.4 * severity[:, np.arange(12) % 3]
    return x, np.repeat([0, 1], [80, 120]), severity


def test_upper_bound_is_the_best_of_all_sizes():
    x, y, severity = cohort()
    bound = practical_upper_bound(
        lambda m: NMFBaseline(m, random_state=0), x, y, severity, (3, 4, 6)
    )
    assert list(bound.by_size) == [3, 4, 6]
    assert (
        bound.best.mean
        == max(bound.by_size.values())
        == bound.by_size[bound.n_components]
    )
    model = NMFBaseline(bound.n_components, random_state=0).fit(x, y)
    again = pattern_c_index(severity, model.transform(x[y == 1]))
    assert bound.best.mean == again.mean
    assert len(bound.best.matching) == 3


def test_upper_bound_needs_a_size_of_at_least_the_truths():
    x, y, severity = cohort()
    for sizes, message in [((), "sizes is empty"), ((2,), "needs a separate column")]:
        with pytest.raises(ValueError, match=message):
            practical_upper_bound(NMFBaseline, x, y, severity, sizes)


def test_supervised_c_index_is_a_mean_over_folds_of_own_columns():
    x, y, severity = cohort()
    scores = cross_validate_supervised(x[y == 1], severity, "linear", folds=3)
    result = supervised_c_index(severity, scores)
    held = [scores.fold == f for f in range(3)]
    test = [c_index(severity[h, k], scores.test[h, k]) for h in held for k in range(3)]
    train = [
        c_index(severity[~h, k], scores.train[f, ~h, k])
        for f, h in enumerate(held)
        for k in range(3)
    ]
    assert result.test == pytest.approx(np.mean(test))
    assert result.train == pytest.approx(np.mean(train))
    assert 0.7 < result.test < result.train

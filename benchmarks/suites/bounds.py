"""Upper bounds of scores, which need the true severities (sections B.5 and B.6 of the
paper).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.suites.baselines.supervised import SupervisedPredictions
from rindices._typing import FloatArray
from rindices.errors import InputError
from rindices.selection.agreement import PatternCIndex, c_index, pattern_c_index


class _Learner(Protocol):
    def fit(self, X: ArrayLike, y: ArrayLike) -> object: ...
    def transform(self, X: ArrayLike) -> FloatArray: ...


class UpperBound(NamedTuple):
    """Best score over all sizes, the size with this score, and the best score of each
    size.
    """

    best: PatternCIndex
    n_components: int
    by_size: dict[int, float]


class SupervisedCIndex(NamedTuple):
    """Pattern-c-index of a supervised regression, mean over folds."""

    train: float
    test: float


def practical_upper_bound(
    make_learner: Callable[[int], _Learner],
    X: ArrayLike,
    y: ArrayLike,
    truth: ArrayLike,
    sizes: Iterable[int] = range(3, 11),
) -> UpperBound:
    """Return the best match with the truth of any M components, over several numbers of
    components.

    The truth selects both the size and the components, so this is an upper bound and
    not a fair score.

    Parameters
    ----------
    make_learner : callable
        Takes a number of components and returns an unfitted learner, e.g.
        ``NMFBaseline``.
    X : array-like of shape (N, R)
        Regions of controls and patients.
    y : array-like of shape (N,)
        0 control, 1 patient.
    truth : array-like of shape (patients, M)
        True severities of the patients, in the order of X.
    sizes : iterable of int
        Numbers of components to try, each at least M.

    Returns
    -------
    UpperBound
    """
    patients = np.asarray(X)[np.asarray(y) == 1]
    scores: dict[int, PatternCIndex] = {}
    for size in sizes:
        learner = make_learner(size)
        learner.fit(X, y)
        scores[size] = pattern_c_index(truth, learner.transform(patients))
    if not scores:
        raise InputError("sizes is empty; give at least one number of components.")
    best = max(scores, key=lambda size: scores[size].mean)
    return UpperBound(
        scores[best], best, {size: score.mean for size, score in scores.items()}
    )


def supervised_c_index(
    truth: ArrayLike, scores: SupervisedPredictions
) -> SupervisedCIndex:
    """Return the mean pattern-c-index over folds, on training and on held-out people;
    ``truth`` is (N, M) or (N,).
    """
    severities = np.asarray(truth, dtype=np.float64)
    train, test = [], []
    for f, predicted in enumerate(scores.train):
        held_out = scores.fold == f
        train.append(_mean_column_c_index(severities[~held_out], predicted[~held_out]))
        test.append(_mean_column_c_index(severities[held_out], scores.test[held_out]))
    return SupervisedCIndex(float(np.mean(train)), float(np.mean(test)))


def _mean_column_c_index(truth: FloatArray, predicted: FloatArray) -> float:
    """Return the mean c-index of the columns; supervised predictions need
    no matching.
    """
    columns = truth[:, None] if truth.ndim == 1 else truth
    return float(
        np.mean([c_index(a, b) for a, b in zip(columns.T, predicted.T, strict=True)])
    )

"""Scores that need the truth: what a method could have reached (sections B.5, B.6)."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rindices._typing import FloatArray
from rindices.errors import InputError
from rindices.learners.baselines.supervised import SupervisedPredictions
from rindices.selection.agreement import PatternCIndex, c_index, pattern_c_index

__all__ = ["SupervisedCIndex", "UpperBound", "practical_upper_bound", "supervised_c_index"]


class _Learner(Protocol):
    def fit(self, X: ArrayLike, y: ArrayLike) -> object: ...
    def transform(self, X: ArrayLike) -> FloatArray: ...


class UpperBound(NamedTuple):
    """A learner's practical upper bound.

    Attributes
    ----------
    best : PatternCIndex
        Of the M components that match the truth best, over all sizes tried.
    n_components : int
        The size that reached it.
    by_size : dict of int to float
        Best pattern-c-index of each size.
    """

    best: PatternCIndex
    n_components: int
    by_size: dict[int, float]


class SupervisedCIndex(NamedTuple):
    """Pattern-c-index of a supervised reference, means over folds."""

    train: float
    test: float


def practical_upper_bound(
    make_learner: Callable[[int], _Learner],
    X: ArrayLike,
    y: ArrayLike,
    truth: ArrayLike,
    sizes: Iterable[int] = range(3, 11),
) -> UpperBound:
    """Best match with the truth of any M components, over several numbers of components.

    The truth chooses both the size and the components, so this is no fair score;
    it says what a method holds if one knew where to look.

    Parameters
    ----------
    make_learner : callable
        Number of components to an unfitted learner, e.g. ``NMFBaseline``.
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
    winner = max(scores, key=lambda size: scores[size].mean)
    return UpperBound(scores[winner], winner, {size: s.mean for size, s in scores.items()})


def supervised_c_index(truth: ArrayLike, scores: SupervisedPredictions) -> SupervisedCIndex:
    """Mean over folds of the pattern-c-index, on people seen and on people held out.

    Parameters
    ----------
    truth : array-like of shape (N, M) or (N,)
    scores : SupervisedScores

    Returns
    -------
    SupervisedCIndex
    """
    severities = np.asarray(truth, dtype=np.float64)
    train, test = [], []
    for f, predicted in enumerate(scores.train):
        held = scores.fold == f
        train.append(_mean_column_c_index(severities[~held], predicted[~held]))
        test.append(_mean_column_c_index(severities[held], scores.test[held]))
    return SupervisedCIndex(float(np.mean(train)), float(np.mean(test)))


def _mean_column_c_index(truth: FloatArray, predicted: FloatArray) -> float:
    """Mean c-index of each column with its own prediction: no matching is needed."""
    columns = truth[:, None] if truth.ndim == 1 else truth
    return float(np.mean([c_index(a, b) for a, b in zip(columns.T, predicted.T, strict=True)]))

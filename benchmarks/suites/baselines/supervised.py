"""Regression on the true severities (the paper's section B.6), an upper reference for
the learners.

Learners never see true severities. Shape letters: N people, R regions, M patterns, F
folds.
"""

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils import check_array, check_consistent_length

from rindices._typing import FloatArray, IntArray
from rindices.errors import InputError

SupervisedModel = Literal["linear", "ridge", "svr"]


class SupervisedPredictions(NamedTuple):
    """Predicted severities under cross-validation.

    Attributes
    ----------
    train : ndarray of shape (F, N, M)
        Predictions of each fold's model for its training people; NaN for its held-out
        people.
    test : ndarray of shape (N, M)
        Held-out predictions.
    fold : ndarray of shape (N,)
        Fold in which each person was held out.
    """

    train: FloatArray
    test: FloatArray
    fold: IntArray


def cross_validate_supervised(
    X: ArrayLike,
    S: ArrayLike,
    model: SupervisedModel = "linear",
    folds: int = 5,
    seed: int = 0,
) -> SupervisedPredictions:
    """Predict severities from regions by regression, under cross-validation.

    Parameters
    ----------
    X : array-like of shape (N, R)
        Regions of the patients.
    S : array-like of shape (N, M) or (N,)
        Their true severities.
    model : {"linear", "ridge", "svr"}
        Least squares; ridge with its penalty chosen inside each training fold; support
        vector regression with an RBF kernel. Regions are standardised on the training
        fold.
    folds : int
        F.
    seed : int
        Seed of the assignment to folds.

    Returns
    -------
    SupervisedPredictions
    """
    regions = check_array(X, dtype=np.float64)
    severities = check_array(S, dtype=np.float64, ensure_2d=False)
    severities = severities[:, None] if severities.ndim == 1 else severities
    check_consistent_length(regions, severities)
    if not 2 <= folds <= len(regions):
        raise InputError(
            f"{folds} folds for {len(regions)} people; give 2 to {len(regions)}."
        )
    train = np.full((folds, *severities.shape), np.nan)
    test, fold = np.empty_like(severities), np.empty(len(regions), dtype=np.intp)
    splitter = KFold(folds, shuffle=True, random_state=seed)
    for f, (seen, held_out) in enumerate(splitter.split(regions)):
        fitted = _make_regression(model).fit(regions[seen], severities[seen])
        train[f, seen] = fitted.predict(regions[seen]).reshape(len(seen), -1)
        test[held_out] = fitted.predict(regions[held_out]).reshape(len(held_out), -1)
        fold[held_out] = f
    return SupervisedPredictions(train, test, fold)


def _make_regression(model: str) -> Any:
    """Return the unfitted pipeline of standardisation and regression."""
    regressions = {
        "linear": LinearRegression,
        "ridge": lambda: RidgeCV(np.logspace(-2, 4, 13)),
        "svr": lambda: MultiOutputRegressor(SVR(kernel="rbf")),
    }
    if model not in regressions:
        raise InputError(
            f"model is {model!r}; give one of {', '.join(get_args(SupervisedModel))}."
        )
    return make_pipeline(StandardScaler(), regressions[model]())

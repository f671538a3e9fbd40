"""Whether synthetic patients can be told from real ones.

Three classifiers see different differences: a logistic regression of regions and their
squares (means and variances), a quadratic discriminant of the first principal
components (correlations), and gradient boosting (the rest). Shape letters: N real and K
synthetic patients, R regions.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import FunctionTransformer, make_pipeline
from sklearn.preprocessing import StandardScaler

from rindices._typing import FloatArray
from rindices.errors import InputError

N_COMPONENTS = 20
"""Principal components of the quadratic discriminant."""
MIN_PATIENTS = 30
"""Fewest patients of each kind; with fewer, an AUC says little."""


@dataclass(frozen=True, kw_only=True)
class Realism:
    """How synthetic patients differ from real ones.

    Attributes
    ----------
    auc : dict of str to float
        Cross-validated AUC of each classifier, real against synthetic; 0.5 cannot tell
        them apart.
    mean_error, sd_error : float
        Mean over regions of the absolute difference of means, and of standard
        deviations, in control sd.
    """

    auc: dict[str, float]
    mean_error: float
    sd_error: float

    @property
    def best_auc(self) -> float:
        """The AUC of the classifier that tells them apart best."""
        return max(self.auc.values())


def measure_realism(
    real: FloatArray, synthetic: FloatArray, seed: int = 0, n_folds: int = 5
) -> Realism:
    """Return how synthetic patients differ from real ones.

    Parameters
    ----------
    real : ndarray of shape (N, R)
        Regions of real patients, in standard deviations of controls from their mean.
    synthetic : ndarray of shape (K, R)
        Regions of synthetic patients on the same scale.
    seed : int
        Of the folds and of gradient boosting.
    n_folds : int
        Folds of the cross-validation.

    Returns
    -------
    Realism

    Raises
    ------
    InputError
        With fewer than `MIN_PATIENTS` of either kind.
    """
    for people, kind in ((real, "real"), (synthetic, "synthetic")):
        if len(people) < MIN_PATIENTS:
            raise InputError(
                f"{len(people)} {kind} patients are too few to compare; at least {MIN_PATIENTS} are needed."
            )
    X, y = (
        np.concatenate([synthetic, real]),
        np.repeat([0, 1], [len(synthetic), len(real)]),
    )
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    score = partial(cross_val_predict, X=X, y=y, cv=folds, method="predict_proba")
    auc = {
        name: float(roc_auc_score(y, score(classifier)[:, 1]))
        for name, classifier in _make_classifiers(X.shape, n_folds, seed).items()
    }
    return Realism(
        auc=auc,
        mean_error=float(np.abs(synthetic.mean(axis=0) - real.mean(axis=0)).mean()),
        sd_error=float(np.abs(synthetic.std(axis=0) - real.std(axis=0)).mean()),
    )


def _make_classifiers(
    shape: tuple[int, int], n_folds: int, seed: int
) -> dict[str, BaseEstimator]:
    """Return the classifiers for people of a shape (N + K, R)."""
    n_people, n_regions = shape
    n_components = min(
        N_COMPONENTS, n_regions, n_people * (n_folds - 1) // n_folds // 10
    )
    with_squares = FunctionTransformer(_append_squares)
    return {
        "logistic regression with squares": make_pipeline(
            with_squares, StandardScaler(), LogisticRegression(C=0.01, max_iter=300)
        ),
        "quadratic discriminant": make_pipeline(
            PCA(n_components, random_state=seed),
            QuadraticDiscriminantAnalysis(reg_param=0.01),
        ),
        "gradient boosting": HistGradientBoostingClassifier(
            max_iter=100, learning_rate=0.1, random_state=seed
        ),
    }


def _append_squares(X: FloatArray) -> FloatArray:
    return np.hstack([X, X**2])

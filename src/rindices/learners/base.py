"""Base class of all learners: validation, labels and standardisation to controls.

Shape letters: N people, R regions, M patterns.
"""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import InputError
from rindices.threads import limit_blas_threads

RandomState = int | np.random.RandomState | None


class Learner(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Protocol of learners: ``fit(X, y)`` on controls and patients, ``transform(X)``, ``patterns_``.

    A subclass implements `_prepare`, `_learn` and `_infer`.
    """

    n_features_in_: int
    patterns_: FloatArray

    def __init__(self, n_patterns: int = 3, random_state: RandomState = None) -> None:
        self.n_patterns = n_patterns
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the preparation from the controls, and the patterns.

        Parameters
        ----------
        X : array-like of shape (N, R)
            Regional volumes of controls and patients.
        y : array-like of shape (N,)
            0 for a control, 1 for a patient.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If ``y`` holds other values than 0 and 1, if a group has fewer than 2 people, or if ``n_patterns`` does not
            suit ``X``.
        """
        regions, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        patient = _validate_labels(labels)
        self._check_n_patterns()
        self.control_mean_ = regions[~patient].mean(axis=0)
        self.control_scale_ = handle_zeros_in_scale(regions[~patient].std(axis=0))
        with limit_blas_threads():
            self._learn(regions, patient)
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Compute the R-indices of people, whether they were part of ``fit`` or not.

        X (N, R): regional volumes, in the columns of ``fit``. Returns (N, M), R-indices.
        """
        check_is_fitted(self)
        regions = validate_data(self, X, dtype=np.float64, reset=False)
        return self._infer(self._prepare(regions))

    @property
    def has_likelihood(self) -> bool:
        """Whether there is a `score`: the learner has a likelihood of new people."""
        return type(self)._compute_log_likelihood is not Learner._compute_log_likelihood

    @available_if(lambda learner: learner.has_likelihood)  # type: ignore[untyped-decorator]
    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the mean log-likelihood of the patients, for learners that have one.

        X (N, R): regional volumes of people who were no part of ``fit``; y (N,): 0 for a control, 1 for a patient;
        controls are not used. Returns of the patients' regions after preparation, up to a constant; a higher score is
        better.
        """
        check_is_fitted(self)
        regions, labels = validate_data(self, X, y, dtype=np.float64, reset=False)
        patients = regions[np.asarray(labels) == 1]
        if not len(patients):
            raise InputError("y has no patient (1); a score is the mean over patients.")
        return float(np.mean(self._compute_log_likelihood(self._prepare(patients))))

    def _compute_log_likelihood(self, prepared: FloatArray) -> FloatArray:
        """Return the log-likelihood (N,) of prepared patients (N, R)."""
        raise NotImplementedError

    @abstractmethod
    def _prepare(self, regions: FloatArray) -> FloatArray:
        """Turn volumes (N, R) into the numbers (N, R) that are decomposed."""

    @abstractmethod
    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        """Set ``patterns_`` and whatever `_infer` needs."""

    @abstractmethod
    def _infer(self, prepared: FloatArray) -> FloatArray:
        """Compute R-indices (N, M) of prepared people (N, R)."""

    def get_feature_names_out(self, input_features: object = None) -> "NDArray[np.object_]":
        """Return the names of the R-indices, for ``set_output(transform="pandas")``.

        input_features: present for scikit-learn's API. Returns (M,), ``r1`` to ``rM``.
        """
        check_is_fitted(self)
        return np.array([f"r{k + 1}" for k in range(len(self.patterns_))], dtype=object)

    def _z_scores(self, regions: FloatArray) -> FloatArray:
        return np.asarray((regions - self.control_mean_) / self.control_scale_, dtype=np.float64)

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _check_n_patterns(self) -> None:
        if not isinstance(self.n_patterns, int | np.integer) or self.n_patterns < 1:
            raise InputError(f"n_patterns is {self.n_patterns!r}; give a whole number from 1.")
        if self.n_patterns > self.n_features_in_:
            raise InputError(
                f"n_patterns is {self.n_patterns} but X has {self.n_features_in_} feature(s); "
                "ask for at most as many patterns as there are regions."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _validate_labels(labels: IntArray) -> BoolArray:
    """Return the mask of patients (N,); raise if labels are not 0 and 1 or a group is too small."""
    values = np.unique(labels)
    if not np.isin(values, [0, 1]).all():
        shown = ", ".join(map(str, values[:5]))
        raise InputError(f"y holds {shown}; recode it to 0 for controls and 1 for patients.")
    patient = np.asarray(labels == 1, dtype=np.bool_)
    n_patients = int(patient.sum())
    if min(n_patients, len(labels) - n_patients) < 2:
        raise InputError(
            f"y has {len(labels) - n_patients} controls (0) and {n_patients} patients (1); "
            "at least 2 of each are needed, and far more for a result to mean anything."
        )
    return patient


def handle_zeros_in_scale(scale: FloatArray) -> FloatArray:
    """Replace 0 by 1, so that a region without variance stays constant instead of becoming NaN."""
    return np.where(scale > 0, scale, 1.0)

"""Base class of all learners: validation, labels and standardisation to controls.

Shape letters: N people, R regions, M patterns.
"""

from abc import abstractmethod
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import InputError, format_count, join_names
from rindices.threads import limit_blas_threads

RandomState = int | np.random.RandomState | None


class Learner(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Protocol of learners: ``fit(X, y)`` on controls and patients, ``transform(X)``,
    ``patterns_``.

    A subclass implements `_prepare`, `_learn` and `_infer`.
    """

    n_features_in_: int
    patterns_: FloatArray

    def __init__(self, n_patterns: int = 3, random_state: RandomState = None) -> None:
        self.n_patterns = n_patterns
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
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
            If ``X`` does not hold numbers of people in rows, if ``y`` holds other
            values than 0 and 1, if a group has fewer than 2 people, or if
            ``n_patterns`` does not suit ``X``.
        """
        check_arguments(type(self).__name__, X, y)
        regions, labels = validate_data(
            self, X, y, dtype=np.float64, ensure_min_samples=2
        )
        patient = self._find_patients(labels)
        self._check_n_patterns()
        self.control_mean_ = regions[~patient].mean(axis=0)
        self.control_scale_ = handle_zeros_in_scale(regions[~patient].std(axis=0))
        with limit_blas_threads():
            self._learn(regions, patient)
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Compute the R-indices of people, whether they were part of ``fit`` or not.

        Parameters
        ----------
        X : ArrayLike
            Regional volumes, in the columns of ``fit``.

        Returns
        -------
        ndarray of shape (N, M)
            , R-indices.
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

        Parameters
        ----------
        X : ArrayLike
            Regional volumes of people who were no part of ``fit``.
        y : ArrayLike
            0 for a control, 1 for a patient. Controls are not used.

        Returns
        -------
        float
            Of the patients' regions after preparation, up to a constant. A higher
            score is better.
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

    def _find_patients(self, labels: IntArray) -> BoolArray:
        """Return the mask of patients (N,), given the labels (N,)."""
        return validate_labels(labels)

    @abstractmethod
    def _prepare(self, regions: FloatArray) -> FloatArray:
        """Turn volumes (N, R) into the numbers (N, R) that are decomposed."""

    @abstractmethod
    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        """Set ``patterns_`` and whatever `_infer` needs."""

    @abstractmethod
    def _infer(self, prepared: FloatArray) -> FloatArray:
        """Compute R-indices (N, M) of prepared people (N, R)."""

    def get_feature_names_out(
        self, input_features: object = None
    ) -> "NDArray[np.object_]":
        """Return the names of the R-indices, for ``set_output(transform="pandas")``.

        Parameters
        ----------
        input_features : object
            Present for scikit-learn's API.

        Returns
        -------
        NDArray
            , ``r1`` to ``rM``.
        """
        check_is_fitted(self)
        return np.array([f"r{k + 1}" for k in range(len(self.patterns_))], dtype=object)

    def _z_scores(self, regions: FloatArray) -> FloatArray:
        return np.asarray(
            (regions - self.control_mean_) / self.control_scale_, dtype=np.float64
        )

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _check_n_patterns(self) -> None:
        if not is_whole_number(self.n_patterns) or self.n_patterns < 1:
            raise InputError(
                f"n_patterns is {self.n_patterns!r}; give a whole number from 1."
            )
        if self.n_patterns > self.n_features_in_:
            raise InputError(
                f"n_patterns is {self.n_patterns} but X has {self.n_features_in_} feature(s); "
                "ask for at most as many patterns as there are regions."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def is_whole_number(value: object) -> bool:
    """Return whether a parameter is a whole number; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_arguments(learner: str, X: Any, y: Any) -> None:
    """Refuse what is clearly no table of numbers and no list of labels, in a sentence
    about the mistake.

    What remains is left to scikit-learn.
    """
    if isinstance(X, str | PathLike):
        raise InputError(
            f"X is the path {str(X)!r}; {learner} takes numbers. Use rindices.fit(path, ...)."
        )
    if hasattr(X, "is_patient"):
        raise InputError(
            f"X is a cohort; {learner} takes numbers. Use rindices.fit(cohort)."
        )
    if y is None:
        # as scikit-learn says it
        what = f"This {learner} estimator requires y to be passed, but the target y is None"
        raise InputError(f"{what}: give 0 for each control and 1 for each patient.")
    if hasattr(X, "select_dtypes"):
        texts = [
            str(name) for name in X.select_dtypes(exclude=["number", "bool"]).columns
        ]
        if texts:
            raise InputError(
                f"X has columns that are not numbers: {join_names(texts)}. Give the regions alone."
            )
    if hasattr(X, "toarray"):  # sparse; scikit-learn says what to do
        return
    values, labels = np.asarray(X), np.asarray(y)
    if values.ndim == 1:
        raise InputError(
            f"X has one row of {len(values)} values; give people in rows and regions in columns."
        )
    if values.ndim == 2 and labels.ndim == 1 and len(values) != len(labels):
        hint = (
            " X looks transposed: X.T has people in rows."
            if values.shape[1] == len(labels)
            else ""
        )
        raise InputError(
            f"X has {len(values)} rows and y has {len(labels)} labels: give one for each row of X.{hint}"
        )
    if (
        values.ndim == 2
        and values.dtype.kind == "f"
        and (n_missing := int(np.isnan(values).any(axis=1).sum()))
    ):
        cure = "Leave them out, fill the cells, or use rindices.fit with a table, which takes the cells that are there"
        raise InputError(
            f"Input X contains NaN: {format_count(n_missing, 'person has', 'people have')} gaps. {cure}."
        )


def validate_labels(labels: IntArray) -> BoolArray:
    """Return the mask of patients (N,); raise if labels are not 0 and 1 or a group is
    too small.
    """
    values = np.unique(labels)
    if not np.isin(values, [0, 1]).all():
        shown = ", ".join(map(str, values[:5]))
        raise InputError(
            f"y holds {shown}; recode it to 0 for controls and 1 for patients."
        )
    patient = np.asarray(labels == 1, dtype=np.bool_)
    n_patients = int(patient.sum())
    if min(n_patients, len(labels) - n_patients) < 2:
        raise InputError(
            f"y has {len(labels) - n_patients} controls (0) and {n_patients} patients (1); "
            "at least 2 of each are needed, and far more for a result to mean anything."
        )
    return patient


def handle_zeros_in_scale(scale: FloatArray) -> FloatArray:
    """Replace 0 by 1, so that a region without variance stays constant instead of
    becoming NaN.
    """
    return np.where(scale > 0, scale, 1.0)

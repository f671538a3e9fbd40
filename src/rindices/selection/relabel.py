"""Permute group labels given the covariates.

Under the null hypothesis "patients are controls", a label carries no information on
volumes beyond the covariates. So labels may be exchanged between people, the more
freely the more similar their odds of being a patient given the covariates. A statistic
under permuted labels then follows its null distribution, however volumes depend on
covariates: only the odds are modelled, never the volumes (the conditional permutation
test of Berrett, Wang, Barber and Samworth, 2020). Labels are never exchanged between
strata, such as sites: each keeps its number of patients.

Shape letters: N people, C covariates.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression

from rindices._typing import BoolArray, FloatArray, IntArray

MAX_PERMUTATIONS = 4_999
"""Permutations of a test whose p-value stays near the level."""
_NEAR_LEVEL = (0.02, 0.10)  # p-values for which permutations may go on
_N_ERRORS = 2.6  # Monte Carlo errors between p and the level that end a test
_N_SWEEPS = 20  # rounds of exchanges between two sets of labels
# drawn together, which is faster than one after another and gives the same labels
_DRAWS_AT_ONCE = 20
_POLYNOMIAL_DEGREE = (
    3  # of the polynomial in a covariate's rank, so that odds may be nonlinear in age
)
_INVERSE_REGULARISATION = (
    10.0  # of the ridge penalty that keeps odds finite if groups hardly overlap
)


def is_clear(p: float, n_permutations: int, level: float = 0.05) -> bool:
    """Return whether a p-value is more than 2.6 Monte Carlo errors away
    from the level.
    """
    return abs(p - level) > _N_ERRORS * compute_p_error(p, n_permutations)


def is_undecided(p: float, n_permutations: int, level: float = 0.05) -> bool:
    """Return whether another seed could move a p-value across the level, so that
    permutations should go on.
    """
    return _NEAR_LEVEL[0] <= p <= _NEAR_LEVEL[1] and not is_clear(
        p, n_permutations, level
    )


def compute_min_p(values: FloatArray) -> float:
    """Return the p-value of the first row of statistics (B + 1, K) by its smallest p,
    which every row may choose.
    """
    order = np.sort(values, axis=0)
    exceeding = np.stack(
        [
            len(values) - np.searchsorted(column, row, side="left")
            for column, row in zip(order.T, values.T, strict=True)
        ]
    )
    smallest = exceeding.min(axis=0)
    return float((smallest <= smallest[0]).mean())


def compute_p_error(p: float, n_permutations: int) -> float:
    """Return the Monte Carlo standard error of a p-value."""
    return float(np.sqrt(p * (1.0 - p) / (n_permutations + 1)))


def fit_log_odds(
    numbers: FloatArray, categories: FloatArray, patient: BoolArray
) -> FloatArray:
    """Estimate the log odds of being a patient given the covariates.

    Parameters
    ----------
    numbers : ndarray of shape (N, C)
        Numeric covariates. They enter as a cubic polynomial of their rank.
    categories : ndarray of shape (N, K)
        Indicators of categories.
    patient : ndarray of shape (N,)
        Mask of the patients.

    Returns
    -------
    ndarray of shape (N,)
        , 0 for everyone if no covariate varies.
    """
    ranks = [
        2.0 * rankdata(column) / (len(column) + 1) - 1.0
        for column in numbers.T
        if np.ptp(column) > 0
    ]
    powers = [
        rank**power for rank in ranks for power in range(1, _POLYNOMIAL_DEGREE + 1)
    ]
    columns = [column for column in [*powers, *categories.T] if np.ptp(column) > 0]
    if not columns:
        return np.zeros(len(patient))
    design = np.column_stack(columns)
    design = (design - design.mean(axis=0)) / design.std(axis=0)
    model = LogisticRegression(C=_INVERSE_REGULARISATION, max_iter=1000).fit(
        design, patient
    )
    return np.asarray(model.decision_function(design), dtype=np.float64)


class PermutationScheme(NamedTuple):
    """Which labels may be exchanged.

    Attributes
    ----------
    log_odds : ndarray of shape (N,)
        Log odds of being a patient given the covariates.
    strata : ndarray of shape (N,)
        Number of each person's stratum. Labels are exchanged within strata.
    """

    log_odds: FloatArray
    strata: IntArray


def draw_permuted_labels(
    patient: BoolArray,
    scheme: PermutationScheme,
    n_draws: int,
    rng: np.random.Generator,
) -> Iterator[BoolArray]:
    """Draw labels that are exchangeable with the observed ones under the null
    hypothesis.

    Observed and drawn labels are equally many exchanges away from one hidden set of
    labels, so that none is special.

    Returns (N,), labels with as many patients per stratum as observed.
    """
    exchange = _LabelExchange(patient, scheme)
    (hidden,) = exchange.redraw(patient, 1, rng)
    for start in range(0, n_draws, _DRAWS_AT_ONCE):
        yield from exchange.redraw(hidden, min(_DRAWS_AT_ONCE, n_draws - start), rng)


def estimate_overlap(
    patient: BoolArray,
    scheme: PermutationScheme,
    rng: np.random.Generator,
    n_draws: int = 20,
) -> float:
    """Return how freely labels can be permuted: 1 as without covariates, 0
    not at all.
    """
    expected = 2.0 * patient.mean() * (1.0 - patient.mean())
    changed = np.mean(
        [
            (labels != patient).mean()
            for labels in draw_permuted_labels(patient, scheme, n_draws, rng)
        ]
    )
    return float(min(changed / expected, 1.0)) if expected else 0.0


class _LabelExchange:
    """Exchanges labels within strata, in all strata at once.

    patient (N,).
    """

    def __init__(self, patient: BoolArray, scheme: PermutationScheme) -> None:
        self._log_odds, self._strata = (
            scheme.log_odds,
            np.unique(scheme.strata, return_inverse=True)[1],
        )
        sizes = [
            np.bincount(self._strata[mask], minlength=self._strata.max() + 1)
            for mask in (~patient, patient)
        ]
        n_pairs = np.minimum(*sizes)
        self._controls, self._patients = (
            _list_first_rows(size, n_pairs) for size in sizes
        )
        self._n_numbers = [
            int(size.sum()) for size in (*sizes, n_pairs)
        ]  # random numbers of a sweep
        spread = [
            np.ptp(self._log_odds[self._strata == stratum])
            for stratum in range(len(n_pairs))
        ]
        self._is_free = (
            max(spread) == 0
        )  # then every order of the labels of a stratum is equally likely

    def redraw(
        self, patient: BoolArray, n_draws: int, rng: np.random.Generator
    ) -> BoolArray:
        """Return labels (D, N); each draw is many exchanges away from those of the
        patients (N,).
        """
        labels = np.tile(patient, (n_draws, 1))
        if self._is_free:
            order = self._shuffle(np.ones_like(labels), rng.random(labels.shape))
            np.put_along_axis(
                labels,
                order,
                patient[np.argsort(self._strata, kind="stable")][None],
                axis=1,
            )
            return labels
        numbers = rng.random((n_draws, _N_SWEEPS, sum(self._n_numbers)))
        splits = np.cumsum(self._n_numbers)[:-1]
        for sweep in range(_N_SWEEPS):
            for_controls, for_patients, for_pairs = np.split(
                numbers[:, sweep], splits, axis=1
            )
            controls = self._shuffle(~labels, for_controls)[:, self._controls]
            patients = self._shuffle(labels, for_patients)[:, self._patients]
            swap = for_pairs < 1.0 / (
                1.0 + np.exp(self._log_odds[patients] - self._log_odds[controls])
            )
            np.put_along_axis(labels, controls, swap, axis=1)
            np.put_along_axis(labels, patients, ~swap, axis=1)
        return labels

    def _shuffle(self, mask: BoolArray, numbers: FloatArray) -> IntArray:
        """Return the rows in a mask (D, N) ordered by stratum, and within each by
        random numbers (D, K).
        """
        rows = np.nonzero(mask)[1].reshape(numbers.shape)
        return np.take_along_axis(
            rows, np.argsort(self._strata[rows] + numbers, axis=1), axis=1
        )


def _list_first_rows(sizes: IntArray, numbers: IntArray) -> IntArray:
    """Return the positions of the first rows of each stratum, in rows that are ordered
    by stratum.
    """
    starts = np.cumsum(sizes) - sizes
    return np.concatenate(
        [np.arange(start, start + n) for start, n in zip(starts, numbers, strict=True)]
    )

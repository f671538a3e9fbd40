"""Other labels that the same people could have had: who is a patient, drawn anew among people of alike covariates.

Under the null hypothesis "patients are controls" a label says nothing about volumes beyond what the covariates say. So
labels may be exchanged between people, the more freely the more alike the odds of being a patient that their covariates
give them. A statistic under such labels is what it would be by chance, however volumes depend on the covariates: only
the odds are modelled, never the volumes (the conditional permutation test of Berrett, Wang, Barber and Samworth, 2020).
Between strata, such as sites, labels are never exchanged: each keeps its own number of patients.

Shape letters: N people, C covariates.
"""

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression

from rindices._typing import BoolArray, FloatArray, IntArray

_N_SWEEPS = 20  # rounds of exchanges between the observed labels and new ones
_POLYNOMIAL_DEGREE = 3  # of the polynomial in a covariate's rank: odds may bend with age
_INVERSE_REGULARISATION = 10.0  # inverse strength of the ridge that keeps the odds finite where groups hardly overlap


def fit_log_odds(numbers: FloatArray, categories: FloatArray, patient: BoolArray) -> FloatArray:
    """Return the log odds (N,) of being a patient, given the covariates; 0 for everyone where there are none.

    Parameters
    ----------
    numbers : (N, C)
        Numeric covariates; they enter by rank, as a cubic.
    categories : (N, K)
        Indicators of categories.
    patient : (N,)
    """
    ranks = [2.0 * rankdata(column) / (len(column) + 1) - 1.0 for column in numbers.T if np.ptp(column) > 0]
    bends = [rank**power for rank in ranks for power in range(1, _POLYNOMIAL_DEGREE + 1)]
    columns = [column for column in [*bends, *categories.T] if np.ptp(column) > 0]
    if not columns:
        return np.zeros(len(patient))
    design = np.column_stack(columns)
    design = (design - design.mean(axis=0)) / design.std(axis=0)
    model = LogisticRegression(C=_INVERSE_REGULARISATION, max_iter=1000).fit(design, patient)
    return np.asarray(model.decision_function(design), dtype=np.float64)


class PermutationScheme(NamedTuple):
    """Who may exchange labels with whom.

    Attributes
    ----------
    odds : (N,)
        Log odds of being a patient, given the covariates.
    strata : (N,)
        Number of everyone's stratum; labels stay within.
    """

    odds: FloatArray
    strata: IntArray

    @classmethod
    def unrestricted(cls, number: int) -> Self:
        """Let everyone exchange with everyone."""
        return cls(np.zeros(number), np.zeros(number, dtype=np.intp))


def draw_permuted_labels(
    patient: BoolArray, exchange: PermutationScheme, number: int, rng: np.random.Generator
) -> Iterator[BoolArray]:
    """Draw labels (N,) given the log odds and each stratum's number of patients, exchangeable with the observed ones.

    Observed labels and new ones are equally far from one hidden set of labels, so that none is special.
    """
    members = [np.flatnonzero(exchange.strata == stratum) for stratum in np.unique(exchange.strata)]
    hub = _redraw_labels(patient, exchange.odds, members, rng)
    for _ in range(number):
        yield _redraw_labels(hub, exchange.odds, members, rng)


def estimate_overlap(
    patient: BoolArray, exchange: PermutationScheme, rng: np.random.Generator, number: int = 20
) -> float:
    """Return how freely labels can be exchanged: 1 as if there were no covariates, 0 not at all."""
    free = 2.0 * patient.mean() * (1.0 - patient.mean())
    changed = np.mean([(labels != patient).mean() for labels in draw_permuted_labels(patient, exchange, number, rng)])
    return float(min(changed / free, 1.0)) if free else 0.0


def _redraw_labels(
    patient: BoolArray, odds: FloatArray, members: list[IntArray], rng: np.random.Generator
) -> BoolArray:
    labels = patient.copy()
    for own in members:
        alike = np.ptp(odds[own]) == 0
        labels[own] = patient[rng.permutation(own)] if alike else _swap_labels(patient[own], odds[own], rng)
    return labels


def _swap_labels(patient: BoolArray, odds: FloatArray, rng: np.random.Generator) -> BoolArray:
    """Exchange the labels of random pairs of a control and a patient, by their odds, many times."""
    labels = patient.copy()
    for _ in range(_N_SWEEPS):
        controls, patients = rng.permutation(np.flatnonzero(~labels)), rng.permutation(np.flatnonzero(labels))
        pairs = min(len(controls), len(patients))
        controls, patients = controls[:pairs], patients[:pairs]
        swap = rng.uniform(size=pairs) < 1.0 / (1.0 + np.exp(odds[patients] - odds[controls]))
        labels[controls[swap]], labels[patients[swap]] = True, False
    return labels

"""Controls and patients with the design that adjusts them and the permutations that their covariates allow.

Shape letters: N people, R regions, K columns of a covariate.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.selection.dimensions import ParticipantData
from rindices.selection.relabel import PermutationScheme, fit_log_odds


class CovariateColumns(NamedTuple):
    """Columns of one covariate.

    values (N, K); categorical: whether they are indicators of categories.
    """

    values: FloatArray
    categorical: bool


class AdjustedGroups(NamedTuple):
    """Data of the permutation tests.

    people: measures and design of everyone; patient (N,): mask of the patients; scheme: labels are exchanged only
    between people with similar covariates in the same stratum.
    """

    people: ParticipantData
    patient: BoolArray
    scheme: PermutationScheme

    @classmethod
    def build(
        cls, shifts: FloatArray, covariates: Sequence[CovariateColumns], strata: IntArray, patient: BoolArray
    ) -> Self:
        """Adjust for covariates and strata.

        shifts (N, R): measures on a scale on which disease is additive, for instance logarithms; strata (N,): number of
        each person's stratum, for instance of the site; patient (N,): mask of the patients.
        """
        columns = [*covariates, CovariateColumns(np.eye(strata.max(initial=0) + 1)[strata][:, 1:], True)]
        numbers, categories = (
            np.concatenate(
                [np.zeros((len(shifts), 0)), *(part.values for part in columns if part.categorical is kind)], axis=1
            )
            for kind in (False, True)
        )
        design = [np.ones((len(shifts), 1)), *(standardise_columns(part.values) for part in columns)]
        scheme = PermutationScheme(fit_log_odds(numbers, categories, patient), strata)
        return cls(ParticipantData(shifts, np.concatenate(design, axis=1)), patient, scheme)


def standardise_columns(columns: FloatArray) -> FloatArray:
    """Return columns (N, K) with mean 0 and standard deviation 1; constant columns become 0."""
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))

"""Count patterns by a permutation test that accounts for covariates and sites.

Shape letters: N people, R regions, K columns of a covariate.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.selection.dimensions import (
    N_PERMUTATIONS,
    SIGNIFICANCE_LEVEL,
    DimensionEstimate,
    ParticipantData,
    count_dimensions,
)
from rindices.selection.relabel import PermutationScheme, fit_log_odds


class CovariateColumns(NamedTuple):
    """Columns of one covariate.

    Attributes
    ----------
    values : (N, K)
    categorical : bool
        Whether they are indicators of categories.
    """

    values: FloatArray
    categorical: bool


def count_adjusted_dimensions(
    shifts: FloatArray,
    covariates: Sequence[CovariateColumns],
    strata: IntArray,
    patient: BoolArray,
    seed: int = 0,
    level: float = SIGNIFICANCE_LEVEL,
    n_permutations: int = N_PERMUTATIONS,
) -> DimensionEstimate:
    """Count the patterns of patients beyond controls, adjusted for covariates and strata.

    Labels are exchanged only between people with similar covariates in the same stratum.

    Parameters
    ----------
    shifts : (N, R)
        Volumes on a scale on which disease is additive, for instance logarithms.
    covariates : sequence of CovariateColumns
    strata : (N,)
        Number of each person's stratum, for instance of the site.
    patient : (N,)
        Mask of the patients.
    seed : int
    level : float
        Significance level of each test.
    n_permutations : int
        Permutations per test.

    Returns
    -------
    DimensionEstimate
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
    people = ParticipantData(shifts, np.concatenate(design, axis=1))
    return count_dimensions(people, patient, scheme, seed, level, n_permutations)


def standardise_columns(columns: FloatArray) -> FloatArray:
    """Return columns (N, K) with mean 0 and standard deviation 1; constant columns become 0."""
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))

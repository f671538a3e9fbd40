"""Schemes of permutation for the tests of group differences."""

import numpy as np

from rindices._typing import BoolArray, FloatArray
from rindices.selection.dimensions import AdjustedGroups, ParticipantData
from rindices.selection.relabel import PermutationScheme


def make_unrestricted_scheme(n_people: int) -> PermutationScheme:
    """Return the scheme of an ordinary permutation test."""
    return PermutationScheme(np.zeros(n_people), np.zeros(n_people, dtype=np.intp))


def make_groups(
    values: FloatArray, patient: BoolArray, design: FloatArray | None = None
) -> AdjustedGroups:
    """Groups whose labels may be exchanged without regard to covariates."""
    design = np.ones((len(values), 1)) if design is None else design
    return AdjustedGroups(
        ParticipantData(values, design), patient, make_unrestricted_scheme(len(values))
    )

"""Schemes of permutation for the tests of group differences."""

import numpy as np

from rindices.selection.relabel import PermutationScheme


def make_unrestricted_scheme(n_people: int) -> PermutationScheme:
    """Return the scheme of an ordinary permutation test."""
    return PermutationScheme(np.zeros(n_people), np.zeros(n_people, dtype=np.intp))

"""Who sees whom: the people that a member is fitted on, and those that it never sees."""

from typing import NamedTuple

import numpy as np

from rindices._typing import IntArray

SUBSAMPLE_SHARE = 0.8
"""Share of the people that a member sees unless it is said otherwise."""


class Subsample(NamedTuple):
    """Rows of the people that a member sees and of those that it does not, in their order."""

    seen: IntArray
    unseen: IntArray


def draw_subsample(y: IntArray, share: float, rng: np.random.Generator) -> Subsample:
    """Draw a share of controls and of patients; the rest stays unseen."""
    if share >= 1.0:
        return Subsample(np.arange(len(y)), np.zeros(0, dtype=np.intp))
    groups = [rng.permutation(np.flatnonzero(y == label)) for label in (0, 1)]
    cuts = [max(2, round(share * len(group))) for group in groups]
    seen = np.concatenate([group[:cut] for group, cut in zip(groups, cuts, strict=True)])
    unseen = np.concatenate([group[cut:] for group, cut in zip(groups, cuts, strict=True)])
    return Subsample(np.sort(seen), np.sort(unseen))


def split_into_halves(y: IntArray, rng: np.random.Generator) -> tuple[Subsample, Subsample]:
    """Split controls and patients into two halves of equal size; each is what the other does not see."""
    groups = [rng.permutation(np.flatnonzero(y == label)) for label in (0, 1)]
    first, second = (
        np.sort(np.concatenate([g[half * (len(g) // 2) : (half + 1) * (len(g) // 2)] for g in groups]))
        for half in (0, 1)
    )
    return Subsample(first, second), Subsample(second, first)

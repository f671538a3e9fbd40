"""Subsamples of people that ensemble members are trained on."""

from typing import NamedTuple

import numpy as np

from rindices._typing import IntArray

SUBSAMPLE_SHARE = 0.8
"""Default share of the people that a member is trained on."""


class Subsample(NamedTuple):
    """Sorted rows of the people that a member is trained on, and of the others."""

    seen: IntArray
    unseen: IntArray


def draw_subsample(y: IntArray, share: float, rng: np.random.Generator) -> Subsample:
    """Draw a share of controls and of patients at random; ``y`` (N,) is 0 for controls and 1 for patients."""
    if share >= 1.0:
        return Subsample(np.arange(len(y)), np.zeros(0, dtype=np.intp))
    groups = [rng.permutation(np.flatnonzero(y == label)) for label in (0, 1)]
    cuts = [max(2, round(share * len(group))) for group in groups]
    seen = np.concatenate([group[:cut] for group, cut in zip(groups, cuts, strict=True)])
    unseen = np.concatenate([group[cut:] for group, cut in zip(groups, cuts, strict=True)])
    return Subsample(np.sort(seen), np.sort(unseen))


def split_into_halves(y: IntArray, rng: np.random.Generator) -> tuple[Subsample, Subsample]:
    """Split controls and patients (N,) at random into halves of equal size."""
    groups = [rng.permutation(np.flatnonzero(y == label)) for label in (0, 1)]
    first, second = (
        np.sort(np.concatenate([rows[half * (len(rows) // 2) : (half + 1) * (len(rows) // 2)] for rows in groups]))
        for half in (0, 1)
    )
    return Subsample(first, second), Subsample(second, first)

"""Sums over many people, of whom a batch at a time is in memory.

Shape letters: N people, R regions.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.sums.messages import pack_symmetric

BATCH = 10_000
"""People whose values are in memory at once where sums are over everyone."""


def split_rows(rows: IntArray) -> list[IntArray]:
    """Return rows (n,) in batches; an empty one for nobody."""
    return [rows[start : start + BATCH] for start in range(0, max(len(rows), 1), BATCH)]


def add_batches(
    mask: BoolArray, function: Callable[[IntArray], Sequence[Any]]
) -> list[Any]:
    """Return the sums of a function of rows over the people of a mask (N,)."""
    parts = [function(rows) for rows in split_rows(np.flatnonzero(mask))]
    return [np.sum(each, axis=0) for each in zip(*parts, strict=True)]


def add_moments(
    mask: BoolArray, prepare: Callable[[IntArray], FloatArray]
) -> list[Any]:
    """Return the moments of the people of a mask (N,); prepare: takes rows and returns
    people (n, R).
    """
    return add_batches(mask, lambda rows: sum_moments(prepare(rows)))


def sum_moments(people: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sum x (R,) and packed sum x x' of people (N, R)."""
    return people.sum(axis=0), pack_symmetric(people.T @ people)

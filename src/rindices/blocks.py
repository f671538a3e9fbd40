"""People in blocks of one size: a block stays in the cache, and nobody's numbers depend on who else is in the table."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROWS = 512
"""People in a block."""


def in_blocks(function: Callable[..., Floats], *arrays: NDArray[Any]) -> Floats:
    """Apply a function of people block by block.

    A matrix product adds up in another order when it has another number of rows, and the last digits move. So the last
    block is filled up with its last person: a person's numbers are the same, bit for bit, alone, in a table and in any
    piece of it.

    Parameters
    ----------
    function : callable
        (B, ...) of each array to (B, ...); every row on its own.
    arrays : (N, ...)

    Returns
    -------
    (N, ...)
    """
    number = len(arrays[0])
    if not number:
        return function(*arrays)
    first = function(*(_block(array, 0) for array in arrays))
    found = np.empty((number, *first.shape[1:]), first.dtype, order="F" if first.flags.f_contiguous else "C")
    found[:ROWS] = first[:number]
    for start in range(ROWS, number, ROWS):
        part = found[start : start + ROWS]
        part[...] = function(*(_block(array, start) for array in arrays))[: len(part)]
    return found


def weighed(people: Floats, weights: Floats, centre: Floats) -> Floats:
    """Return (people - centre) @ weights, (B, R), (R, K), (R,) -> (B, K), fast where people lie column by column."""
    found = weights.T @ people.T
    found -= (centre @ weights)[:, None]
    return found.T


def _block(array: NDArray[Any], start: int) -> NDArray[Any]:
    # one layout, that of tables in memory: with another, sums may be rounded otherwise
    kind = np.float64 if array.dtype.kind == "f" else array.dtype
    rows = np.asfortranarray(array[start : start + ROWS], dtype=kind)
    if len(rows) == ROWS:
        return rows
    filled = [rows, np.broadcast_to(rows[-1:], (ROWS - len(rows), *rows.shape[1:]))]
    return np.asfortranarray(np.concatenate(filled))

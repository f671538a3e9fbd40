"""People in blocks of one size: a block stays in the cache, and nobody's numbers depend on who else is in the table."""

from collections.abc import Callable

import numpy as np

from rindices._typing import AnyArray, FloatArray

BLOCK_SIZE = 512
"""People in a block."""


def apply_in_blocks(function: Callable[..., FloatArray], *arrays: AnyArray) -> FloatArray:
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
    first = function(*(_pad_block(array, 0) for array in arrays))
    found = np.empty((number, *first.shape[1:]), first.dtype, order="F" if first.flags.f_contiguous else "C")
    found[:BLOCK_SIZE] = first[:number]
    for start in range(BLOCK_SIZE, number, BLOCK_SIZE):
        part = found[start : start + BLOCK_SIZE]
        part[...] = function(*(_pad_block(array, start) for array in arrays))[: len(part)]
    return found


def centred_matmul(people: FloatArray, weights: FloatArray, centre: FloatArray) -> FloatArray:
    """Return (people - centre) @ weights, (B, R), (R, K), (R,) -> (B, K), fast where people lie column by column."""
    found = weights.T @ people.T
    found -= (centre @ weights)[:, None]
    return found.T


def _pad_block(array: AnyArray, start: int) -> AnyArray:
    # one layout, that of tables in memory: with another, sums may be rounded otherwise
    kind = np.float64 if array.dtype.kind == "f" else array.dtype
    rows = np.asfortranarray(array[start : start + BLOCK_SIZE], dtype=kind)
    if len(rows) == BLOCK_SIZE:
        return rows
    filled = [rows, np.broadcast_to(rows[-1:], (BLOCK_SIZE - len(rows), *rows.shape[1:]))]
    return np.asfortranarray(np.concatenate(filled))

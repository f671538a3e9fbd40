"""Work on people in blocks of one size: a block fits the cache, and results do not
depend on the other people.
"""

from collections.abc import Callable, Iterator

import numpy as np

from rindices._typing import AnyArray, FloatArray, IntArray

BLOCK_SIZE = 512
"""People in a block."""


def apply_in_blocks(
    function: Callable[..., FloatArray], *arrays: AnyArray, block_size: int = BLOCK_SIZE
) -> FloatArray:
    """Apply a function of people block by block.

    The order of the sums in a matrix product, and so its last digits, depends on the
    number of rows. Therefore the last block is padded with its last person. A person's
    numbers are the same, bit for bit, alone, in a table and in any chunk of it.

    Parameters
    ----------
    function : callable
        Maps a block (B, ...) of each array to (B, ...), each row independently of the
        others.
    *arrays : ndarray
        Arrays of N people.
    block_size : int
        B.

    Returns
    -------
    ndarray of shape (N, ...)
    """
    n_people = len(arrays[0])
    if not n_people:
        return function(*arrays)
    first = function(*(_pad_block(array, 0, block_size) for array in arrays))
    result = np.empty(
        (n_people, *first.shape[1:]),
        first.dtype,
        order="F" if first.flags.f_contiguous else "C",
    )
    result[:block_size] = first[:n_people]
    for start in range(block_size, n_people, block_size):
        block = result[start : start + block_size]
        block[...] = function(
            *(_pad_block(array, start, block_size) for array in arrays)
        )[: len(block)]
    return result


def split_blocks(array: AnyArray) -> Iterator[AnyArray]:
    """Yield the blocks of rows of an array (N, ...), for sums over people."""
    for start in range(0, len(array), BLOCK_SIZE):
        yield array[start : start + BLOCK_SIZE]


def shifted_matmul(
    people: FloatArray, weights: FloatArray, shift: FloatArray
) -> FloatArray:
    """Return ``people @ weights - shift``, fast for people in column-major order.

    Parameters
    ----------
    people : ndarray of shape (B, R)
    weights : ndarray of shape (R, K)
    shift : ndarray of shape (K,)

    Returns
    -------
    ndarray of shape (B, K)
    """
    product = weights.T @ people.T
    product -= shift[:, None]
    return product.T


def take_rows(array: AnyArray, rows: IntArray) -> AnyArray:
    """Return rows (K,) of an array (N, ...), fast for an array in column-
    major order.
    """
    return np.take(array.T, rows, axis=-1).T


def _pad_block(array: AnyArray, start: int, block_size: int) -> AnyArray:
    """Return one block of rows in column-major order, as tables lie in memory: the
    order of sums depends on it.
    """
    dtype = np.float64 if array.dtype.kind == "f" else array.dtype
    rows = np.asfortranarray(array[start : start + block_size], dtype=dtype)
    if len(rows) == block_size:
        return rows
    padding = np.broadcast_to(rows[-1:], (block_size - len(rows), *rows.shape[1:]))
    return np.asfortranarray(np.concatenate([rows, padding]))

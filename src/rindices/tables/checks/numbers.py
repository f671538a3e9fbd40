"""Robust statistics of blocks of people.

Shape letters: N people, R regions, K blocks.
"""

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray

MAD_SCALE = 1.4826
"""Standard deviation of normal values over the median of their absolute deviations."""
NO_BLOCK = -1
"""Code of the people who are in no block."""


def compute_mad(values: FloatArray) -> FloatArray:
    """Return the robust standard deviation (R,) of each column (N, R), or of a vector
    (N,).
    """
    return np.asarray(
        MAD_SCALE * np.median(np.abs(values - np.median(values, axis=0)), axis=0)
    )


def centre_blocks(values: FloatArray, codes: IntArray) -> FloatArray:
    """Return values (N, R) less the mean of their block.

    codes (N,): block of each person. People in no block are centred on the mean of
    everyone.
    """
    centred = values - values.mean(axis=0)
    is_inside = codes != NO_BLOCK
    if not is_inside.any():
        return np.asarray(centred)
    inside = codes[is_inside]
    order = np.argsort(inside, kind="stable")
    starts = np.flatnonzero(np.diff(inside[order], prepend=-2))
    sizes = np.diff(starts, append=len(order))
    rows = np.flatnonzero(is_inside)[order]
    means = np.add.reduceat(values[rows], starts, axis=0) / sizes[:, None]
    centred[rows] = values[rows] - np.repeat(means, sizes, axis=0)
    return np.asarray(centred)


def decompose_covariance(centred: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues (R,) and eigenvectors (R, R) of the Ledoit-Wolf covariance of
    centred people (N, R).
    """
    n_people, n_regions = centred.shape
    covariance = centred.T @ centred / n_people
    mean = np.trace(covariance) / n_regions
    distance = np.square(covariance - mean * np.eye(n_regions)).sum()
    noise = (
        np.square(np.square(centred).sum(axis=1)).sum() / n_people**2
        - np.square(covariance).sum() / n_people
    )
    shrinkage = min(max(noise, 0.0) / max(distance, 1e-300), 1.0)
    values, vectors = np.linalg.eigh(
        (1 - shrinkage) * covariance + shrinkage * mean * np.eye(n_regions)
    )
    return np.maximum(values, max(1e-9 * mean, 1e-300)), vectors


def find_best_segment(gains: FloatArray) -> tuple[int, int, float]:
    """Return start, end and sum of the contiguous part of gains (N,) with the largest
    sum.
    """
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums[1:] - lowest[:-1])) + 1
    return int(np.argmin(sums[:end])), end, float(sums[end] - sums[:end].min())


def cut_chunks(n_people: int, n_chunks: int) -> IntArray:
    """Return the number (N,) of the chunk of each row, of equal chunks in the order of
    the rows.
    """
    return np.asarray(
        np.arange(n_people) * max(n_chunks, 1) // max(n_people, 1), dtype=np.intp
    )


def find_longest_run(steps: BoolArray) -> tuple[int, int]:
    """Return the positions from the first step of the longest run of true steps to
    behind its last; (0, 0) if none.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], steps.astype(np.int8), [0]])))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    return int(edges[::2][longest]), int(edges[1::2][longest])

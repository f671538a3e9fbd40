"""Repeated people in a table of any size: one hash per row, compared in bounded memory."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices.atomic import atomic_path, compute_digest

RowHashes = NDArray[np.uint64]

_MAX_HASHES_IN_MEMORY = 4_000_000


def hash_keys(keys: Sequence[str]) -> RowHashes:
    """Return a hash (N,) of the key of each row: its person and session."""
    return np.asarray(pd.util.hash_array(np.array(keys, dtype=object), categorize=False), dtype=np.uint64)


def write_hashes(path: Path, hashes: RowHashes) -> str:
    """Write hashes (N,) in ascending order to an ``.npy`` file, atomically; return the digest of the file."""
    with atomic_path(path) as temporary_path:
        np.save(temporary_path, np.sort(hashes))
        return compute_digest(temporary_path)


def find_repeated_hashes(files: Sequence[Path]) -> RowHashes:
    """Return the hashes that occur more than once in files of sorted hashes, in bounded memory.

    files: each an ``.npy`` file of (N,) sorted hashes. Returns (K,).
    """
    total = sum(len(np.load(file, mmap_mode="r")) for file in files)
    bounds = np.linspace(0, 2**64 - 1, max(2, total // _MAX_HASHES_IN_MEMORY + 2)).astype(np.float64)
    repeated = []
    for low, high in pairwise(bounds):
        upper = None if high == bounds[-1] else high
        hashes = np.sort(np.concatenate([_load_hashes_between(file, low, upper) for file in files]))
        repeated.append(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]))
    return np.concatenate(repeated)


def _load_hashes_between(file: Path, low: float, high: float | None) -> RowHashes:
    hashes = np.load(file, mmap_mode="r")
    start = np.searchsorted(hashes, np.uint64(low))
    return np.array(hashes[start : None if high is None else np.searchsorted(hashes, np.uint64(high))])

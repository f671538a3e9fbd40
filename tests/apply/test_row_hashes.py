"""Repeated rows are found among files of hashes."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rindices.apply import row_hashes
from rindices.apply.row_hashes import find_repeated_hashes, hash_keys


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), max_size=40), st.integers(1, 5))
def test_repeated_keys_against_a_counter(keys: list[int], files: int) -> None:
    numbers = [key * (2**64 // 61) + 3 for key in keys]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{k}.npy" for k in range(files)]
        for k, path in enumerate(paths):
            np.save(path, np.sort(np.array(numbers[k::files], dtype=np.uint64)))
        result = find_repeated_hashes(paths)
    assert result.tolist() == sorted(key for key, times in Counter(numbers).items() if times > 1)


def test_few_hashes_in_memory_give_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"sub-{k}" for k in range(500)] + ["sub-7", "sub-300"]
    np.save(tmp_path / "a.npy", np.sort(hash_keys(keys[:250])))
    np.save(tmp_path / "b.npy", np.sort(hash_keys(keys[250:])))
    monkeypatch.setattr(row_hashes, "_MAX_HASHES_IN_MEMORY", 20)
    repeated = find_repeated_hashes([tmp_path / "a.npy", tmp_path / "b.npy"])
    assert repeated.tolist() == sorted(hash_keys(["sub-7", "sub-300"]).tolist())

"""Damaged and malicious model files are refused with one line, without running code or
allocating much memory.
"""

import contextlib
import json
import pickle
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

import rindices as ri
from rindices.errors import ModelError
from rindices.model.file import SCHEMA_VERSION
from rindices.model.safetensors_io import compute_content_digest
from tests.cohorts import fit_tiny_model


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    fit_tiny_model().save(path)
    return path.read_bytes()


def split_content(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    length = struct.unpack("<Q", content[:8])[0]
    metadata = json.loads(
        json.loads(content[8 : 8 + length])["__metadata__"]["rindices"]
    )
    del metadata["sha256"]
    return metadata, from_bytes(content)


def build_content(metadata: Any, arrays: dict[str, np.ndarray]) -> bytes:
    if not isinstance(metadata, str):
        metadata = json.dumps(
            metadata | {"sha256": compute_content_digest(metadata, arrays)}
        )
    return to_bytes(arrays, {"rindices": metadata})


def truncated(content: bytes) -> Iterator[bytes]:
    length = struct.unpack("<Q", content[:8])[0]
    for size in [
        *range(0, 16),
        8 + length - 1,
        8 + length,
        8 + length + 1,
        len(content) // 2,
        len(content) - 1,
    ]:
        yield content[:size]
    for size in np.linspace(16, len(content) - 1, 80).astype(int):
        yield content[: int(size)]


def flipped_header(content: bytes) -> Iterator[bytes]:
    """Yield files with one changed byte in the header, some of which is free text."""
    length = struct.unpack("<Q", content[:8])[0]
    for position in np.linspace(0, 7 + length, 80).astype(int):
        changed = bytearray(content)
        changed[position] ^= 0xFF
        yield bytes(changed)


def wrong_arrays(content: bytes) -> Iterator[bytes]:
    metadata, arrays = split_content(content)
    for name, array in arrays.items():
        yield build_content(metadata, {k: v for k, v in arrays.items() if k != name})
        yield build_content(metadata, arrays | {name: np.zeros((2, *array.shape))})
        yield build_content(
            metadata, arrays | {name: np.zeros(array.shape, dtype=np.int64)}
        )
        if array.size:
            bad = array.copy()
            bad.flat[0] = np.nan
            yield build_content(metadata, arrays | {name: bad})
            bad = array.copy()
            bad.flat[-1] = np.inf
            yield build_content(metadata, arrays | {name: bad})
    yield build_content(metadata, arrays | {"more": np.zeros(3)})


def wrong_metadata(content: bytes) -> Iterator[bytes]:
    metadata, arrays = split_content(content)
    for name in (
        "schema",
        "kind",
        "members",
        "n_patterns",
        "regions",
        "covariates",
        "orders",
        "unit",
    ):
        yield build_content({k: v for k, v in metadata.items() if k != name}, arrays)
    wrong_values: list[Any] = [
        None,
        -1,
        0,
        1e99,
        10**9,
        "x",
        [],
        {},
        [[]],
        [None],
        True,
        {"a": 1},
    ]
    for name in (
        "schema",
        "kind",
        "members",
        "n_patterns",
        "regions",
        "covariates",
        "orders",
    ):
        for value in wrong_values:
            if metadata[name] != value and not (name == "covariates" and value == []):
                yield build_content(metadata | {name: value}, arrays)
    for text in ("", "[]", "null", "{", '"x"', "[" * 100_000):
        yield build_content(text, arrays)
    for name in ("sums", "training_distances", "interval_knots", "covariate_ranges"):
        for value in wrong_values:
            if metadata[name] != value and not (
                name == "covariate_ranges" and value == {}
            ):
                yield build_content(metadata | {name: value}, arrays)
    yield build_content(
        metadata | {"sums": {"no region": ["MUSE_47", "MUSE_48"]}}, arrays
    )
    yield build_content(metadata | {"sums": {"MUSE_47": ["MUSE_47", 48]}}, arrays)
    yield build_content(metadata | {"covariate_ranges": {"age": [50, "x"]}}, arrays)
    for schema in (0, SCHEMA_VERSION + 1):
        yield build_content(metadata | {"schema": schema}, arrays)
    yield build_content(
        metadata | {"regions": metadata["regions"][:-1] + metadata["regions"][:1]},
        arrays,
    )
    yield build_content(metadata | {"orders": [[0, 0], [0, 1]]}, arrays)
    yield to_bytes(arrays, {"other": "program"})
    yield to_bytes(arrays)


class MaliciousPickle:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self.path, "w"))


def other_formats(content: bytes) -> Iterator[bytes]:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.dumps(MaliciousPickle("/tmp/rindices-was-here"), protocol=protocol)
    yield b"PK\x03\x04" + content
    yield b"\x93NUMPY" + content
    yield struct.pack("<Q", 10**9) + b"{" * 1000
    yield struct.pack("<Q", 2**63) + content[8:]
    yield struct.pack("<Q", 2**64 - 1) + content[8:]
    yield struct.pack("<Q", 0) + content[8:]
    yield struct.pack("<Q", 4) + b"null" + content
    yield b"\x00" * 1000
    yield b"\xff" * 1000
    yield b"not a model at all, only a sentence or two"


FAMILIES: list[Callable[[bytes], Iterator[bytes]]] = [
    truncated,
    wrong_arrays,
    wrong_metadata,
    other_formats,
]


def assert_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        ri.load(path)
    assert len(str(caught.value).splitlines()) == 1
    assert "m.safetensors" in str(caught.value)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_files_are_refused_with_one_line(
    family: Callable[[bytes], Iterator[bytes]], valid: bytes, tmp_path: Path
) -> None:
    for content in family(valid):
        assert_refused(tmp_path / "m.safetensors", content)
    assert not Path("/tmp/rindices-was-here").exists()


def test_flipped_header_bytes_never_crash(valid: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    for content in flipped_header(valid):
        path.write_bytes(content)
        with contextlib.suppress(ModelError):  # any other exception fails the test
            ri.load(path)


def test_at_least_three_hundred_files_are_tried(valid: bytes) -> None:
    assert sum(1 for family in FAMILIES for _ in family(valid)) >= 300


def test_memory_is_bounded(valid: bytes, tmp_path: Path) -> None:
    """A header that claims terabytes of arrays or a gigabyte of metadata is refused
    before memory is allocated.
    """
    metadata, _ = split_content(valid)
    path = tmp_path / "m.safetensors"
    entry = {"dtype": "F64", "shape": [10**6, 10**6], "data_offsets": [0, 8 * 10**12]}
    header = json.dumps(
        {"__metadata__": {"rindices": json.dumps(metadata)}, "patterns": entry}
    ).encode()
    tracemalloc.start()
    for content in (
        struct.pack("<Q", len(header)) + header,
        struct.pack("<Q", 10**9) + header,
    ):
        assert_refused(path, content)
    huge = metadata | {"n_patterns": 100_000, "members": 100_000}
    assert_refused(path, build_content(huge, {"patterns": np.zeros(3)}))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


def test_a_missing_file_or_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        ri.load(tmp_path / "none.safetensors")
    with pytest.raises(ModelError):
        ri.load(tmp_path)


def test_a_header_length_that_looks_like_a_pickle_is_accepted(
    valid: bytes, tmp_path: Path
) -> None:
    """The bytes of a header's length may be equal to the first bytes of a pickle."""
    metadata, arrays = split_content(valid)
    target = int.from_bytes(b"\x80\x04\x02", "little")
    length = struct.unpack("<Q", build_content(metadata | {"note": ""}, arrays)[:8])[0]
    content = build_content(metadata | {"note": "x" * (target - length)}, arrays)
    assert content.startswith(b"\x80\x04")
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    assert ri.load(path).n_patterns == 2

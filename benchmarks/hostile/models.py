"""Altered model files."""

import json
import pickle
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from benchmarks.hostile.alterations import (
    ARRAY_CHANGES,
    HOSTILE_VALUES,
    Alteration,
    FileMaker,
    delete_path,
    double_path,
    flip_bytes,
    list_paths,
    set_path,
)
from benchmarks.hostile.sources import Source
from rindices.model.safetensors_io import compute_content_digest

HEADER_VALUES = (
    None,
    -1,
    10**6,
    10**15,
    "F64",
    "F16",
    "BF16",
    "I64",
    "BOOL",
    [],
    [10**8, 10**8],
    [0, 8],
    [1.0],
    {},
)


def split_model(content: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Return header, metadata and arrays of a model file."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    metadata = json.loads(header["__metadata__"]["rindices"])
    del metadata["sha256"]
    return header, metadata, content[8 + length :]


def join_model(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + data


def change_metadata(content: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    header, metadata, data = split_model(content)
    change(metadata)
    header["__metadata__"]["rindices"] = sign_metadata(metadata, from_bytes(content))
    return join_model(header, data)


def sign_metadata(metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """Return metadata with the digest of the altered content, so that the other checks
    are reached.
    """
    return json.dumps(metadata | {"sha256": compute_content_digest(metadata, arrays)})


def change_header(content: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    header, _, data = split_model(content)
    change(header)
    return join_model(header, data)


def change_array(
    content: bytes, name: str, change: Callable[[np.ndarray], np.ndarray]
) -> bytes:
    _, metadata, _ = split_model(content)
    arrays = {key: np.array(array) for key, array in from_bytes(content).items()}
    with np.errstate(all="ignore"):
        arrays[name] = np.ascontiguousarray(change(arrays[name]))
    return to_bytes(arrays, {"rindices": sign_metadata(metadata, arrays)})


def list_container_alterations(
    content: bytes, marker: Path
) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield changes of the bytes of a file and of its header."""
    length = 8 + struct.unpack("<Q", content[:8])[0]
    header = split_model(content)[0]
    for seed in range(150):
        yield f"flip header {seed}", partial(flip_bytes, content, 0, length, seed)
        yield (
            f"flip anywhere {seed}",
            partial(flip_bytes, content, length, len(content), seed),
        )
        size = int(np.random.default_rng(seed).integers(0, len(content)))
        yield f"truncate at {size}", partial(content.__getitem__, slice(0, size))
    for claim in (0, 1, 7, length, 10**6, 10**9, 2**31, 2**63, 2**64 - 1):
        yield (
            f"length {claim}",
            partial(bytes.__add__, struct.pack("<Q", claim), content[8:]),
        )
    for path in list_paths(
        {key: value for key, value in header.items() if key != "__metadata__"}
    ):
        for value in (
            None,
            -1,
            10**6,
            10**15,
            "F64",
            "F16",
            "BF16",
            "I64",
            "BOOL",
            [],
            [10**8, 10**8],
            [0, 8],
            [1.0],
            {},
        ):
            yield (
                f"header {path} {value}",
                partial(change_header, content, partial(set_path, path, value)),
            )
        yield (
            f"header without {path}",
            partial(change_header, content, partial(delete_path, path)),
        )
    for protocol in range(6):
        yield (
            f"pickle {protocol}",
            partial(pickle.dumps, FileMaker(str(marker)), protocol=protocol),
        )
    for text in (
        "[" * 100_000,
        '{"a":' * 5_000,
        "[" + "{}," * 3_000_000 + "{}]",
        "1" * 10_000,
        "",
        "null",
        "\x00",
    ):
        yield (
            f"header of {len(text)}",
            lambda text=text: (
                struct.pack("<Q", len(text)) + text.encode() + content[length:]
            ),
        )
    yield "two models", lambda: content + content
    yield "one byte more", lambda: content + b"\x00"


def list_metadata_alterations(
    content: bytes,
) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield a change of every field of the metadata."""
    metadata = split_model(content)[1]
    for path in list_paths(metadata):
        for number, value in enumerate(HOSTILE_VALUES):
            yield (
                f"{path} value {number}",
                partial(change_metadata, content, partial(set_path, path, value)),
            )
        yield (
            f"without {path}",
            partial(change_metadata, content, partial(delete_path, path)),
        )
        yield (
            f"double {path}",
            partial(change_metadata, content, partial(double_path, path)),
        )
    for number, value in enumerate(HOSTILE_VALUES):
        yield (
            f"new key {number}",
            partial(change_metadata, content, partial(set_path, ("later",), value)),
        )


def list_value_alterations(content: bytes) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield changes of the values of every array, and arrays that have
    changed places.
    """
    arrays = from_bytes(content)
    for name, array in arrays.items():
        for text, change in ARRAY_CHANGES.items():
            yield f"{name} {text}", partial(change_array, content, name, change)
        for other, values in arrays.items():
            if other != name and values.shape == array.shape:
                yield (
                    f"{name} is {other}",
                    partial(
                        change_array, content, name, lambda _, values=values: values
                    ),
                )


def list_model_alterations(source: Source, marker: Path) -> list[Alteration]:
    """Return all alterations of a model."""
    families = {
        "container": list_container_alterations(source.content, marker),
        "metadata": list_metadata_alterations(source.content),
        "values": list_value_alterations(source.content),
    }
    return [
        Alteration(family, name, make)
        for family, pairs in families.items()
        for name, make in pairs
    ]

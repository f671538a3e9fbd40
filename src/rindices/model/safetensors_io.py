"""Read and write safetensors files without trusting them.

The library checks the header, and the types, shapes and positions of the arrays, before
anything large is read. Then names, types and shapes are compared with those that are
expected, and the SHA-256 of metadata and arrays, which finds damage; then the values of
the arrays are checked. Nothing in a file is ever executed.
"""

import hashlib
import json
import shlex
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from rindices._typing import AnyArray
from rindices.array_checks import find_array_fault
from rindices.atomic import write_atomically
from rindices.errors import (
    ModelError,
    Problem,
    ProblemCode,
    Severity,
    describe_os_error,
    join_names,
    make_damage_error,
)

METADATA_KEY = "rindices"
MAX_DIMENSION = 100_000
"""Of regions, patterns or members."""
_DIGEST_KEY = "sha256"
_PICKLE_PREFIXES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_TABLE_SUFFIXES = (".csv", ".tsv", ".xlsx", ".xls", ".parquet", ".gz")
_N_SAMPLED_BYTES = 4_096
PUBLISHED_CHECKPOINTS = {
    "ad_2rindices": "c3616ae5c5afb662622aae54416d25b15abd30bfe047f52c83784f1b2dbf38ca",
    "brain_aging_5rindices": "e9bba17c8709b0bf3015d0c83fd2e0c5b159f29b651632fd0c4113e27fc41a9d",
}
"""SHA-256 of published checkpoints, by the names that ``rindices model get`` takes."""


def write_safetensors(
    path: Path, arrays: Mapping[str, AnyArray], metadata: Mapping[str, Any]
) -> None:
    """Write arrays and metadata, and the SHA-256 of both, to one file by an atomic
    rename.
    """
    contiguous = {name: np.array(array, order="C") for name, array in arrays.items()}
    signed = {**metadata, _DIGEST_KEY: compute_content_digest(metadata, contiguous)}
    text = json.dumps(signed, sort_keys=True, allow_nan=False)
    write_atomically(
        path, to_bytes(contiguous, {METADATA_KEY: text})
    )  # two keys would be in any order


def compute_content_digest(
    metadata: Mapping[str, Any], arrays: Mapping[str, AnyArray]
) -> str:
    """Return the SHA-256 of metadata and of the names, types, shapes and values of the
    arrays.
    """
    plain = json.loads(
        json.dumps(dict(metadata))
    )  # with keys as they are read from a file
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(
            f"\n{name} {array.dtype.str} {array.shape}\n".encode(errors="surrogatepass")
        )
        digest.update(array.tobytes())
    return digest.hexdigest()


@contextmanager
def open_safetensors(path: Path) -> Iterator[Any]:
    """Open a file that the library finds to be sound; ModelError says why it is not."""
    try:
        if (
            path.exists() and not path.is_file()
        ):  # reading a pipe would wait for its other end
            raise ModelError(f"{path} is {_describe_non_file(path)}.")
        with path.open("rb") as file:
            start = file.read(_N_SAMPLED_BYTES)
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read ({describe_os_error(error)}): check the path."
        ) from error
    try:
        with safe_open(path, "numpy") as content:
            yield content
    except (SafetensorError, OSError, MemoryError) as error:
        if problem := _recognise_other_file(path, start):
            raise ModelError(problem) from error
        raise make_damage_error(
            path.name, f"is not a model that can be read ({join_names([error])})"
        ) from error


def _describe_non_file(path: Path) -> str:
    """Return what a path is that is no file, and what to give in its place."""
    if not path.is_dir():
        return "not a file: give a model.safetensors"
    model = path / "model.safetensors"
    return (
        f"a folder: give {model}"
        if model.is_file()
        else "a folder without a model.safetensors: give a model"
    )


def _recognise_other_file(path: Path, start: bytes) -> Problem | None:
    """Return the problem of a file that is no model but another known kind of file;
    None for damaged and unknown ones.

    Parameters
    ----------
    start : bytes
        Its first bytes.
    """
    cure = "Give the model.safetensors that fit wrote"
    if path.suffix.lower() in _TABLE_SUFFIXES:
        return Problem(
            severity=Severity.ERROR,
            what="this is a table, not a model",
            where=path.name,
            cure=cure,
            code=ProblemCode.DAMAGED_FILE,
        )
    if start.startswith(_PICKLE_PREFIXES) or zipfile.is_zipfile(path):
        name = _recognise_checkpoint(path)
        known = f"--as {name}" if name else "--regions FILE"
        out = f"{name or path.stem}.safetensors"
        command = f"rindices model import {shlex.quote(str(path))} {known} --out {shlex.quote(out)}"
        cure = f"If it is a checkpoint of SurrealGAN, convert it: {command}"
        what = (
            "this is a pickle or zip, which can run code, and not a model of rindices"
        )
        return Problem(
            severity=Severity.ERROR,
            what=what,
            where=path.name,
            cure=cure,
            code=ProblemCode.UNSAFE_FILE,
        )
    if _is_text(start):
        return Problem(
            severity=Severity.ERROR,
            what="this is a text file, not a model",
            where=path.name,
            cure=cure,
            code=ProblemCode.DAMAGED_FILE,
        )
    return None


def _recognise_checkpoint(path: Path) -> str:
    """Return the name of a published checkpoint, by its content or else by the name of
    its file; empty for others.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    for name, own in PUBLISHED_CHECKPOINTS.items():
        if own == digest:
            return name
    return path.stem if path.stem in PUBLISHED_CHECKPOINTS else ""


def _is_text(start: bytes) -> bool:
    """Return whether the first bytes of a file are text."""
    try:
        text = start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4:  # not a character that was cut
            return False
        text = start[: error.start].decode("utf-8")
    return bool(text) and all(
        char.isprintable() or char in "\r\n\t\ufeff" for char in text
    )


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata that rindices wrote to a file."""
    with open_safetensors(path) as content:
        return _split_digest(path, content)[0]


def _split_digest(path: Path, content: Any) -> tuple[dict[str, Any], Any]:
    """Return the metadata of an open file, and the digest that was written
    with them.
    """
    text = (content.metadata() or {}).get(METADATA_KEY)
    if text is None:
        what = f"is a safetensors file, but not one of rindices: it has no '{METADATA_KEY}' metadata"
        raise ModelError(f"{path.name} {what}. Give a model of rindices.")
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise make_damage_error(
            path.name, "is not a model: its metadata cannot be read"
        ) from error
    if not isinstance(metadata, dict):
        raise make_damage_error(path.name, "its metadata are not an object")
    return metadata, metadata.pop(_DIGEST_KEY, None)


def read_arrays(
    path: Path, expected: Mapping[str, tuple[int, ...]], unchecked: Collection[str] = ()
) -> dict[str, AnyArray]:
    """Read the arrays of a file.

    Parameters
    ----------
    expected : mapping
        Names and shapes of the arrays that the file must hold. It must hold no
        others.
    unchecked : Collection
        Names of arrays that may have any values, such as the weights of a training
        that diverged.

    Returns
    -------
    dict
        Floats with the values that their names ask for, see
        `rindices.array_checks`.

    Raises
    ------
    ModelError
        That names the first array that is not as it should be, or says that the
        digest is another one.
    """
    with open_safetensors(path) as content:
        metadata, digest = _split_digest(path, content)
        names = set(content.keys())
        missing, extra = sorted(set(expected) - names), sorted(names - set(expected))
        if missing or extra:
            what = "lacks" if missing else "has more than it should:"
            raise make_damage_error(
                path.name, f"{what} {join_names(missing or extra, 3)}"
            )
        for name, shape in expected.items():
            kind, declared = (
                content.get_slice(name).get_dtype(),
                content.get_slice(name).get_shape(),
            )
            if kind not in ("F32", "F64") or declared != list(shape):
                what = f"{name} should be floats of shape {list(shape)}, not {kind} of {declared!s:.60}"
                raise make_damage_error(path.name, what)
        arrays: dict[str, AnyArray] = {
            name: content.get_tensor(name) for name in expected
        }
    if digest != compute_content_digest(metadata, arrays):
        raise make_damage_error(
            path.name, "its content is not what was written (its SHA-256 differs)"
        )
    for name, array in arrays.items():
        if name not in unchecked and (fault := find_array_fault(name, array)):
            raise make_damage_error(path.name, f"{name} {fault}")
    return arrays

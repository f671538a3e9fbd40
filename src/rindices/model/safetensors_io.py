"""Read and write safetensors files without trusting them.

The length of the header and the names, types, shapes and positions of the arrays are checked before anything large is
read, then the SHA-256 of metadata and arrays, which finds damage, and the values of the arrays. Nothing in a file is
ever executed.
"""

import hashlib
import json
import math
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from rindices._typing import AnyArray
from rindices.array_checks import find_array_fault
from rindices.atomic import write_atomically
from rindices.errors import ModelError, Problem, ProblemCode, Severity, describe_os_error, join_names, make_damage_error

METADATA_KEY = "rindices"
MAX_DIMENSION = 100_000
"""Of regions, patterns or members."""
_DIGEST_KEY = "sha256"
_MAX_HEADER_BYTES = 20_000_000
_MAX_FILE_BYTES = 4_000_000_000
_PICKLE_PREFIXES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")
_BYTES_BY_TYPE = {"F32": 4, "F64": 8}


def write_safetensors(path: Path, arrays: Mapping[str, AnyArray], metadata: Mapping[str, Any]) -> None:
    """Write arrays and metadata, and the SHA-256 of both, to one file by an atomic rename."""
    contiguous = {name: np.array(array, order="C") for name, array in arrays.items()}
    signed = {**metadata, _DIGEST_KEY: compute_content_digest(metadata, contiguous)}
    text = json.dumps(signed, sort_keys=True, allow_nan=False)
    write_atomically(path, to_bytes(contiguous, {METADATA_KEY: text}))  # two keys would be in any order


def compute_content_digest(metadata: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> str:
    """Return the SHA-256 of metadata and of the names, types, shapes and values of the arrays."""
    plain = json.loads(json.dumps(dict(metadata)))  # with keys as they are read from a file
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode(errors="surrogatepass"))
        digest.update(array.tobytes())
    return digest.hexdigest()


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata that rindices wrote to a file."""
    return _split_digest(path, read_header(path))[0]


def _split_digest(path: Path, header: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the metadata in the header of a file, and the digest that was written with them."""
    declared = header.get("__metadata__")
    text = declared.get(METADATA_KEY) if isinstance(declared, dict) else None
    if not isinstance(text, str):
        what = f"is a safetensors file, but not one of rindices: it has no '{METADATA_KEY}' metadata"
        raise ModelError(f"{path.name} {what}. Give a model of rindices.")
    metadata = _parse_json(text, path)
    if not isinstance(metadata, dict):
        raise make_damage_error(path.name, "its metadata are not an object")
    return metadata, metadata.pop(_DIGEST_KEY, None)


def read_arrays(path: Path, expected: Mapping[str, tuple[int, ...]]) -> dict[str, AnyArray]:
    """Read the arrays of a file.

    expected: names and shapes of the arrays that the file must hold; it must hold no others. Returns floats with the
    values that their names ask for, see `rindices.array_checks`. Raises ModelError: that names the first array that is
    not as it should be, or says that the digest is another one.
    """
    header = read_header(path)
    metadata, digest = _split_digest(path, header)
    del header["__metadata__"]
    missing, extra = sorted(set(expected) - set(header)), sorted(set(header) - set(expected))
    if missing or extra:
        names = join_names(missing or extra, 3)
        what = f"lacks {names}" if missing else f"has more than it should: {names}"
        raise make_damage_error(path.name, what)
    n_bytes = sum(_count_bytes(path, name, header[name], shape) for name, shape in expected.items())
    if path.stat().st_size > n_bytes + _MAX_HEADER_BYTES:
        raise make_damage_error(path.name, f"its arrays need {n_bytes:,} bytes, it has more")
    try:
        arrays: dict[str, AnyArray] = from_bytes(path.read_bytes())
    except (SafetensorError, ValueError, OSError, MemoryError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise make_damage_error(path.name, f"cannot be read ({reason})") from error
    if digest != compute_content_digest(metadata, arrays):
        raise make_damage_error(path.name, "its content is not what was written (its SHA-256 differs)")
    for name, array in arrays.items():
        if fault := find_array_fault(name, array):
            raise make_damage_error(path.name, f"{name} {fault}")
    return arrays


def _count_bytes(path: Path, name: str, entry: Any, shape: tuple[int, ...]) -> int:
    """Return the bytes of an array, if its type and shape are as expected; the library checks its position."""
    declared = entry if isinstance(entry, dict) else {}
    size, lengths = _BYTES_BY_TYPE.get(str(declared.get("dtype")), 0), declared.get("shape")
    if not size or lengths != list(shape) or any(type(length) is not int for length in lengths):
        what = f"{name} should be floats of shape {list(shape)}, not {declared.get('dtype')!s:.20} of {lengths!s:.60}"
        raise make_damage_error(path.name, what)
    return size * math.prod(shape)


def read_header(path: Path) -> dict[str, Any]:
    """Return the JSON header of a file: eight bytes of length, then that many bytes."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path} cannot be read (it is not a file): give a model.safetensors.")
        with path.open("rb") as file:
            text = file.read(_check_header_length(path, file.read(8), status.st_size))
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({describe_os_error(error)}): check the path.") from error
    header = _parse_json(text, path)
    if not isinstance(header, dict):
        raise make_damage_error(path.name, "is not a safetensors file")
    return header


def _check_header_length(path: Path, start: bytes, size: int) -> int:
    """Return the length of the header, which the first eight bytes of a file tell."""
    length = int.from_bytes(start, "little")
    is_too_long = length > min(_MAX_HEADER_BYTES, size - 8)
    if is_too_long and start.startswith(_PICKLE_PREFIXES):  # a valid length may begin with these bytes
        what = "is a pickle or zip, not a model: such files can run code and are refused"
        raise ModelError(Problem(Severity.ERROR, what, path.name, "Give a model.safetensors", ProblemCode.UNSAFE_FILE))
    if len(start) < 8 or size > _MAX_FILE_BYTES:
        raise make_damage_error(path.name, f"has {size:,} bytes, which no model has")
    if is_too_long:
        raise make_damage_error(path.name, f"is not a model: it claims a header of {length:,} bytes")
    return length


def _parse_json(text: str | bytes, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise make_damage_error(path.name, "is not a model: its header cannot be read") from error

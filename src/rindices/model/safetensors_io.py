"""Read and write safetensors files without trusting them.

The length of the header and the names, types and shapes of the arrays are checked before anything large is read.
Nothing in a file is ever executed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from rindices._typing import AnyArray
from rindices.atomic import write_atomically
from rindices.errors import ModelError, describe_os_error

METADATA_KEY = "rindices"
_MAX_HEADER_BYTES = 20_000_000
_MAX_FILE_BYTES = 4_000_000_000
_PICKLE_PREFIXES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")


def write_safetensors(path: Path, arrays: Mapping[str, AnyArray], metadata: Mapping[str, Any]) -> None:
    """Write arrays and metadata to one file by an atomic rename."""
    text = json.dumps(metadata, sort_keys=True, allow_nan=False)
    content = to_bytes({name: np.array(array, order="C") for name, array in arrays.items()}, {METADATA_KEY: text})
    write_atomically(path, content)


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata that rindices wrote to a file."""
    header = read_header(path)
    declared = header.get("__metadata__")
    text = declared.get(METADATA_KEY) if isinstance(declared, dict) else None
    if not isinstance(text, str):
        raise ModelError(
            f"{path.name} is a safetensors file, but not one of rindices: it has no '{METADATA_KEY}' metadata."
        )
    metadata = _parse_json(text, path)
    if not isinstance(metadata, dict):
        raise ModelError(f"{path.name}: its metadata are not an object; the file is damaged.")
    return metadata


def read_arrays(path: Path, expected: Mapping[str, tuple[int, ...]]) -> dict[str, AnyArray]:
    """Return the arrays of a file, which must be those of the expected shapes, finite floats and no others."""
    header = {name: entry for name, entry in read_header(path).items() if name != "__metadata__"}
    missing, extra = sorted(set(expected) - set(header)), sorted(set(header) - set(expected))
    if missing or extra:
        what = f"lacks {', '.join(missing[:3])}" if missing else f"has more than it should: {', '.join(extra[:3])}"
        raise ModelError(f"{path.name} {what}; the file is damaged or was changed.")
    for name, shape in expected.items():
        _check_array_entry(path, name, header[name], shape)
    try:
        arrays: dict[str, AnyArray] = from_bytes(path.read_bytes())
    except (SafetensorError, ValueError, OSError) as error:
        raise ModelError(f"{path.name} cannot be read ({_first_line(error)}); copy it again.") from error
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ModelError(f"{path.name}: {name} holds values that are not finite; the file is damaged.")
    return arrays


def _check_array_entry(path: Path, name: str, entry: Any, shape: tuple[int, ...]) -> None:
    declared = entry.get("shape") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or entry.get("dtype") not in ("F32", "F64") or declared != list(shape):
        raise ModelError(f"{path.name}: {name} should be floats of shape {shape}, not {declared}; the file is damaged.")


def read_header(path: Path) -> dict[str, Any]:
    """Return the JSON header of a file: eight bytes of length, then that many bytes."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            is_too_long = length > min(_MAX_HEADER_BYTES, size - 8)
            if is_too_long and start.startswith(_PICKLE_PREFIXES):  # a valid length may begin with these bytes
                raise ModelError(
                    f"{path.name} is a pickle or zip, not a model: such files can run code and are refused."
                )
            if len(start) < 8 or size > _MAX_FILE_BYTES:
                raise ModelError(f"{path.name} has {size:,} bytes, which no model has; copy it again.")
            if is_too_long:
                raise ModelError(f"{path.name} is not a model: it claims a header of {length:,} bytes.")
            text = file.read(length)
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({describe_os_error(error)}): check the path.") from error
    header = _parse_json(text, path)
    if not isinstance(header, dict):
        raise ModelError(f"{path.name} is not a safetensors file.")
    return header


def _parse_json(text: str | bytes, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path.name} is not a model: its header cannot be read; copy it again.") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:100]

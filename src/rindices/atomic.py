"""Atomic writing of files: after a crash there is the old file or the new one, never half of it."""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_TEMPORARY_NAME = re.compile(r"\..+\.[0-9a-f]{16}\.part(\.\w+)?")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; the file written there gets its name when the block ends.

    The file is flushed to the disk and then renamed, which replaces an older file. If the block raises, the temporary
    file is deleted and an older file stays. For writers that take a path, such as ``figure.savefig`` or
    ``frame.to_parquet``: the temporary path has the same suffix.

    path: final path. Returns temporary path; it is hidden, and nobody can guess it and put a link there.
    """
    temporary_path = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part{path.suffix}")
    try:
        yield temporary_path
        with temporary_path.open("rb+") as file:
            os.fsync(file.fileno())
        temporary_path.replace(path)
    finally:
        with suppress(OSError):  # after the rename there is none, and an error of the block matters more
            temporary_path.unlink()
    _flush_folder(path.parent)


def delete_temporary_files(folder: Path, name: str = "*") -> None:
    """Delete what killed processes left in a folder; call it only while no other process writes there.

    name: name of the file that was to be written, or a pattern of names.
    """
    for path in folder.glob(f".{name}.*.part*"):
        if _TEMPORARY_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Write bytes to a file, atomically."""
    with atomic_path(path) as temporary_path:
        temporary_path.write_bytes(content)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write plain values as indented JSON, atomically."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def compute_digest(path: Path) -> str:
    """Return a digest of the content of a file, to notice damage."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


def _flush_folder(folder: Path) -> None:
    """Flush a rename to the disk, on systems that can open a folder; Windows cannot, and needs no flush."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

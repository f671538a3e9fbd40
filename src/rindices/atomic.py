"""Atomic writing of files: after a crash there is the old file or the new one, never
half of it.
"""

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


PRIVATE_MODE, PRIVATE_FOLDER_MODE = 0o660, 0o770
"""Permissions of files and folders that hold values of single people: none for others.
The umask takes more away, and so does the folder of a file.
"""


@contextmanager
def atomic_path(path: Path, *, is_private: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the same folder, for writers that take a path.

    The file that is written there is flushed to the disk when the block ends, and then
    renamed, which replaces an older file. If the block raises, the temporary file is
    deleted and the older file stays. The temporary path has the same suffix. It is
    hidden, and nobody can guess it and put a link there.

    Parameters
    ----------
    path : Path
        Final path.
    is_private : bool
        Whether the file holds values of single people. It then gets `PRIVATE_MODE`, and
        no permission that its folder does not have.
    """
    temporary_path = path.with_name(
        f".{path.name}.{secrets.token_hex(8)}.part{path.suffix}"
    )
    try:
        if is_private:
            _create_private(temporary_path)
        yield temporary_path
        with temporary_path.open("rb+") as file:
            os.fsync(file.fileno())
        temporary_path.replace(path)
    finally:
        with suppress(
            OSError
        ):  # after the rename there is none, and an error of the block matters more
            temporary_path.unlink()
    _flush_folder(path.parent)


def _create_private(path: Path) -> None:
    """Create an empty file that others cannot read, and the group only if it can read
    the folder.
    """
    folder = path.parent.stat().st_mode
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    os.close(os.open(path, flags, PRIVATE_MODE & (folder | 0o600)))


def delete_temporary_files(folder: Path, name: str = "*") -> None:
    """Delete what killed processes left in a folder; call it only while no other
    process writes there.

    name: name of the file that was to be written, or a pattern of names.
    """
    for path in folder.glob(f".{name}.*.part*"):
        if _TEMPORARY_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)


def write_atomically(
    path: Path, content: bytes | memoryview, *, is_private: bool = False
) -> None:
    """Write bytes to a file, atomically; is_private as in `atomic_path`."""
    with atomic_path(path, is_private=is_private) as temporary_path:
        temporary_path.write_bytes(content)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write plain values as indented JSON, atomically."""
    write_atomically(
        path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
    )


def compute_digest(path: Path) -> str:
    """Return a digest of the content of a file, to notice damage."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


def _flush_folder(folder: Path) -> None:
    """Flush a rename to the disk, on systems that can open a folder; Windows cannot,
    and needs no flush.
    """
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

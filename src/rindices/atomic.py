"""Files that are whole or not there: a crash leaves the old file or the new one, never a part."""

import json
import os
import socket
from pathlib import Path
from typing import Any


def make_temporary_path(path: Path) -> Path:
    """Return the file beside another that this process writes to before it bears the other's name."""
    return path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.part")


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Write beside the file, flush to the disk, then rename over it."""
    beside = make_temporary_path(path)
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name, too, must be on the disk
    finally:
        os.close(folder)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write plain values, readable and whole or not at all."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())

"""Files that are whole or not there: a crash leaves the old file or the new one, never a part."""

import os
import socket
from pathlib import Path


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Write beside the file, flush to the disk, then rename over it."""
    beside = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.part")
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

"""Exclusive lock on a run folder."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from rindices.errors import StudyError, describe_os_error


class LockHolder(NamedTuple):
    """The process that holds a lock, as its record says; None where that cannot be read."""

    host: str | None = None
    pid: int | None = None
    since: str | None = None


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold a lock while a block runs.

    A lock of the operating system on a hidden file beside ``path`` keeps other processes away and ends with the
    process. ``path`` records the holder. A record that a dead process of this machine left is replaced. Whether a
    process of another machine is alive cannot be known from here, so its record must be deleted by hand.

    Parameters
    ----------
    path : Path
        File of the record; it exists while the lock is held.

    Raises
    ------
    StudyError
        If another process holds the lock, or the folder cannot be written to.
    """
    lock = FileLock(path.with_name(f".{path.name}"), blocking=False)
    try:
        lock.acquire()
    except (Timeout, RuntimeError):  # RuntimeError: another lock of this very thread
        raise StudyError(_format_in_use_message(path)) from None
    except OSError as error:
        raise StudyError(_format_unwritable_message(path, error)) from error
    try:
        _write_record(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        lock.release()


def _write_record(path: Path) -> None:
    """Record this process as the holder; refuse if the record of another machine is there."""
    holder = read_holder(path)
    if holder is not None and holder.host != socket.gethostname():
        raise StudyError(_format_in_use_message(path))
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    record = LockHolder(socket.gethostname(), os.getpid(), since)._asdict()
    try:
        path.unlink(missing_ok=True)
        with path.open("x", encoding="utf-8") as file:  # "x" neither follows a link nor truncates a file
            json.dump(record, file)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise StudyError(_format_unwritable_message(path, error)) from error


def read_holder(path: Path) -> LockHolder | None:
    """Return the holder of a lock; None if there is no record, an empty one if it is not readable or a link."""
    if path.is_symlink():
        return LockHolder()
    try:
        record = json.loads(path.read_text("utf-8"))
        return LockHolder(*(record.get(name) for name in LockHolder._fields))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError):
        return LockHolder()


def _format_in_use_message(path: Path) -> str:
    holder = read_holder(path) or LockHolder()
    process = f"process {holder.pid or '?'} on {holder.host or 'an unknown machine'}"
    since = f"since {holder.since or 'an unknown time'}"
    return f"{path.parent} is in use by {process} {since}: wait for it, or delete {path} if that process is gone."


def _format_unwritable_message(path: Path, error: OSError) -> str:
    return f"cannot write to {path.parent} ({describe_os_error(error)}): make room or give another --out."

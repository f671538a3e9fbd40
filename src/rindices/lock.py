"""Exclusive lock on a folder: one process at a time works in it."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from rindices.atomic import delete_temporary_files, write_atomically
from rindices.errors import RindicesError, StudyError, describe_os_error

LOCK_NAMES = ("lock", ".lock")
"""Files of a lock in its folder: the record of the holder, and the file that the system locks."""


class LockHolder(NamedTuple):
    """The process that holds a lock, as its record says; None where that cannot be read."""

    host: str | None = None
    pid: int | None = None
    since: str | None = None


@contextmanager
def lock_folder(folder: Path, error_type: type[RindicesError] = StudyError) -> Iterator[None]:
    """Hold the lock of a folder while a block runs.

    A lock of the operating system on the file ``.lock`` keeps other processes away and ends with the process. The file
    ``lock`` records the holder. A record that a dead process of this machine left is replaced, whatever its process
    number. Whether a process of another machine is alive cannot be known from here, so its record must be deleted by
    hand. Links are not followed, and no file is truncated. Both files are deleted in the end.

    folder: must exist. Raises RindicesError: of the type ``error_type``, if another process holds the lock, or the
    folder cannot be written to.
    """
    record, system_lock = (folder / name for name in LOCK_NAMES)
    if links := [path for path in (record, system_lock) if path.is_symlink()]:
        raise error_type(f"{links[0]} is a link, which a lock does not follow: delete the link or give another --out.")
    lock = FileLock(system_lock, blocking=False)
    try:
        lock.acquire()
    except (Timeout, RuntimeError):  # RuntimeError: another lock of this very thread
        raise error_type(f"{_describe_use(record)}: wait for it, or end it.") from None
    except OSError as error:
        raise error_type(_format_unwritable_message(system_lock, error)) from error
    try:
        _write_record(record, error_type)
        try:
            yield
        finally:
            _delete_file(record)
    finally:
        _delete_lock_file(system_lock)
        lock.release()


def _write_record(path: Path, error_type: type[RindicesError]) -> None:
    """Record this process as the holder; refuse if the record of another machine is there."""
    holder = read_holder(path)
    if holder is not None and holder.host != socket.gethostname():
        raise error_type(f"{_describe_use(path)}: wait for it, or delete {path} if that process is gone.")
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    record = LockHolder(socket.gethostname(), os.getpid(), since)._asdict()
    try:
        delete_temporary_files(path.parent, path.name)
        write_atomically(path, json.dumps(record).encode())  # a record is never half written
    except OSError as error:
        raise error_type(_format_unwritable_message(path, error)) from error


def read_holder(path: Path) -> LockHolder | None:
    """Return the holder of a lock; None if there is no record, an empty one if it is not readable or not a file."""
    if path.exists() and not path.is_file():  # reading a pipe would wait for its other end
        return LockHolder()
    try:
        record = json.loads(path.read_text("utf-8"))
        return LockHolder(*(record.get(name) for name in LockHolder._fields))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError):
        return LockHolder()


def _delete_file(path: Path) -> None:
    """Delete a record; one that cannot be deleted is of a dead process soon, and replaced by the next one."""
    with suppress(OSError):
        path.unlink()


def _delete_lock_file(path: Path) -> None:
    """Delete the file of the lock while it is held, unless it has content and so is not of this program.

    Another process that has opened the file but not locked it sees that it is gone, and takes a new one. Windows
    deletes no open file; the lock itself does it there.
    """
    with suppress(OSError):
        if path.stat().st_size == 0:
            path.unlink()


def _describe_use(path: Path) -> str:
    """Return who works in the folder of a record."""
    holder = read_holder(path) or LockHolder()
    process = f"process {holder.pid or '?'} on {holder.host or 'an unknown machine'}"
    since = f"since {holder.since or 'an unknown time'}"
    return f"{path.parent} is in use by {process} {since}"


def _format_unwritable_message(path: Path, error: OSError) -> str:
    return f"cannot write to {path.parent} ({describe_os_error(error)}): make room or give another --out."

"""Exclusive lock on a folder: one process at a time works in it."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from rindices.atomic import delete_temporary_files, write_atomically
from rindices.errors import RindicesError, StudyError, explain_write_errors

LOCK_NAMES = ("lock", ".lock")
"""Files of a lock in its folder: the record of the holder, and the file that the system
locks.
"""
UNKNOWN = "another process"
"""A holder without a readable record."""


@contextmanager
def lock_folder(
    folder: Path, error_type: type[RindicesError] = StudyError
) -> Iterator[None]:
    """Hold the lock of a folder while a block runs.

    A lock of the operating system on the file ``.lock`` keeps other processes away and
    ends with the process. The file ``lock`` says in words who holds it. What a dead
    process of this machine left there is replaced. Whether a process of another machine
    is alive cannot be known from here, so its record must be deleted by hand. Links are
    not followed, and both files are deleted in the end.

    folder: must exist. Raises RindicesError: of the type ``error_type``, if another
    process holds the lock, or the folder cannot be written to.
    """
    record, system_lock = (folder / name for name in LOCK_NAMES)
    if links := [path for path in (record, system_lock) if path.is_symlink()]:
        raise error_type(
            f"{links[0]} is a link, which a lock does not follow: delete the link or give another --out."
        )
    lock, host = FileLock(system_lock, blocking=False), socket.gethostname()
    with explain_write_errors(
        f"to {folder}", error_type, "make room or give another --out"
    ):
        try:
            lock.acquire()
        except (
            Timeout,
            RuntimeError,
        ):  # RuntimeError: another lock of this very thread
            raise error_type(
                f"{folder} is in use by {_read_holder(record) or UNKNOWN}: wait for it, or end it."
            ) from None
    try:
        holder = _read_holder(record)
        if holder and f" on {host} since " not in holder:
            cure = f"wait for it, or delete {record} if that process is gone"
            raise error_type(f"{folder} is in use by {holder}: {cure}.")
        with explain_write_errors(
            f"to {folder}", error_type, "make room or give another --out"
        ):
            delete_temporary_files(folder, record.name)
            since = datetime.now().astimezone().isoformat(timespec="seconds")
            write_atomically(
                record, f"process {os.getpid()} on {host} since {since}".encode()
            )
        try:
            yield
        finally:
            with suppress(
                OSError
            ):  # one that cannot be deleted is of a dead process soon
                record.unlink()
    finally:
        with suppress(
            OSError
            # while it is held: others who have opened it see that it is gone, and take
            # a new one
        ):
            system_lock.unlink()
        lock.release()


def _read_holder(record: Path) -> str:
    """Return who holds a lock, in words; '' if there is no record."""
    if not record.is_file():  # reading a pipe would wait for its other end
        return UNKNOWN if record.exists() else ""
    try:
        return " ".join(record.read_text("utf-8").split())[:200] or UNKNOWN
    except (OSError, ValueError):
        return UNKNOWN

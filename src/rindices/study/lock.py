"""One client a run folder: a file that says who holds it."""

import fcntl
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from rindices.errors import StudyError, describe_os_error


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold a lock file while the block runs.

    A lock that a dead process of this machine left is taken over. Whether a process of another machine is alive cannot
    be known from here, so its lock stands until someone deletes it.
    """
    _acquire_lock(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _acquire_lock(path: Path) -> None:
    with _guard_lock_file(path):
        holder = _read_holder(path)
        if holder is not None and _is_holder_dead(holder):
            path.unlink(missing_ok=True)
        try:
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            raise StudyError(_format_in_use_message(path, _read_holder(path) or {})) from None
        except OSError as error:
            raise StudyError(
                f"cannot write to {path.parent} ({describe_os_error(error)}): make room or give another --out."
            ) from error
        try:
            with os.fdopen(file, "w", encoding="utf-8") as opened:
                json.dump(_describe_process(), opened)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise StudyError(
                f"cannot write to {path.parent} ({describe_os_error(error)}): make room and run again."
            ) from error


def _describe_process() -> dict[str, Any]:
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    return {"host": socket.gethostname(), "pid": os.getpid(), "born": _read_start_time(os.getpid()), "since": since}


def _read_holder(path: Path) -> dict[str, Any] | None:
    """Return who holds a lock; an empty record where that cannot be read."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_holder_dead(holder: dict[str, Any]) -> bool:
    """Whether the holder was a process of this machine that is gone, or whose number another one has now."""
    pid = holder.get("pid")
    if holder.get("host") != socket.gethostname() or not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return bool(holder.get("born") != _read_start_time(pid))


def _read_start_time(pid: int) -> str:
    """Return when a process began, as the system tells it; empty where it does not."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path(f'/proc/{pid}/stat').read_text('utf-8').rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return ""


def _format_in_use_message(path: Path, holder: dict[str, Any]) -> str:
    who = f"process {holder.get('pid', '?')} on {holder.get('host', 'an unknown machine')}"
    since = f"since {holder.get('since', 'an unknown time')}"
    return f"{path.parent} is in use by {who} {since}: wait for it, or delete {path} if that process is gone."


@contextmanager
def _guard_lock_file(path: Path) -> Iterator[None]:
    """Let one process of this machine at a time look at a lock and take it over."""
    name = sha256(str(path.absolute()).encode()).hexdigest()[:16]
    with (Path(tempfile.gettempdir()) / f"rindices-{os.getuid()}-{name}.guard").open("w") as guard:
        with suppress(OSError):
            fcntl.flock(guard, fcntl.LOCK_EX)
        yield

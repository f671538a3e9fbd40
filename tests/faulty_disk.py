"""A disk on which one operation fails: files below a folder are opened, read and
written by way of Python.
"""

import builtins
import errno
import io
import os
import signal
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

EFFECTS = {
    "open": ("EIO", "ENOSPC", "EINTR", "kill"),
    "read": ("EIO", "EINTR", "short", "kill"),
    "write": ("ENOSPC", "EIO", "EINTR", "short", "kill"),
    "sync": ("EIO", "ENOSPC", "EINTR", "kill"),
    "rename": ("EIO", "ENOSPC", "EINTR", "kill"),
    "delete": ("EIO", "kill"),
    "mkdir": ("ENOSPC", "EIO", "kill"),
}
"""What can happen at an operation: an error, fewer bytes than asked for, or the end of
the process.
"""
_open = io.open


class Operation(NamedTuple):
    """An operation on a file."""

    kind: str
    path: str


class FaultyDisk:
    """Counts the operations on files below a folder, and lets one of them fail."""

    def __init__(self, root: Path, number: int = -1, effect: str = "") -> None:
        self.root, self.number, self.effect = f"{root}{os.sep}", number, effect
        self.operations: list[Operation] = []

    def meet(self, kind: str, path: object) -> str:
        """Count an operation; return the effect if it is its turn, and raise it if it
        is an error.
        """
        absolute = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]
        if not absolute.startswith(self.root):
            return ""
        self.operations.append(Operation(kind, absolute.removeprefix(self.root)))
        if len(self.operations) - 1 != self.number:
            return ""
        if self.effect == "kill" and kind != "write":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.effect in errno.errorcode.values():
            code = getattr(errno, self.effect)
            raise OSError(code, os.strerror(code))
        return self.effect

    def install(self) -> None:
        """Replace the functions that open, read, write, sync, rename and delete."""
        self._replace(os, "replace", "rename", 1)
        self._replace(os, "rename", "rename", 1)
        self._replace(os, "unlink", "delete")
        self._replace(os, "remove", "delete")
        self._replace(os, "rmdir", "delete")
        self._replace(os, "mkdir", "mkdir")
        self._replace(os, "open", "open")

        def fsync(
            descriptor: int,
        ) -> None:  # nothing here cuts the power, so the disk need not be waited for
            self.meet("sync", os.readlink(f"/proc/self/fd/{descriptor}"))

        os.fsync = fsync
        io.open = builtins.open = self.open  # type: ignore[assignment]
        pq.ParquetWriter = FaultyParquetWriter

    def _replace(self, module: Any, name: str, kind: str, argument: int = 0) -> None:
        original = getattr(module, name)

        @wraps(original)
        def function(*arguments: Any, **options: Any) -> Any:
            if not any(
                options.get(option) is not None for option in ("dir_fd", "src_dir_fd")
            ):
                self.meet(kind, arguments[argument])
            return original(*arguments, **options)

        setattr(module, name, function)

    def open(  # the parameters of the function that it replaces
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """Open a file as ``open`` does, with reading and writing that can fail."""
        if isinstance(file, int) or not os.path.abspath(os.fsdecode(file)).startswith(
            self.root
        ):
            return _open(
                file, mode, buffering, encoding, errors, newline, closefd, opener
            )
        self.meet("open", file)
        raw = FaultyFile(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        raw.disk = self
        if buffering == 0:
            return raw
        buffered = (
            io.BufferedRandom
            if "+" in mode
            else io.BufferedReader
            if "r" in mode
            else io.BufferedWriter
        )
        stream = buffered(raw)
        if "b" in mode:
            return stream
        text = io.TextIOWrapper(stream, encoding, errors, newline)
        text.mode = mode  # type: ignore[misc]
        return text


class FaultyFile(io.FileIO):
    """A file whose reading and writing can fail."""

    disk: FaultyDisk

    def write(self, content: Any) -> int:
        effect = self.disk.meet("write", self.name)
        if not effect:
            return super().write(content)
        half = memoryview(content).cast("B")
        written = super().write(half[: max(1, len(half) // 2)])
        if effect == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    def readinto(self, buffer: Any) -> int:
        effect = self.disk.meet("read", self.name)
        view = memoryview(buffer).cast("B")
        return super().readinto(view[: max(1, len(view) // 1000)] if effect else view)

    def read(self, size: int = -1) -> bytes:
        effect = self.disk.meet("read", self.name)
        return super().read(max(1, size // 2) if effect and size > 0 else size)

    def readall(self) -> bytes:
        self.disk.meet("read", self.name)
        return super().readall()


class FaultyParquetWriter(pq.ParquetWriter):  # type: ignore[misc]
    """A writer that opens its file in Python, where it can fail."""

    def __init__(self, path: Path, *arguments: Any, **options: Any) -> None:
        self.python_file = io.open(path, "wb")  # noqa: SIM115, UP020 (closed below; the function that was replaced)
        super().__init__(self.python_file, *arguments, **options)

    def close(self) -> None:
        super().close()
        self.python_file.close()

"""Files of a folder that others write to, too: below it no link is followed, for reading or writing.

Folders are opened one after the other, each relative to the one above and never through a link, so that nobody can put
a link in the place of a folder between a check and its use. Systems without such calls (Windows) compare the path with
the one that it leads to. A file is written under a random name and then renamed: this replaces a link, also a hard one,
and leaves alone what it leads to.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rindices.federated.exceptions import ExchangeError

_OPENS_RELATIVE = os.open in os.supports_dir_fd
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))  # a pipe must not block
_LINK_ERRORS = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENXIO)


@dataclass(frozen=True)
class SharedFolder:
    """A folder within an exchange folder.

    root: the exchange folder; it may be a link itself; name: names of folders below it, joined by slashes; empty for
    the exchange folder itself.
    """

    root: Path
    name: str = ""

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """Return the content of a file; None if there is none.

        Raises ExchangeError: if it is a link, no file, or too large.
        """
        with suppress(FileNotFoundError), self._open(name) as (prefix, folder):
            descriptor = os.open(prefix + name, os.O_RDONLY | _FLAGS, dir_fd=folder)
            with open(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise self._make_error(name, "is no file")
                if status.st_size > max_bytes:
                    raise self._make_error(name, f"has {status.st_size:,} bytes, which no message has")
                return file.read(max_bytes)
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file, atomically; folders are made where they lack."""
        temporary = f".{name}.{secrets.token_hex(8)}.part"
        with self._open(name, create=True) as (prefix, folder):
            descriptor = os.open(
                prefix + temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666, dir_fd=folder
            )
            try:
                with open(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(descriptor)
                os.replace(prefix + temporary, prefix + name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with suppress(OSError):  # after the rename there is none
                    os.unlink(prefix + temporary, dir_fd=folder)
            if folder is not None:
                with suppress(OSError):
                    os.fsync(folder)

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file, or a link itself, if there is one."""
        with suppress(FileNotFoundError), self._open() as (prefix, folder):
            os.replace(prefix + name, prefix + new_name, src_dir_fd=folder, dst_dir_fd=folder)

    def list_names(self) -> list[str]:
        """Return the names of the files, in order."""
        with suppress(FileNotFoundError), self._open() as (prefix, folder):
            return sorted(os.listdir(prefix if folder is None else folder))
        return []

    @contextmanager
    def _open(self, name: str = "", create: bool = False) -> Iterator[tuple[str, int | None]]:
        """Yield what stands before the name of a file, and the descriptor of the folder where systems have one."""
        parts = self.name.split("/") if self.name else []
        if {"", ".", ".."} & set(parts):
            raise ExchangeError(f"{self.name} is no folder of an exchange: name sites by letters and digits.")
        if create:
            self.root.mkdir(parents=True, exist_ok=True)
        try:
            if not _OPENS_RELATIVE:
                yield self._check_path(parts, name, create), None
                return
            folder = os.open(self.root, os.O_RDONLY)
            try:
                for part in parts:
                    if create:
                        with suppress(FileExistsError):
                            os.mkdir(part, dir_fd=folder)
                    inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _FLAGS, dir_fd=folder)
                    os.close(folder)
                    folder = inner
                yield "", folder
            finally:
                os.close(folder)
        except OSError as error:
            if error.errno in _LINK_ERRORS:
                raise self._make_error(name, "is a link or no folder") from error
            raise

    def _check_path(self, parts: list[str], name: str, create: bool) -> str:
        """Return the path of the folder with a separator, if neither it nor the file is a link."""
        path = self.root.resolve().joinpath(*parts)
        if (path / name).resolve() != path / name:
            raise self._make_error(name, "is a link")
        if create:
            path.mkdir(parents=True, exist_ok=True)
        return f"{path}{os.sep}"

    def _make_error(self, name: str, fault: str) -> ExchangeError:
        path = "/".join(part for part in (self.name, name) if part)
        return ExchangeError(f"{path} {fault}: remove it, and look for who writes to the exchange folder.")

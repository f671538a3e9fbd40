"""Folder of the parts of a large result: each part has a record, and a lock keeps other runs away.

A part is a file. Its record holds the input that it was made from, its size and its digest, and is written last. Thus a
part that fits its record is complete, and a run that was interrupted goes on with the parts that are missing.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rindices.atomic import compute_digest, delete_temporary_files, write_atomically
from rindices.errors import ModelError, Problem
from rindices.lock import LOCK_NAMES, lock_folder
from rindices.model.unusual import UnusualCount
from rindices.tables.chunks import SCHEMA_ROWS, ChunkSize, TableChunk
from rindices.tables.io.lines import explain_read_errors
from rindices.tables.validate import TableRequest

RECORDS_FOLDER = ".rindices"


@dataclass(frozen=True)
class StreamJob:
    """What is done to each chunk.

    request: with the path of the table as its volumes; folder: for the parts; suffix: of the parts: .csv, .tsv or
    .parquet; schema_rows: rows that decide what the columns of a file are.
    """

    model: Path
    request: TableRequest
    folder: Path
    suffix: str
    size: ChunkSize
    schema_rows: int = SCHEMA_ROWS

    def serialise_identity(self) -> bytes:
        """Return what all parts in a folder must have in common, as JSON."""
        request = {name: str(value) for name, value in asdict(self.request).items() if name != "volumes"}
        people = self.request.participants
        participants = stamp_file(people) if isinstance(people, Path) else None
        identity = {
            "model": hashlib.sha256(self.model.read_bytes()).hexdigest(),
            "asked": request,
            "participants": participants,
            "size": list(self.size),
            "suffix": self.suffix,
        }
        return json.dumps(identity, sort_keys=True).encode()

    def digest(self) -> str:
        """Return a short digest of `serialise_identity` and of the path of the table."""
        table = str([path.absolute() for path in self.request.volumes if isinstance(path, Path)])
        return hashlib.sha256(self.serialise_identity() + table.encode(errors="surrogateescape")).hexdigest()[:16]

    def part_path(self, name: str) -> Path:
        """Return the path of a part."""
        return self.folder / f"{name}{self.suffix}"

    def record_path(self, name: str, suffix: str = ".json") -> Path:
        """Return the path of the record of a part, or of the hashes of its rows (``.npy``)."""
        return self.folder / RECORDS_FOLDER / f"{name}{suffix}"


class PartRecord(NamedTuple):
    """Record of a finished part: its input, its size and digest, its columns and what was counted."""

    name: str
    stamp: list[str | int]
    size: int
    digest: str
    hashes_digest: str
    columns: list[str]
    counted: UnusualCount
    problems: list[Problem]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        problems = [problem.as_record() for problem in self.problems]
        return self._asdict() | {"counted": list(self.counted), "problems": problems}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "PartRecord":
        """Build from `as_dict`."""
        people, novel, causes = values["counted"]
        problems = [Problem.from_record(record) for record in values["problems"]]
        return cls(**values | {"counted": UnusualCount(people, novel, Counter(causes)), "problems": problems})


@contextmanager
def lock_parts(job: StreamJob, is_temporary: bool) -> Iterator[None]:
    """Lock the parts while a block runs, and prepare their folder; delete it in the end where it ``is_temporary``.

    A temporary folder is named by the model, the table and the options. Thus even a worker that outlives its killed run
    cannot write into the parts of another one.
    """
    locked_folder = job.folder.parent if is_temporary else job.folder / RECORDS_FOLDER
    _refuse_links([locked_folder, job.folder] if is_temporary else [locked_folder])
    if not is_temporary:
        _refuse_other_content(job)  # before anything is written there
    locked_folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(locked_folder, ModelError):
        if is_temporary:
            _delete_other_parts(job)
        else:
            _refuse_other_content(job)
        record = job.record_path("run")
        record.parent.mkdir(parents=True, exist_ok=True)
        for folder in (job.folder, record.parent):
            delete_temporary_files(folder)
        write_atomically(record, job.serialise_identity())
        yield
        if is_temporary:
            shutil.rmtree(job.folder)
    if is_temporary:
        with suppress(OSError):  # another run may have begun there
            locked_folder.rmdir()


def _refuse_links(folders: list[Path]) -> None:
    """Refuse links in place of hidden folders: they lead to files of others, which would be deleted or mixed."""
    for folder in folders:
        if folder.is_symlink():
            raise ModelError(f"{folder} is a link in place of a folder: delete the link or give another --out.")


def _delete_other_parts(job: StreamJob) -> None:
    """Delete the parts that earlier runs with another model or other options left."""
    for path in job.folder.parent.iterdir():
        if path.is_dir() and path != job.folder:
            shutil.rmtree(path)
        elif path != job.folder and path.name not in LOCK_NAMES:
            path.unlink()


def _refuse_other_content(job: StreamJob) -> None:
    """Refuse a folder with files of others, or with parts of another model or other options."""
    record = job.record_path("run")
    if record.is_file():
        is_other = record.read_bytes() != job.serialise_identity()
    else:
        is_other = job.folder.is_dir() and any(path.name != RECORDS_FOLDER for path in job.folder.iterdir())
    if is_other:
        raise ModelError(
            f"{job.folder} holds other files, or results of another model or other options: give another folder."
        )


def load_finished_part(job: StreamJob, chunk: TableChunk, name: str) -> PartRecord | None:
    """Return the part that an earlier run finished from the same input, if there is one."""
    try:
        part = PartRecord.from_dict(json.loads(job.record_path(name).read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if part.stamp != stamp_file(chunk.path):
        return None
    path, hashes = job.part_path(name), job.record_path(name, ".npy")
    try:
        is_complete = path.stat().st_size == part.size and compute_digest(path) == part.digest
        return part if is_complete and compute_digest(hashes) == part.hashes_digest else None
    except OSError:
        return None


def stamp_file(path: Path) -> list[str | int]:
    """Return what changes when a file is written again; raises `TableError` if it is gone."""
    with explain_read_errors(path):
        status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]

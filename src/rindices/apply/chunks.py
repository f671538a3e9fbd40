"""R-indices of any number of people: chunks of a table in, one file per chunk out, on
all cores, resumable.

Each chunk becomes one part, a file of rows, in a hidden folder beside the output. The
record of a part holds the input that it was made from and its digest, and is written
last. Thus a part that fits its record is complete, and a run that was interrupted goes
on with the parts that are missing. In the end the parts are joined to one file, or
their folder gets the name of the output. Each chunk is a task of an engine
(`rindices.engine`): workers share nothing, and each reads, infers and writes. A lock
keeps other runs away.
"""

import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import TypeAdapter

from rindices.apply.tables import join_parts, open_part_file
from rindices.atomic import (
    PRIVATE_FOLDER_MODE,
    atomic_path,
    compute_digest,
    delete_temporary_files,
)
from rindices.engine.local import LocalEngine
from rindices.engine.tasks import Engine, Task, run
from rindices.errors import (
    ModelError,
    Problem,
    ProblemCode,
    RindicesError,
    Severity,
    TableError,
    explain_write_errors,
    format_count,
    join_names,
    parse_codes,
)
from rindices.lock import LOCK_NAMES, lock_folder
from rindices.model.fitted import FittedModel, load
from rindices.model.unusual import UnusualCount, make_table_warning
from rindices.tables.chunks import (
    ChunkSize,
    OpenedTable,
    TableChunk,
    merge_problems,
    split_into_chunks,
)
from rindices.tables.cohort import ID, SESSION
from rindices.tables.sources.frames import list_table_files
from rindices.tables.sources.lines import explain_read_errors
from rindices.tables.validate import TableRequest
from rindices.threads import limit_blas_threads
from rindices.wording import FEATURE_UNIT

RECORDS_FOLDER = ".rindices"
_MAX_OFFENDERS = 100
_MAX_REFUSED = 10_000  # offenders in refused chunks after which the others are not read
_MAX_HASHES_IN_MEMORY = 4_000_000
_NOTES_ABOUT_ROWS = parse_codes(
    "encoding_guessed missing_values no_line_end zero_volumes"
)
_LOST_WORKERS = (
    "the system kills processes when memory runs out. Finished parts are kept: run the same command again with fewer "
    "--workers."
)
Hashes = NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class StreamJob:
    """What is done to each chunk.

    Attributes
    ----------
    model : Path
    request : TableRequest
        With the path of the table as its volumes.
    folder : Path
        For the parts.
    suffix : str
        Of the parts: .csv, .tsv or .parquet.
    size : ChunkSize
    centiles : bool
        Whether R-indices get their centiles among healthy people.
    """

    model: Path
    request: TableRequest
    folder: Path
    suffix: str
    size: ChunkSize
    centiles: bool = False

    def digest(self) -> str:
        """Return a short digest of all that parts depend on: model, options,
        participants and path of the table.
        """
        people = self.request.participants
        inputs = {
            name: str(value)
            for name, value in vars(self.request).items()
            if name != "volumes"
        }
        inputs["model"] = hashlib.sha256(self.model.read_bytes()).hexdigest()
        inputs["table"] = str(
            [path.absolute() for path in self.request.volumes if isinstance(path, Path)]
        )
        inputs["stamp"] = str(_stamp_file(people) if isinstance(people, Path) else None)
        inputs |= {"size": str(self.size), "suffix": self.suffix}
        inputs["centiles"] = str(self.centiles)
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[
            :16
        ]

    def make_absolute(self) -> "StreamJob":
        """Return the job for workers that run in other folders."""
        (table,), people = self.request.volumes, self.request.participants
        assert isinstance(table, Path)
        request = replace(
            self.request,
            volumes=(table.absolute(),),
            participants=people.absolute() if isinstance(people, Path) else people,
        )
        return replace(
            self,
            model=self.model.absolute(),
            folder=self.folder.absolute(),
            request=request,
        )

    def part_path(self, name: str) -> Path:
        """Return the path of a part."""
        return self.folder / f"{name}{self.suffix}"

    def record_path(self, name: str) -> Path:
        """Return the path of the record of a part."""
        return self.folder / RECORDS_FOLDER / f"{name}.npz"


@dataclass(frozen=True, kw_only=True)
class PartRecord:
    """Record of a finished part: its input, its digest, its columns and what was
    counted; its file also has hashes.

    Attributes
    ----------
    stamp : list of str or int
    digest : str
    columns : list of str
    counted : UnusualCount
    problems : list of Problem
    """

    stamp: list[str | int]
    digest: str
    columns: list[str]
    counted: UnusualCount
    problems: list[Problem]


_PART_RECORDS = TypeAdapter(PartRecord)


@dataclass(frozen=True, kw_only=True)
class StreamResult:
    """Outcome of applying a model to a table.

    Attributes
    ----------
    counted : UnusualCount
        Of all rows, also those of earlier runs.
    people : int
        Fewer than rows where people have several visits.
    problems : list of Problem
    parts, resumed : int
        Number of parts, and how many of them an earlier run had finished.
    rows_per_second : float
        Of this run. 0 if nothing was left to do.
    """

    counted: UnusualCount
    people: int
    problems: list[Problem]
    parts: int
    resumed: int
    rows_per_second: float


def apply_stream(
    model: Path,
    request: TableRequest,
    out: Path,
    workers: int = 1,
    size: ChunkSize | None = None,
    on_progress: Callable[[int], None] = lambda people: None,
    scale: str = "",
    centiles: bool = False,
    compared_with: str = "the training people",
    engine: Engine | None = None,
) -> StreamResult:
    """Write the R-indices of all people of a table, in the order of its rows.

    Parameters
    ----------
    request : TableRequest
        With one table: a file, or a folder of files that together are one table.
    out : Path
        A .csv, .tsv or .parquet file, or a folder, which gets one parquet file per
        chunk.
    workers : int
        Processes; -1 for all cores. Results depend neither on it nor on the size of
        chunks.
    on_progress : callable
        Gets the number of people that were finished in this run.
    scale : str
        Sentence on the scale of the model, for the data dictionary.
    centiles : bool
        Whether to add the centile of each R-index among healthy people.
    compared_with : str
        Whom the model compares new people with.
    engine : Engine, optional
        Where chunks are computed, for instance a
        `rindices.engine.cluster.DaskEngine`. Its machines must see all files under the
        same paths. Left out, processes of this machine.

    Raises
    ------
    TableError
        If the table cannot be read, or an id occurs more than once.
    ModelError
        If the model does not fit the table, or the results cannot be written.
    """
    (table,) = request.volumes
    assert isinstance(table, Path)
    unit = FEATURE_UNIT if request.options.measure == "any" else ""
    to_file = out.suffix in (".csv", ".tsv", ".parquet")
    folder = out.with_name(f".{out.name}.parts")
    job = StreamJob(
        model=model,
        request=request,
        folder=folder,
        suffix=out.suffix if to_file else ".parquet",
        size=size or ChunkSize(),
        centiles=centiles,
    )
    with explain_write_errors(str(out), ModelError, "give another place with --out"):
        job = replace(job, folder=folder / job.digest())
        with _lock_parts(job):
            if not to_file:
                _refuse_filled_folder(out)
            start = time.perf_counter()
            chunks = _list_chunks(table, job.size)
            engine = engine or LocalEngine(workers)
            parts, n_resumed, rows = _run_chunks(job, chunks, engine, on_progress)
            rate = rows / max(time.perf_counter() - start, 1e-9)
            people = _check_parts(job, chunks, parts)
            counted = reduce(UnusualCount.merged_with, [part.counted for part in parts])
            if to_file:
                paths, columns = [*map(job.part_path, chunks)], parts[0].columns
                join_parts(paths, out, columns, counted.people, unit, scale)
            else:
                _publish_folder(job.folder, out)
    problems = merge_problems([problem for part in parts for problem in part.problems])
    return StreamResult(
        counted=counted,
        people=people,
        problems=[*make_table_warning(counted, unit, compared_with), *problems],
        parts=len(parts),
        resumed=n_resumed,
        rows_per_second=rate,
    )


@contextmanager
def _lock_parts(job: StreamJob) -> Iterator[None]:
    """Lock the parts while a block runs, and prepare their folder; delete it in the
    end.

    The folder is named by the model, the table and the options. Thus even a worker that
    outlives its killed run cannot write into the parts of another one. Parts that such
    runs have left are deleted.
    """
    locked_folder = job.folder.parent
    for folder in (locked_folder, job.folder):
        if (
            folder.is_symlink()
        ):  # it leads to files of others, which would be deleted or mixed
            raise ModelError(
                f"{folder} is a link in place of a folder: delete the link or give another --out."
            )
    records = job.folder / RECORDS_FOLDER
    locked_folder.mkdir(PRIVATE_FOLDER_MODE, parents=True, exist_ok=True)
    try:
        with lock_folder(locked_folder, ModelError):
            for path in locked_folder.iterdir():
                if path.is_dir() and path != job.folder:
                    shutil.rmtree(path)
                elif path != job.folder and path.name not in LOCK_NAMES:
                    path.unlink()
            records.mkdir(parents=True, exist_ok=True)
            for folder in (job.folder, records):
                delete_temporary_files(folder)
            try:
                yield
                shutil.rmtree(job.folder, ignore_errors=True)
            finally:
                with suppress(OSError):  # finished parts of a run that has failed stay
                    records.rmdir()
                    job.folder.rmdir()
    finally:
        with suppress(OSError):  # another run may have begun there
            locked_folder.rmdir()


def _list_chunks(table: Path, size: ChunkSize) -> dict[str, TableChunk]:
    """Return the chunks of all files in their order, by the names of their parts."""
    files = list_table_files(table) or []
    base = table if table.is_dir() else table.parent
    names = ["__".join(file.relative_to(base).parts) for file in files]
    stems = [
        name.removesuffix(file.suffix) for name, file in zip(names, files, strict=True)
    ]
    names = stems if len(set(stems)) == len(stems) else names
    chunks = {
        f"{name}-{chunk.number:05d}": chunk
        for file, name in zip(files, names, strict=True)
        for chunk in split_into_chunks(file, size)
    }
    if not chunks:
        raise TableError(
            f"{table} has no people in it: give the file or the folder of the table."
        )
    return chunks


def _run_chunks(
    job: StreamJob,
    chunks: Mapping[str, TableChunk],
    engine: Engine,
    on_progress: Callable[[int], None],
) -> tuple[list[PartRecord], int, int]:
    """Make the parts that are missing; return all parts in order, how many were there,
    and the people of this run.
    """
    parts: dict[str, PartRecord] = {
        name: part
        for name, chunk in chunks.items()
        if (part := _load_finished_part(job, chunk, name))
    }
    n_resumed = len(parts)
    refused: dict[str, RindicesError] = {}
    people = n_offenders = 0
    for name, outcome in _make_parts(job, chunks, parts, engine):
        if isinstance(outcome, RindicesError):
            refused[name] = outcome
            n_offenders += sum(len(each.offenders) for each in outcome.problems)
            if n_offenders > _MAX_REFUSED:
                break
            continue
        parts[name] = outcome
        people += outcome.counted.people
        on_progress(people)
    if errors := [refused[name] for name in chunks if name in refused]:
        raise type(errors[0])(
            merge_problems([problem for error in errors for problem in error.problems])
        )
    return [parts[name] for name in chunks], n_resumed, people


def _make_parts(
    job: StreamJob,
    chunks: Mapping[str, TableChunk],
    finished: Container[str],
    engine: Engine,
) -> Iterator[tuple[str, PartRecord | RindicesError]]:
    """Yield the other parts as they are made."""
    is_here = isinstance(engine, LocalEngine)
    there = job if is_here else job.make_absolute()
    tasks = [
        Task(
            key=f"{job.folder.name}-{name}",
            function=try_part,
            arguments=(there, chunk if is_here else chunk.make_absolute(), name),
        )
        for name, chunk in chunks.items()
        if name not in finished
    ]
    for each in run(engine, tasks, there.folder.parent):
        if each.lost:
            raise ModelError(
                f"part {each.task.arguments[-1]} was not made: {each.lost}; {_LOST_WORKERS}"
            )
        yield each.get_result()


def _load_finished_part(
    job: StreamJob, chunk: TableChunk, name: str
) -> PartRecord | None:
    """Return the part that an earlier run finished from the same input, if there is
    one.
    """
    stamp = _stamp_file(chunk.path)
    try:
        with job.record_path(name).open("rb") as stream, np.load(stream) as file:
            arrays = dict(file)  # all of them, which compares their checksums
        part = _PART_RECORDS.validate_json(arrays["record"].tobytes())
        digest = compute_digest(job.part_path(name))
    except (OSError, ValueError, EOFError, BadZipFile):
        return None
    return part if part.stamp == stamp and part.digest == digest else None


@limit_blas_threads()
def try_part(
    job: StreamJob, chunk: TableChunk, name: str
) -> tuple[str, PartRecord | RindicesError]:
    """Make a part; errors in its rows are returned, so that those of all chunks are
    reported at once.
    """
    _open_table(job, chunk.path)  # an error in the first rows stops all chunks
    try:
        return name, make_part(job, chunk, name)
    except RindicesError as error:
        return name, error


def _refuse_filled_folder(out: Path) -> None:
    """Refuse a folder with files."""
    if out.is_dir() and any(out.iterdir()):
        raise ModelError(
            f"{out} is not empty, and finished results are not replaced: give another folder."
        )


def _publish_folder(parts: Path, out: Path) -> None:
    """Give a folder of finished parts its name, without their records."""
    if out.is_dir():
        # refuses a folder that has got other files meanwhile, and the parts stay usable
        out.rmdir()
    shutil.rmtree(parts / RECORDS_FOLDER)
    parts.rename(out)


def _shorten_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Return what is said of rows, with a few of the people concerned."""
    return [
        replace(
            problem,
            offenders=problem.offenders[:_MAX_OFFENDERS],
            listing=problem.listing or join_names(problem.offenders),
        )
        for problem in problems
        if problem.severity is Severity.WARNING or problem.code in _NOTES_ABOUT_ROWS
    ]


def make_part(job: StreamJob, chunk: TableChunk, name: str) -> PartRecord:
    """Read a chunk, infer, write the part, and then its record; raises all errors of
    the chunk together.
    """
    stamp = _stamp_file(chunk.path)
    model, opened, table_problems = _open_table(job, chunk.path)
    counted, columns = UnusualCount(0, 0, Counter()), list[str]()
    keys, people, errors = [], [], []
    problems = list(table_problems) if chunk.number == 0 else []
    with open_part_file(job.part_path(name)) as append_rows:
        for validation in opened.validate_chunk(chunk, job.size.rows):
            try:
                result = model.assess_chunk(
                    validation.cohort_or_raise(),
                    job.request.options.on_outlier,
                    job.centiles,
                )
            except RindicesError as error:
                errors.append(error)
                continue
            append_rows(result.table)
            columns = list(result.table.columns)
            counted = counted.merged_with(result.counted)
            keys.append(_hash_texts(validation.keys))
            people.append(_hash_texts(result.table[ID].unique()))
            if not opened.is_complete:
                found = (*validation.problems, *result.problems)
                problems += _shorten_problems(found)
            del validation, result  # their memory is for the next rows
        if errors:
            raise type(errors[0])(
                problem for error in errors for problem in error.problems
            )
    part = PartRecord(
        stamp=stamp,
        digest=compute_digest(job.part_path(name)),
        columns=columns,
        counted=counted,
        problems=problems,
    )
    record = np.frombuffer(_PART_RECORDS.dump_json(part), np.uint8)
    with atomic_path(job.record_path(name)) as temporary_path:
        np.savez(
            temporary_path,
            record=record,
            keys=np.concatenate(keys),
            people=np.unique(np.concatenate(people)),
        )
    return part


def _open_table(
    job: StreamJob, path: Path
) -> tuple[FittedModel, OpenedTable, tuple[Problem, ...]]:
    """Return the model, a file whose first rows were validated and assessed, and the
    problems of these rows.
    """
    inputs = (path, job.model, job.request.participants)
    return _open_table_cached(
        job, path, str([_stamp_file(file) for file in inputs if isinstance(file, Path)])
    )


@lru_cache(maxsize=1)
def _open_table_cached(
    job: StreamJob, path: Path, stamps: str
) -> tuple[FittedModel, OpenedTable, tuple[Problem, ...]]:
    """Do the work of `_open_table` once for all chunks of a file; ``stamps`` change
    with the files.
    """
    model = load(job.model)
    opened = OpenedTable.open(path, job.request, job.size.schema_rows)
    cohort, request = opened.validation.cohort_or_raise(), job.request
    _, problems, counted = model.assess(
        cohort,
        request.options.on_missing,
        on_outlier=request.options.on_outlier,
        centiles=job.centiles,
    )
    table_warnings = make_table_warning(
        counted, model.card.unit, model.card.compared_with
    )  # made again in the end, of all people
    if not opened.is_complete:  # each chunk names its own
        codes = (ProblemCode.PEOPLE_WITHOUT_INDEX, ProblemCode.OUTLYING_VALUES)
        table_warnings += [problem for problem in problems if problem.code in codes]
        opened = opened.select_regions(
            {*model.regions, *(part for parts in model.sums.values() for part in parts)}
        )
    problems = [problem for problem in problems if problem not in table_warnings]
    return model, opened, (*problems, *opened.validation.problems)


def _check_parts(
    job: StreamJob, chunks: Mapping[str, TableChunk], parts: Sequence[PartRecord]
) -> int:
    """Refuse parts that do not fit together: different columns, repeated people; return
    the number of people.
    """
    different = [
        name
        for name, part in zip(chunks, parts, strict=True)
        if part.columns != parts[0].columns
    ]
    if different:
        both = f"{next(iter(chunks))} and {join_names(different)}"
        what = f"some files have sessions and some have none: {both} differ"
        raise TableError(f"{what}. Apply the model to them separately.")
    hash_files = {name: job.record_path(name) for name in chunks}
    repeated = find_repeated_hashes(list(hash_files.values()))
    counts: Counter[str] = Counter()  # by name, as two people may share a hash
    for name, chunk in chunks.items() if len(repeated) else ():
        if np.isin(repeated, load_hashes(hash_files[name])).any():
            validations = _open_table(job, chunk.path)[1].validate_chunk(
                chunk, job.size.rows
            )
            keys = np.array(
                [key for validation in validations for key in validation.keys],
                dtype=object,
            )
            counts.update(keys[np.isin(_hash_texts(keys), repeated)].tolist())
    if ids := sorted(name for name, times in counts.items() if times > 1):
        what = format_count(len(ids), "duplicate ID")
        cure = (
            "Make the ids unique, or name the column of the session: --session COLUMN"
        )
        raise TableError(
            Problem(
                severity=Severity.ERROR,
                what=what,
                where="",
                cure=cure,
                code=ProblemCode.DUPLICATE_IDS,
                offenders=tuple(ids),
            )
        )
    if SESSION not in parts[0].columns:
        return sum(part.counted.people for part in parts)
    return sum(
        len(np.unique(hashes))
        for hashes in share_hashes(list(hash_files.values()), "people")
    )


def _hash_texts(texts: Sequence[str] | NDArray[np.object_]) -> Hashes:
    """Return a hash (N,) of each text."""
    return np.asarray(
        pd.util.hash_array(np.array(texts, dtype=object), categorize=False),
        dtype=np.uint64,
    )


def load_hashes(file: Path, kind: str = "keys") -> Hashes:
    """Return the hashes (N,) of the rows of a part, that is of person and session, or
    of its ``people``.
    """
    try:
        with file.open("rb") as stream, np.load(stream) as arrays:
            return np.asarray(arrays[kind])
    except BadZipFile as error:  # also if the disk fails to read it
        raise ModelError(
            f"{file} cannot be read: run the same command again."
        ) from error


def find_repeated_hashes(files: Sequence[Path]) -> Hashes:
    """Return the hashes of rows (K,) that occur more than once in the files."""
    repeated = []
    for hashes in share_hashes(files, "keys"):
        values, counts = np.unique(hashes, return_counts=True)
        repeated.append(values[counts > 1])
    return np.concatenate(repeated)


def share_hashes(files: Sequence[Path], kind: str) -> Iterator[Hashes]:
    """Yield all hashes of a kind in shares (K,) that memory holds; equal ones are in
    one share.

    Each file is read once. Where there are several shares, they are files of a
    temporary folder, so that twice the hashes cost twice the time.
    """
    size = sum(file.stat().st_size for file in files)
    n_shares = 1 + size // (8 * _MAX_HASHES_IN_MEMORY)
    if n_shares == 1:
        yield np.concatenate([load_hashes(file, kind) for file in files])
        return
    with TemporaryDirectory(dir=files[0].parent) as folder, ExitStack() as stack:
        shares: list[IO[Any]] = [
            stack.enter_context(Path(folder, str(share)).open("w+b"))
            for share in range(n_shares)
        ]
        for file in files:
            hashes = load_hashes(file, kind)
            numbers = (hashes % n_shares).astype(np.uint16)  # sorted by their digits
            hashes = hashes[np.argsort(numbers, kind="stable")]
            ends = np.bincount(numbers, minlength=n_shares).cumsum()
            for share, own in zip(shares, np.split(hashes, ends[:-1]), strict=True):
                own.tofile(share)
        for share in shares:
            share.seek(0)
            yield np.fromfile(share, dtype=np.uint64)


def _stamp_file(path: Path) -> list[str | int]:
    """Return what changes when a file is written again; raises `TableError` if it is
    gone.
    """
    with explain_read_errors(path):
        status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]

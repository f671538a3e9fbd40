"""R-indices of any number of people in bounded memory: pieces in, parts out, on all cores, resumable.

Every piece of a table becomes one part, a file of its own, with a record beside it that is written last. A part whose
record is there and fits its input is not made again. Processes share nothing: each reads, infers and writes.
"""

import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices.atomic import write_atomically, write_json
from rindices.errors import ModelError, Problem, Severity, TableError, describe_os_error, format_count, join_names
from rindices.model.fitted import FittedModel, load
from rindices.model.novelty import NoveltyCount, make_table_warning
from rindices.model.part_writer import join_parts, open_part
from rindices.tables.io.chunks import (
    SCHEMA_ROWS,
    ChunkSize,
    OpenedTable,
    TableChunk,
    list_table_files,
    merge_problems,
    split_into_chunks,
)
from rindices.tables.validation.validate import TableRequest, ValidationResult
from rindices.threads import limit_blas_threads

RowHashes = NDArray[np.uint64]

RECORDS_FOLDER = ".rindices"
_MAX_KEYS_IN_MEMORY = 4_000_000  # keys that are compared in memory at a time


@dataclass(frozen=True)
class StreamJob:
    """What is done to every piece.

    Attributes
    ----------
    model : Path
    request : Request
        With the table's path as its volumes.
    folder : Path
        For the parts.
    suffix : str
        Of the parts: .csv, .tsv or .parquet.
    size : Size
    head : int
        Rows that a file is judged by.
    """

    model: Path
    request: TableRequest
    folder: Path
    suffix: str
    size: ChunkSize
    head: int = SCHEMA_ROWS

    def identity(self) -> dict[str, Any]:
        """Return what all parts of a folder must have in common."""
        asked = {name: str(value) for name, value in asdict(self.request).items() if name != "volumes"}
        people = self.request.participants
        stamp = None if people is None else _stamp_file(people)
        digest = hashlib.sha256(self.model.read_bytes()).hexdigest()
        return {"model": digest, "asked": asked, "participants": stamp, "size": list(self.size), "suffix": self.suffix}


class PartRecord(NamedTuple):
    """What is known of a finished part."""

    name: str
    stamp: list[Any]
    columns: list[str]
    counted: NoveltyCount
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
        return cls(**values | {"counted": NoveltyCount(people, novel, Counter(causes)), "problems": problems})


class StreamResult(NamedTuple):
    """What a run over a table did.

    Attributes
    ----------
    counted : NoveltyCount
        Of everyone, those of earlier runs too.
    problems : list of Problem
    parts, resumed : int
        Parts, and how many of them were there already.
    rows_per_second : float
        Of the people of this run; 0 where all were there.
    """

    counted: NoveltyCount
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
    head: int = SCHEMA_ROWS,
    tell: Callable[[int], None] = lambda people: None,
) -> StreamResult:
    """Write the R-indices of all people of a table, in the order of its rows.

    Parameters
    ----------
    model : Path
    request : Request
        With one table: a file, or a folder of files that are pieces of one table.
    out : Path
        A .csv, .tsv or .parquet file, or a folder, which gets one parquet file a piece.
    workers : int
        Processes; -1 for all cores. Results do not depend on it.
    size : Size, optional
        Of pieces. Results do not depend on it.
    head : int
        Rows that each file is judged by.
    tell : callable
        Gets the number of people that were finished in this run.
    """
    (table,) = request.volumes
    single = out.suffix in (".csv", ".tsv", ".parquet")
    folder = out.with_name(f".{out.name}.parts") if single else out
    job = StreamJob(model, request, folder, out.suffix if single else ".parquet", size or ChunkSize(), head)
    try:
        _prepare_folder(job, fresh=single)
        start = time.perf_counter()
        parts, resumed, people = _run_chunks(job, table, workers, tell)
        seconds = time.perf_counter() - start
        _check_parts(job, table, parts)
        if single:
            join_parts([folder / f"{part.name}{job.suffix}" for part in parts], out, parts[0].columns)
            shutil.rmtree(folder)
    except OSError as error:
        raise ModelError(f"cannot write {out} ({describe_os_error(error)}): give another place with --out.") from error
    counted = NoveltyCount(0, 0, Counter())
    for part in parts:
        counted = counted.merged_with(part.counted)
    problems = merge_problems([problem for part in parts for problem in part.problems])
    rate = people / max(seconds, 1e-9)
    return StreamResult(counted, [*make_table_warning(counted), *problems], len(parts), resumed, rate)


def _run_chunks(
    job: StreamJob, table: Path, workers: int, tell: Callable[[int], None]
) -> tuple[list[PartRecord], int, int]:
    """Make the parts that are not there; return all in order, how many were there, and the people of this run."""
    finished: dict[str, PartRecord] = {}
    order: list[str] = []

    def waiting() -> Iterator[tuple[TableChunk, str]]:
        for piece, name in _iter_chunks(table, job.size):
            order.append(name)
            done = _load_finished_part(job, piece, name)
            if done is None:
                yield piece, name
            else:
                finished[name] = done

    people = made = 0
    for part in _make_parts(job, waiting(), workers):
        finished[part.name] = part
        made += 1
        people += part.counted.people
        tell(people)
    if not order:
        raise TableError(f"{table} has no people in it: give the file or the folder of the table.")
    return [finished[name] for name in order], len(order) - made, people


def _make_parts(job: StreamJob, pieces: Iterator[tuple[TableChunk, str]], workers: int) -> Iterator[PartRecord]:
    """Yield parts as they are finished; processes are started only where there is more than one piece."""
    from joblib import Parallel, cpu_count, delayed, parallel_config

    number = cpu_count() if workers < 0 else workers
    first = list(islice(pieces, 2))
    todo = chain(first, pieces)
    if number == 1 or len(first) < 2:
        with limit_blas_threads():
            yield from (make_part(job, piece, name) for piece, name in todo)
        return
    with parallel_config(backend="loky", inner_max_num_threads=1):
        calls = (delayed(make_part)(job, piece, name) for piece, name in todo)
        yield from Parallel(n_jobs=number, return_as="generator_unordered")(calls)


def make_part(job: StreamJob, piece: TableChunk, name: str) -> PartRecord:
    """Read a piece, infer, write its part, and then its record."""
    model, opening, told = _open_table(job, piece.path)
    counted, problems, keys = NoveltyCount(0, 0, Counter()), list(told) if piece.number == 0 else [], []
    with open_part(job.folder / f"{name}{job.suffix}") as writer:
        for judged in _iter_validated_rows(job, opening, piece):
            found = model.assess_chunk(judged.cohort_or_raise())
            writer.write(found.table)
            counted = counted.merged_with(found.counted)
            problems += [p for p in judged.problems if p.severity is Severity.WARNING and not opening.whole]
            keys.append(_hash_row_keys(judged))
    np.save(job.folder / RECORDS_FOLDER / f"{name}.npy", np.sort(np.concatenate(keys)))
    part = PartRecord(name, _stamp_file(piece.path), writer.columns, counted, problems)
    write_json(job.folder / RECORDS_FOLDER / f"{name}.json", part.as_dict())
    return part


def _iter_validated_rows(job: StreamJob, opening: OpenedTable, piece: TableChunk) -> Iterator[ValidationResult]:
    """Yield the rows of a piece as the door lets them in."""
    if opening.covers_chunk(piece):
        yield opening.validation
        return
    yield from opening.judge(piece, job.size.rows)


def _open_table(job: StreamJob, path: Path) -> tuple[FittedModel, OpenedTable, tuple[Problem, ...]]:
    """Return the model, a file whose first rows were judged by the door and the model, and what they said of it."""
    inputs = (path, job.model, *([job.request.participants] if job.request.participants else []))
    return _open_table_cached(job, path, str([_stamp_file(file) for file in inputs]))


@lru_cache(maxsize=1)
def _open_table_cached(job: StreamJob, path: Path, stamps: str) -> tuple[FittedModel, OpenedTable, tuple[Problem, ...]]:
    """Do as `_open_table`, once for all pieces of a file; ``stamps`` change with the files."""
    model = load(job.model)
    opening = OpenedTable.of(path, job.request, job.head)
    _, problems, counted = model.assess(opening.validation.cohort_or_raise())
    whole_table = make_table_warning(counted)  # said of all people in the end
    told = (*(problem for problem in problems if problem not in whole_table), *opening.validation.problems)
    parts = {part for parts in model.sums.values() for part in parts}
    return model, opening if opening.whole else opening.select_regions({*model.regions, *parts}), told


def _hash_row_keys(judged: ValidationResult) -> RowHashes:
    """Return (N,) a number for each row's person and session."""
    return np.asarray(pd.util.hash_array(np.array(judged.keys, dtype=object), categorize=False), dtype=np.uint64)


def _iter_chunks(table: Path, size: ChunkSize) -> Iterator[tuple[TableChunk, str]]:
    """Yield the pieces of all files, and the names of their parts."""
    files = list_table_files(table) or []
    base = table if table.is_dir() else table.parent
    names = ["__".join(file.relative_to(base).parts) for file in files]
    short = [name.removesuffix(file.suffix) for name, file in zip(names, files, strict=True)]
    for file, name in zip(files, short if len(set(short)) == len(short) else names, strict=True):
        for piece in split_into_chunks(file, size):
            yield piece, f"{name}-{piece.number:05d}"


def _prepare_folder(job: StreamJob, fresh: bool) -> None:
    """Make the folder of the parts; one that belongs to another run is refused, or begun anew where it is ours."""
    records = job.folder / RECORDS_FOLDER
    mine = json.dumps(job.identity(), sort_keys=True)
    run = records / "run.json"
    if run.is_file() and run.read_text("utf-8") == mine:
        return
    if job.folder.exists() and any(job.folder.iterdir()):
        if not fresh:
            raise ModelError(
                f"{job.folder} holds other files, or results of another model or other options: give another folder."
            )
        shutil.rmtree(job.folder)
    records.mkdir(parents=True, exist_ok=True)
    write_atomically(run, mine.encode())


def _load_finished_part(job: StreamJob, piece: TableChunk, name: str) -> PartRecord | None:
    """Return a part that was finished by an earlier run from the same input."""
    try:
        part = PartRecord.from_dict(json.loads((job.folder / RECORDS_FOLDER / f"{name}.json").read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    there = (job.folder / f"{name}{job.suffix}").is_file() and (job.folder / RECORDS_FOLDER / f"{name}.npy").is_file()
    return part if there and part.stamp == _stamp_file(piece.path) else None


def _check_parts(job: StreamJob, table: Path, parts: Sequence[PartRecord]) -> None:
    """Refuse parts that do not fit together: other columns, people who stand twice, files that are gone."""
    odd = [part.name for part in parts if part.columns != parts[0].columns]
    if odd:
        raise TableError(
            f"some files have sessions and some have none: {parts[0].name} and {join_names(odd)} differ. Give them apart."
        )
    known = {f"{part.name}{job.suffix}" for part in parts}
    files = [file.name for file in job.folder.glob(f"*{job.suffix}") if not file.name.startswith(".")]
    stale = sorted(name for name in files if name not in known)
    if stale:
        raise ModelError(
            f"{job.folder} holds parts of files that are not in {table} (any more): {join_names(stale)}. Delete them."
        )
    twice = find_repeated_keys([job.folder / RECORDS_FOLDER / f"{part.name}.npy" for part in parts])
    if len(twice):
        names = sorted(_find_repeated_ids(job, table, twice))
        if names:
            raise TableError(
                f"{format_count(len(names), 'id stands', 'ids stand')} more than once: {join_names(names)}. Keep one row a person, "
                "or add a session_id column."
            )


def find_repeated_keys(files: Sequence[Path]) -> RowHashes:
    """Return the keys that stand more than once in sorted files of keys, in bounded memory."""
    total = sum(len(np.load(file, mmap_mode="r")) for file in files)
    bounds = np.linspace(0, 2**64 - 1, max(2, total // _MAX_KEYS_IN_MEMORY + 2)).astype(np.float64)
    found = []
    for low, high in pairwise(bounds):
        last = high == bounds[-1]
        joined = np.sort(np.concatenate([_load_keys_between(file, low, None if last else high) for file in files]))
        found.append(np.unique(joined[1:][joined[1:] == joined[:-1]]))
    return np.concatenate(found)


def _load_keys_between(file: Path, low: float, high: float | None) -> RowHashes:
    keys = np.load(file, mmap_mode="r")
    start = np.searchsorted(keys, np.uint64(low))
    return np.array(keys[start : None if high is None else np.searchsorted(keys, np.uint64(high))])


def _find_repeated_ids(job: StreamJob, table: Path, twice: RowHashes) -> list[str]:
    """Return the people whose keys stand more than once, read again: two people may share a key by chance."""
    seen: Counter[str] = Counter()
    for piece, name in _iter_chunks(table, job.size):
        if not np.isin(twice, np.load(job.folder / RECORDS_FOLDER / f"{name}.npy", mmap_mode="r")).any():
            continue
        _, opening, _ = _open_table(job, piece.path)
        for judged in _iter_validated_rows(job, opening, piece):
            hit = np.isin(_hash_row_keys(judged), twice)
            seen.update(key for key, is_hit in zip(judged.keys, hit, strict=True) if is_hit)
    return [name for name, times in seen.items() if times > 1]


def _stamp_file(path: Path) -> list[Any]:
    status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]

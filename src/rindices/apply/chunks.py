"""R-indices of any number of people: chunks of a table in, one file per chunk out, on all cores, resumable.

Each chunk becomes one part, see `part_store`. Processes share nothing: each reads, infers and writes. The chunk of a
process that was killed is done again.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rindices.apply.part_store import PartRecord, StreamJob, load_finished_part, lock_parts, stamp_file
from rindices.apply.part_writer import count_people, join_parts, open_part, read_part_keys
from rindices.apply.row_hashes import RowHashes, find_repeated_hashes, hash_keys, write_hashes
from rindices.atomic import write_json
from rindices.errors import (
    ModelError,
    Problem,
    ProblemCode,
    RindicesError,
    Severity,
    TableError,
    describe_os_error,
    format_count,
    join_names,
)
from rindices.model.fitted import FittedModel, load
from rindices.model.unusual import UnusualCount, make_table_warning
from rindices.tables.chunks import (
    SCHEMA_ROWS,
    ChunkSize,
    OpenedTable,
    TableChunk,
    list_table_files,
    merge_problems,
    split_into_chunks,
)
from rindices.tables.validate import TableRequest
from rindices.threads import limit_blas_threads
from rindices.wording import FEATURE_UNIT

_MAX_OFFENDERS = 100
_MAX_REFUSED = 10_000
"""Offenders in refused chunks after which the others are not read."""
_NOTES_ABOUT_ROWS = (
    ProblemCode.ENCODING_GUESSED,
    ProblemCode.MISSING_VALUES,
    ProblemCode.NO_LINE_END,
    ProblemCode.ZERO_VOLUMES,
)
_MAX_RETRIES = 3  # after a worker was lost
_LOST_WORKERS = (
    f"worker processes ended before their work was done, {1 + _MAX_RETRIES} times; the system kills them when memory "
    "runs out. Finished parts are kept: run the same command again with fewer --workers."
)


class StreamResult(NamedTuple):
    """Outcome of applying a model to a table.

    counted: of all rows, also those of earlier runs; people: fewer than rows where people have several visits; parts,
    resumed: number of parts, and how many of them an earlier run had finished; rows_per_second: of this run; 0 if
    nothing was left to do.
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
    schema_rows: int = SCHEMA_ROWS,
    on_progress: Callable[[int], None] = lambda people: None,
) -> StreamResult:
    """Write the R-indices of all people of a table, in the order of its rows.

    request: with one table: a file, or a folder of files that together are one table; out: a .csv, .tsv or .parquet
    file, or a folder, which gets one parquet file per chunk; workers: processes; -1 for all cores. Results do not
    depend on it; size: results do not depend on it; schema_rows: rows that decide what the columns of each file are;
    on_progress: gets the number of people that were finished in this run. Raises TableError: if the table cannot be
    read, or an id occurs more than once. Raises ModelError: if the model does not fit the table, or the results cannot
    be written.
    """
    (table,) = request.volumes
    assert isinstance(table, Path)
    unit = FEATURE_UNIT if request.measure == "any" else ""
    to_file = out.suffix in (".csv", ".tsv", ".parquet")
    folder = out.with_name(f".{out.name}.parts") if to_file else out
    job = StreamJob(model, request, folder, out.suffix if to_file else ".parquet", size or ChunkSize(), schema_rows)
    try:
        job = replace(job, folder=folder / job.digest()) if to_file else job
        with lock_parts(job, is_temporary=to_file):
            start = time.perf_counter()
            parts, resumed, rows = _run_chunks(job, table, workers, on_progress)
            seconds = time.perf_counter() - start
            _check_parts(job, table, parts)
            rows_in_parts = sum(part.counted.people for part in parts)
            paths = [job.part_path(part.name) for part in parts]
            people = count_people(paths, parts[0].columns, rows_in_parts)
            if to_file:
                join_parts(paths, out, parts[0].columns, rows_in_parts, unit)
    except OSError as error:
        raise ModelError(f"cannot write {out} ({describe_os_error(error)}): give another place with --out.") from error
    counted = UnusualCount(0, 0, Counter())
    for part in parts:
        counted = counted.merged_with(part.counted)
    problems = merge_problems([problem for part in parts for problem in part.problems])
    rate = rows / max(seconds, 1e-9)
    return StreamResult(counted, people, [*make_table_warning(counted, unit), *problems], len(parts), resumed, rate)


class RefusedChunk(NamedTuple):
    """A chunk with errors in its rows."""

    name: str
    error: RindicesError


@dataclass
class _ChunkRun:
    """Chunks of a table on their way to parts; kept while lost workers are replaced."""

    job: StreamJob
    table: Path
    parts: dict[str, PartRecord | None] = field(default_factory=dict)  # in the order of the table
    refused: dict[str, RindicesError] = field(default_factory=dict)
    n_resumed: int = 0
    people: int = 0

    def iter_missing(self, is_first: bool) -> Iterator[tuple[TableChunk, str]]:
        """Yield the chunks without a part, and take note of the parts that are there."""
        for chunk, name in _iter_chunks(self.table, self.job.size):
            if self.parts.setdefault(name, None) is not None or name in self.refused:
                continue
            part = load_finished_part(self.job, chunk, name)
            if part is None:
                yield chunk, name
            else:
                self.parts[name] = part
                self.n_resumed += is_first
                self.people += 0 if is_first else part.counted.people

    def add(self, part: PartRecord | RefusedChunk) -> None:
        """Take note of a part that was made, or of a chunk that was refused."""
        if isinstance(part, RefusedChunk):
            self.refused[part.name] = part.error
            if sum(len(p.offenders) for error in self.refused.values() for p in error.problems) > _MAX_REFUSED:
                self.raise_errors()
            return
        self.parts[part.name] = part
        self.people += part.counted.people

    def raise_errors(self) -> None:
        """Raise the errors of all refused chunks as one, in the order of the table."""
        errors = [self.refused[name] for name in self.parts if name in self.refused]
        if errors:
            raise type(errors[0])(merge_problems([problem for error in errors for problem in error.problems]))


def _run_chunks(
    job: StreamJob, table: Path, workers: int, on_progress: Callable[[int], None]
) -> tuple[list[PartRecord], int, int]:
    """Make the parts that are missing; return all parts in order, how many were there, and the people of this run."""
    run = _ChunkRun(job, table)
    for attempt in range(1 + _MAX_RETRIES):
        try:
            for part in _make_parts(job, run.iter_missing(is_first=attempt == 0), workers):
                run.add(part)
                on_progress(run.people)
            break
        except BrokenExecutor as error:  # a worker was killed; what the others finished is kept
            if attempt == _MAX_RETRIES:
                raise ModelError(_LOST_WORKERS) from error
    run.raise_errors()
    if not run.parts:
        raise TableError(f"{table} has no people in it: give the file or the folder of the table.")
    parts = [part for part in run.parts.values() if part is not None]
    if len(parts) < len(run.parts):
        raise ModelError(
            f"{len(run.parts) - len(parts)} chunks of {table} have no results: run the same command again."
        )
    return parts, run.n_resumed, run.people


def _make_parts(
    job: StreamJob, chunks: Iterator[tuple[TableChunk, str]], workers: int
) -> Iterator[PartRecord | RefusedChunk]:
    """Yield parts as they are finished; processes are started only for more than one chunk."""
    from joblib import Parallel, cpu_count, delayed, parallel_config

    n_workers = cpu_count() if workers < 0 else workers
    first_chunks = list(islice(chunks, 2))
    all_chunks = chain(first_chunks, chunks)
    if n_workers == 1 or len(first_chunks) < 2:
        with limit_blas_threads():
            yield from (try_part(job, chunk, name) for chunk, name in all_chunks)
        return
    with parallel_config(backend="loky", inner_max_num_threads=1):
        calls = (delayed(try_part)(job, chunk, name) for chunk, name in all_chunks)
        yield from Parallel(n_jobs=n_workers, return_as="generator_unordered")(calls)


def try_part(job: StreamJob, chunk: TableChunk, name: str) -> PartRecord | RefusedChunk:
    """Make a part; errors in its rows are returned, so that those of all chunks are reported at once."""
    _open_table(job, chunk.path)  # an error in the first rows stops all chunks
    try:
        return make_part(job, chunk, name)
    except RindicesError as error:
        return RefusedChunk(name, error)


def make_part(job: StreamJob, chunk: TableChunk, name: str) -> PartRecord:
    """Read a chunk, infer, write the part, and then its record; raises all errors of the chunk together."""
    stamp = stamp_file(chunk.path)
    model, opened, table_problems = _open_table(job, chunk.path)
    counted, hashes = UnusualCount(0, 0, Counter()), []
    problems, errors = list(table_problems) if chunk.number == 0 else [], []
    with open_part(job.part_path(name)) as writer:
        for validation in opened.validate_chunk(chunk, job.size.rows):
            try:
                result = model.assess_chunk(validation.cohort_or_raise())
            except RindicesError as error:
                errors.append(error)
                continue
            writer.write(result.table)
            counted = counted.merged_with(result.counted)
            hashes.append(hash_keys(validation.keys))
            if not opened.is_complete:
                row_problems = [p for p in (*validation.problems, *result.problems) if _concerns_rows(p)]
                problems += [_limit_offenders(problem) for problem in row_problems]
            del validation, result  # their memory is for the next rows
        if errors:
            raise type(errors[0])(problem for error in errors for problem in error.problems)
    hashes_digest = write_hashes(job.record_path(name, ".npy"), np.concatenate(hashes))
    size, digest = writer.size, writer.digest
    part = PartRecord(name, stamp, size, digest, hashes_digest, writer.columns, counted, problems)
    write_json(job.record_path(name), part.as_dict())
    return part


def _concerns_rows(problem: Problem) -> bool:
    """Return whether a problem that is no error may be found in some chunks and not in others."""
    return problem.severity is Severity.WARNING or problem.code in _NOTES_ABOUT_ROWS


def _limit_offenders(problem: Problem) -> Problem:
    """Return a problem with the same text and at most `_MAX_OFFENDERS`, so that records stay small."""
    listing = problem.listing or join_names(problem.offenders)
    return replace(problem, offenders=problem.offenders[:_MAX_OFFENDERS], listing=listing)


def _open_table(job: StreamJob, path: Path) -> tuple[FittedModel, OpenedTable, tuple[Problem, ...]]:
    """Return the model, a file whose first rows were validated and assessed, and the problems of these rows."""
    inputs = (path, job.model, job.request.participants)
    return _open_table_cached(job, path, str([stamp_file(file) for file in inputs if isinstance(file, Path)]))


@lru_cache(maxsize=1)
def _open_table_cached(job: StreamJob, path: Path, stamps: str) -> tuple[FittedModel, OpenedTable, tuple[Problem, ...]]:
    """Do the work of `_open_table` once for all chunks of a file; ``stamps`` change with the files."""
    model = load(job.model)
    opened = OpenedTable.open(path, job.request, job.schema_rows)
    _, problems, counted = model.assess(opened.validation.cohort_or_raise(), job.request.on_missing)
    table_warnings = make_table_warning(counted, model.card.unit)  # made again in the end, of all people
    if not opened.is_complete:  # each chunk names its own
        table_warnings += [problem for problem in problems if problem.code is ProblemCode.PEOPLE_WITHOUT_INDEX]
    problems = [problem for problem in problems if problem not in table_warnings]
    summands = {part for parts in model.sums.values() for part in parts}
    if not opened.is_complete:
        opened = opened.select_regions({*model.regions, *summands})
    return model, opened, (*problems, *opened.validation.problems)


def _iter_chunks(table: Path, size: ChunkSize) -> Iterator[tuple[TableChunk, str]]:
    """Yield the chunks of all files, and the names of their parts."""
    files = list_table_files(table) or []
    base = table if table.is_dir() else table.parent
    names = ["__".join(file.relative_to(base).parts) for file in files]
    stems = [name.removesuffix(file.suffix) for name, file in zip(names, files, strict=True)]
    for file, name in zip(files, stems if len(set(stems)) == len(stems) else names, strict=True):
        for chunk in split_into_chunks(file, size):
            yield chunk, f"{name}-{chunk.number:05d}"


def _check_parts(job: StreamJob, table: Path, parts: Sequence[PartRecord]) -> None:
    """Refuse parts that do not fit together: different columns, repeated people, parts of files that are gone."""
    different = [part.name for part in parts if part.columns != parts[0].columns]
    if different:
        raise TableError(
            f"some files have sessions and some have none: {parts[0].name} and {join_names(different)} differ. "
            "Apply the model to them separately."
        )
    names = {job.part_path(part.name).name for part in parts}
    files = [file.name for file in job.folder.glob(f"*{job.suffix}") if not file.name.startswith(".")]
    stale = sorted(name for name in files if name not in names)
    if stale:
        raise ModelError(
            f"{job.folder} holds parts of files that are not in {table}: {join_names(stale)}. Delete them."
        )
    repeated = find_repeated_hashes([job.record_path(part.name, ".npy") for part in parts])
    ids = sorted(_find_repeated_ids(job, table, parts[0].columns, repeated)) if len(repeated) else []
    if ids:
        what = f"{format_count(len(ids), 'id stands', 'ids stand')} more than once"
        cure = "Make the ids unique, or name the column of the session: --session COLUMN"
        code = ProblemCode.DUPLICATE_IDS
        raise TableError(Problem(Severity.ERROR, what, "", cure, code, offenders=tuple(ids)))


def _find_repeated_ids(job: StreamJob, table: Path, columns: Sequence[str], repeated: RowHashes) -> list[str]:
    """Return the people whose hashes occur more than once, by their names: two people may share a hash."""
    counts: Counter[str] = Counter()
    for chunk, name in _iter_chunks(table, job.size):
        if not np.isin(repeated, np.load(job.record_path(name, ".npy"), mmap_mode="r")).any():
            continue
        if job.request.participants is None and job.request.on_missing != "drop":
            keys = read_part_keys(job.part_path(name), columns)
        else:  # keys are those of the participants, or also those of people who were left out
            opened = _open_table(job, chunk.path)[1]
            keys = [key for validation in opened.validate_chunk(chunk, job.size.rows) for key in validation.keys]
        counts.update(keys[row] for row in np.flatnonzero(np.isin(hash_keys(keys), repeated)).tolist())
    return [name for name, times in counts.items() if times > 1]

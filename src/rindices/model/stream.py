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
from rindices.errors import ModelError, Problem, Severity, TableError, count, named, reason
from rindices.model.fitted import FittedModel, load
from rindices.model.novelty import NoveltyCount, table_warning
from rindices.model.parts import PartWriter, join_parts
from rindices.tables.door import Examination, Request
from rindices.tables.pieces import HEAD, Opening, Piece, Size, files_of, merged, pieces_of
from rindices.threads import one_thread

Keys = NDArray[np.uint64]

RECORDS = ".rindices"
_AT_ONCE = 4_000_000  # keys that are compared in memory at a time


@dataclass(frozen=True)
class Job:
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
    request: Request
    folder: Path
    suffix: str
    size: Size
    head: int = HEAD

    def identity(self) -> dict[str, Any]:
        """Return what all parts of a folder must have in common."""
        asked = {name: str(value) for name, value in asdict(self.request).items() if name != "volumes"}
        people = self.request.participants
        stamp = None if people is None else _stamp(people)
        digest = hashlib.sha256(self.model.read_bytes()).hexdigest()
        return {"model": digest, "asked": asked, "participants": stamp, "size": list(self.size), "suffix": self.suffix}


class Part(NamedTuple):
    """What is known of a finished part."""

    name: str
    stamp: list[Any]
    columns: list[str]
    counted: NoveltyCount
    problems: list[Problem]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        problems = [problem.as_dict() for problem in self.problems]
        return self._asdict() | {"counted": list(self.counted), "problems": problems}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Part":
        """Build from `as_dict`."""
        people, novel, causes = values["counted"]
        problems = [Problem(**one | {"severity": Severity(one["severity"])}) for one in values["problems"]]
        return cls(**values | {"counted": NoveltyCount(people, novel, Counter(causes)), "problems": problems})


class Streamed(NamedTuple):
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
    request: Request,
    out: Path,
    workers: int = 1,
    size: Size | None = None,
    head: int = HEAD,
    tell: Callable[[int], None] = lambda people: None,
) -> Streamed:
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
    job = Job(model, request, folder, out.suffix if single else ".parquet", size or Size(), head)
    try:
        _open_folder(job, fresh=single)
        start = time.perf_counter()
        parts, resumed, people = _run(job, table, workers, tell)
        seconds = time.perf_counter() - start
        _check(job, table, parts)
        if single:
            join_parts([folder / f"{part.name}{job.suffix}" for part in parts], out, parts[0].columns)
            shutil.rmtree(folder)
    except OSError as error:
        raise ModelError(f"cannot write {out} ({reason(error)}): give another place with --out.") from error
    counted = NoveltyCount(0, 0, Counter())
    for part in parts:
        counted = counted.plus(part.counted)
    problems = merged([problem for part in parts for problem in part.problems])
    rate = people / max(seconds, 1e-9)
    return Streamed(counted, [*table_warning(counted), *problems], len(parts), resumed, rate)


def _run(job: Job, table: Path, workers: int, tell: Callable[[int], None]) -> tuple[list[Part], int, int]:
    """Make the parts that are not there; return all in order, how many were there, and the people of this run."""
    finished: dict[str, Part] = {}
    order: list[str] = []

    def waiting() -> Iterator[tuple[Piece, str]]:
        for piece, name in _pieces(table, job.size):
            order.append(name)
            done = _recorded(job, piece, name)
            if done is None:
                yield piece, name
            else:
                finished[name] = done

    people = made = 0
    for part in _made(job, waiting(), workers):
        finished[part.name] = part
        made += 1
        people += part.counted.people
        tell(people)
    if not order:
        raise TableError(f"{table} has no people in it: give the file or the folder of the table.")
    return [finished[name] for name in order], len(order) - made, people


def _made(job: Job, pieces: Iterator[tuple[Piece, str]], workers: int) -> Iterator[Part]:
    """Yield parts as they are finished; processes are started only where there is more than one piece."""
    from joblib import Parallel, cpu_count, delayed, parallel_config

    number = cpu_count() if workers < 0 else workers
    first = list(islice(pieces, 2))
    todo = chain(first, pieces)
    if number == 1 or len(first) < 2:
        with one_thread():
            yield from (make_part(job, piece, name) for piece, name in todo)
        return
    with parallel_config(backend="loky", inner_max_num_threads=1):
        calls = (delayed(make_part)(job, piece, name) for piece, name in todo)
        yield from Parallel(n_jobs=number, return_as="generator_unordered")(calls)


def make_part(job: Job, piece: Piece, name: str) -> Part:
    """Read a piece, infer, write its part, and then its record."""
    model, opening, told = _opened(job, piece.path)
    counted, problems, keys = NoveltyCount(0, 0, Counter()), list(told) if piece.number == 0 else [], []
    with PartWriter(job.folder / f"{name}{job.suffix}") as writer:
        for judged in _judged(job, opening, piece):
            found = model.assess_piece(judged.taken())
            writer.write(found.table)
            counted = counted.plus(found.counted)
            problems += [p for p in judged.problems if p.severity is Severity.WARNING and not opening.whole]
            keys.append(_keys(judged))
    np.save(job.folder / RECORDS / f"{name}.npy", np.sort(np.concatenate(keys)))
    part = Part(name, _stamp(piece.path), writer.columns, counted, problems)
    write_json(job.folder / RECORDS / f"{name}.json", part.as_dict())
    return part


def _judged(job: Job, opening: Opening, piece: Piece) -> Iterator[Examination]:
    """Yield the rows of a piece as the door lets them in."""
    if opening.holds(piece):
        yield opening.judged
        return
    yield from opening.judge(piece, job.size.rows)


def _opened(job: Job, path: Path) -> tuple[FittedModel, Opening, tuple[Problem, ...]]:
    """Return the model, a file whose first rows were judged by the door and the model, and what they said of it."""
    inputs = (path, job.model, *([job.request.participants] if job.request.participants else []))
    return _open(job, path, str([_stamp(file) for file in inputs]))


@lru_cache(maxsize=1)
def _open(job: Job, path: Path, stamps: str) -> tuple[FittedModel, Opening, tuple[Problem, ...]]:
    """Do as `_opened`, once for all pieces of a file; ``stamps`` change with the files."""
    model = load(job.model)
    opening = Opening.of(path, job.request, job.head)
    _, problems, counted = model.assess(opening.judged.taken())
    whole_table = table_warning(counted)  # said of all people in the end
    told = (*(problem for problem in problems if problem not in whole_table), *opening.judged.problems)
    parts = {part for parts in model.sums.values() for part in parts}
    return model, opening if opening.whole else opening.narrowed({*model.regions, *parts}), told


def _keys(judged: Examination) -> Keys:
    """Return (N,) a number for each row's person and session."""
    return np.asarray(pd.util.hash_array(np.array(judged.keys, dtype=object), categorize=False), dtype=np.uint64)


def _pieces(table: Path, size: Size) -> Iterator[tuple[Piece, str]]:
    """Yield the pieces of all files, and the names of their parts."""
    files = files_of(table) or []
    base = table if table.is_dir() else table.parent
    names = ["__".join(file.relative_to(base).parts) for file in files]
    short = [name.removesuffix(file.suffix) for name, file in zip(names, files, strict=True)]
    for file, name in zip(files, short if len(set(short)) == len(short) else names, strict=True):
        for piece in pieces_of(file, size):
            yield piece, f"{name}-{piece.number:05d}"


def _open_folder(job: Job, fresh: bool) -> None:
    """Make the folder of the parts; one that belongs to another run is refused, or begun anew where it is ours."""
    records = job.folder / RECORDS
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


def _recorded(job: Job, piece: Piece, name: str) -> Part | None:
    """Return a part that was finished by an earlier run from the same input."""
    try:
        part = Part.from_dict(json.loads((job.folder / RECORDS / f"{name}.json").read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    there = (job.folder / f"{name}{job.suffix}").is_file() and (job.folder / RECORDS / f"{name}.npy").is_file()
    return part if there and part.stamp == _stamp(piece.path) else None


def _check(job: Job, table: Path, parts: Sequence[Part]) -> None:
    """Refuse parts that do not fit together: other columns, people who stand twice, files that are gone."""
    odd = [part.name for part in parts if part.columns != parts[0].columns]
    if odd:
        raise TableError(
            f"some files have sessions and some have none: {parts[0].name} and {named(odd)} differ. Give them apart."
        )
    known = {f"{part.name}{job.suffix}" for part in parts}
    stale = sorted(file.name for file in job.folder.glob(f"*{job.suffix}") if file.name not in known)
    if stale:
        raise ModelError(
            f"{job.folder} holds parts of files that are not in {table} (any more): {named(stale)}. Delete them."
        )
    twice = repeated_keys([job.folder / RECORDS / f"{part.name}.npy" for part in parts])
    if len(twice):
        names = sorted(_named_like(job, table, twice))
        if names:
            raise TableError(
                f"{count(len(names), 'id stands', 'ids stand')} more than once: {named(names)}. Keep one row a person, "
                "or add a session_id column."
            )


def repeated_keys(files: Sequence[Path]) -> Keys:
    """Return the keys that stand more than once in sorted files of keys, in bounded memory."""
    total = sum(len(np.load(file, mmap_mode="r")) for file in files)
    bounds = np.linspace(0, 2**64 - 1, max(2, total // _AT_ONCE + 2)).astype(np.float64)
    found = []
    for low, high in pairwise(bounds):
        last = high == bounds[-1]
        joined = np.sort(np.concatenate([_between(file, low, None if last else high) for file in files]))
        found.append(np.unique(joined[1:][joined[1:] == joined[:-1]]))
    return np.concatenate(found)


def _between(file: Path, low: float, high: float | None) -> Keys:
    keys = np.load(file, mmap_mode="r")
    start = np.searchsorted(keys, np.uint64(low))
    return np.array(keys[start : None if high is None else np.searchsorted(keys, np.uint64(high))])


def _named_like(job: Job, table: Path, twice: Keys) -> list[str]:
    """Return the people whose keys stand more than once, read again: two people may share a key by chance."""
    seen: Counter[str] = Counter()
    for piece, name in _pieces(table, job.size):
        if not np.isin(twice, np.load(job.folder / RECORDS / f"{name}.npy", mmap_mode="r")).any():
            continue
        _, opening, _ = _opened(job, piece.path)
        for judged in _judged(job, opening, piece):
            hit = np.isin(_keys(judged), twice)
            seen.update(key for key, is_hit in zip(judged.keys, hit, strict=True) if is_hit)
    return [name for name, times in seen.items() if times > 1]


def _stamp(path: Path) -> list[Any]:
    status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]

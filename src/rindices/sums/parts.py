"""Tables in parts: Dask workers answer requests with sums over their parts of a table.

Parts exist because no machine holds everyone. A worker reads a part once, a batch at a
time, and keeps volumes in a file of a temporary folder. In its memory remain ids,
groups, covariates and hashes of the people, the prepared patients of the members, whose
number is limited, and one batch of values. Each part is a future of Dask, which decides
where it is read: also on workers that come late. A worker that is lost takes its files
with it; others then read its parts again.

Which people make a part depends on the table alone, so that all numbers of workers give
equal sums.

Shape letters: N people of a part, R regions.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import AnyArray, FloatArray, IntArray
from rindices.engine.cluster import DaskEngine
from rindices.errors import Findings, Problem, ProblemCode, StudyError, format_count
from rindices.learners.people_source import Result
from rindices.model.fitted import FittedModel
from rindices.study.outlying_measurements import CheckedCohort
from rindices.sums.batches import BATCH
from rindices.sums.messages import Answer, Request, receive_answer
from rindices.sums.people import LocalPeople
from rindices.tables.chunks import (
    ChunkSize,
    OpenedTable,
    TableChunk,
    merge_problems,
    split_into_chunks,
)
from rindices.tables.cohort import ID, Cohort
from rindices.tables.sources.frames import list_table_files
from rindices.tables.validate import TableRequest, report_unknown_people

CheckCells = Callable[[Cohort], CheckedCohort]
_MAX_CHUNKS = 5  # of a part, so that an answer takes far longer than its message
_FEW_PARTS = 16  # small tables have at least as many, if they have so many chunks


@dataclass(frozen=True, kw_only=True)
class Part:
    """Chunks of the files of a table that are read together.

    Parameters
    ----------
    name : str
    chunks : tuple of TableChunk
    request : TableRequest
        What the columns are.
    check : callable
        Finds outlying measurements of a batch of people.
    """

    name: str
    chunks: tuple[TableChunk, ...]
    request: TableRequest
    check: CheckCells


class PartPeople(LocalPeople):
    """The people of a part, whose volumes are in a file.

    Parameters
    ----------
    name : str
    batches : iterator
        Yields people, and which names to leave out were found among them.
    folder : Path
        Folder for the file.

    Attributes
    ----------
    outlying_measurements : DataFrame
        Outlying measurements, which are not used.
    problems : list of Problem
        What to say of them.
    left_out : set of str
        Names that were found, of those of the people and sites to leave out.
    """

    def __init__(
        self,
        name: str,
        batches: Iterator[tuple[CheckedCohort, tuple[str, ...]]],
        folder: Path,
    ) -> None:
        self._folder, self.left_out = folder, set[str]()
        batches_of_people, tables, self.problems = (
            list[LocalPeople](),
            list[pd.DataFrame](),
            list[Problem](),
        )
        with (folder / "volumes").open("wb") as file:
            for batch, left_out in batches:
                self.left_out |= set(left_out)
                tables.append(batch.table)
                self.problems += batch.problems
                batches_of_people.append(LocalPeople(name, batch.cohort_or_raise()))
                file.write(
                    batches_of_people[-1].cohort.volumes.to_numpy(dtype=float).tobytes()
                )
                people = batches_of_people[-1].cohort
                batches_of_people[-1].cohort = replace(
                    people, volumes=pd.DataFrame(index=people.people.index), visits=None
                )
        super().__init__(
            name, _join_people([each.cohort for each in batches_of_people])
        )
        n_repeated = (
            sum(each.n_repeated for each in batches_of_people) + self.n_repeated
        )
        self.n_left_out = sum(each.n_left_out for each in batches_of_people)
        self.outlying_measurements = pd.concat(tables, ignore_index=True)
        if n_repeated:
            raise StudyError(_format_repeated(n_repeated))
        self.regions = batches_of_people[0].regions
        self._missing = np.concatenate([each._missing for each in batches_of_people])

    def get_volumes(self, rows: IntArray) -> FloatArray:
        """Return the volumes (n, R) of some people, from the file."""
        shape = (len(self.cohort), len(self.regions))
        if not len(rows):
            return np.zeros((0, shape[1]))
        # the file is mapped anew, so that its pages do not stay in memory
        return np.asarray(
            np.memmap(self._folder / "volumes", dtype=float, mode="r", shape=shape)[
                rows
            ]
        )


class OpenPart:
    """A part that a worker has read; on another worker, it is read again.

    Parameters
    ----------
    part : Part
        What to read.
    """

    def __init__(self, part: Part) -> None:
        self._part, self._size = part, 0
        self._people: PartPeople | None = None

    @property
    def people(self) -> PartPeople:
        """The people, who are read at the first call."""
        if self._people is None:
            folder = tempfile.mkdtemp(prefix="rindices-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._people = PartPeople(
                self._part.name, _read_batches(self._part), Path(folder)
            )
            self._size = Path(folder, "volumes").stat().st_size
        return self._people

    def __reduce__(self) -> tuple[type["OpenPart"], tuple[Part]]:
        """Send what to read to another worker."""
        return type(self), (self._part,)

    def __sizeof__(self) -> int:
        """Return the size of the file, so that Dask moves a part seldom: it is read
        again then.
        """
        return self._size


def open_part(part: Part) -> OpenPart:
    """Read a part; runs on a worker."""
    opened = OpenPart(part)
    _ = opened.people
    return opened


def call_part(
    opened: OpenPart, function: Callable[..., Result], *arguments: Any
) -> Result:
    """Call a function with the people of a part; runs on a worker."""
    return function(opened.people, *arguments)


def _answer(people: PartPeople, content: bytes) -> bytes:
    """Return the encoded answer of a part."""
    return people.answer(Request.decode(content)).encode()


def _hash_ids(people: PartPeople) -> AnyArray:
    """Return a number (N,) for each ID of a part, to find IDs that are in several
    parts.
    """
    return np.asarray(
        pd.util.hash_array(people.cohort.people[ID].to_numpy(dtype=object))
    )


@dataclass
class PartsTransport:
    """Takes requests to Dask workers.

    Parameters
    ----------
    client : distributed.Client
    parts : sequence of Part
    """

    client: Any
    parts: Sequence[Part]

    def __post_init__(self) -> None:
        self._opened = self.client.map(open_part, self.parts, pure=False)

    def check_ids(self) -> None:
        """Refuse a table in which an id is repeated, in whatever parts.

        Raises StudyError.
        """
        numbers = np.sort(np.concatenate(self._run(_hash_ids)))
        n_repeated = int((numbers[1:] == numbers[:-1]).sum())
        if n_repeated:
            raise StudyError(_format_repeated(n_repeated))

    def check_left_out(self, request: TableRequest) -> None:
        """Refuse ids of people and names of sites to leave out that are in no part.

        Raises TableError.
        """
        findings, found = (
            Findings(),
            set[str]().union(*self._run(attrgetter("left_out"))),
        )
        if people := [
            name for name in request.options.exclude_people if name not in found
        ]:
            report_unknown_people(people, findings)
        for name in (
            name for name in request.options.leave_out_sites if name not in found
        ):
            what, cure = (
                f"there is no site '{name}' to leave out",
                "Spell it as the table does",
            )
            findings.error(ProblemCode.UNKNOWN_SITE, what, cure, subject=name)
        findings.raise_errors()

    def count_left_out(self) -> int:
        """Return the number of people who are left out, because a covariate or most
        regions are missing.
        """
        return sum(self._run(attrgetter("n_left_out")))

    def list_problems(self) -> list[Problem]:
        """Return what to say of outlying measurements."""
        return merge_problems(
            [
                problem
                for problems in self._run(attrgetter("problems"))
                for problem in problems
            ]
        )

    def list_outlying_measurements(self) -> pd.DataFrame:
        """Return the cells that do not fit the other regions of their person, and are
        not used.
        """
        return pd.concat(
            self._run(attrgetter("outlying_measurements")), ignore_index=True
        )

    def tabulate_people(self, model: FittedModel) -> pd.DataFrame:
        """Return the cross-fitted R-indices of everyone."""
        return pd.concat(
            self._run(PartPeople.tabulate_people, model), ignore_index=True
        )

    def ask(self, request: Request) -> dict[str, Answer]:
        """Return the answers of all parts."""
        contents = self._run(_answer, request.encode())
        return {
            part.name: receive_answer(content, part.name, request)
            for part, content in zip(self.parts, contents, strict=True)
        }

    def _run(self, function: Callable[..., Result], *arguments: Any) -> list[Result]:
        """Call a function with the people of each part."""
        from distributed import KilledWorker

        futures = [
            self.client.submit(call_part, opened, function, *arguments, pure=False)
            for opened in self._opened
        ]
        try:
            return list(self.client.gather(futures))
        except KilledWorker as error:
            lost = f"a part of the table lost {error.allowed_failures + 1} workers"
            raise StudyError(
                f"{lost}, perhaps for their memory: give fewer --workers, or workers with more memory."
            ) from error


@contextmanager
def connect_parts(
    table: Path,
    request: TableRequest,
    check: CheckCells,
    workers: int = -1,
    scheduler: str | None = None,
) -> Iterator[PartsTransport]:
    """Divide a table among Dask workers.

    Parameters
    ----------
    table : Path
        Parquet file, or folder of parquet files, with one row a person.
    request : TableRequest
        What its columns are.
    check : callable
        Finds outlying measurements of a batch of people (`check_cells` with its
        settings).
    workers : int
        Number of workers of a temporary cluster on this machine; -1 for all cores.
    scheduler : str, optional
        Address of a scheduler whose workers are used instead. They must see the table
        under the same path.

    Yields
    ------
    PartsTransport

    Raises
    ------
    StudyError
        If there is no table, no scheduler, or a duplicated ID.
    """
    files = list_table_files(table)
    if not files or not files[0].exists():
        raise StudyError(
            f"{table} has no parquet files: give a file or a folder of files."
        )
    chunks = [
        chunk
        for file in files
        for chunk in split_into_chunks(file, ChunkSize(parquet_rows=BATCH))
    ]
    parts = _make_parts(chunks, request, check)
    with DaskEngine(workers, scheduler).connect(len(parts), lambda text: None) as pool:
        transport = PartsTransport(pool.client, parts)
        transport.check_ids()
        transport.check_left_out(request)
        yield transport


def _make_parts(
    chunks: Sequence[TableChunk], request: TableRequest, check: CheckCells
) -> list[Part]:
    """Return parts of a few chunks each, in the order of the files."""
    size = max(1, min(_MAX_CHUNKS, len(chunks) // _FEW_PARTS))
    return [
        Part(
            name=f"part-{k:04d}",
            chunks=tuple(chunks[start : start + size]),
            request=request,
            check=check,
        )
        for k, start in enumerate(range(0, len(chunks), size))
    ]


def _read_batches(part: Part) -> Iterator[tuple[CheckedCohort, tuple[str, ...]]]:
    """Yield the people of a part and their outlying measurements, and who was left out
    as asked, a batch at a time.
    """
    opened: OpenedTable | None = None
    for chunk in part.chunks:
        if opened is None or opened.path != chunk.path:
            opened = OpenedTable.open(
                chunk.path, replace(part.request, volumes=(chunk.path,))
            )
        for result in opened.validate_chunk(chunk, BATCH):
            yield part.check(result.cohort_or_raise()), result.left_out


def _join_people(cohorts: Sequence[Cohort]) -> Cohort:
    """Return the people of several cohorts, without volumes."""
    people = pd.concat([cohort.people for cohort in cohorts], ignore_index=True)
    covariates = pd.concat([cohort.covariates for cohort in cohorts], ignore_index=True)
    return replace(
        cohorts[0],
        volumes=pd.DataFrame(index=people.index),
        people=people,
        covariates=covariates,
    )


def _format_repeated(number: int) -> str:
    return f"{format_count(number, 'row')} with a duplicated ID: keep one row of each person."

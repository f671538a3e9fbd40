"""Tables in parts: Dask workers answer requests with sums over their parts of a table.

Parts exist because no machine holds everyone. A worker reads its part once, a batch at
a time, and keeps volumes in a file of a temporary folder. In its memory remain ids,
groups, covariates and hashes of its people, the prepared patients of the members, whose
number is limited, and one batch of values. A worker that is lost takes its file with
it; another one then reads the part again.

Shape letters: N people of a part, R regions.
"""

import logging
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import AnyArray, FloatArray, IntArray
from rindices.engine.cluster import connect_client, require_packages
from rindices.engine.local import count_processes
from rindices.errors import Findings, Problem, ProblemCode, StudyError, format_count
from rindices.learners.people_source import Result
from rindices.model.fitted import FittedModel
<<<<<<< HEAD
from rindices.study.cluster import connect_client, require_packages
from rindices.study.engines import count_processes
from rindices.study.outlying_measurements import CheckedCohort
=======
from rindices.study.wrong_cells import CheckedCohort
>>>>>>> 9552d12a (Training runs as tasks of one engine: loky on this machine, Dask on many)
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


@dataclass(frozen=True, kw_only=True)
class Part:
    """Chunks of the files of a table that one worker answers for.

    Parameters
    ----------
    study : str
        Which study this is, for workers that have parts of several.
    name : str
    chunks : tuple of TableChunk
    request : TableRequest
        What the columns are.
    check : callable
        Finds outlying measurements of a batch of people.
    """

    study: str
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


_open_parts: dict[
    tuple[str, str], tuple[PartPeople, tempfile.TemporaryDirectory[str]]
] = {}
"""Parts that this worker has read, with their folders, by study and name."""


def open_part(part: Part) -> PartPeople:
    """Return the people of a part on this worker; it is read at the first call."""
    key = (part.study, part.name)
    if key not in _open_parts:
        folder = tempfile.TemporaryDirectory(prefix="rindices-")
        _open_parts[key] = (
            PartPeople(part.name, _read_batches(part), Path(folder.name)),
            folder,
        )
    return _open_parts[key][0]


def close_parts(study: str) -> None:
    """Delete the files of a study on this worker."""
    for key in [key for key in _open_parts if key[0] == study]:
        _open_parts.pop(key)[1].cleanup()


def call_part(part: Part, function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function with the people of a part; runs on a worker."""
    return function(open_part(part), *arguments)


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
        """Call a function with the people of each part, on the worker that has read it
        if it is still there.
        """
        workers = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        futures = [
            self.client.submit(
                *(call_part, part, function, *arguments),
                pure=False,
                workers=[workers[k % len(workers)]] if workers else None,
                allow_other_workers=True,
            )
            for k, part in enumerate(self.parts)
        ]
        return list(self.client.gather(futures))


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
    require_packages("dask")
    from distributed import LocalCluster

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
    with ExitStack() as stack:
        address: Any = scheduler
        if scheduler is None:
            n_workers = count_processes(workers, len(chunks))
            settings = {
                "n_workers": n_workers,
                "threads_per_worker": 1,
                "memory_limit": None,
            }
            cluster = LocalCluster(
                **settings, dashboard_address=":0", silence_logs=logging.CRITICAL
            )
            address = stack.enter_context(cluster)
        client = stack.enter_context(connect_client(address, lambda text: None))
        client.wait_for_workers(1)
        n_parts = min(len(client.scheduler_info(n_workers=-1)["workers"]), len(chunks))
        transport = PartsTransport(client, _make_parts(chunks, request, check, n_parts))
        stack.callback(client.run, close_parts, transport.parts[0].study)
        transport.check_ids()
        transport.check_left_out(request)
        yield transport


def _make_parts(
    chunks: Sequence[TableChunk], request: TableRequest, check: CheckCells, number: int
) -> list[Part]:
    """Return parts with about as many chunks each, in the order of the files."""
    study = secrets.token_hex(8)
    bounds = pairwise(
        np.linspace(0, len(chunks), number + 1).round().astype(int).tolist()
    )
    return [
        Part(
            study=study,
            name=f"part-{k:04d}",
            chunks=tuple(chunks[a:b]),
            request=request,
            check=check,
        )
        for k, (a, b) in enumerate(bounds)
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

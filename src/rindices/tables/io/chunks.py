"""A table in pieces, so that any number of people is read in bounded memory.

What the columns are, their unit and the kinds of covariates is told from the first `SCHEMA_ROWS` rows of a file, whatever the
size of the pieces; every later row is checked cell by cell.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np
import pandas as pd

from rindices.errors import Findings, Problem, ProblemCode
from rindices.tables.cohort import ID, Cohort
from rindices.tables.io.fast_path import FastPathSchema
from rindices.tables.io.parquet import PARQUET_SUFFIXES, is_parquet, open_parquet, read_batches
from rindices.tables.io.text import Dialect, read_frame, read_lines, sniff_dialect
from rindices.tables.layout.formats import Layout, find_column
from rindices.tables.layout.freesurfer import ICV_NAMES
from rindices.tables.layout.regions import exclude_regions, region_sort_key
from rindices.tables.table import Table, build_chunk_table, build_region_table, drop_counter_column
from rindices.tables.validation.units import Unit
from rindices.tables.validation.validate import KnownSchema, TableRequest, ValidationResult, validate_table

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_ROWS = 5_000
"""Rows that a file is judged by."""
_TEXT_SUFFIXES = (".csv", ".tsv", ".txt")


class ChunkSize(NamedTuple):
    """How large pieces are: rows that are worked on at once, rows of parquet a piece, bytes of text a piece."""

    rows: int = 25_000
    parquet_rows: int = 1_000_000
    text_bytes: int = 16_000_000


class TableChunk(NamedTuple):
    """A part of a file: row groups ``start`` to ``stop`` of a parquet file, or bytes of a text."""

    path: Path
    number: int
    start: int
    stop: int


def list_table_files(path: Path) -> list[Path] | None:
    """Return the files that a table is in: itself, or those of a folder; None where it is no such folder.

    A folder of parquet files, or else of text tables, is one table. Names that begin with a dot or an underscore are
    other programs' own and are left out.
    """
    if not path.is_dir():
        return [path]
    for suffixes in (PARQUET_SUFFIXES, _TEXT_SUFFIXES):
        found = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in suffixes and file.is_file()]
        own = [file for file in found if not any(p.startswith((".", "_")) for p in file.relative_to(path).parts)]
        if own:
            return own
    return None


def split_into_chunks(path: Path, size: ChunkSize) -> Iterator[TableChunk]:
    """Yield the pieces of a file in order, without reading its numbers."""
    cuts = _split_row_groups(path, size.parquet_rows) if is_parquet(path) else _split_lines(path, size.text_bytes)
    for number, (start, stop) in enumerate(cuts):
        yield TableChunk(path, number, start, stop)


def _split_row_groups(path: Path, rows: int) -> Iterator[tuple[int, int]]:
    meta = open_parquet(path).metadata
    start, held = 0, 0
    for group in range(meta.num_row_groups):
        held += meta.row_group(group).num_rows
        if held >= rows or (group == meta.num_row_groups - 1 and held):
            yield start, group + 1
            start, held = group + 1, 0


def _split_lines(path: Path, size: int) -> Iterator[tuple[int, int]]:
    """Cut a text behind ends of lines that are not within quotes."""
    with path.open("rb") as file:
        whole = file.read(2) in (b"\xff\xfe", b"\xfe\xff")  # two bytes a character: not cut
        file.seek(0)
        start = quotes = 0
        while block := file.read(size):
            block += file.readline()
            block += b"".join(_read_blank_lines(file))  # a piece of nothing but these would have no rows
            while (quotes + block.count(b'"')) % 2 and (line := file.readline()):
                block += line
            quotes += block.count(b'"')
            if not whole:
                yield start, file.tell()
                start = file.tell()
        if whole:
            yield 0, file.tell()


def _read_blank_lines(file: BinaryIO) -> Iterator[bytes]:
    """Read on over empty lines."""
    place = file.tell()
    while (line := file.readline()) and not line.strip():
        yield line
        place = file.tell()
    file.seek(place)


@dataclass(frozen=True)
class OpenedTable:
    """A file whose first rows were looked at.

    Attributes
    ----------
    path : Path
    request : Request
    dialect : Dialect or None
        How a text is written; None for parquet.
    table : Table
        The first rows, all columns.
    judged : Examination
        What the door said of them.
    whole : bool
        Whether they are all rows.
    plain : Plain or None
        What further rows look like that need not be examined; None where all must be.
    """

    path: Path
    request: TableRequest
    dialect: Dialect | None
    table: Table
    validation: ValidationResult
    whole: bool
    plain: FastPathSchema | None = None

    @classmethod
    def of(cls, path: Path, request: TableRequest, head: int = SCHEMA_ROWS) -> "OpenedTable":
        """Look at the first rows of a file; what is wrong with them is raised."""
        findings = Findings()
        as_text = request.roles.text_columns()
        frame, header = read_frame(path, as_text, findings, head + 1)
        whole = len(frame) <= head
        frame, header = drop_counter_column(frame.iloc[:head], header, path.name, findings)
        dialect = None if is_parquet(path) else sniff_dialect(path, findings)
        table = build_region_table(frame, header, path.name, request.roles, findings)
        judged = validate_table(replace(request, volumes=(path,)), KnownSchema(table))
        judged = replace(judged, problems=(*findings, *judged.problems))
        judged.cohort_or_raise()
        return cls(path, request, dialect, table, judged, whole)

    def covers_chunk(self, piece: TableChunk) -> bool:
        """Return whether the first rows are all rows, and the piece too."""
        end = self.path.stat().st_size if self.dialect is not None else open_parquet(self.path).metadata.num_row_groups
        return self.whole and (piece.start, piece.stop) == (0, end)

    def select_regions(self, regions: Collection[str]) -> "OpenedTable":
        """Return the opening for reading these regions alone, and what else is needed."""
        layout = self.table.layout
        left = exclude_regions(layout.regions, self.request.exclude)
        known = sorted(left.items(), key=lambda item: region_sort_key(item[1]))
        kept = {column: region for column, region in known if region in regions}
        wanted = {name.lower() for name in self.request.roles.named()}
        others = [
            name for name in layout.participant_columns if name.lower() in wanted or find_column([name], ICV_NAMES)
        ]
        layout = replace(layout, regions=kept, participant_columns=tuple(others))
        table = replace(self.table, frame=self.table.frame.iloc[:0], layout=layout)
        cohort = self.validation.cohort_or_raise()
        judged = replace(self.validation, cohort=cohort.take(np.zeros(0, dtype=np.intp)), keys=())
        return replace(self, table=table, validation=judged, plain=self._build_fast_path(cohort, layout))

    def _build_fast_path(self, cohort: Cohort, layout: Layout) -> FastPathSchema | None:
        """Return what plain rows look like, of tables that stand alone: no participants, sessions or sites."""
        asked, ids = self.request, self.table.id_column
        joined = asked.participants or asked.find_groups or asked.roles.site or self.table.sessions is not None
        if joined or ids is None or not len(cohort) or cohort.unit == Unit.STANDARDISED:
            return None
        columns = {name.lower(): name for name in layout.participant_columns} | {
            name: name for name in layout.participant_columns
        }
        columns |= {"icv": layout.icv or find_column(layout.participant_columns, ICV_NAMES) or ""}
        covariates = {name: columns.get(name) or columns.get(name.lower(), "") for name in cohort.covariates}
        return FastPathSchema.from_cohort(cohort, ids, layout.regions, covariates) if all(covariates.values()) else None

    @cached_property
    def columns(self) -> list[str]:
        """The columns that are read."""
        layout, table = self.table.layout, self.table
        icv = [layout.icv] if layout.icv else []
        named_ones = [name for name in (table.id_column, table.session_column) if name]
        return list(dict.fromkeys([*named_ones, *layout.regions, *icv, *layout.participant_columns]))

    def rows(self, piece: TableChunk, rows: int) -> Iterator[pd.DataFrame]:
        """Yield the rows of a piece, so many at a time."""
        findings = Findings()
        if self.dialect is not None:
            with piece.path.open("rb") as file:
                file.seek(piece.start)
                lines = file.read(piece.stop - piece.start)
            as_text = self.request.roles.text_columns()
            frame = read_lines(lines, piece.path, self.dialect, as_text, piece.start == 0, findings)
            for start in range(0, len(frame), rows):
                yield frame[self.columns].iloc[start : start + rows].reset_index(drop=True)
            return
        yield from (_batch_to_frame(batch) for batch in self._batches(piece, rows))

    def _batches(self, piece: TableChunk, rows: int) -> "Iterator[pa.RecordBatch]":
        return read_batches(piece.path, self.columns, range(piece.start, piece.stop), rows)

    def judge(self, piece: TableChunk, rows: int) -> Iterator[ValidationResult]:
        """Yield the rows of a piece, so many at a time, as the door lets them in; raises what is wrong with them."""
        if self.dialect is not None or self.plain is None:
            yield from (self.examine(frame) for frame in self.rows(piece, rows))
            return
        yield from map(self._validate_batch, self._batches(piece, rows))

    def _validate_batch(self, batch: "pa.RecordBatch") -> ValidationResult:
        cohort = None if self.plain is None else self.plain.read(batch)
        if cohort is None:
            return self.examine(_batch_to_frame(batch))
        return ValidationResult((), cohort, keys=tuple(cohort.people[ID].to_numpy(dtype=object)))

    def examine(self, frame: pd.DataFrame) -> ValidationResult:
        """Read and validate further rows, in their order; raises what is wrong with them."""
        findings = Findings()
        table = build_chunk_table(self.table, frame, findings)
        covariates = self.validation.cohort_or_raise().covariates
        kinds = {name: pd.api.types.is_numeric_dtype(values) for name, values in covariates.items()}
        more = KnownSchema(table, Unit(self.validation.unit or Unit.UNKNOWN), kinds, self.validation.participants)
        request = replace(self.request, exclude=())
        judged = validate_table(request, more)
        judged.cohort_or_raise()
        return judged


def merge_problems(problems: Sequence[Problem]) -> list[Problem]:
    """Return problems of many pieces, those alike told once with the number of pieces."""
    alike: dict[object, list[Problem]] = {}
    for problem in problems:
        kind = (problem.severity, problem.code, problem.subject)
        alike.setdefault(problem if problem.code is ProblemCode.ERROR else kind, []).append(problem)
    return [
        one[0]
        if len(set(one)) == 1
        else replace(one[0], ending=f"{one[0].ending} (and the like in {len(one) - 1:,} more pieces)")
        for one in alike.values()
    ]


def _batch_to_frame(batch: "pa.RecordBatch") -> pd.DataFrame:
    return batch.to_pandas(split_blocks=True, ignore_metadata=True)

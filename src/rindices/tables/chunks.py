"""Tables in chunks, so that any number of people is read in bounded memory.

What the columns are, their unit and the kinds of the covariates come from the first
`SCHEMA_ROWS` rows of a file, whatever the size of the chunks. The cells of all further
rows are checked by the same rules.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from rindices import errors
from rindices.tables.layouts.column_names import ICV_NAMES, find_column
from rindices.tables.layouts.select import select_columns
from rindices.tables.regions import exclude_regions, region_sort_key
from rindices.tables.sources import frames, lines
from rindices.tables.table import (
    Table,
    build_chunk_table,
    build_region_table,
    find_id_columns,
)
from rindices.tables.validate import (
    TableRequest,
    ValidationResult,
    validate_first_rows,
    validate_later_rows,
)

SCHEMA_ROWS = 5_000
"""Rows that decide what the columns of a file are."""
_CODES_OF_ALL_ROWS = errors.parse_codes(
    "bad_rows open_quotes control_characters long_cells long_rows short_rows no_line_end encoding_guessed "
    "unused_participants"
)
"""Problems that are left to the chunks, or for which all rows must have been read."""


@dataclass(frozen=True, kw_only=True)
class ChunkSize:
    """Size of chunks.

    Attributes
    ----------
    rows : int
        Rows that are worked on at once.
    parquet_rows : int
        Rows of a parquet chunk.
    text_bytes : int
        Bytes of a text chunk.
    schema_rows : int
        Rows that decide what the columns of a file are.
    """

    rows: int = 25_600
    parquet_rows: int = 1_000_000
    text_bytes: int = 16_000_000
    schema_rows: int = SCHEMA_ROWS


@dataclass(frozen=True, kw_only=True)
class TableChunk:
    """Part of a file.

    Attributes
    ----------
    path : Path
        The file.
    number : int
        Number of the chunk.
    start : int
        First row group of a parquet file, or first byte of a text.
    stop : int
        End of the chunk, likewise.
    """

    path: Path
    number: int
    start: int
    stop: int

    def make_absolute(self) -> "TableChunk":
        """Return the chunk for processes that run in other folders."""
        return replace(self, path=self.path.absolute())


def split_into_chunks(path: Path, size: ChunkSize) -> Iterator[TableChunk]:
    """Yield the chunks of a file in order, without parsing it."""
    is_parquet = frames.is_parquet(path)
    bounds = (
        _split_row_groups(path, size.parquet_rows)
        if is_parquet
        else _split_lines(path, size.text_bytes)
    )
    for number, (start, stop) in enumerate(bounds):
        yield TableChunk(path=path, number=number, start=start, stop=stop)


def _split_row_groups(path: Path, rows: int) -> Iterator[tuple[int, int]]:
    metadata = frames.open_parquet(path).metadata
    start, rows_in_chunk = 0, 0
    for group in range(metadata.num_row_groups):
        rows_in_chunk += metadata.row_group(group).num_rows
        if rows_in_chunk >= rows or (
            group == metadata.num_row_groups - 1 and rows_in_chunk
        ):
            yield start, group + 1
            start, rows_in_chunk = group + 1, 0


def _split_lines(path: Path, size: int) -> Iterator[tuple[int, int]]:
    """Cut a text after ends of lines; UTF-16, whose line ends have two bytes, is not
    cut.
    """
    with lines.explain_read_errors(path), path.open("rb") as file:
        end = path.stat().st_size
        size = end if lines.detect_encoding(file.read(2)) == "utf-16" else size
        start = 0
        while start < end:
            file.seek(min(start + size, end))
            lines.read_line(file, path)
            yield start, file.tell()
            start = file.tell()


@dataclass(frozen=True, kw_only=True)
class OpenedTable:
    """A file whose first rows were read and validated.

    Attributes
    ----------
    path : Path
        The file.
    request : TableRequest
        How it is read.
    dialect : Dialect or None
        How a text is written. None for parquet.
    table : Table
        The first rows, with all columns.
    validation : ValidationResult
        Result for the first rows.
    is_complete : bool
        Whether the first rows are all rows.
    """

    path: Path
    request: TableRequest
    dialect: lines.Dialect | None
    table: Table
    validation: ValidationResult
    is_complete: bool

    @classmethod
    def open(
        cls, path: Path, request: TableRequest, rows: int = SCHEMA_ROWS
    ) -> "OpenedTable":
        """Read and validate the first rows of a file; raises their errors."""
        findings = errors.Findings(where=path.name)
        frame = frames.read_frame(
            path, request.roles.text_columns(), findings, rows + 1
        )
        is_complete = len(frame) <= rows and not findings.errors()
        with lines.explain_read_errors(path):
            dialect = (
                None if frames.is_parquet(path) else lines.sniff_dialect(path, findings)
            )
        table = build_region_table(frame.iloc[:rows], request.roles, findings)
        layout = select_columns(
            table.layout,
            request.options.include,
            request.options.measure,
            request.model_regions,
            findings,
        )
        table = replace(table, layout=layout)
        validation = validate_first_rows(replace(request, volumes=(path,)), table)
        problems = [*findings, *validation.problems]
        if not is_complete and validation.ok:
            problems = [
                problem
                for problem in problems
                if problem.code not in _CODES_OF_ALL_ROWS
            ]
        validation = replace(validation, problems=tuple(problems))
        validation.cohort_or_raise()
        request = request.with_options(**vars(validation.roles))
        used = replace(
            layout, regions=exclude_regions(layout.regions, request.options.exclude)
        )  # those of all chunks
        return cls(
            path=path,
            request=request,
            dialect=dialect,
            table=replace(table, layout=used),
            validation=validation,
            is_complete=is_complete,
        )

    def select_regions(self, regions: Collection[str]) -> "OpenedTable":
        """Return a copy for reading only these regions and what else the
        request needs.
        """
        layout = self.table.layout
        used = exclude_regions(layout.regions, self.request.options.exclude)
        columns = sorted(used.items(), key=lambda item: region_sort_key(item[1]))
        requested = {name.lower() for name in self.request.roles.named()}
        others = [
            name
            for name in layout.participant_columns
            if name.lower() in requested or find_column([name], ICV_NAMES)
        ]
        layout = replace(
            layout,
            regions={column: region for column, region in columns if region in regions},
            participant_columns=tuple(others),
        )
        table = replace(self.table, frame=self.table.frame.iloc[:0], layout=layout)
        no_one = self.validation.cohort_or_raise().take(np.zeros(0, dtype=np.intp))
        return replace(
            self,
            table=table,
            validation=replace(self.validation, cohort=no_one, keys=()),
        )

    @cached_property
    def columns(self) -> list[str]:
        """The columns that are read."""
        layout, table = self.table.layout, self.table
        ids = find_id_columns(table.frame, table.id_column)
        names = [
            *ids,
            table.session_column,
            *layout.regions,
            layout.icv,
            *layout.participant_columns,
        ]
        return list(dict.fromkeys(name for name in names if name))

    def validate_chunk(
        self, chunk: TableChunk, rows: int
    ) -> Iterator[ValidationResult]:
        """Read and validate a chunk, ``rows`` rows at a time, in their order; results
        may hold errors.
        """
        if self.is_complete and (chunk.start, chunk.stop) == (0, self._end()):
            yield self.validation
            return
        if self.dialect is None:
            groups, regions = range(chunk.start, chunk.stop), self.table.layout.regions
            batches = frames.read_batches(
                chunk.path, self.columns, groups, rows, regions
            )
            yield from map(self._validate_rows, batches)
            return
        findings = errors.Findings(where=chunk.path.name)
        try:
            with lines.explain_read_errors(chunk.path), chunk.path.open("rb") as file:
                file.seek(chunk.start)
                content = file.read(chunk.stop - chunk.start)
            block = lines.split_lines(
                content, chunk.path, chunk.start, self.dialect, findings
            )
            frame = frames.read_block(
                block, self.dialect, self.request.roles.text_columns(), findings
            )[self.columns]
        except errors.TableError as error:
            yield ValidationResult(problems=error.problems)
            return
        for start in range(0, max(1, len(frame)), rows):
            validation = self._validate_rows(frame.iloc[start : start + rows])
            problems = [_shift_lines(problem, chunk) for problem in validation.problems]
            yield replace(
                validation, problems=(*(findings if start == 0 else ()), *problems)
            )

    def _end(self) -> int:
        """Return where the last chunk stops."""
        if self.dialect is None:
            return int(frames.open_parquet(self.path).metadata.num_row_groups)
        with lines.explain_read_errors(self.path):
            return self.path.stat().st_size

    def _validate_rows(self, frame: pd.DataFrame) -> ValidationResult:
        """Validate further rows with the schema of the first ones."""
        findings = errors.Findings()
        try:
            table = build_chunk_table(self.table, frame, findings)
        except errors.TableError as error:
            return ValidationResult(problems=error.problems)
        validation = validate_later_rows(
            self.request.with_options(exclude=()), table, self.validation
        )
        return replace(validation, problems=(*findings, *validation.problems))


def _shift_lines(problem: errors.Problem, chunk: TableChunk) -> errors.Problem:
    """Return a problem with numbers of lines of the file rather than of the chunk."""
    if problem.offender_kind is not errors.OffenderKind.ROW or not chunk.start:
        return problem
    before = lines.count_lines(chunk.path, chunk.start)
    numbers = tuple(str(before + int(number)) for number in problem.offenders)
    return replace(
        problem,
        offenders=numbers,
        listing=f"{frames.LINE} {errors.join_names(numbers)}",
    )


def merge_problems(problems: Sequence[errors.Problem]) -> list[errors.Problem]:
    """Return the problems of many chunks, with those of the same code and subject
    joined to one.

    Returns in order of appearance. The text of a joined problem is that of the first
    one, with the number of others.
    """
    groups: dict[object, list[errors.Problem]] = {}
    for problem in problems:
        key = (problem.severity, problem.code, problem.subject)
        groups.setdefault(
            problem if problem.code is errors.ProblemCode.ERROR else key, []
        ).append(problem)
    return [_join_problems(group) for group in groups.values()]


def _join_problems(problems: Sequence[errors.Problem]) -> errors.Problem:
    first = problems[0]
    if len(set(problems)) == 1:
        return first
    return replace(
        first,
        offenders=tuple(
            dict.fromkeys(name for problem in problems for name in problem.offenders)
        ),
        listing=first.listing or errors.join_names(first.offenders),
        ending=f"{first.ending} (and the like in {errors.format_count(len(problems) - 1, 'more chunk')})",
    )

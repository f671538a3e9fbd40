"""Parquet tables: read into memory, or in batches of rows."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pandas as pd

from rindices.errors import Findings, ProblemCode, join_names

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

PARQUET_SUFFIXES = (".parquet", ".pq")
_BUFFER_BYTES = 131_072  # per column, because a row group may be larger than memory


def is_parquet(path: Path) -> bool:
    """Return whether a file is parquet by its name."""
    return path.suffix.lower() in PARQUET_SUFFIXES


def read_parquet(path: Path, max_columns: int, findings: Findings, rows: int | None = None) -> pd.DataFrame:
    """Read a table, or its first rows; a named index becomes columns, and names of columns are stripped."""
    with open_parquet(path, findings) as file:
        import pyarrow as pa

        width = len(file.schema_arrow.names)
        if width > max_columns:
            what = f"the table has {width:,} columns; at most {max_columns:,} are read"
            findings.fatal(ProblemCode.TOO_MANY_COLUMNS, what, path.name)
        try:
            frame = pd.read_parquet(path) if rows is None else _read_first_rows(file, rows)
        except (pa.ArrowException, OSError, ValueError) as error:
            _refuse_file(path, error, findings)
    return move_index_to_columns(frame)


def move_index_to_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose named index became columns, with stripped names of columns."""
    named_index = [name for name in frame.index.names if name]
    frame = frame.reset_index() if named_index else frame.reset_index(drop=True)
    return strip_column_names(frame)


def open_parquet(path: Path, findings: Findings | None = None) -> "pq.ParquetFile":
    """Open a file to read its row groups one by one; raises `TableError` if that is not possible."""
    findings = findings or Findings()
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        cure = "pip install 'rindices[parquet]'"
        findings.fatal(ProblemCode.MISSING_PACKAGE, "reading parquet needs pyarrow", path.name, cure)
    try:
        return pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        _refuse_file(path, error, findings)


def _refuse_file(path: Path, error: Exception, findings: Findings) -> NoReturn:
    what = f"this is not a readable parquet file ({join_names([error])})"
    findings.fatal(ProblemCode.FILE_UNREADABLE, what, path.name, "Write it again")


def read_batches(
    path: Path, columns: Sequence[str], groups: Sequence[int], rows: int, regions: Collection[str] = ()
) -> Iterator[pd.DataFrame]:
    """Yield columns of row groups as frames of at most ``rows`` rows, whose index counts the rows of the file.

    columns: stripped names; groups: consecutive row groups, which may be larger than memory; regions: columns that
    become floats if they hold numbers. They are the last columns of a frame, in one block of memory.
    """
    with open_parquet(path) as file:
        import pyarrow as pa

        fields = {str(field.name).strip(): field for field in file.schema_arrow}
        numbers = [name for name in columns if name in regions and _is_number(fields[name].type)]
        others = [name for name in columns if name not in numbers]
        index = pd.Index([*others, *numbers])  # the same object for all batches, because it caches its hash table
        first_row = sum(file.metadata.row_group(group).num_rows for group in range(groups[0])) if groups else 0
        try:
            names = [fields[name].name for name in index]
            for batch in file.iter_batches(rows, groups, names, use_threads=False):
                frame = _to_frame(batch, names[: len(others)], names[len(others) :])
                frame.columns, frame.index = index, pd.RangeIndex(first_row, first_row + len(frame))
                first_row += len(frame)
                yield frame
                del batch, frame  # their memory is for the next batch
        except (pa.ArrowException, OSError) as error:
            _refuse_file(path, error, Findings())


def _is_number(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _to_frame(batch: "pa.RecordBatch", others: list[str], numbers: list[str]) -> pd.DataFrame:
    """Return the columns of a batch, with ``numbers`` as one block of floats (one conversion, no copy)."""
    values = np.empty((len(numbers), len(batch)))
    for row, name in zip(values, numbers, strict=True):
        row[:] = batch.column(name).to_numpy(zero_copy_only=False)
    return pd.concat([batch.select(others).to_pandas(ignore_metadata=True), pd.DataFrame(values.T, copy=False)], axis=1)


def strip_column_names(frame: pd.DataFrame) -> pd.DataFrame:
    """Strip the names of the columns."""
    frame.columns = pd.Index([str(name).strip() for name in frame.columns])
    return frame


def _read_first_rows(file: "pq.ParquetFile", rows: int) -> pd.DataFrame:
    import pyarrow as pa

    batches: list[pa.RecordBatch] = []
    for batch in file.iter_batches(batch_size=rows):
        batches.append(batch)
        if sum(map(len, batches)) >= rows:
            break
    frame: pd.DataFrame = pa.Table.from_batches(batches, file.schema_arrow).slice(0, rows).to_pandas()
    return frame

"""Parquet tables: read at once, or row group by row group."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from rindices.errors import Findings, ProblemCode, TableError, join_names

if TYPE_CHECKING:
    import pyarrow.parquet as pq

PARQUET_SUFFIXES = (".parquet", ".pq")
_BUFFER_BYTES = 131_072  # bytes of a column: row groups may be larger than memory


def is_parquet(path: Path) -> bool:
    """Return whether a file is parquet by its name."""
    return path.suffix.lower() in PARQUET_SUFFIXES


def read_parquet(path: Path, most_columns: int, findings: Findings, rows: int | None = None) -> pd.DataFrame:
    """Read a table, or its first rows; a named index becomes columns, and names of columns are stripped."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        cure = "pip install 'rindices[parquet]'"
        findings.fatal(ProblemCode.MISSING_PACKAGE, "reading parquet needs pyarrow", path.name, cure)
    try:
        width = len(pq.read_schema(path).names)
        if width > most_columns:
            what = f"the table has {width:,} columns; at most {most_columns:,} are read"
            findings.fatal(ProblemCode.TOO_MANY_COLUMNS, what, path.name)
        frame = pd.read_parquet(path) if rows is None else _read_first_rows(path, rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        what = f"this is not a readable parquet file ({join_names([error])})"
        findings.fatal(ProblemCode.FILE_UNREADABLE, what, path.name, "Write it again")
    named_index = [name for name in frame.index.names if name]
    frame = frame.reset_index() if named_index else frame.reset_index(drop=True)
    return strip_column_names(frame)


def open_parquet(path: Path) -> "pq.ParquetFile":
    """Open a file whose row groups are read one by one."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TableError(f"{path.name}: reading parquet needs pyarrow: pip install 'rindices[parquet]'.") from error
    try:
        return pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{path.name} is not a readable parquet file ({join_names([error])}): write it again."
        ) from error


def read_batches(path: Path, columns: Sequence[str], groups: Sequence[int], rows: int) -> Iterator[pd.DataFrame]:
    """Yield columns of row groups as frames of at most ``rows`` rows.

    Parameters
    ----------
    path : Path
    columns : sequence of str
        Stripped names.
    groups : sequence of int
        Row groups, which may be larger than memory.
    rows : int
    """
    file = open_parquet(path)
    names = {str(name).strip(): name for name in file.schema_arrow.names}
    for batch in file.iter_batches(rows, list(groups), [names[column] for column in columns], use_threads=False):
        yield strip_column_names(batch.to_pandas(split_blocks=True, ignore_metadata=True))


def strip_column_names(frame: pd.DataFrame) -> pd.DataFrame:
    """Strip the names of the columns."""
    frame.columns = pd.Index([str(name).strip() for name in frame.columns])
    return frame


def _read_first_rows(path: Path, rows: int) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
        batches, held = [], 0
        for batch in file.iter_batches(batch_size=rows):
            batches.append(batch)
            held += batch.num_rows
            if held >= rows:
                break
        frame: pd.DataFrame = pa.Table.from_batches(batches, file.schema_arrow).slice(0, rows).to_pandas()
    return frame

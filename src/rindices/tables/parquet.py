"""Parquet tables: read at once, or row group by row group."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from rindices.errors import Findings, TableError, named

if TYPE_CHECKING:
    import pyarrow.parquet as pq

SUFFIXES = (".parquet", ".pq")
_READ_AHEAD = 131_072  # bytes of a column: row groups may be larger than memory


def is_parquet(path: Path) -> bool:
    """Return whether a file is parquet by its name."""
    return path.suffix.lower() in SUFFIXES


def read_parquet(path: Path, most_columns: int, findings: Findings, rows: int | None = None) -> pd.DataFrame:
    """Read a table, or its first rows; a named index becomes columns, and names of columns are stripped."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        findings.fatal("reading parquet needs pyarrow", path.name, "pip install 'rindices[parquet]'")
    try:
        width = len(pq.read_schema(path).names)
        if width > most_columns:
            findings.fatal(f"the table has {width:,} columns; at most {most_columns:,} are read", path.name)
        frame = pd.read_parquet(path) if rows is None else _first_rows(path, rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        findings.fatal(f"this is not a readable parquet file ({named([error])})", path.name, "Write it again")
    named_index = [name for name in frame.index.names if name]
    frame = frame.reset_index() if named_index else frame.reset_index(drop=True)
    return stripped(frame)


def open_parquet(path: Path) -> "pq.ParquetFile":
    """Open a file whose row groups are read one by one."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TableError(f"{path.name}: reading parquet needs pyarrow: pip install 'rindices[parquet]'.") from error
    try:
        return pq.ParquetFile(path, buffer_size=_READ_AHEAD, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{path.name} is not a readable parquet file ({named([error])}): write it again.") from error


def stripped(frame: pd.DataFrame) -> pd.DataFrame:
    """Strip the names of the columns."""
    frame.columns = pd.Index([str(name).strip() for name in frame.columns])
    return frame


def _first_rows(path: Path, rows: int) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, buffer_size=_READ_AHEAD, pre_buffer=False) as file:
        batches, held = [], 0
        for batch in file.iter_batches(batch_size=rows):
            batches.append(batch)
            held += batch.num_rows
            if held >= rows:
                break
        frame: pd.DataFrame = pa.Table.from_batches(batches, file.schema_arrow).slice(0, rows).to_pandas()
    return frame

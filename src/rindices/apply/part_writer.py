"""Parts of a large result: each is written in several steps, and all are joined in the end."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rindices.apply.row_hashes import hash_keys
from rindices.apply.tables import SEPARATORS, check_people_count, count_rows, write_data_dictionary
from rindices.atomic import atomic_path, compute_digest
from rindices.errors import ModelError
from rindices.tables.cohort import ID, SESSION
from rindices.tables.io.spreadsheet import protect_texts, restore_texts
from rindices.tables.table import make_row_keys

if TYPE_CHECKING:
    import pyarrow as pa


_ROW_GROUP_SIZE = 50_000


@contextmanager
def open_part(path: Path) -> Iterator["PartWriter"]:
    """Yield a writer of a part; the file gets its name when all rows are written."""
    with atomic_path(path) as temporary_path:
        writer = PartWriter(temporary_path)
        try:
            yield writer
            writer.write_row_group()
        finally:
            writer.close()
        writer.size, writer.digest = temporary_path.stat().st_size, compute_digest(temporary_path)


class PartWriter:
    """Writes the rows of a table to a file, some at a time: text without a header, or parquet.

    size: of the finished file in bytes; digest: see `compute_digest`.
    """

    def __init__(self, path: Path) -> None:
        self.columns: list[str] = []
        self.size, self.digest = 0, ""
        self._path = path
        self._file: Any = None
        self._row_group: list[pa.Table] = []

    def write(self, table: pd.DataFrame) -> None:
        """Add rows."""
        self.columns = list(table.columns)
        if self._path.suffix != ".parquet":
            self._file = self._file or self._path.open("w", encoding="utf-8", newline="")
            separator = SEPARATORS[self._path.suffix]
            protect_texts(table).to_csv(self._file, sep=separator, index=False, header=False, lineterminator="\n")
            return
        self._row_group.append(_to_arrow_table(table))
        if sum(map(len, self._row_group)) >= _ROW_GROUP_SIZE:
            self.write_row_group()

    def write_row_group(self) -> None:
        """Write the rows that still wait for a row group of parquet to be full."""
        if not self._row_group:
            return
        import pyarrow as pa

        self._file = self._file or _open_parquet_writer(self._path, self._row_group[0].schema)
        self._file.write_table(pa.concat_tables(self._row_group).combine_chunks())
        self._row_group = []

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def read_part_keys(path: Path, columns: Sequence[str]) -> list[str]:
    """Return the key of each row of a part: its person and session.

    columns: names of the columns of the part.
    """
    names = [name for name in (ID, SESSION) if name in columns]
    table = _read_columns(path, columns, names)
    return make_row_keys(table[ID].to_list(), table[SESSION].to_list() if SESSION in names else None)


def count_people(parts: Sequence[Path], columns: Sequence[str], n_rows: int) -> int:
    """Return the number of people in parts; fewer than rows where people have several visits.

    columns: names of the columns of all parts; n_rows: of all parts: the number of people if there are no sessions.
    """
    if SESSION not in columns:
        return n_rows
    hashes = [np.unique(hash_keys(_read_columns(part, columns, [ID])[ID].to_list())) for part in parts]
    return len(np.unique(np.concatenate(hashes)))


def _read_columns(path: Path, columns: Sequence[str], names: list[str]) -> pd.DataFrame:
    """Return some columns of a part, which has no header."""
    if path.suffix == ".parquet":
        return pd.read_parquet(path, columns=names)
    options = {"header": None, "names": list(columns), "usecols": names, "dtype": str, "na_filter": False}
    return restore_texts(pd.read_csv(path, sep=SEPARATORS[path.suffix], encoding="utf-8", **options))


def join_parts(parts: Sequence[Path], out: Path, columns: Sequence[str], people: int, unit: str = "") -> None:
    """Join parts to one file, in their order; a text table gets a header and a data dictionary.

    columns: names of the columns of all parts; people: number of people in all parts; another number of rows is an
    error; unit: unit of the model, for the words of the data dictionary.
    """
    with atomic_path(out) as temporary_path:
        if out.suffix == ".parquet":
            _join_parquet(parts, temporary_path)
        else:
            _join_text(parts, temporary_path, SEPARATORS[out.suffix].join(columns) + "\n")
        check_people_count(people, count_rows(temporary_path), out)
    if out.suffix != ".parquet":
        write_data_dictionary(out, columns, unit)


def _join_text(parts: Sequence[Path], out: Path, header: str) -> None:
    with out.open("wb") as file:
        file.write(header.encode())
        for part in parts:
            with part.open("rb") as rows:
                shutil.copyfileobj(rows, file, 1_000_000)


def _join_parquet(parts: Sequence[Path], out: Path) -> None:
    import pyarrow.parquet as pq

    with _open_parquet_writer(out, pq.read_schema(parts[0])) as writer:
        for part in parts:
            with pq.ParquetFile(part) as file:
                for group in range(file.num_row_groups):
                    writer.write_table(file.read_row_group(group))


def _to_arrow_table(table: pd.DataFrame) -> "pa.Table":
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ModelError("writing parquet needs pyarrow: pip install 'rindices[parquet]'.") from error
    columns = {
        name: pa.array(column.to_numpy())
        if pd.api.types.is_numeric_dtype(column)
        else pa.array(column.array, pa.string(), from_pandas=True)
        for name, column in table.items()
    }
    return pa.table(columns)


def _open_parquet_writer(path: Path, schema: "pa.Schema") -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [field.name for field in schema if pa.types.is_string(field.type) and field.name == "novel_because"]
    return pq.ParquetWriter(path, schema, use_dictionary=texts)

"""Parts of a large result: written row by row, joined in the end, whole or not there."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from rindices.atomic import make_temporary_path
from rindices.errors import ModelError
from rindices.model.index_tables import SEPARATORS, write_data_dictionary

if TYPE_CHECKING:
    import pyarrow as pa


_ROW_GROUP_SIZE = 50_000  # rows of a group of parquet


class PartWriter:
    """Writes rows beside a file, which gets its name when all are written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: list[str] = []
        self._temporary_path = make_temporary_path(path)
        self._file: Any = None
        self._rows: list[pa.Table] = []

    def write(self, table: pd.DataFrame) -> None:
        """Add rows."""
        self.columns = list(table.columns)
        if self.path.suffix != ".parquet":
            self._file = self._file or self._temporary_path.open("w", encoding="utf-8", newline="")
            separator = SEPARATORS[self.path.suffix]
            table.to_csv(self._file, sep=separator, index=False, header=False, lineterminator="\n")
            return
        self._rows.append(_to_arrow_table(table))
        if sum(map(len, self._rows)) >= _ROW_GROUP_SIZE:
            self._write_group()

    def _write_group(self) -> None:
        if not self._rows:
            return
        import pyarrow as pa

        self._file = self._file or _open_parquet_writer(self._temporary_path, self._rows[0].schema)
        self._file.write_table(pa.concat_tables(self._rows).combine_chunks())
        self._rows = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._write_group()
            if self._file is not None:
                self._file.close()
            if error is None:
                self._temporary_path.replace(self.path)
        finally:
            self._temporary_path.unlink(missing_ok=True)  # nothing is there any more where all went well


def join_parts(parts: Sequence[Path], out: Path, columns: Sequence[str]) -> None:
    """Make one file of parts in their order."""
    beside = make_temporary_path(out)
    try:
        if out.suffix == ".parquet":
            _join_parquet(parts, beside)
        else:
            _join_text(parts, beside, SEPARATORS[out.suffix].join(columns) + "\n")
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)
    if out.suffix != ".parquet":
        write_data_dictionary(out, columns)


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
    kinds = {name: None if pd.api.types.is_numeric_dtype(kind) else pa.string() for name, kind in table.dtypes.items()}
    return pa.table({name: pa.array(table[name].array, kinds[name], from_pandas=True) for name in table})


def _open_parquet_writer(path: Path, schema: "pa.Schema") -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [field.name for field in schema if pa.types.is_string(field.type) and field.name == "novel_because"]
    return pq.ParquetWriter(path, schema, use_dictionary=texts)

"""Read tables of text, parquet and Excel into frames."""

import os
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import pandas as pd

from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    describe_os_error,
    format_count,
    join_names,
    make_install_command,
)
from rindices.tables.sources import lines
from rindices.tables.sources.spreadsheet import EXCEL_SUFFIX, read_sheet, restore_texts

if TYPE_CHECKING:
    import pyarrow.parquet as pq

PARQUET_SUFFIXES = (".parquet", ".pq")
_TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
_SIZE_CURE = "Keep the columns and people of the study alone"
_BUFFER_BYTES = 131_072  # per column, because a row group may be larger than memory
_MISSING_VALUES_TEXT = (
    "NA N/A n/a na NaN nan -nan NULL null <NA> #N/A #NA #NULL! . n.a. missing"
)
_MISSING_VALUES = ["", " ", *_MISSING_VALUES_TEXT.split()]
LINE = "line"
"""Name of an index that counts the lines of a text from 0."""
_COMMA_REGEX = re.compile(r"^\s*([+-]?\d+),(\d+)\s*$")
_PARSER_ERRORS = (
    pd.errors.ParserError,
    pd.errors.ParserWarning,
    ValueError,
    OverflowError,
)


def is_parquet(path: Path) -> bool:
    """Return whether a file is parquet by its name."""
    return path.suffix.lower() in PARQUET_SUFFIXES


def locate(folder: Path, path: str | os.PathLike[str]) -> Path:
    """Return a path, relative to a folder, or one in object storage (``s3://``,
    ``gs://``).
    """
    scheme, _, rest = str(path).partition(":/")  # pathlib makes one slash of two
    if scheme not in ("s3", "gs"):
        return folder / path
    try:
        from upath import UPath
    except ImportError:
        cure = f"Install it: {make_install_command('cloud')}"
        Findings(where=str(path)).fatal(
            ProblemCode.MISSING_PACKAGE, "object storage needs universal-pathlib", cure
        )
    return cast("Path", UPath(f"{scheme}://{rest.lstrip('/')}"))


def list_table_files(path: Path) -> list[Path] | None:
    """Return the files of a table: the file itself, or those of a folder; None for a
    folder without any, and for Excel.

    A folder of parquet files, or else of text tables, is one table. Names that begin
    with a dot or an underscore belong to other programs and are left out.
    """
    if not path.is_dir():
        return None if path.suffix.lower() == EXCEL_SUFFIX else [path]
    for suffixes in (PARQUET_SUFFIXES, _TEXT_SUFFIXES):
        files = [
            file
            for file in sorted(path.rglob("*"))
            if file.suffix.lower() in suffixes
            and file.is_file()
            and not any(
                part.startswith((".", "_")) for part in file.relative_to(path).parts
            )
        ]
        if files:
            return files
    return None


def read_parquet(
    path: Path, findings: Findings, rows: int | None = None
) -> pd.DataFrame:
    """Read a table, or its first rows; a named index becomes columns, and names of
    columns are stripped.
    """
    with open_parquet(path, findings) as file:
        import pyarrow as pa

        width = len(file.schema_arrow.names)
        if width > lines.MAX_COLUMNS:
            what = f"the table has {width:,} columns; at most {lines.MAX_COLUMNS:,} are read"
            findings.fatal(ProblemCode.TOO_MANY_COLUMNS, what)
        n_rows = file.metadata.num_rows
        if rows is None and n_rows * width > lines.MAX_TABLE_CELLS:
            what = f"the table has {n_rows:,} rows of {width:,} columns; at most {lines.MAX_TABLE_CELLS:,} cells are read"
            findings.fatal(ProblemCode.FILE_UNREADABLE, what, _SIZE_CURE)
        try:
            frame = (
                file.read().to_pandas()
                if rows is None
                else _read_first_rows(file, rows)
            )
        except (
            pa.ArrowException,
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
        ) as error:
            _refuse_parquet(error, findings)
    return _move_index_to_columns(frame)


def _move_index_to_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose named index became columns, with stripped names
    of columns.
    """
    named_index = [name for name in frame.index.names if name]
    frame = frame.reset_index() if named_index else frame.reset_index(drop=True)
    frame.columns = pd.Index([str(name).strip() for name in frame.columns])
    return frame


def open_parquet(path: Path, findings: Findings | None = None) -> "pq.ParquetFile":
    """Open a file to read its row groups one by one; raises `TableError` if that is not
    possible.
    """
    findings = findings or Findings(where=path.name)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        cure = f"Install it: {make_install_command('parquet')}"
        findings.fatal(
            ProblemCode.MISSING_PACKAGE, "reading parquet needs pyarrow", cure
        )
    try:
        source = (
            path if isinstance(path, PurePath) else path.open("rb")
        )  # object storage has no file of the system
        return pq.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        _refuse_parquet(error, findings)


def _refuse_parquet(error: Exception, findings: Findings) -> NoReturn:
    what = f"this is not a readable parquet file ({join_names([error])})"
    findings.fatal(ProblemCode.FILE_UNREADABLE, what, "Write it again")


def read_batches(
    path: Path,
    columns: Sequence[str],
    groups: Sequence[int],
    rows: int,
    regions: Collection[str] = (),
) -> Iterator[pd.DataFrame]:
    """Yield columns of row groups as frames of at most ``rows`` rows, whose index
    counts the rows of the file.

    Parameters
    ----------
    path : Path
        A parquet file.
    columns : sequence of str
        Stripped names.
    groups : sequence of int
        Consecutive row groups, which may be larger than memory.
    rows : int
        Largest number of rows of a frame.
    regions : collection of str
        Columns that become floats if they hold numbers. They are the last columns of a
        frame, in one block of memory.
    """
    with open_parquet(path) as file:
        import pyarrow as pa

        fields = {str(field.name).strip(): field for field in file.schema_arrow}
        kinds = {name: fields[name].type for name in columns if name in regions}
        numbers = [
            name
            for name, kind in kinds.items()
            if pa.types.is_floating(kind) or pa.types.is_integer(kind)
        ]
        others = [name for name in columns if name not in numbers]
        index = pd.Index(
            [*others, *numbers]
        )  # the same object for all batches, because it caches its hash table
        first_row = (
            sum(file.metadata.row_group(group).num_rows for group in range(groups[0]))
            if groups
            else 0
        )
        try:
            names = [fields[name].name for name in index]
            for batch in file.iter_batches(rows, groups, names, use_threads=False):
                values = np.empty(
                    (len(numbers), len(batch))
                )  # one block of floats: one conversion, no copy
                for row, name in zip(values, names[len(others) :], strict=True):
                    row[:] = batch.column(name).to_numpy(zero_copy_only=False)
                labels = batch.select(names[: len(others)]).to_pandas(
                    ignore_metadata=True
                )
                frame = pd.concat([labels, pd.DataFrame(values.T, copy=False)], axis=1)
                frame.columns, frame.index = (
                    index,
                    pd.RangeIndex(first_row, first_row + len(frame)),
                )
                first_row += len(frame)
                yield frame
                del batch, values, labels, frame  # their memory is for the next batch
        except (pa.ArrowException, OSError) as error:
            _refuse_parquet(error, Findings(where=path.name))


def _read_first_rows(file: "pq.ParquetFile", rows: int) -> pd.DataFrame:
    import pyarrow as pa

    batches: list[pa.RecordBatch] = []
    for batch in file.iter_batches(batch_size=rows):
        batches.append(batch)
        if sum(map(len, batches)) >= rows:
            break
    frame: pd.DataFrame = (
        pa.Table.from_batches(batches, file.schema_arrow).slice(0, rows).to_pandas()
    )
    return frame


@dataclass(frozen=True, eq=False)
class MemoryTable:
    """A table in memory instead of a file.

    Attributes
    ----------
    frame : DataFrame
        The table.
    name : str
        Argument that it was given as.
    """

    frame: pd.DataFrame
    name: str


def fill_column_names(header: Sequence[str]) -> list[str]:
    """Return the names of columns, with ``column 1``, ``column 2``, ... for
    empty ones.
    """
    return [name or f"column {number}" for number, name in enumerate(header, start=1)]


def _read_text(
    path: Path, as_text: Collection[str], findings: Findings, rows: int | None
) -> tuple[pd.DataFrame, list[str]]:
    """Read a table of text, or its first rows; return it with its header."""
    with lines.explain_read_errors(path):
        dialect = lines.sniff_dialect(path, findings)
        header = list(dialect.header)
        _check_header(header, findings)
        if rows is None:
            _check_text_size(path, findings)
            content = path.read_bytes()
        else:
            content = _read_first_lines(path, dialect, rows)
    block = lines.split_lines(content, path, 0, dialect, findings)
    return read_block(block, dialect, as_text, findings, rows), header


def _drop_empty_columns(frame: pd.DataFrame, header: Sequence[str]) -> pd.DataFrame:
    """Return a table without columns that have neither name nor value, such as a
    separator at the end of each line makes.
    """
    names = zip(fill_column_names(header), header, strict=True)
    unnamed = [name for name, original in names if not original and name in frame]
    empty = [name for name in unnamed if bool(frame[name].isna().all())]
    return frame.drop(columns=empty) if empty else frame


def read_frame(
    path: Path | MemoryTable,
    as_text: Collection[str],
    findings: Findings,
    rows: int | None = None,
) -> pd.DataFrame:
    """Read a table of text, parquet or Excel, or take one in memory.

    The names of the columns are stripped and unique (`fill_column_names`). A first
    column without a name that counts the rows, as pandas and R write it, is dropped.

    Parameters
    ----------
    path : Path or MemoryTable
        The table.
    as_text : collection of str
        Columns that must stay text, so that the ID ``007`` is not read as 7.
    findings : Findings
        Collects the problems.
    rows : int or None
        Read at most this many. Errors about single lines are then left to the caller.

    Returns
    -------
    DataFrame
        One row per line. The index counts lines or rows from 0.
    """
    findings = findings.at(path.name)
    if not isinstance(path, MemoryTable):
        _check_file(path, findings)
    if isinstance(path, MemoryTable) or path.suffix.lower() == EXCEL_SUFFIX:
        if isinstance(path, MemoryTable):
            frame = _move_index_to_columns(path.frame.copy())
        else:
            frame = read_sheet(path, findings)
        header = ["" if pd.isna(name) else str(name) for name in frame.columns]
        _check_header(header, findings)
        frame = _read_cells(frame.set_axis(fill_column_names(header), axis=1), as_text)
    elif is_parquet(path):
        frame = read_parquet(path, findings, rows)
        header = [str(name) for name in frame.columns]
        _check_header(header, findings)
    else:
        frame, header = _read_text(path, as_text, findings, rows)
    if rows is None or frame.empty:
        findings.raise_errors()
    if frame.empty:
        what = "the table has a header and no people"
        findings.fatal(ProblemCode.NO_ROWS, what, "Export it again with its rows")
    frame = _drop_empty_columns(frame, header)
    first = str(frame.columns[0])
    if is_nameless(first) and is_row_counter(to_text(frame[first]).tolist()):
        what = "the nameless first column only counts the rows; it is not used"
        findings.note(ProblemCode.ROW_COUNTER_DROPPED, what)
        frame = frame.drop(columns=first)
    return frame


def is_nameless(column: str) -> bool:
    """Return whether the first column has no name in the file."""
    return column in ("", "column 1") or column.startswith("Unnamed")


def is_row_counter(values: Sequence[str]) -> bool:
    """Return whether values count the rows, from 0 or 1."""
    return any(
        list(values) == [str(k) for k in range(start, start + len(values))]
        for start in (0, 1)
    )


def _read_cells(frame: pd.DataFrame, as_text: Collection[str]) -> pd.DataFrame:
    """Return a table of cells of any type with labels as text and words for missing as
    missing.
    """
    text_names = {normalise_column_name(name) for name in as_text}
    columns = {}
    for name in frame.columns:
        values = frame[name]
        if normalise_column_name(name) in text_names:
            values = to_text(values)
        if not pd.api.types.is_numeric_dtype(values):
            cells = (
                to_text(values)
                if isinstance(values.dtype, pd.StringDtype)
                else values.astype("object")
            )
            values = cells.mask(cells.isin(_MISSING_VALUES)).infer_objects()
        columns[name] = values
    return pd.DataFrame(columns, index=frame.index)


def _check_file(path: Path, findings: Findings) -> None:
    findings_of_path = findings.at(str(path))
    if not path.exists():
        findings_of_path.fatal(
            ProblemCode.FILE_MISSING, "there is no such file", "Check the path"
        )
    if not path.is_file():
        findings_of_path.fatal(
            ProblemCode.FILE_UNREADABLE,
            "this is not a file",
            "Give the path of a table",
        )
    try:
        with path.open("rb") as file:
            size = len(file.read(1))
    except OSError as error:
        what = f"the file cannot be read ({describe_os_error(error)})"
        findings_of_path.fatal(
            ProblemCode.FILE_UNREADABLE, what, "Check its permissions"
        )
    if size == 0:
        findings.fatal(ProblemCode.FILE_EMPTY, "the file is empty", "Export it again")


def _check_text_size(path: Path, findings: Findings) -> None:
    size = path.stat().st_size
    if size > lines.MAX_TEXT_BYTES:
        what = f"the text has {size / 1e9:,.1f} GB; at most {lines.MAX_TEXT_BYTES / 1e9:,.0f} GB are read"
        findings.fatal(ProblemCode.FILE_UNREADABLE, what, _SIZE_CURE)


def _check_header(header: list[str], findings: Findings) -> None:
    if len(header) > lines.MAX_COLUMNS:
        what = f"the table has {len(header):,} columns; at most {lines.MAX_COLUMNS:,} are read"
        cure = "Give one row per person and one column per region; is it transposed?"
        findings.fatal(ProblemCode.TOO_MANY_COLUMNS, what, cure)
    if len(header) < 2:
        cure = "Columns are separated by comma, tab, semicolon or blanks; an id and the regions are needed"
        findings.fatal(
            ProblemCode.TOO_FEW_COLUMNS,
            f"only one column was found: '{join_names(header)}'",
            cure,
        )
    duplicates = find_duplicates(fill_column_names(header))
    if duplicates:
        what = format_count(len(duplicates), "duplicate column name")
        kind, cure = OffenderKind.COLUMN, "Rename or remove the second one"
        findings.fatal(
            ProblemCode.DUPLICATE_COLUMNS,
            what,
            cure,
            offenders=duplicates,
            offender_kind=kind,
        )


def read_block(
    block: lines.LineBlock,
    dialect: lines.Dialect,
    as_text: Iterable[str],
    findings: Findings,
    rows: int | None = None,
) -> pd.DataFrame:
    """Read lines of a text table in which each row is one line.

    A stray quotation mark joins lines to one row, and their people would be lost.
    Therefore the rows are compared with the lines. Lines that cannot be rows are
    errors, and the others are read nevertheless, to be checked as well.

    Parameters
    ----------
    block : LineBlock
        All lines.
    dialect : Dialect
        How the text is written.
    as_text : iterable of str
        Columns that must stay text.
    findings : Findings
        Collects the problems.
    rows : int or None
        Read at most this many.

    Returns
    -------
    DataFrame
        Its index, ``line``, counts the lines of the block from 0.
    """
    block = lines.refuse_lines(block, dialect, findings)
    options = _build_read_options(dialect, as_text) | {"nrows": rows}
    try:
        return _parse_block(block, options)
    except _PARSER_ERRORS:
        block = lines.refuse_open_marks(block, dialect, findings, block.rows)
    try:
        return _parse_block(block, options)
    except _PARSER_ERRORS as error:
        first = block.count_lines_before() + block.skip + 1
        what = f"the rows from line {first:,} on cannot be read ({join_names(str(error).splitlines()[:1])})"
        findings.fatal(ProblemCode.BAD_ROWS, what, "Export the table again")


def _parse_block(block: lines.LineBlock, options: dict[str, Any]) -> pd.DataFrame:
    """Parse the rows of a block; another number of rows than lines is an error."""
    text = block.join_rows()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error", pd.errors.ParserWarning
            )  # pandas would cut rows longer than the header
            warnings.simplefilter(
                "ignore", pd.errors.DtypeWarning
            )  # text among numbers is reported later
            frame: pd.DataFrame = pd.read_csv(
                BytesIO(text), encoding="utf-8", **options
            )
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame(columns=options["names"])
    numbers = block.rows[: options["nrows"]]
    if len(frame) != len(numbers):
        raise ValueError(f"{len(numbers):,} lines are {len(frame):,} rows")
    frame.index = pd.Index(numbers, name=LINE, dtype=np.intp)
    frame = (
        _read_decimal_commas(frame, options["dtype"])
        if options["decimal"] == ","
        else frame
    )
    return restore_texts(frame) if b"'" in text else frame


def _read_decimal_commas(frame: pd.DataFrame, as_text: Collection[str]) -> pd.DataFrame:
    """Write numbers with a point in columns that pandas left as text because of another
    cell.

    Otherwise all cells of such a column would be reported as text, and not the one that
    is.
    """
    is_numeric = pd.api.types.is_numeric_dtype
    columns = [
        name
        for name, dtype in frame.dtypes.items()
        if not is_numeric(dtype) and name not in as_text
    ]
    points = {
        name: frame[name].astype("object").replace(_COMMA_REGEX, r"\1.\2", regex=True)
        for name in columns
    }
    return frame.assign(**points)


def _read_first_lines(path: Path, dialect: lines.Dialect, rows: int) -> bytes:
    """Return the lines up to the header and ``rows`` further lines that are not blank;
    UTF-16 is read to its end.
    """
    if dialect.encoding == "utf-16":
        return path.read_bytes()
    with path.open("rb") as file:
        content = list(islice(file, dialect.skip))
        while rows and (line := lines.read_line(file, path)):
            content.append(line)
            rows -= len(lines.list_rows([line], dialect))
    return b"".join(content)


def _build_read_options(
    dialect: lines.Dialect, as_text: Iterable[str]
) -> dict[str, Any]:
    """Return the options with which pandas reads a text table."""
    names = fill_column_names(dialect.header)
    text_names = {normalise_column_name(name) for name in as_text}
    return {
        "sep": dialect.separator,
        "decimal": dialect.decimal,
        "header": None,
        "names": names,
        "index_col": False,
        "dtype": {
            name: str for name in names if normalise_column_name(name) in text_names
        },
        # the default list has "None", which is a label in some tables
        "keep_default_na": False,
        "na_values": _MISSING_VALUES,
        "skipinitialspace": dialect.blanks,
    }


def normalise_column_name(name: str) -> str:
    """Return a column name in lower case without blanks and punctuation."""
    return "".join(char for char in name.lower() if char.isalnum())


def to_text(values: pd.Series) -> pd.Series:
    """Return labels as stripped text, integers without ``.0``, missing ones as None."""
    if pd.api.types.is_integer_dtype(values):  # floats cannot hold long ids
        return (
            values.map(str, na_action="ignore")
            .astype("object")
            .where(values.notna(), None)
        )
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        numbers = pd.to_numeric(values).astype(float)
        is_whole = [np.isfinite(number) and number == int(number) for number in numbers]
        texts = [
            str(int(x)) if whole else repr(x)
            for x, whole in zip(numbers, is_whole, strict=True)
        ]
        return pd.Series(texts, index=values.index, dtype="object").where(
            values.notna(), None
        )
    if isinstance(values.dtype, pd.StringDtype):
        trimmed = values.str.strip()
        cells = trimmed.to_numpy(dtype=object, na_value=None)
        cells[(trimmed == "").to_numpy(dtype=bool, na_value=False)] = None
        return pd.Series(cells, index=values.index, dtype="object")
    missing = values.isna().tolist()
    cells = values.astype("object").tolist()
    stripped = [
        None if lacking else str(cell).strip() or None
        for cell, lacking in zip(cells, missing, strict=True)
    ]
    return pd.Series(stripped, index=values.index, dtype="object")


def find_duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, in order of appearance."""
    return [name for name, times in Counter(names).items() if times > 1]

"""Read text and parquet tables into frames."""

import csv
import warnings
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from rindices.errors import Findings, OffenderKind, ProblemCode, describe_os_error, format_count, join_names
from rindices.tables.io.dialect import MAX_COLUMNS, WHITESPACE_REGEX, Dialect, sniff_dialect
from rindices.tables.io.parquet import is_parquet, read_parquet
from rindices.tables.validation.ids import find_duplicates

if TYPE_CHECKING:
    import _csv
    from collections.abc import Collection, Iterator

_MISSING_VALUES_TEXT = "NA N/A n/a na NaN nan -nan NULL null <NA> #N/A #NA #NULL! . n.a. missing"
_MISSING_VALUES = ["", " ", *_MISSING_VALUES_TEXT.split()]
_PARSER_ERRORS = (pd.errors.ParserError, pd.errors.ParserWarning, ValueError, OverflowError)


def fill_column_names(header: tuple[str, ...]) -> list[str]:
    """Return the names of columns, with ``column 1``, ``column 2``, ... for empty ones."""
    return [name or f"column {number}" for number, name in enumerate(header, start=1)]


def read_frame(
    path: Path, as_text: "Collection[str]", findings: Findings, rows: int | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Read a text or parquet table.

    Parameters
    ----------
    path : Path
    as_text : collection of str
        Columns that must stay text, in any case, so that ``007`` is not read as 7: ids, sessions and labels.
    findings : Findings
        Takes the problems.
    rows : int, optional
        Read at most this many.

    Returns
    -------
    frame : DataFrame
        One row per line; column names are stripped and unique.
    header : list of str
        The names as in the file; they may be empty.
    """
    where = path.name
    _check_file(path, findings)
    if is_parquet(path):
        frame = read_parquet(path, MAX_COLUMNS, findings, rows)
        header = [str(name) for name in frame.columns]
        _check_header(header, where, findings)
    else:
        dialect = sniff_dialect(path, findings)
        header = list(dialect.header)
        _check_header(header, where, findings)
        if rows is None:
            frame = _read_text(path, path.name, dialect, _build_read_options(dialect, as_text), findings)
        else:
            frame = read_lines(_read_first_lines(path, dialect, rows), path, 0, dialect, as_text, findings, rows)
    if frame.empty:
        what = "the table has a header and no people"
        findings.fatal(ProblemCode.NO_ROWS, what, where, "Export it again with its rows")
    return _drop_empty_columns(frame, header), header


def _check_file(path: Path, findings: Findings) -> None:
    if not path.exists():
        findings.fatal(ProblemCode.FILE_MISSING, "there is no such file", str(path), "Check the path")
    if not path.is_file():
        findings.fatal(ProblemCode.FILE_UNREADABLE, "this is not a file", str(path), "Give the path of a table")
    try:
        with path.open("rb") as file:
            size = len(file.read(1))
    except OSError as error:
        what = f"the file cannot be read ({describe_os_error(error)})"
        findings.fatal(ProblemCode.FILE_UNREADABLE, what, str(path), "Check its permissions")
    if size == 0:
        findings.fatal(ProblemCode.FILE_EMPTY, "the file is empty", path.name, "Export it again")


def _check_header(header: list[str], where: str, findings: Findings) -> None:
    if len(header) > MAX_COLUMNS:
        what = f"the table has {len(header):,} columns; at most {MAX_COLUMNS:,} are read"
        cure = "Give one row per person and one column per region; is it transposed?"
        findings.fatal(ProblemCode.TOO_MANY_COLUMNS, what, where, cure)
    if len(header) < 2:
        what = f"only one column was found: '{join_names(header)}'"
        cure = "Columns are separated by comma, tab, semicolon or blanks; an id and the regions are needed"
        findings.fatal(ProblemCode.TOO_FEW_COLUMNS, what, where, cure)
    duplicates = find_duplicates(fill_column_names(tuple(header)))
    if duplicates:
        what = f"{format_count(len(duplicates), 'column name stands', 'column names stand')} more than once"
        kind, cure = OffenderKind.COLUMN, "Rename or remove the second one"
        findings.fatal(ProblemCode.DUPLICATE_COLUMNS, what, where, cure, offenders=duplicates, offender_kind=kind)


def read_lines(
    content: bytes,
    path: Path,
    start: int,
    dialect: Dialect,
    as_text: "Collection[str]",
    findings: Findings,
    rows: int | None = None,
) -> pd.DataFrame:
    """Read lines of a text table in which each row is one line.

    A stray quotation mark joins lines to one row, and their people would be lost. Therefore the rows are counted.

    Parameters
    ----------
    content : bytes
        The lines.
    path : Path
        The file that they come from.
    start : int
        Offset of the lines in the file; 0 for lines that include the header.
    dialect : Dialect
    as_text : collection of str
        Columns that must stay text.
    findings : Findings
        Takes the problems.
    rows : int, optional
        Read at most this many.
    """
    skip = 0 if start else dialect.skip
    options = _build_read_options(dialect, as_text) | {"skiprows": skip, "nrows": rows}
    try:
        frame = _parse_text(content, path.name, dialect, options, findings)
    except _PARSER_ERRORS as error:
        _refuse_joined_lines(content, path, start, dialect, findings)
        _raise_row_error(error, content, path.name, dialect, findings, _count_lines(path, start))
    expected = _count_filled_lines(content, dialect, skip)
    if len(frame) != (expected if rows is None else min(expected, rows)):
        _refuse_joined_lines(content, path, start, dialect, findings)
        what = f"{expected:,} lines from line {_count_lines(path, start) + skip + 1:,} on are {len(frame):,} rows"
        findings.fatal(ProblemCode.BAD_ROWS, what, path.name, "Export it again with one line per person")
    return frame


def _read_first_lines(path: Path, dialect: Dialect, rows: int) -> bytes:
    """Return the lines up to the header and ``rows`` further lines that are not blank; UTF-16 is read to its end."""
    if dialect.encoding == "utf-16":
        return path.read_bytes()
    with path.open("rb") as file:
        lines = list(islice(file, dialect.skip))
        while rows and (line := file.readline()):
            lines.append(line)
            rows -= bool(line.strip())
    return b"".join(lines)


def _count_filled_lines(content: bytes, dialect: Dialect, skip: int) -> int:
    """Return the number of lines that pandas does not skip as blank."""
    if dialect.encoding == "utf-16":
        content = content.decode("utf-16").encode()
    blanks = b" \t".replace(dialect.separator.encode(), b"")
    return sum(bool(line.strip(blanks)) for line in content.splitlines()[skip:])


def _count_lines(path: Path, end: int) -> int:
    """Return the number of lines before an offset in a file."""
    lines = 0
    with path.open("rb") as file:
        while file.tell() < end:
            lines += file.read(min(1_000_000, end - file.tell())).count(b"\n")
    return lines


def _refuse_joined_lines(content: bytes, path: Path, start: int, dialect: Dialect, findings: Findings) -> None:
    """Raise an error that names the first line which a quotation mark joins to the next, if there is one."""
    line = 0
    with _open_rows(content + "\nend".encode(dialect.encoding), dialect) as reader:
        try:
            joined = any(reader.line_num > (line := line + 1) for _ in reader)
        except csv.Error:  # a cell without end
            joined, line = True, line + 1
    if joined:
        number = f"{_count_lines(path, start) + line:,}"
        what = f"line {number} opens a quotation mark that is not closed on this line"
        cure = "Remove the quotation mark, or the line break in the cell: each person needs one line"
        findings.fatal(ProblemCode.BAD_ROWS, what, path.name, cure)


def _read_text(
    source: Path | bytes, where: str, dialect: Dialect, options: dict[str, Any], findings: Findings
) -> pd.DataFrame:
    try:
        return _parse_text(source, where, dialect, options, findings)
    except _PARSER_ERRORS as error:
        _raise_row_error(error, source, where, dialect, findings)


def _parse_text(
    source: Path | bytes, where: str, dialect: Dialect, options: dict[str, Any], findings: Findings
) -> pd.DataFrame:
    try:
        return _parse_csv(source, dialect.encoding, options)
    except UnicodeDecodeError:
        what = "the text is not UTF-8; it was read as Latin-1"
        findings.note(ProblemCode.ENCODING_GUESSED, what, where, "Save it as UTF-8")
        return _parse_csv(source, "latin-1", options)


def _build_read_options(dialect: Dialect, as_text: "Collection[str]") -> dict[str, Any]:
    """Return the options with which pandas reads a text table."""
    names = fill_column_names(dialect.header)
    text_names = {normalise_column_name(name) for name in as_text}
    return {
        "sep": dialect.separator,
        "decimal": dialect.decimal,
        "header": None,
        "names": names,
        "skiprows": dialect.skip,
        "index_col": False,
        "dtype": {name: str for name in names if normalise_column_name(name) in text_names},
        "keep_default_na": False,  # the default list has "None", which is a label in some tables
        "na_values": _MISSING_VALUES,
        "skipinitialspace": dialect.blanks,
    }


def normalise_column_name(name: str) -> str:
    """Return a column name in lower case without blanks and punctuation."""
    return "".join(char for char in name.lower() if char.isalnum())


def _parse_csv(source: Path | bytes, encoding: str, options: dict[str, Any]) -> pd.DataFrame:
    file = BytesIO(source) if isinstance(source, bytes) else source
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # pandas would cut rows longer than the header
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)  # text among numbers is reported later
            frame: pd.DataFrame = pd.read_csv(file, encoding=encoding, **options)
    except pd.errors.EmptyDataError:
        return pd.DataFrame(columns=options["names"])
    return frame


def _raise_row_error(
    error: Exception, source: Path | bytes, where: str, dialect: Dialect, findings: Findings, lines_before: int = 0
) -> NoReturn:
    """Raise an error that says why the rows do not fit the header."""
    names = len(dialect.header)
    long_row = None if isinstance(error, pd.errors.ParserWarning) else _find_long_row(source, dialect)
    if isinstance(error, pd.errors.ParserWarning):
        what = f"the rows have more values than the header has names ({names})"
    elif long_row:
        what = f"line {lines_before + long_row[0]:,} has {long_row[1]} values, the header {names} names"
    else:
        what = f"the rows cannot be read ({join_names(str(error).splitlines()[:1])})"
    cure = "Export it again with one name per column (in R: write.csv(row.names = FALSE))"
    findings.fatal(ProblemCode.BAD_ROWS, what, where, cure)


def _find_long_row(source: Path | bytes, dialect: Dialect) -> tuple[int, int] | None:
    """Return the line and the number of values of the first row with more values than names, if there is one."""
    with _open_rows(source, dialect) as reader:
        blanks = dialect.separator == WHITESPACE_REGEX
        try:
            rows = ((reader.line_num, len(row) - (blanks and row[-1:] == [""])) for row in reader)
            return next((row for row in rows if row[1] > len(dialect.header)), None)
        except csv.Error:
            return None


@contextmanager
def _open_rows(source: Path | bytes, dialect: Dialect) -> "Iterator[_csv.Reader]":
    """Open a text for reading row by row with line numbers, which pandas does not tell."""
    content = BytesIO(source) if isinstance(source, bytes) else source.open("rb")
    delimiter = " " if dialect.separator == WHITESPACE_REGEX else dialect.separator
    with TextIOWrapper(content, dialect.encoding, errors="replace", newline="") as lines:
        yield csv.reader(lines, delimiter=delimiter, skipinitialspace=True)


def _drop_empty_columns(frame: pd.DataFrame, header: list[str]) -> pd.DataFrame:
    """Drop columns with neither name nor value, which come from a separator at the end of each line."""
    unnamed = [name for name, original in zip(fill_column_names(tuple(header)), header, strict=True) if not original]
    empty = [name for name in unnamed if name in frame and bool(frame[name].isna().all())]
    return frame.drop(columns=empty) if empty else frame


def to_text(values: pd.Series) -> pd.Series:
    """Return labels as stripped text, integers without ``.0``, missing ones as None."""
    if pd.api.types.is_integer_dtype(values):  # floats cannot hold long ids
        return values.map(str, na_action="ignore").astype("object").where(values.notna(), None)
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        numbers = pd.to_numeric(values).astype(float)
        texts = [_format_number(number) for number in numbers]
        return pd.Series(texts, index=values.index, dtype="object").where(values.notna(), None)
    if isinstance(values.dtype, pd.StringDtype):
        trimmed = values.str.strip()
        cells = trimmed.where(trimmed.notna() & (trimmed != ""), None).to_numpy(dtype=object, na_value=None)
        return pd.Series(cells, index=values.index, dtype="object")
    missing = values.isna().tolist()
    cells = values.astype("object").tolist()
    stripped = [None if lacking else str(cell).strip() or None for cell, lacking in zip(cells, missing, strict=True)]
    return pd.Series(stripped, index=values.index, dtype="object")


def _format_number(number: float) -> str:
    return str(int(number)) if np.isfinite(number) and number == int(number) else repr(number)

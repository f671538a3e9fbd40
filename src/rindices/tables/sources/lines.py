"""Lines of a text table and how they are written: each person has one line, and every
line is accounted for.
"""

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    ProblemDetails,
    describe_os_error,
    format_count,
    join_names,
)

if TYPE_CHECKING:
    import _csv

MAX_COLUMNS = 20_000
MAX_TEXT_BYTES, MAX_TABLE_CELLS = 4_000_000_000, 500_000_000
"""Largest text, and most cells of a parquet table, that are read into memory as one
table; `rindices apply` takes larger ones in chunks.
"""
WHITESPACE_REGEX = r"\s+"
_HEAD_BYTES = 4_000_000
_HEAD_LINES = 200
_COMMENT_REGEX = re.compile(
    r"\s*#|sep=.$", re.IGNORECASE
)  # before the header: comments, and Excel's separator line
_MAGIC_BYTES = {
    b"PK\x03\x04": "an Excel or zip file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"\x1f\x8b": "a gzip file",
    b"PAR1": "a parquet file without the suffix .parquet",
}
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"
MAX_CELL_BYTES = 100_000
"""Longest cell that is read; spreadsheets hold less."""
_MAX_LINE_BYTES = 4_000_000
_CONTROL_BYTES = bytes(
    [*range(9), 11, 12, *range(14, 32), 127]
)  # all but tab and the ends of lines
_CONTROL_REGEX = re.compile(b"[" + re.escape(_CONTROL_BYTES) + b"]")
_QUOTED_REGEX = re.compile(b'"[^"]*"')
_CONTROL_CURE = "Remove it: a cell holds printable text"
_MAX_NAMED_LINES = 1_000


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """Format of a text table.

    Attributes
    ----------
    encoding : str
        Encoding of the text.
    separator : str
        A character, or a regular expression for blanks.
    decimal : str
        ``.`` or ``,``.
    header : tuple of str
        Names as written. They may be empty.
    skip : int
        Number of lines up to and including the header.
    blanks : bool
        Whether blanks follow the separators. Skipping them makes reading a third
        slower.
    """

    encoding: str
    separator: str
    decimal: str
    header: tuple[str, ...]
    skip: int
    blanks: bool

    @property
    def byte_separator(self) -> bytes | None:
        """The separator as bytes; None for blanks, as `bytes.split` takes it."""
        return None if self.separator == WHITESPACE_REGEX else self.separator.encode()


def _refuse_other_format(head: bytes, findings: Findings) -> None:
    """Refuse files of other formats, by their first bytes."""
    cure = "Export it as CSV and try again (.xlsx files are read by their suffix)"
    for magic, kind in _MAGIC_BYTES.items():
        if head.startswith(magic):
            what = f"this is {kind}, not a text table"
            findings.fatal(ProblemCode.NOT_A_TABLE, what, cure)


def sniff_dialect(path: Path, findings: Findings) -> Dialect:
    """Detect the format of a text table from its first lines; ``findings`` are those of
    the file.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    _refuse_other_format(head, findings)
    encoding = detect_encoding(head)
    if encoding == "utf-16":  # the last character may be cut
        text = head.decode("utf-16", errors="replace")
    else:
        text = to_utf8(head, encoding, findings)[0].decode("utf-8")
    lines = re.split(r"\r\n|\n|\r", text, maxsplit=_HEAD_LINES)[:_HEAD_LINES]
    filled = [
        number
        for number, line in enumerate(lines)
        if line.strip(" \t,;") and not _COMMENT_REGEX.match(line)
    ]
    # in later lines it is a control character
    if "\x00" in "".join(lines[: filled[0] + 1 if filled else None]):
        what = "this is a binary file, not a text table"
        findings.fatal(ProblemCode.NOT_A_TABLE, what, "Export the table as CSV")
    if not filled:
        findings.fatal(ProblemCode.FILE_EMPTY, "the file is empty", "Export it again")
    if len(lines) == 1 and len(head) == _HEAD_BYTES:
        what = f"the first line is longer than {_HEAD_BYTES:,} bytes"
        cure = f"A table has one row per person and at most {MAX_COLUMNS:,} columns; is it transposed?"
        findings.fatal(ProblemCode.TOO_MANY_COLUMNS, what, cure)
    header, *rows = (lines[number] for number in filled)
    separator = _detect_separator(header)
    decimal, names = (
        _detect_decimal_mark(rows, separator),
        _split_cells(header, separator),
    )
    blanks = any(f"{separator} " in line for line in (header, *rows))
    return Dialect(
        encoding=encoding,
        separator=separator,
        decimal=decimal,
        header=names,
        skip=filled[0] + 1,
        blanks=blanks,
    )


def _detect_separator(header: str) -> str:
    """Return the separator that gives the most columns; blanks only without any other,
    since names may hold them.
    """
    unquoted = re.sub(r'"[^"]*"', "", header)
    counts = {char: unquoted.count(char) for char in "\t;,"}
    best = max(counts, key=lambda char: counts[char])
    if counts[best]:
        return best
    return WHITESPACE_REGEX if len(header.split()) > 1 else ","


def _detect_decimal_mark(rows: list[str], separator: str) -> str:
    """Return the decimal mark: a comma if most numbers have one and it is not the
    separator.
    """
    if separator == ",":
        return "."
    cells = [cell for row in rows for cell in _split_cells(row, separator)]
    commas = [cell for cell in cells if re.fullmatch(r"-?\d+,\d+", cell)]
    points = sum(bool(re.fullmatch(r"-?\d+\.\d+", cell)) for cell in cells)
    # Commas mark thousands if there is 3,400 and 12,150 but never 4123,5.
    thousands = all(re.fullmatch(r"-?\d{1,3},\d{3}", cell) for cell in commas)
    return "," if len(commas) > points and not thousands else "."


def _split_cells(line: str, separator: str) -> tuple[str, ...]:
    """Split one line into its stripped cells."""
    if separator == WHITESPACE_REGEX:
        cells = re.findall(r'"[^"]*"|\S+', line)
        return tuple(cell.strip('"') for cell in cells)
    limit = csv.field_size_limit()
    if any(len(cell) >= limit for cell in line.split(separator)):
        return tuple(line.split(separator))
    try:
        cells = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        cells = line.split(separator)
    return tuple(cell.strip() for cell in cells)


def detect_encoding(head: bytes) -> str:
    """Return ``utf-16`` for a text that begins with its mark, else ``utf-8``."""
    return "utf-16" if head.startswith(_UTF16_MARKS) else "utf-8"


def to_utf8(
    content: bytes, encoding: str, findings: Findings
) -> tuple[bytes, list[int]]:
    """Return a text as UTF-8.

    A line that is not UTF-8 is read as Latin-1. This is decided line by line, so that
    the result does not depend on the chunks in which a file is read.

    findings: takes the error for a text that is not UTF-16. Returns content;
    other_lines: indices of the lines that were read as Latin-1.
    """
    if encoding == "utf-16":
        try:
            return content.decode("utf-16").encode(), []
        except UnicodeError:
            what = "the file begins as UTF-16 and has other bytes later, or was cut"
            findings.fatal(ProblemCode.FILE_UNREADABLE, what, "Save it as UTF-8")
    content = content.removeprefix(_UTF8_MARK)
    if _is_utf8(content):
        return content, []
    lines = content.splitlines(keepends=True)
    other_lines = [index for index, line in enumerate(lines) if not _is_utf8(line)]
    for index in other_lines:
        lines[index] = lines[index].decode("latin-1").encode()
    return b"".join(lines), other_lines


def _is_utf8(content: bytes) -> bool:
    try:
        content.isascii() or content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class LineBlock:
    """Consecutive lines of a text table as UTF-8, without their ends.

    Attributes
    ----------
    path : Path
        The file.
    start : int
        Offset of the lines in the file. 0 for lines that include the header.
    lines : list of bytes
        The lines.
    skip : int
        Number of lines up to and including the header. 0 if the lines do not include
        it.
    rows : list of int
        Indices of the lines that are rows.
    is_cut : bool
        Whether the last line has no line end. It is then the last one of the file, and
        may be incomplete.
    """

    path: Path
    start: int
    lines: list[bytes]
    skip: int
    rows: list[int]
    is_cut: bool

    def count_lines_before(self) -> int:
        """Return the number of lines of the file before this block."""
        return count_lines(self.path, self.start) if self.start else 0

    def name_lines(self, indices: Sequence[int]) -> ProblemDetails:
        """Return the numbers of lines, as editors count them, for a problem."""
        numbers = [self.count_lines_before() + index + 1 for index in indices]
        listing = f"line {join_names(f'{number:,}' for number in numbers)}"
        return {
            "offenders": list(map(str, numbers)),
            "offender_kind": OffenderKind.ROW,
            "listing": listing,
        }

    def join_rows(self) -> bytes:
        """Return the rows as one text, without the header.

        It begins with an empty line, so that pandas does not take a mark of UTF-8 in
        the first cell for that of a file.
        """
        return b"\n".join([b"", *(self.lines[index] for index in self.rows)])


def list_rows(lines: Iterable[bytes], dialect: Dialect) -> list[int]:
    """Return the indices of the lines that are rows: those with more than blanks,
    separators and quotation marks.

    Spreadsheets write lines of separators for empty rows below a table.
    """
    fillers = b' \t\r\n"' + (dialect.byte_separator or b"")
    return [index for index, line in enumerate(lines) if line.strip(fillers)]


@contextmanager
def explain_read_errors(path: Path) -> Iterator[None]:
    """Turn an error of the system while a file is read into an error that names the
    file.
    """
    try:
        yield
    except OSError as error:
        what = f"the file cannot be read ({describe_os_error(error)})"
        cure = "Check that it is still there, and its permissions"
        Findings(where=str(path)).fatal(ProblemCode.FILE_UNREADABLE, what, cure)


def read_line(file: BinaryIO, path: Path) -> bytes:
    """Return the rest of a line; one that is longer than any row is an error before it
    fills the memory.
    """
    line = file.readline(_MAX_LINE_BYTES)
    if (
        len(line) < _MAX_LINE_BYTES or b"\r" in line
    ):  # a text with the line ends of old Macs is one line here
        return line + (b"" if line.endswith(b"\n") else file.readline())
    what = f"line {count_lines(path, file.tell()) + 1:,} is longer than {_MAX_LINE_BYTES:,} bytes"
    return Findings(where=path.name).fatal(
        ProblemCode.BAD_ROWS, what, "Shorten its cells, or export the table again"
    )


_last_count = ((0, 0, 0, 0), 0, 0)
"""File (device, number, size and time of change) and offset up to which lines were
counted last, and their number.
"""


def count_lines(path: Path, end: int) -> int:
    """Return the number of lines before an offset in a file; counting goes on from the
    last offset of the same file.
    """
    global _last_count
    with explain_read_errors(path), path.open("rb") as file:
        status = os.fstat(file.fileno())
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        start, lines = (
            _last_count[1:]
            if _last_count[0] == key and _last_count[1] <= end
            else (0, 0)
        )
        file.seek(start)
        while file.tell() < end and (
            content := file.read(min(1_000_000, end - file.tell()))
        ):
            lines += content.count(b"\n")
    _last_count = (key, end, lines)
    return lines


def split_lines(
    content: bytes, path: Path, start: int, dialect: Dialect, findings: Findings
) -> LineBlock:
    """Split content into lines; a note names those that are not UTF-8."""
    text, other_lines = to_utf8(content, dialect.encoding, findings)
    lines = text.splitlines()
    skip = 0 if start else dialect.skip
    rows = [k for k in list_rows(lines, dialect) if k >= skip]
    block = LineBlock(
        path=path,
        start=start,
        lines=lines,
        skip=skip,
        rows=rows,
        is_cut=not text.endswith((b"\n", b"\r")),
    )
    if other_lines:
        details = block.name_lines(other_lines)
        details["offenders"] = list(details["offenders"])[:_MAX_NAMED_LINES]
        what = f"{format_count(len(other_lines), 'line is', 'lines are')} not UTF-8; read as Latin-1"
        findings.note(ProblemCode.ENCODING_GUESSED, what, "Save it as UTF-8", **details)
    return block


def refuse_lines(block: LineBlock, dialect: Dialect, findings: Findings) -> LineBlock:
    """Report lines that cannot be rows, and return the block without them.

    These are lines with a control character, with a cell that is too long, with more or
    fewer values than the header has names, or with a quotation mark that is not closed
    on its line, which would join the next people to the same row.

    findings: takes an error for each kind of lines.
    """
    for index in range(block.skip):
        if len(block.lines[index].translate(None, _CONTROL_BYTES)) < len(
            block.lines[index]
        ):
            what = f"line {index + 1:,} holds a control character"
            findings.fatal(ProblemCode.CONTROL_CHARACTERS, what, _CONTROL_CURE)
    text = block.join_rows()
    if len(text.translate(None, _CONTROL_BYTES)) < len(text):  # faster than the pattern
        words = ("line holds a control character", "lines hold a control character")
        refused = [k for k in block.rows if _CONTROL_REGEX.search(block.lines[k])]
        block = _report_lines(
            block,
            refused,
            ProblemCode.CONTROL_CHARACTERS,
            words,
            _CONTROL_CURE,
            findings,
        )
    long = [k for k in block.rows if len(block.lines[k]) > MAX_CELL_BYTES]
    long = [
        k
        for k in long
        if max(map(len, block.lines[k].split(dialect.byte_separator))) > MAX_CELL_BYTES
    ]
    limit, cure = (
        f"a cell of more than {MAX_CELL_BYTES:,} bytes",
        "Shorten it, or export the table again",
    )
    words = (f"line has {limit}", f"lines have {limit}")
    block = _report_lines(block, long, ProblemCode.LONG_CELLS, words, cure, findings)
    width = len(dialect.header)
    lengths = {
        k: length
        for k in block.rows
        if (length := _count_cells(block.lines[k], dialect)) != width
    }
    if b'"' in text:
        marked = [
            k for k in block.rows if k in lengths or block.lines[k].count(b'"') % 2 == 1
        ]
        block = refuse_open_marks(block, dialect, findings, marked)
    return _refuse_uneven_rows(block, lengths, width, findings)


def refuse_open_marks(
    block: LineBlock, dialect: Dialect, findings: Findings, candidates: Sequence[int]
) -> LineBlock:
    """Report those of the candidates whose quotation mark joins them to the next line;
    return the block without them.

    If a cell holds a line break, the rest of the cell is a line with too few values.
    """
    marked = [k for k in candidates if b'"' in block.lines[k]]
    opening = [
        k
        for k in marked
        if len(list(_open_rows([block.lines[k], b"end"], dialect))) == 1
    ]  # both lines are one
    what = "a quotation mark that is not closed on the same line"
    words = (f"line opens {what}", f"lines open {what}")
    cure = "Remove the quotation mark, or the line break in the cell: each person needs one line"
    return _report_lines(block, opening, ProblemCode.OPEN_QUOTES, words, cure, findings)


def _refuse_uneven_rows(
    block: LineBlock, lengths: Mapping[int, int], width: int, findings: Findings
) -> LineBlock:
    """Report rows with more or fewer values than the header has names; if all have
    more, the header is at fault.

    A missing value is an empty cell. Where a cell is absent, nothing says which one,
    and values may stand in the wrong columns.
    """
    long = [k for k in block.rows if lengths.get(k, width) > width]
    short = [k for k in block.rows if lengths.get(k, width) < width]
    is_last_row = block.is_cut and block.rows[-1:] == [len(block.lines) - 1]
    long_cure = (
        "Export it again with one name per column (in R: write.csv(row.names = FALSE))"
    )
    if long and len(long) == len(block.rows):
        what = f"the rows have more values than the header has names ({width})"
        findings.fatal(ProblemCode.BAD_ROWS, what, long_cure)
    short_cure = "A missing value is an empty cell between two separators: export the table again"
    if is_last_row and short[-1:] == block.rows[-1:]:
        short_cure = "The file ends within its last line, so it may be cut: copy or export it again"
    elif is_last_row:
        what, cure = (
            "the last line has no line end",
            "If the file was cut, the last cell is incomplete: compare it",
        )
        findings.note(ProblemCode.NO_LINE_END, what, cure)
    for rows, code, cure, comparison in (
        (long, ProblemCode.LONG_ROWS, long_cure, "more"),
        (short, ProblemCode.SHORT_ROWS, short_cure, "fewer"),
    ):
        one = f"line has {lengths[rows[0]] if rows else 0} values, the header {width} names"
        words = (one, f"lines have {comparison} values than the header names ({width})")
        block = _report_lines(block, rows, code, words, cure, findings)
    return block


def _count_cells(line: bytes, dialect: Dialect) -> int:
    """Return the number of cells of a line; it is parsed only where a separator stands
    between quotation marks.
    """
    separator = dialect.byte_separator
    if b'"' in line and (
        separator is None
        or _QUOTED_REGEX.sub(b"", line).count(separator) < line.count(separator)
    ):
        return max(map(len, _open_rows([line], dialect)), default=0)
    return len(line.split()) if separator is None else line.count(separator) + 1


def _open_rows(lines: Sequence[bytes], dialect: Dialect) -> "_csv.Reader":
    """Open lines for reading row by row, as pandas does."""
    by_blanks = dialect.separator == WHITESPACE_REGEX
    texts = (line.decode("utf-8", errors="replace") + "\n" for line in lines)
    texts = (" ".join(text.split()) + "\n" for text in texts) if by_blanks else texts
    return csv.reader(
        texts,
        delimiter=" " if by_blanks else dialect.separator,
        skipinitialspace=dialect.blanks,
    )


def _report_lines(
    block: LineBlock,
    refused: Sequence[int],
    code: ProblemCode,
    words: tuple[str, str],
    cure: str,
    findings: Findings,
) -> LineBlock:
    """Add an error that names lines, in the words for one line or for several; return
    the block without them.
    """
    if not refused:
        return block
    findings.error(
        code, format_count(len(refused), *words), cure, **block.name_lines(refused)
    )
    left_out = set(refused)
    return replace(block, rows=[index for index in block.rows if index not in left_out])

"""Detect how a text table is written: encoding, separator, decimal mark and header."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from rindices.errors import Findings, ProblemCode

MAX_COLUMNS = 20_000
WHITESPACE_REGEX = r"\s+"
_HEAD_BYTES = 4_000_000
_HEAD_LINES = 200
_COMMENT_REGEX = re.compile(r"\s*#|sep=.$", re.IGNORECASE)  # before the header: comments, and Excel's separator line
_MAGIC_BYTES = {
    b"PK\x03\x04": "an Excel or zip file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"\x1f\x8b": "a gzip file",
    b"PAR1": "a parquet file without the suffix .parquet",
}


@dataclass(frozen=True)
class Dialect:
    """Format of a text table.

    separator: a character, or a regular expression for blanks; decimal: ``.`` or ``,``; header: the names as written;
    they may be empty; skip: number of lines up to the header and including it; blanks: whether blanks follow the
    separators; skipping them makes reading a third slower.
    """

    encoding: str
    separator: str
    decimal: str
    header: tuple[str, ...]
    skip: int
    blanks: bool


def sniff_dialect(path: Path, findings: Findings) -> Dialect:
    """Detect the format of a text table from its first lines."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    for magic, kind in _MAGIC_BYTES.items():
        if head.startswith(magic):
            what = f"this is {kind}, not a text table"
            cure = "Export it as CSV and try again (.xlsx files are read by their suffix)"
            findings.fatal(ProblemCode.NOT_A_TABLE, what, path.name, cure)
    encoding = detect_encoding(head)
    text = _decode_head(head, encoding)
    lines = re.split(r"\r\n|\n|\r", text, maxsplit=_HEAD_LINES)[:_HEAD_LINES]
    filled = [number for number, line in enumerate(lines) if line.strip(" \t,;") and not _COMMENT_REGEX.match(line)]
    if "\x00" in "".join(lines[: filled[0] + 1 if filled else None]):  # in later lines it is a control character
        what = "this is a binary file, not a text table"
        findings.fatal(ProblemCode.NOT_A_TABLE, what, path.name, "Export the table as CSV")
    if not filled:
        findings.fatal(ProblemCode.FILE_EMPTY, "the file is empty", path.name, "Export it again")
    if len(lines) == 1 and len(head) == _HEAD_BYTES:
        findings.fatal(
            ProblemCode.TOO_MANY_COLUMNS,
            f"the first line is longer than {_HEAD_BYTES:,} bytes",
            path.name,
            f"A table has one row per person and at most {MAX_COLUMNS:,} columns; is it transposed?",
        )
    header, *rows = (lines[number] for number in filled)
    separator = _detect_separator(header)
    return Dialect(
        encoding,
        separator,
        _detect_decimal_mark(rows, separator),
        _split_cells(header, separator),
        skip=filled[0] + 1,
        blanks=any(f"{separator} " in line for line in (header, *rows)),
    )


def _decode_head(head: bytes, encoding: str) -> str:
    """Return the first bytes as text; the last character may be cut."""
    if encoding == "utf-16":
        return head.decode("utf-16", errors="replace")
    return to_utf8(head, encoding, "", Findings())[0].decode("utf-8")


def _detect_separator(header: str) -> str:
    """Return the separator that gives the most columns; blanks only without any other, since names may hold them."""
    unquoted = re.sub(r'"[^"]*"', "", header)
    counts = {char: unquoted.count(char) for char in "\t;,"}
    best = max(counts, key=lambda char: counts[char])
    if counts[best]:
        return best
    return WHITESPACE_REGEX if len(header.split()) > 1 else ","


def _detect_decimal_mark(rows: list[str], separator: str) -> str:
    """Return the decimal mark: a comma if most numbers have one and it is not the separator."""
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


_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"


def detect_encoding(head: bytes) -> str:
    """Return ``utf-16`` for a text that begins with its mark, else ``utf-8``."""
    return "utf-16" if head.startswith(_UTF16_MARKS) else "utf-8"


def to_utf8(content: bytes, encoding: str, where: str, findings: Findings) -> tuple[bytes, list[int]]:
    """Return a text as UTF-8.

    A line that is not UTF-8 is read as Latin-1. This is decided line by line, so that the result does not depend on the
    chunks in which a file is read.

    where: the file, for messages; findings: takes the error for a text that is not UTF-16. Returns content;
    other_lines: indices of the lines that were read as Latin-1.
    """
    if encoding == "utf-16":
        try:
            return content.decode("utf-16").encode(), []
        except UnicodeError:
            what = "the file begins as UTF-16 and has other bytes later, or was cut"
            findings.fatal(ProblemCode.FILE_UNREADABLE, what, where, "Save it as UTF-8")
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

"""The parts of an Excel file that hold cells, within bounds that are checked before
anything is parsed.

A package may be small and describe far more than memory holds: repeated bytes, cells
that are merged up to the last row, strings of a million characters. What a table does
not need (drawings, comments, links, pivot tables, whatever follows the cells of
a sheet) is left out, and the elements of the rest are counted.
"""

import re
from collections import Counter
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path, PurePosixPath
from zipfile import ZIP_STORED, ZipFile

from rindices.errors import Findings, ProblemCode

MAX_UNPACKED_BYTES = 100_000_000
"""Largest size of the cells and texts of an Excel file when unpacked."""
MAX_ELEMENTS, MAX_OTHER_ELEMENTS = 4_000_000, 200_000
"""Most XML elements of a file, a cell being two; most of those that are no cells, which
take longer to read. Two million cells take 20 to 40 s of a processor and 1.4 GB.
"""
MAX_SHEET_ROWS = 200_000
"""Most rows of a sheet."""
MAX_CELL_CHARACTERS = 32_767
"""Longest text of a cell, as in Excel."""
MAX_MERGED_CELLS = 200_000
"""Most cells of a sheet that are merged, counted before they are made."""
_LETTERS = bytes(range(65, 91))
EXCEL_CURE = "Export the table as CSV"
_LEFT_OUT_REGEX = re.compile(
    r"docProps/|customXml/|xl/(worksheets/_rels|chartsheets|dialogsheets|drawings|media"
    r"|charts|comments|threadedComments|persons|tables|pivot|externalLinks|theme"
    r"|printerSettings|embeddings|activeX|ctrlProps|calcChain|queryTables)"
)
_DOCTYPE_REGEX = re.compile(rb"<!(DOCTYPE|ENTITY)", re.IGNORECASE)
_ENCODING_REGEX = re.compile(
    rb"<\?xml[^>]*encoding\s*=\s*[\"'](?!utf-?8[\"'])", re.IGNORECASE
)
_CELLS_END_REGEX = re.compile(
    rb"</(?P<prefix>(?:\w+:)?)sheetData\s*>|<(?P<empty>(?:\w+:)?)sheetData\s*/>"
)
_CELL_ELEMENT_REGEX = re.compile(rb"<(?:\w+:)?(?:row|c|v|f|is|t|si|r|rPr)[\s/>]")
_ROW_REGEX = re.compile(rb"<(?:\w+:)?row[\s/>]")
_CELL_PLACE_REGEX = re.compile(
    rb"<(?:\w+:)?c\s[^>]*?\br\s*=\s*[\"']([A-Za-z]+\d+)[\"']"
)
_ROW_PLACE_REGEX = re.compile(rb"<(?:\w+:)?row\s[^>]*?\br\s*=\s*[\"'](\d+)[\"']")
_RANGE_REGEX = re.compile(rb"<(?:\w+:)?(?:mergeCell|hyperlink)[\s/>]")
_MERGED_REGEX = re.compile(
    rb"<(?:\w+:)?mergeCell\s+ref\s*=\s*[\"']([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})[\"']"
)
_FILTER_REGEX = re.compile(rb"<(?:\w+:)?autoFilter[\s/>]")
_PIVOT_REGEX = re.compile(rb"<(\w+:)?pivotCaches[\s>].*?</\1pivotCaches\s*>", re.DOTALL)


def open_package(path: Path, findings: Findings) -> BytesIO:
    """Return the parts of an Excel file that hold cells; what is too large, or unsafe,
    is refused.

    Raises the errors of `zipfile` for a file that is no package.
    """
    with ZipFile(path) as package:
        sizes = {
            part.filename: part.file_size
            for part in package.infolist()
            if PurePosixPath(part.filename).suffix in (".xml", ".rels")
            and not _LEFT_OUT_REGEX.match(part.filename)
        }
        if (size := sum(sizes.values())) > MAX_UNPACKED_BYTES:
            what = f"this Excel file has {size / 1e6:,.0f} MB of cells; at most {MAX_UNPACKED_BYTES / 1e6:,.0f} MB are read"
            findings.fatal(ProblemCode.FILE_UNREADABLE, what, EXCEL_CURE)
        parts = {name: package.read(name) for name in sizes}
    for name, content in parts.items():
        _check_text(content, findings)
        parts[name] = _cut_tail(content, findings)
        _check_places(parts[name], findings)
    _check_elements(parts, findings)
    file = BytesIO()
    with ZipFile(file, "w", ZIP_STORED) as kept:
        for name, content in parts.items():
            kept.writestr(name, content)
    return file


def _check_text(content: bytes, findings: Findings) -> None:
    """Refuse entities, and encodings in which elements could not be counted."""
    if _DOCTYPE_REGEX.search(content):
        what = "this Excel file defines entities, which no table needs"
        findings.fatal(ProblemCode.UNSAFE_FILE, what, EXCEL_CURE)
    if b"\x00" in content or _ENCODING_REGEX.match(content.lstrip()):
        what = "this Excel file is not written in UTF-8"
        findings.fatal(ProblemCode.FILE_UNREADABLE, what, EXCEL_CURE)


def _cut_tail(content: bytes, findings: Findings) -> bytes:
    """Return a part without pivot tables; of what follows its cells, merged cells and
    a filter alone are kept.
    """
    content = _PIVOT_REGEX.sub(b"", content)
    ends = list(_CELLS_END_REGEX.finditer(content))
    head = content[: ends[-1].end()] if ends else content
    if _RANGE_REGEX.search(head):
        what = "this Excel file has merged cells or links among its cells"
        findings.fatal(ProblemCode.FILE_UNREADABLE, what, EXCEL_CURE)
    if not ends:
        return content
    tail = content[ends[-1].end() :]
    prefix = ends[-1]["prefix"] or ends[-1]["empty"] or b""
    merged = _MERGED_REGEX.findall(tail)
    if sum(map(_measure_area, merged)) > MAX_MERGED_CELLS:
        what = f"more than {MAX_MERGED_CELLS:,} cells are merged in this Excel file"
        findings.fatal(ProblemCode.FILE_UNREADABLE, what, EXCEL_CURE)
    kept = (
        b'<%sautoFilter ref="A1:B1"/>' % prefix if _FILTER_REGEX.search(tail) else b""
    )
    if merged:
        cells = b"".join(b'<%smergeCell ref="%s"/>' % (prefix, each) for each in merged)
        kept += b"<%smergeCells>%s</%smergeCells>" % (prefix, cells, prefix)
    return b"%s%s</%sworksheet>" % (head, kept, prefix)


def _measure_area(merged: bytes) -> int:
    """Return the number of cells of a range such as ``A1:C1``."""
    (left, top), (right, bottom) = (
        (_count_columns(each.rstrip(b"0123456789")), int(each.lstrip(_LETTERS)))
        for each in merged.split(b":")
    )
    return (abs(right - left) + 1) * (abs(bottom - top) + 1)


def _count_columns(letters: bytes) -> int:
    """Return the number of a column: 1 for A, 27 for AA."""
    return sum(
        (letter - 64) * 26**power for power, letter in enumerate(reversed(letters))
    )


def _check_places(content: bytes, findings: Findings) -> None:
    """Refuse a part in which two cells, or two rows, have one place, so that one of
    them would be lost.
    """
    for regex, kind in ((_CELL_PLACE_REGEX, "cells"), (_ROW_PLACE_REGEX, "rows")):
        places = regex.findall(content)
        if len(set(places)) < len(places):
            place = Counter(places).most_common(1)[0][0].decode()
            what = f"this Excel file has two {kind} at one place ({place})"
            findings.fatal(ProblemCode.FILE_UNREADABLE, what, EXCEL_CURE)


def _check_elements(parts: Mapping[str, bytes], findings: Findings) -> None:
    """Refuse more elements, rows and ranges than a table needs."""
    n_elements = n_others = n_rows = 0
    for name, content in parts.items():
        n_own = content.count(b"<") - content.count(b"</")
        is_large = n_own > MAX_OTHER_ELEMENTS
        n_elements += n_own
        n_others += n_own
        if name.startswith(("xl/worksheets/", "xl/sharedStrings")) and (
            is_large or n_others > MAX_OTHER_ELEMENTS
        ):
            n_others -= len(_CELL_ELEMENT_REGEX.findall(content))
        n_rows = max(n_rows, len(_ROW_REGEX.findall(content)))
    what = ""
    if n_elements > MAX_ELEMENTS:
        what = f"{n_elements:,} cells and other elements; at most {MAX_ELEMENTS:,}"
    elif n_others > MAX_OTHER_ELEMENTS:
        what = f"{n_others:,} elements that are no cells, such as formats; at most {MAX_OTHER_ELEMENTS:,}"
    elif n_rows > MAX_SHEET_ROWS:
        what = f"a sheet of {n_rows:,} rows; at most {MAX_SHEET_ROWS:,}"
    if what:
        findings.fatal(
            ProblemCode.FILE_UNREADABLE,
            f"this Excel file has {what} are read",
            EXCEL_CURE,
        )

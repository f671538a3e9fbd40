"""Altered Excel and JSON files: each is read with all its people, or refused in a line,
within bounds of memory and time.

    python -m benchmarks.altered_files [--files 2000] [--out FILE]

Three of five files are workbooks of 24 people with a part of the package altered in one
to five places (bytes, elements, places of cells, entities, merged areas, encodings), or
the package itself. Accepted: the people whom a second reader, written without openpyxl,
finds in the cells. The others are JSON files of a study (``cohort.json``), altered
likewise, that `rindices.report` reads. Runs with an address space of 4 GB and 20 s of
processor time for each file; a warning, an error of more than one line or of another
class is a failure. Writes ``results/altered_files.md``.
"""

import argparse
import json
import re
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import openpyxl

from benchmarks.altered.cases import ID, PEOPLE, make_frame
from rindices.analysis.study_results import read_record
from rindices.errors import Findings, RindicesError
from rindices.model.records import CohortRecord
from rindices.tables.cohort import Cohort, describe_cohort
from rindices.tables.sources.frames import read_frame

RESULTS = Path(__file__).parent / "results"
MAX_MEMORY_BYTES, MAX_SECONDS = 4_000_000_000, 20.0
SHEET = "xl/worksheets/sheet1.xml"
Random = np.random.Generator


def make_workbook(rng: Random) -> dict[str, bytes]:
    """Return the parts of a workbook of 24 people, some with a second sheet, hidden
    rows, merged titles or links.
    """
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    frame = make_frame()
    for row in [list(frame), *frame.astype(object).to_numpy().tolist()]:
        sheet.append(row)
    kind = int(rng.integers(5))
    if kind == 1:
        workbook.create_sheet("notes").append(["nothing"])
    if kind == 2:
        sheet.row_dimensions[5].hidden = True
    if kind == 3:
        sheet["A3"].hyperlink = "https://example.org"
    if kind == 4:
        sheet.merge_cells("N1:P1")
    content = BytesIO()
    workbook.save(content)
    with ZipFile(content) as package:
        return {name: package.read(name) for name in package.namelist()}


def change_bytes(text: bytes, rng: Random) -> bytes:
    content = bytearray(text)
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(content)))
        inserted = bytes(rng.integers(32, 127, int(rng.integers(0, 9))).tolist())
        content[place : place + int(rng.integers(0, 9))] = inserted
    return bytes(content)


def move_element(text: bytes, rng: Random) -> bytes:
    """Repeat, drop or exchange an element without children, or a row."""
    pattern = rb"<row .*?</row>|<c .*?</c>|\"[^\"]{1,40}\": [^,{}\[\]]+,"
    found = list(re.finditer(pattern, text, re.DOTALL))
    if not found:
        return text
    first, second = (found[int(k)] for k in rng.integers(len(found), size=2))
    old, new = first.group(), [first.group() * 2, b"", second.group()][rng.integers(3)]
    return text.replace(old, new, 1)


def insert_burden(text: bytes, rng: Random) -> bytes:
    """Insert what is small in a package and large in memory."""
    burdens = [
        b'<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>',
        b'<hyperlinks><hyperlink ref="A1:XFD1048576"/></hyperlinks>',
        b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
        b"<a/>" * 300_000,
        b"<row/>" * 210_000,
        b"<a>" * 5_000,
        b"x" * 200_000,
        b"[" * 50_000,
        b"1" * 10_000,
    ]
    marks = [b"</sheetData>", b"<sheetData>", b"</worksheet>", b"{"]
    present = [mark for mark in marks if mark in text] or [text[:1]]
    mark = present[int(rng.integers(len(present)))]
    burden = burdens[int(rng.integers(len(burdens)))]
    return text.replace(mark, burden + mark if rng.integers(2) else mark + burden, 1)


def recode(text: bytes, rng: Random) -> bytes:
    if rng.integers(2):
        entity = b'<!DOCTYPE a [<!ENTITY b "cccccccccc">]>'
        return re.sub(rb"(<\?xml[^>]*\?>)?", rb"\1" + entity, text, count=1)
    encoding = ["utf-16", "utf-8-sig", "utf-32"][int(rng.integers(3))]
    return text.decode().encode(encoding)


def cut(text: bytes, rng: Random) -> bytes:
    return text[: int(rng.integers(len(text)))]


def renumber(text: bytes, rng: Random) -> bytes:
    """Write another place of a cell or a row, or another number."""
    found = list(re.finditer(rb"\d+", text))
    chosen = found[int(rng.integers(len(found)))]
    number = [b"0", b"2", b"5", b"-3", b"99999999999999999999", b"1e400"][
        int(rng.integers(6))
    ]
    return text[: chosen.start()] + number + text[chosen.end() :]


ALTERATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    change_bytes,
    move_element,
    insert_burden,
    recode,
    cut,
    renumber,
)


def count_people(parts: dict[str, bytes]) -> int | None:
    """Return the number of rows of people in the first sheet, by their ids; None if
    that is not clear without the rules of Excel.
    """
    try:
        root = ElementTree.fromstring(parts[SHEET])
    except ElementTree.ParseError:
        return None
    rows = Counter[str]()
    for cell in root.iter():
        if cell.tag.endswith("}c") and re.fullmatch(r"A\d+", cell.get("r", "")):
            text = "".join(
                each.text or "" for each in cell.iter() if each.tag[-2:] in ("}v", "}t")
            )
            rows[str(cell.get("r"))] += bool(text)
    return sum(rows.values()) - 1


def read_workbook(number: int, rng: Random, folder: Path) -> tuple[str, str]:
    """Return what became of an altered workbook, and what is wrong with that."""
    parts = make_workbook(rng)
    name = SHEET if rng.uniform() < 0.6 else str(rng.choice(list(parts)))
    for _ in range(int(rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1]))):
        if parts[name]:
            alter = ALTERATIONS[int(rng.integers(len(ALTERATIONS)))]
            try:
                parts[name] = alter(parts[name], rng)
            except UnicodeDecodeError:
                continue
    content = BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as package:
        for each, text in parts.items():
            package.writestr(each, text)
    packed = content.getvalue()
    is_packed = rng.uniform() < 0.1
    if is_packed:
        packed = change_bytes(packed, rng)
    path = folder / f"{number}.xlsx"
    path.write_bytes(packed)
    findings = Findings(where=path.name)
    try:
        frame = read_frame(path, [ID], findings)
    finally:
        path.unlink()
    read = int((frame.iloc[:, 0].notna() & (frame.iloc[:, 0] != "")).sum())
    expected = None if is_packed or name != SHEET else count_people(parts)
    if expected is not None and read < expected and not list(findings):
        return "accepted", f"{expected} people in the cells, {read} read"
    return "accepted", ""


def make_record() -> dict[str, object]:
    frame = make_frame()
    people = frame[[ID, "group"]]
    cohort = Cohort(
        volumes=frame.filter(like="roi"),
        people=people,
        covariates=frame[["age", "sex"]],
        source="t",
        unit="mm3",
    )
    return CohortRecord.of(describe_cohort(cohort), []).to_dict()


def read_json_file(number: int, rng: Random, folder: Path) -> tuple[str, str]:
    text = json.dumps(make_record(), indent=2).encode()
    for _ in range(int(rng.integers(1, 4))):
        alter = ALTERATIONS[int(rng.integers(len(ALTERATIONS)))]
        try:
            text = alter(text, rng) or b" "
        except (UnicodeDecodeError, IndexError):
            continue
    path = folder / f"{number}.json"
    path.write_bytes(text)
    record = read_record(path, CohortRecord)
    return "accepted", "" if isinstance(record.people, int) else "people is no number"


def run_file(number: int, folder: Path) -> tuple[str, str, str]:
    """Return kind, verdict and fault of a file; the same number gives the same file."""
    rng = np.random.default_rng([62, number])
    kind = "Excel" if number % 5 < 3 else "JSON"
    start, fault = time.process_time(), ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            read = read_workbook if kind == "Excel" else read_json_file
            verdict, fault = read(number, rng, folder)
        except RindicesError as error:
            verdict = "refused"
            if any("\n" in str(problem) for problem in error.problems):
                fault = "a message of more than one line"
        except Exception as error:
            verdict, fault = "failed", repr(error)[:300]
    own = [each for each in caught if "openpyxl" not in each.filename]
    if own:
        fault = fault or f"warning: {own[0].message}"
    if time.process_time() - start > MAX_SECONDS:
        fault = fault or f"took {time.process_time() - start:.0f} s"
    return kind, "failed" if fault else verdict, fault


def run_files(numbers: range) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Return how often files of each kind were accepted or refused, and failures."""
    counts, failures = Counter[tuple[str, str]](), []
    with tempfile.TemporaryDirectory() as name:
        for number in numbers:
            kind, verdict, fault = run_file(number, Path(name))
            counts[kind, verdict] += 1
            if fault:
                failures.append(f"file {number} ({kind}): {fault}")
                print(failures[-1], file=sys.stderr, flush=True)
    return counts, failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "altered_files.md")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    start = time.process_time()
    counts, failures = run_files(range(options.first, options.first + options.files))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    lines = [
        "# Altered Excel and JSON files",
        f"`python -m benchmarks.altered_files`. {options.files:,} files, {PEOPLE} people, altered in one to five places,",
        "in an address space of 4 GB. Accepted: with all the people who stand in the cells, or with a message. Refused:",
        f"in one line. Failed: anything else. {len(failures)} failures; {time.process_time() - start:.0f} s of processor "
        f"time, at most {peak:.1f} GB of memory.",
        "",
        "| file | accepted | refused | failed |",
        "|---|---|---|---|",
    ]
    for kind in ("Excel", "JSON"):
        cells = [
            f"{counts[kind, each]:,}" for each in ("accepted", "refused", "failed")
        ]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    options.out.write_text("\n".join(lines) + "\n", "utf-8")
    print("\n".join(lines[-2:]))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

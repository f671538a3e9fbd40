"""Excel as people have it, and files that would take too much memory or time."""

import time
from datetime import datetime
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.errors import Findings, ProblemCode, TableError
from rindices.tables.sources.spreadsheet import read_sheet

openpyxl = pytest.importorskip("openpyxl")


def make_sheet(path: Path, n: int = 12) -> Any:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.append(["id", "left a", "right a", "age"])
    for k in range(n):
        sheet.append([f"s{k}", 100.5 + k, 200.25 - k, 50 + k])
    return workbook, sheet, path


def read(path: Path) -> tuple[pd.DataFrame, dict[ProblemCode, Any]]:
    findings = Findings(where=path.name)
    return read_sheet(path, findings), {problem.code: problem for problem in findings}


def test_hidden_and_filtered_rows_are_said(tmp_path: Path) -> None:
    workbook, sheet, path = make_sheet(tmp_path / "hidden.xlsx")
    sheet.auto_filter.ref = "A1:D13"
    for row in (3, 5):
        sheet.row_dimensions[row].hidden = True
    workbook.save(path)
    table, problems = read(path)
    assert len(table) == 12
    assert problems[ProblemCode.ROWS_HIDDEN].offenders == ("s1", "s3")
    assert "2 rows are filtered out or hidden in the sheet" in str(
        problems[ProblemCode.ROWS_HIDDEN]
    )


def test_struck_out_people_are_refused(tmp_path: Path) -> None:
    workbook, sheet, path = make_sheet(tmp_path / "struck.xlsx")
    sheet["A4"].font = openpyxl.styles.Font(strike=True)
    workbook.save(path)
    _, problems = read(path)
    assert problems[ProblemCode.ROWS_STRUCK_OUT].offenders == ("s2",)
    with pytest.raises(TableError, match="1 row is struck out: s2"):
        ri.read_cohort(path)


def test_headers_in_two_rows_are_joined(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.append(["", "Hippocampus", "", "Amygdala", ""])
    sheet.append(["id", "left", "right", "left", "right"])
    sheet.merge_cells("B1:C1")
    sheet.merge_cells("D1:E1")
    for k in range(10):
        sheet.append([f"s{k}", 1.0 + k, 2.0, 3.0, 4.0])
    workbook.save(tmp_path / "merged.xlsx")
    table, problems = read(tmp_path / "merged.xlsx")
    assert list(table) == [
        "id",
        "Hippocampus left",
        "Hippocampus right",
        "Amygdala left",
        "Amygdala right",
    ]
    assert len(table) == 10
    assert ProblemCode.HEADER_JOINED in problems


def test_title_lines_are_not_the_header(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.append(["Volumes of all people, final version 3"])
    sheet.append([])
    sheet.append(["id", "left a", "right a", "age"])
    for k in range(10):
        sheet.append([f"s{k}", 1.0 + k, 2.0, 50])
    workbook.save(tmp_path / "title.xlsx")
    table, problems = read(tmp_path / "title.xlsx")
    assert list(table) == ["id", "left a", "right a", "age"]
    assert "Volumes of all people" in str(problems[ProblemCode.HEADER_JOINED])


def test_dates_made_of_ids_are_refused(tmp_path: Path) -> None:
    workbook, sheet, path = make_sheet(tmp_path / "dates.xlsx")
    sheet["A3"] = datetime(2026, 3, 1)
    workbook.save(path)
    with pytest.raises(TableError, match="1 ID is a date, as a spreadsheet makes them"):
        ri.read_cohort(path)
    frame = pd.DataFrame(
        {
            "id": ["1-1-a", "02-Mar", "3-3-b"],
            "left a": [1.0, 2, 3],
            "right a": [2.0, 3, 4],
        }
    )
    frame.to_csv(tmp_path / "dates.csv", index=False)
    with pytest.raises(TableError, match="02-Mar"):
        ri.read_cohort(tmp_path / "dates.csv")
    frame["id"] = [
        "2026-01-01",
        "2026-01-02",
        "2026-01-03",
    ]  # all ids are dates: of scans
    frame.to_csv(tmp_path / "scans.csv", index=False)
    ri.read_cohort(tmp_path / "scans.csv", covariates="none")


def test_one_far_cell_is_refused_at_once(tmp_path: Path) -> None:
    workbook, sheet, path = make_sheet(tmp_path / "far.xlsx")
    sheet["XFD1048576"] = "x"
    workbook.save(path)
    start = time.process_time()
    with pytest.raises(
        TableError, match="reaches to row 1,048,576 and column 16,384 with 53 cells"
    ):
        ri.read_cohort(path)
    assert time.process_time() - start < 5


def write_package(path: Path, part: str, content: bytes) -> None:
    workbook, _, _ = make_sheet(path)
    workbook.save(path)
    with ZipFile(path) as package:
        parts = {name: package.read(name) for name in package.namelist()}
    parts[part] = content
    with ZipFile(path, "w", ZIP_DEFLATED) as package:
        for name, each in parts.items():
            package.writestr(name, each)


def test_many_rows_and_entities_are_refused_before_parsing(tmp_path: Path) -> None:
    row = b'<row r="1"><c r="A1"><v>1</v></c></row>'
    write_package(
        tmp_path / "rows.xlsx",
        "xl/worksheets/sheet1.xml",
        b"<worksheet><sheetData>" + row * 3_000_000,
    )
    start = time.process_time()
    with pytest.raises(
        TableError, match="has 117 MB of cells; at most 100 MB are read"
    ):
        ri.read_cohort(tmp_path / "rows.xlsx")
    assert time.process_time() - start < 5
    bomb = (
        b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><worksheet>&b;</worksheet>'
    )
    write_package(tmp_path / "bomb.xlsx", "xl/worksheets/sheet1.xml", bomb)
    with pytest.raises(TableError, match="defines entities"):
        ri.read_cohort(tmp_path / "bomb.xlsx")


@pytest.mark.parametrize("seed", range(4))
def test_altered_files_are_refused_in_a_line(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    workbook, _, path = make_sheet(tmp_path / "good.xlsx")
    workbook.save(path)
    with ZipFile(path) as package:
        parts = {name: package.read(name) for name in package.namelist()}
    for number in range(25):
        name = str(rng.choice(list(parts)))
        content = bytearray(parts[name])
        for _ in range(int(rng.integers(1, 6))):
            place = int(rng.integers(len(content)))
            content[place : place + int(rng.integers(0, 9))] = bytes(
                rng.integers(32, 127, int(rng.integers(0, 9))).tolist()
            )
        altered = tmp_path / f"{number}.xlsx"
        with ZipFile(altered, "w") as package:
            for each, value in {**parts, name: bytes(content)}.items():
                package.writestr(each, value)
        try:
            read_sheet(altered, Findings(where=altered.name))
        except TableError:
            continue


def alter_cells(path: Path, old: bytes, new: bytes) -> None:
    """Write the package of a good sheet with some bytes of its cells replaced."""
    workbook, _, _ = make_sheet(path)
    workbook.save(path)
    name = "xl/worksheets/sheet1.xml"
    with ZipFile(path) as package:
        content = package.read(name)
    assert old in content
    write_package(path, name, content.replace(old, new, 1))


CELLS_END = b"</sheetData>"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            CELLS_END,
            CELLS_END + b'<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>',
            "more than 200,000 cells are merged",
        ),
        (
            b"<sheetData>",
            b'<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells><sheetData>',
            "has merged cells or links among its cells",
        ),
        (b"<sheetData>", b"<a/>" * 5_000_000 + b"<sheetData>", "at most 4,000,000"),
        (b"<sheetData>", b"<a/>" * 300_000 + b"<sheetData>", "that are no cells"),
        (CELLS_END, b"<row/>" * 200_001 + CELLS_END, "a sheet of 200,0[0-9]{2} rows"),
        (
            CELLS_END,
            b'<row><c r="A90" t="inlineStr"><is><t>'
            + b"x" * 40_000
            + b"</t></is></c></row>"
            + CELLS_END,
            "holds 40,000 characters; at most 32,767",
        ),
        (b'r="A3"', b'r="A2"', r"two cells at one place \(A2\)"),
        (b'<row r="3"', b'<row r="2"', r"two rows at one place \(2\)"),
        (b"<sheetData>", b"<!-- \x00 --><sheetData>", "not written in UTF-8"),
    ],
)
def test_what_a_table_does_not_need_is_refused_before_it_is_parsed(
    old: bytes, new: bytes, message: str, tmp_path: Path
) -> None:
    alter_cells(tmp_path / "bomb.xlsx", old, new)
    start = time.process_time()
    with pytest.raises(TableError, match=message):
        ri.read_cohort(tmp_path / "bomb.xlsx")
    assert time.process_time() - start < 10


def test_links_tables_and_comments_do_not_matter(tmp_path: Path) -> None:
    from openpyxl.comments import Comment
    from openpyxl.worksheet.table import Table

    workbook, sheet, path = make_sheet(tmp_path / "plain.xlsx")
    workbook.save(path)
    plain = read_sheet(path, Findings(where="plain.xlsx"))
    sheet.add_table(Table(displayName="People", ref="A1:C4"))
    sheet["B2"].comment = Comment("scanned twice", "A colleague")
    sheet["A2"].hyperlink = "https://example.org"
    sheet.auto_filter.ref = "A1:C4"
    workbook.create_chartsheet("picture")
    workbook.save(path)
    findings = Findings(where="plain.xlsx")
    assert read_sheet(path, findings).equals(plain)
    assert not list(findings)

"""Each line of a text table is a row, is blank, or is refused by its number."""

from io import BytesIO
from pathlib import Path

import pytest

from rindices.errors import Findings, ProblemCode, TableError
from rindices.tables.io import lines as io_lines
from rindices.tables.io.dialect import Dialect
from rindices.tables.io.lines import (
    count_lines,
    explain_read_errors,
    list_rows,
    read_line,
    refuse_joined_lines,
    refuse_lines,
    split_lines,
)

DIALECT = Dialect("utf-8", ",", ".", ("id", "a", "b"), 1, blanks=False)


def refuse(content: bytes, path: Path, start: int = 0) -> tuple[list[int], list[tuple[str, ...]]]:
    """Return the indices of the rows and the numbers of the refused lines, by error."""
    findings = Findings()
    block = refuse_lines(split_lines(content, path, start, DIALECT, findings), DIALECT, findings)
    return block.rows, [problem.offenders for problem in findings.errors()]


@pytest.mark.parametrize(
    ("rows", "expected", "refused"),
    [
        (["p1,1,2", "", ",,", "p2,1,2"], [1, 4], []),
        (['p1,"1,2', "p2,3,4", 'p3,5",6', "p4,7,8"], [2, 3, 4], [("2",)]),
        (['p1,"1', 'x",2', "p2,3,4"], [3], [("2",)]),  # the second line is the rest of the cell
        (['p1,"1', '",2', "p2,3,4"], [3], [("2", "3")]),  # it may be a mark of its own
        (['p1,"x,1', 'p2,"y,2', "p3,1,2"], [3], [("2", "3")]),
        (['p1,5" tall,2', 'p2,"a ""b""",2'], [1, 2], []),
        (["p1,\x01,2", "p2,1,\x7f", "p3,1,2"], [3], [("2", "3")]),
        (["p1,1,2", "p2," + "x" * 100_001 + ",3"], [1], [("3",)]),
    ],
)
def test_lines_that_cannot_be_rows_are_refused_by_number(
    rows: list[str], expected: list[int], refused: list[tuple[str, ...]], tmp_path: Path
) -> None:
    assert refuse("\n".join(["id,a,b", *rows]).encode(), tmp_path / "t.csv") == (expected, refused)


def test_numbers_count_the_lines_of_the_file_and_not_of_the_chunk(tmp_path: Path) -> None:
    head, chunk = b"id,a,b\np1,1,2\n", b'p2,1,2\np3,"1,2\n'
    path = tmp_path / "t.csv"
    path.write_bytes(head + chunk)
    assert refuse(chunk, path, len(head)) == ([0], [("4",)])


def test_quotation_marks_that_pairs_hide_are_seen_on_request() -> None:
    findings = Findings()
    block = split_lines(b'id,a,b\np1,5" x,"y\np2,1,2', Path("t.csv"), 0, DIALECT, findings)
    assert refuse_joined_lines(block, DIALECT, findings, []).rows == [1, 2]
    assert refuse_joined_lines(block, DIALECT, findings).rows == [2]


def test_long_and_short_rows_are_refused_by_number() -> None:
    content = b'id,a,b\np1,1,2,3\np2,"1,1",2\np3,1\np4,"1",2,3,4\np5,"1,1"\n'  # the last has as many commas as p2
    assert refuse(content, Path("t.csv")) == ([2], [("2", "5"), ("4", "6")])


def test_a_header_that_lacks_names_is_not_the_fault_of_the_rows() -> None:
    with pytest.raises(TableError, match=r"the rows have more values than the header has names \(3\)"):
        refuse(b"id,a,b\np1,1,2,3\np2,1,2,3", Path("t.csv"))


@pytest.mark.parametrize(("end", "advice"), [("", "may be cut"), ("\n", "A missing value is an empty cell")])
def test_a_short_last_line_without_a_line_end_is_a_cut(end: str, advice: str) -> None:
    findings = Findings()
    content = f"id a b\np1 1 2\np2 1{end}".encode()
    dialect = Dialect("utf-8", r"\s+", ".", ("id", "a", "b"), 1, blanks=False)
    refuse_lines(split_lines(content, Path("t.txt"), 0, dialect, findings), dialect, findings)
    (problem,) = findings
    assert (problem.code, problem.offenders) == (ProblemCode.SHORT_ROWS, ("3",))
    assert advice in problem.cure


def test_a_control_character_in_the_header_is_refused() -> None:
    with pytest.raises(TableError, match="line 1 holds a control character"):
        refuse(b"id,a\x02,b\np1,1,2", Path("t.csv"))


def test_lines_of_blanks_and_separators_are_no_rows() -> None:
    assert list_rows([b" ", b",,", b'"",', b"x", b""], DIALECT) == [3]


def test_a_line_longer_than_any_row_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_lines, "_MAX_LINE_BYTES", 10)
    path = tmp_path / "t.csv"
    path.write_bytes(b"id,a\n" + b"x" * 100)
    with path.open("rb") as file:
        assert read_line(file, path) == b"id,a\n"
        with pytest.raises(TableError, match=r"t\.csv: line 2 is longer than 10 bytes"):
            read_line(file, path)
    assert read_line(BytesIO(b"a,b\ra,b\ra,b\ra,b\r"), path) == b"a,b\ra,b\ra,b\ra,b\r"


def test_errors_of_the_system_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "gone.csv"
    message = r"gone\.csv: the file cannot be read \(No such file"
    with pytest.raises(TableError, match=message), explain_read_errors(path):
        path.read_bytes()


def test_lines_are_counted_on_from_the_last_offset(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a\nb\nc\n")
    assert [count_lines(path, end) for end in (2, 6, 4, 100)] == [1, 3, 2, 3]
    path.write_bytes(b"a\n\n\nb\nc\n")
    assert count_lines(path, 100) == 5

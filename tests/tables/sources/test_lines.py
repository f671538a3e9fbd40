"""How a text is written, and that each of its lines is accounted for."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rindices.errors import Findings, ProblemCode, TableError
from rindices.tables.sources import lines as io_lines
from rindices.tables.sources.lines import (
    Dialect,
    count_lines,
    detect_encoding,
    explain_read_errors,
    list_rows,
    read_line,
    refuse_lines,
    refuse_open_marks,
    split_lines,
    to_utf8,
)
from tests.conftest import muse_volumes
from tests.tables.helpers import (
    N,
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)


def test_semicolons_with_decimal_commas(tmp_path: Path, volumes: pd.DataFrame) -> None:
    path = tmp_path / "german.csv"
    volumes.to_csv(path, sep=";", decimal=",", index=False)
    result = validate_files(path)
    assert result.cohort is not None
    np.testing.assert_allclose(result.cohort.volumes["MUSE_47"], volumes["47"])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings_of_excel_are_detected(tmp_path: Path, encoding: str) -> None:
    frame = muse_volumes().assign(ID=[f"Zoë{k}" for k in range(40)])
    path = tmp_path / "v.csv"
    path.write_bytes(frame.to_csv(index=False).encode(encoding))
    result = validate_files(path)
    assert result.cohort is not None
    assert sorted(result.cohort.people["participant_id"]) == sorted(frame["ID"])


@pytest.mark.parametrize(
    ("sep", "mark"), [(";", "{:,.1f}"), ("\t", "{:,.0f}"), (",", "{:,.1f}")]
)
def test_thousands_separators_are_refused(tmp_path: Path, sep: str, mark: str) -> None:
    frame = make_table()
    for name in frame.columns[1:]:
        frame[name] = [mark.format(value) for value in frame[name]]
        if sep == ";":  # European: 1.234,5
            frame[name] = frame[name].str.translate(str.maketrans(",.", ".,"))
    result = validate_files(write_table(frame, tmp_path / "v.csv", sep))
    assert "text where a number should be" in list_messages(result, "error")
    assert "thousands separators" in list_messages(result, "error")


def test_decimal_commas_that_begin_late_are_detected(tmp_path: Path) -> None:
    participants = make_people()
    participants["age"] = [
        str(60 + k) if k < 5 else f"{60 + k / 4:.2f}".replace(".", ",")
        for k in range(N)
    ]
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(participants, tmp_path / "p.csv", ";"),
    )
    result = validate_files(*paths, covariates=["age"])
    assert result.kinds == {"age": "number"}
    assert result.cohort is not None
    assert result.cohort.covariates["age"].max() == pytest.approx(60 + 59 / 4)


LINES = st.lists(
    st.sampled_from(
        [b"a\n", "Zoë\n".encode(), "Zoë\n".encode("latin-1"), b"\n", b"x\r\n"]
    )
)


@given(LINES, LINES)
def test_lines_are_decoded_one_by_one_so_that_chunks_do_not_matter(
    first: list[bytes], second: list[bytes]
) -> None:
    def decode(lines: list[bytes]) -> tuple[bytes, list[int]]:
        return to_utf8(b"".join(lines), "utf-8", Findings(where="t.csv"))

    (first_text, first_lines), (second_text, second_lines) = (
        decode(first),
        decode(second),
    )
    assert decode(first + second) == (
        first_text + second_text,
        first_lines + [len(first) + k for k in second_lines],
    )
    assert b"\xeb" not in first_text


def test_marks_of_encodings_are_removed() -> None:
    for encoding in ("utf-8-sig", "utf-16"):
        content = "a,ë\n".encode(encoding)
        text, other_lines = to_utf8(
            content, detect_encoding(content), Findings(where="t.csv")
        )
        assert (text.decode(), other_lines) == ("a,ë\n", [])


def test_a_cut_utf16_file_is_refused() -> None:
    with pytest.raises(TableError, match="UTF-16"):
        to_utf8("a,b\n".encode("utf-16")[:-1], "utf-16", Findings(where="t.csv"))


DIALECT = Dialect(
    encoding="utf-8",
    separator=",",
    decimal=".",
    header=("id", "a", "b"),
    skip=1,
    blanks=False,
)


def refuse(
    content: bytes, path: Path, start: int = 0
) -> tuple[list[int], list[tuple[str, ...]]]:
    """Return the indices of the rows and the numbers of the refused lines, by error."""
    findings = Findings()
    block = refuse_lines(
        split_lines(content, path, start, DIALECT, findings), DIALECT, findings
    )
    return block.rows, [problem.offenders for problem in findings.errors()]


@pytest.mark.parametrize(
    ("rows", "expected", "refused"),
    [
        (["p1,1,2", "", ",,", "p2,1,2"], [1, 4], []),
        (['p1,"1,2', "p2,3,4", 'p3,5",6', "p4,7,8"], [2, 3, 4], [("2",)]),
        (
            ['p1,"1', 'x",2', "p2,3,4"],
            [3],
            [("2",), ("3",)],
        ),  # the second line, the rest of the cell, is short
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
    assert refuse("\n".join(["id,a,b", *rows]).encode(), tmp_path / "t.csv") == (
        expected,
        refused,
    )


def test_numbers_count_the_lines_of_the_file_and_not_of_the_chunk(
    tmp_path: Path,
) -> None:
    head, chunk = b"id,a,b\np1,1,2\n", b'p2,1,2\np3,"1,2\n'
    path = tmp_path / "t.csv"
    path.write_bytes(head + chunk)
    assert refuse(chunk, path, len(head)) == ([0], [("4",)])


def test_quotation_marks_that_pairs_hide_are_seen_on_request() -> None:
    findings = Findings()
    block = split_lines(
        b'id,a,b\np1,5" x,"y\np2,1,2', Path("t.csv"), 0, DIALECT, findings
    )
    assert refuse_open_marks(block, DIALECT, findings, []).rows == [1, 2]
    assert refuse_open_marks(block, DIALECT, findings, block.rows).rows == [2]


def test_long_and_short_rows_are_refused_by_number() -> None:
    # the last has as many commas as p2
    content = b'id,a,b\np1,1,2,3\np2,"1,1",2\np3,1\np4,"1",2,3,4\np5,"1,1"\n'
    assert refuse(content, Path("t.csv")) == ([2], [("2", "5"), ("4", "6")])


def test_a_header_that_lacks_names_is_not_the_fault_of_the_rows() -> None:
    with pytest.raises(
        TableError, match=r"the rows have more values than the header has names \(3\)"
    ):
        refuse(b"id,a,b\np1,1,2,3\np2,1,2,3", Path("t.csv"))


@pytest.mark.parametrize(
    ("end", "advice"), [("", "may be cut"), ("\n", "A missing value is an empty cell")]
)
def test_a_short_last_line_without_a_line_end_is_a_cut(end: str, advice: str) -> None:
    findings = Findings()
    content = f"id a b\np1 1 2\np2 1{end}".encode()
    dialect = Dialect(
        encoding="utf-8",
        separator=r"\s+",
        decimal=".",
        header=("id", "a", "b"),
        skip=1,
        blanks=False,
    )
    refuse_lines(
        split_lines(content, Path("t.txt"), 0, dialect, findings), dialect, findings
    )
    (problem,) = findings
    assert (problem.code, problem.offenders) == (ProblemCode.SHORT_ROWS, ("3",))
    assert advice in problem.cure


def test_a_control_character_in_the_header_is_refused() -> None:
    with pytest.raises(TableError, match="line 1 holds a control character"):
        refuse(b"id,a\x02,b\np1,1,2", Path("t.csv"))


def test_lines_of_blanks_and_separators_are_no_rows() -> None:
    assert list_rows([b" ", b",,", b'"",', b"x", b""], DIALECT) == [3]


def test_a_line_longer_than_any_row_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

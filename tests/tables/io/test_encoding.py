"""Texts become UTF-8; lines that are not UTF-8 are Latin-1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rindices.errors import Findings, TableError
from rindices.tables.io.dialect import detect_encoding, to_utf8

LINES = st.lists(st.sampled_from([b"a\n", "Zoë\n".encode(), "Zoë\n".encode("latin-1"), b"\n", b"x\r\n"]))


@given(LINES, LINES)
def test_lines_are_decoded_one_by_one_so_that_chunks_do_not_matter(first: list[bytes], second: list[bytes]) -> None:
    def decode(lines: list[bytes]) -> tuple[bytes, list[int]]:
        return to_utf8(b"".join(lines), "utf-8", "t.csv", Findings())

    (first_text, first_lines), (second_text, second_lines) = decode(first), decode(second)
    assert decode(first + second) == (first_text + second_text, first_lines + [len(first) + k for k in second_lines])
    assert b"\xeb" not in first_text


def test_marks_of_encodings_are_removed() -> None:
    for encoding in ("utf-8-sig", "utf-16"):
        content = "a,ë\n".encode(encoding)
        text, other_lines = to_utf8(content, detect_encoding(content), "t.csv", Findings())
        assert (text.decode(), other_lines) == ("a,ë\n", [])


def test_a_cut_utf16_file_is_refused() -> None:
    with pytest.raises(TableError, match="UTF-16"):
        to_utf8("a,b\n".encode("utf-16")[:-1], "utf-16", "t.csv", Findings())

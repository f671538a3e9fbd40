"""Texts that a spreadsheet would run are written with an apostrophe and read without
it.
"""

from io import StringIO

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rindices.tables.sources.spreadsheet import protect_texts, restore_texts


@given(st.lists(st.text("'=+-@a5.", min_size=1, max_size=5)))
def test_texts_are_read_as_they_were(texts: list[str]) -> None:
    table = pd.DataFrame({"id": pd.Series(texts, dtype="object"), "number": -1.5})
    written = protect_texts(table).to_csv(index=False)
    read = pd.read_csv(StringIO(written), dtype={"id": str}, keep_default_na=False)
    assert restore_texts(read)["id"].tolist() == texts
    assert read["number"].eq(-1.5).all()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"),
        ("-x", "'-x"),
        ("-5", "-5"),
        ("+1e3", "+1e3"),
        ("'a", "'a"),
        ("'@a", "''@a"),
        ("sub-1", "sub-1"),
    ],
)
def test_only_formulas_are_changed(text: str, written: str) -> None:
    assert protect_texts(pd.DataFrame({"id": [text, "b"]}))["id"].tolist() == [
        written,
        "b",
    ]


def test_missing_cells_stay_missing() -> None:
    table = pd.DataFrame({"id": ["=x", None], "r1": [1.0, 2.0]})
    assert protect_texts(table)["id"].isna().tolist() == [False, True]
    plain = table.assign(id=["a", None])
    assert protect_texts(plain) is plain

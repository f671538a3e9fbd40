"""Whatever bytes come, reading ends in a cohort or in problems, never in a traceback."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tables.helpers import look

MANY = settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
HEADERS = """
    ID participant_id 47 48 702 301 age sex diagnosis session_id site Lhippo lh_insula_volume Measure:volume
    Left-Hippocampus roi1 ICV Ä
"""
NAMES = st.sampled_from([*HEADERS.split(), "", " x ", 'q"', "total intracranial"])
CELLS = st.one_of(
    st.sampled_from(
        ["", "1", "0", "-1", "3500.5", "1e9", "1e999", "-0", "nan", "n/a", "inf", "CN", "AD", "sub-01", "a,b"]
    ),
    st.integers(-(10**25), 10**25).map(str),
    st.floats().map(repr),
    st.text(max_size=5),
)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    width = draw(st.integers(1, 8))
    separator = draw(st.sampled_from([",", "\t", ";", " "]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r\r\n", "\r"]))
    header = draw(st.lists(NAMES, min_size=width, max_size=width))
    lengths = st.integers(width, width) if draw(st.booleans()) else st.integers(0, width + 1)
    rows = draw(st.lists(lengths.flatmap(lambda n: st.lists(CELLS, min_size=n, max_size=n)), max_size=6))
    text = end.join(separator.join(row) for row in [header, *rows])
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])), errors="replace")


def examine_bytes(folder: Path, first: bytes, second: bytes | None) -> None:
    (folder / "v.csv").write_bytes(first)
    asked: dict[str, object] = {"covariates": ["age", "icv"], "group": "diagnosis", "on_missing": "drop"}
    if second is None:
        result = look(folder / "v.csv")
    else:
        (folder / "p.tsv").write_bytes(second)
        result = look(folder / "v.csv", folder / "p.tsv", **asked)
    if result.cohort is None:
        assert not result.ok
        assert all(problem.what for problem in result.problems)
    else:
        assert not result.cohort.volumes.isna().any(axis=None)
        assert not result.cohort.covariates.isna().any(axis=None)


@MANY
@given(first=st.binary(max_size=300), second=st.none() | st.binary(max_size=100))
def test_random_bytes(first: bytes, second: bytes | None, tmp_path_factory: pytest.TempPathFactory) -> None:
    examine_bytes(tmp_path_factory.getbasetemp(), first, second)


@MANY
@given(first=tables(), second=st.none() | tables())
def test_random_tables(first: bytes, second: bytes | None, tmp_path_factory: pytest.TempPathFactory) -> None:
    examine_bytes(tmp_path_factory.getbasetemp(), first, second)

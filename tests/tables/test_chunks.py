"""Chunks of a table are read and validated as the table in memory is."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rindices.errors import Findings, Problem, ProblemCode, Severity, TableError
from rindices.experiments.tasks import TASKS
from rindices.tables.chunks import (
    ChunkSize,
    OpenedTable,
    _split_lines,
    merge_problems,
    split_into_chunks,
)
from rindices.tables.options import TableOptions
from rindices.tables.sources.frames import list_table_files, read_block
from rindices.tables.sources.lines import Dialect, split_lines
from rindices.tables.validate import TableRequest, ValidationResult, validate_table
from tests.cohorts import simulate_few_regions

pytest.importorskip("pyarrow")
SCHEMA_ROWS, PEOPLE, ROWS = 200, 600, 100
ROW = 450  # behind the rows that the schema comes from
SIZE = ChunkSize(rows=ROWS, parquet_rows=300, text_bytes=100_000)


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    cohort = simulate_few_regions(
        replace(TASKS["tiny"], n_controls=PEOPLE - 100, n_patients=100), seed=1
    ).cohort
    return pd.concat(
        [cohort.people[["participant_id"]], cohort.covariates, cohort.volumes], axis=1
    )


def write_table(frame: pd.DataFrame, path: Path) -> TableRequest:
    """Write a table and return a request for it."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False, row_group_size=150)
    options = TableOptions(
        covariates=("age", "sex", "icv"),
        site="none",
        measure="any",
        on_missing="error",
    )
    return TableRequest(volumes=(path,), options=options, find_groups=False)


def validate_in_chunks(request: TableRequest) -> list[ValidationResult]:
    (path,) = request.volumes
    opened = OpenedTable.open(path, request, SCHEMA_ROWS)
    opened = opened.select_regions(opened.validation.cohort_or_raise().regions)
    return [
        result
        for chunk in split_into_chunks(path, SIZE)
        for result in opened.validate_chunk(chunk, ROWS)
    ]


def put(column: str, value: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame[column] = (
            frame[column].astype("object")
            if isinstance(value, str) or value is None
            else frame[column]
        )
        frame.loc[ROW, column] = value
        return frame

    return change


VALID: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "as it is": lambda frame: frame,
    "single precision": lambda frame: frame.astype(
        {name: np.float32 for name in frame if name.startswith("MUSE")}
    ),
    "integers": lambda frame: frame.assign(
        MUSE_47=frame["MUSE_47"].round().astype(int)
    ),
    "ids are numbers": lambda frame: frame.assign(
        participant_id=np.arange(PEOPLE) + 10**17
    ),
    "ids with blanks": lambda frame: frame.assign(
        participant_id=" " + frame["participant_id"].astype(str) + " "
    ),
    "sex as a number": lambda frame: frame.assign(
        sex=(frame["sex"] == "M").astype(int)
    ),
    "columns in another order": lambda frame: frame[list(frame)[::-1]],
    "names with blanks": lambda frame: frame.rename(
        columns={"MUSE_47": " MUSE_47 ", "age": "age "}
    ),
    "two columns that differ in case": lambda frame: frame.assign(
        Age=frame["age"] + 3, SEX="F"
    ),
    "volumes as categories": lambda frame: frame.assign(
        MUSE_47=frame["MUSE_47"].astype(str).astype("category")
    ),
    "a sex with blanks": put("sex", " F"),
    "an unknown sex": put("sex", "X"),
}
INVALID: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], ProblemCode]] = {
    "no id": (put("participant_id", None), ProblemCode.MISSING_IDS),
    "an empty id": (put("participant_id", "  "), ProblemCode.MISSING_IDS),
    "an id twice": (
        lambda f: put("participant_id", f.loc[ROW - 1, "participant_id"])(f),
        ProblemCode.DUPLICATE_IDS,
    ),
    "a missing volume": (put("MUSE_47", np.nan), ProblemCode.MISSING_VALUES),
    "an infinite volume": (put("MUSE_47", np.inf), ProblemCode.INFINITE_VALUES),
    "a negative volume": (put("MUSE_47", -1.0), ProblemCode.NEGATIVE_VALUES),
    "a volume of 0": (put("MUSE_47", 0.0), ProblemCode.ZERO_VOLUMES),
    "a missing age": (put("age", np.nan), ProblemCode.MISSING_VALUES),
    "an age of nobody": (put("age", 200.0), ProblemCode.IMPOSSIBLE_VALUES),
    "an icv of 0": (put("icv", 0.0), ProblemCode.IMPOSSIBLE_VALUES),
    "an infinite icv": (put("icv", np.inf), ProblemCode.IMPOSSIBLE_VALUES),
    "a missing sex": (put("sex", None), ProblemCode.MISSING_VALUES),
}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("name", VALID)
def test_chunks_hold_what_the_table_in_memory_holds(
    name: str, suffix: str, people: pd.DataFrame, tmp_path: Path
) -> None:
    request = write_table(VALID[name](people.copy()), tmp_path / f"people{suffix}")
    results = validate_in_chunks(request)
    in_memory = validate_table(request).cohort_or_raise()
    cohorts = [result.cohort_or_raise() for result in results]
    assert len(cohorts) > 3
    assert [key for result in results for key in result.keys] == in_memory.people[
        "participant_id"
    ].tolist()
    assert {(cohort.unit, cohort.source) for cohort in cohorts} == {
        (in_memory.unit, in_memory.source)
    }
    for part in ("volumes", "people", "covariates"):
        expected = getattr(in_memory, part)
        joined = pd.concat(
            [getattr(cohort, part) for cohort in cohorts], ignore_index=True
        ).astype(expected.dtypes)
        pd.testing.assert_frame_equal(joined, expected, check_exact=True)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("name", INVALID)
def test_a_chunk_has_the_problem_of_the_table_in_memory(
    name: str, suffix: str, people: pd.DataFrame, tmp_path: Path
) -> None:
    change, code = INVALID[name]
    request = write_table(change(people.copy()), tmp_path / f"people{suffix}")
    (in_memory,) = (
        problem for problem in validate_table(request).problems if problem.code is code
    )
    try:
        problems = [
            problem
            for result in validate_in_chunks(request)
            for problem in result.problems
        ]
    except TableError as error:
        problems = list(error.problems)
    (in_chunk,) = (problem for problem in problems if problem.code is code)
    assert (in_chunk.severity, in_chunk.subject) == (
        in_memory.severity,
        in_memory.subject,
    )
    if code is not ProblemCode.MISSING_IDS:  # whose offenders are rows
        assert in_chunk.offenders == in_memory.offenders


def test_only_requested_columns_are_read(people: pd.DataFrame, tmp_path: Path) -> None:
    request = write_table(
        people.assign(site="a", note="b"), tmp_path / "people.parquet"
    )
    opened = OpenedTable.open(*request.volumes, request, SCHEMA_ROWS).select_regions(
        ["MUSE_47", "MUSE_48"]
    )
    assert set(opened.columns) == {
        "participant_id",
        "MUSE_47",
        "MUSE_48",
        "age",
        "sex",
        "icv",
    }


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["1,2,3\n", '"x",,\n', "\n", "4\r\n", "no end"]), min_size=1
    ),
    st.integers(1, 30),
)
def test_text_is_cut_after_ends_of_lines(rows: list[str], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes("".join(rows).encode())
        bounds = list(_split_lines(path, size))
        content = path.read_bytes()
    assert b"".join(content[start:stop] for start, stop in bounds) == content
    assert all(content[:stop].endswith(b"\n") for _, stop in bounds[:-1])
    assert all(start < stop for start, stop in bounds)


CELLS = st.sampled_from(["", " ", "1.5", "a b", "é", "NA", " 2"])
ENDS = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\n  \n"])


@settings(deadline=None)
@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS, ENDS), min_size=1),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_each_line_that_is_not_blank_is_a_row(
    rows: list[tuple[str, str, str, str]], sep: str, encoding: str
) -> None:
    dialect = Dialect(
        encoding=encoding,
        separator=sep,
        decimal=".",
        header=("id", "a", "b"),
        skip=2,
        blanks=True,
    )
    lines = [
        "".join([sep.join(["x" + first, second, third]), end])
        for first, second, third, end in rows
    ]
    content = "".join(["# comment\n", sep.join(dialect.header), "\n", *lines]).encode(
        encoding
    )
    block = split_lines(content, Path("t.csv"), 0, dialect, Findings())
    frame = read_block(block, dialect, ["id"], Findings())
    assert len(frame) == len(rows)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("line", [2, 3, 5])
def test_a_line_with_an_open_quotation_mark_is_named(
    line: int, encoding: str, tmp_path: Path
) -> None:
    dialect = Dialect(
        encoding=encoding,
        separator=",",
        decimal=".",
        header=("id", "a"),
        skip=1,
        blanks=False,
    )
    lines = ["id,a", "p1,1", "p2,2", "", "p3,3"]
    lines[line - 1] = '"' + lines[line - 1]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines), encoding=encoding)
    findings = Findings()
    read_block(
        split_lines(path.read_bytes(), path, 0, dialect, findings),
        dialect,
        ["id"],
        findings,
    )
    (error,) = findings.errors()
    assert (
        error.text
        == f"1 line opens a quotation mark that is not closed on the same line: line {line}"
    )
    assert error.offenders == (str(line),)


def test_utf16_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" * 50, encoding="utf-16")
    assert list(_split_lines(path, 10)) == [(0, path.stat().st_size)]


def test_files_of_other_programs_are_no_part_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for name in (
        "b.parquet",
        "more/a.parquet",
        ".hidden.parquet",
        "_SUCCESS",
        "notes.csv",
    ):
        (tmp_path / name).write_text("")
    assert list_table_files(tmp_path) == [
        tmp_path / "b.parquet",
        tmp_path / "more" / "a.parquet",
    ]
    assert list_table_files(tmp_path / "notes.csv") == [tmp_path / "notes.csv"]
    (tmp_path / "empty").mkdir()
    assert list_table_files(tmp_path / "empty") is None


def test_problems_of_chunks_are_merged_by_code_and_subject() -> None:
    def missing(subject: str, *ids: str) -> Problem:
        return Problem(
            severity=Severity.NOTE,
            what="text",
            where="t.csv",
            code=ProblemCode.MISSING_VALUES,
            subject=subject,
            offenders=tuple(ids),
        )

    merged = merge_problems(
        [
            missing("age", "a"),
            missing("age", "b"),
            missing("sex", "c"),
            missing("age", "a"),
        ]
    )
    assert [problem.subject for problem in merged] == ["age", "sex"]
    assert merged[0].offenders == ("a", "b")
    assert str(merged[0]) == "t.csv: text: a (and the like in 2 more chunks)."
    assert merged[1] == missing("sex", "c")

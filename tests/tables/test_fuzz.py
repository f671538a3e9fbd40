"""Any bytes are read into a cohort or a list of problems, never a traceback."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rindices.tables.regions import MAX_MISSING_SHARE
from tests.tables.helpers import validate_files

MANY = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
HEADERS = """
    ID participant_id 47 48 702 301 age sex diagnosis session_id site Lhippo lh_insula_volume Measure:volume
    Left-Hippocampus roi1 ICV Ä
"""
NAMES = st.sampled_from([*HEADERS.split(), "", " x ", 'q"', "total intracranial"])
CELLS = st.one_of(
    st.sampled_from(
        [
            "",
            "1",
            "0",
            "-1",
            "3500.5",
            "1e9",
            "1e999",
            "-0",
            "nan",
            "n/a",
            "inf",
            "CN",
            "AD",
            "sub-01",
            "a,b",
        ]
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
    lengths = (
        st.integers(width, width) if draw(st.booleans()) else st.integers(0, width + 1)
    )
    rows = draw(
        st.lists(
            lengths.flatmap(lambda n: st.lists(CELLS, min_size=n, max_size=n)),
            max_size=6,
        )
    )
    text = end.join(separator.join(row) for row in [header, *rows])
    return text.encode(
        draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])), errors="replace"
    )


WRONG_CELLS = st.sampled_from(
    [
        "",
        "0",
        "-5",
        "1e9",
        "1e308",
        "inf",
        "nan",
        "n/a",
        "text",
        "1,234",
        "3 500",
        "'1'",
        "-9",
        "1e-320",
    ]
)
REGIONS = [
    "47",
    "48",
    "31",
    "32",
    "MUSE_59",
    "Lhippo",
    "lh_insula_volume",
    "lh_cuneus_volume",
    "roi1",
    "roi2",
    "roi3",
]
ABOUT = ["age", "sex", "site", "session_id", "icv", "diagnosis", "Unnamed: 0", "score"]


@st.composite
def near_tables(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Volumes and participants that are almost right: distinct names, ids that belong
    together, a few outlying measurements.
    """
    people = draw(st.integers(1, 12))
    ids = [
        draw(st.sampled_from(["sub-{}", "{}", "sub-{}_ses-1", "x/{}.nii"])).format(k)
        for k in range(people)
    ]
    regions = draw(
        st.lists(st.sampled_from(REGIONS), min_size=2, max_size=8, unique=True)
    )
    wrong = draw(
        st.sets(
            st.tuples(st.integers(0, people - 1), st.integers(0, len(regions) - 1)),
            max_size=3,
        )
    )
    rows = [
        [
            draw(WRONG_CELLS) if (k, j) in wrong else f"{2000 + 37 * k + 11 * j}.5"
            for j in range(len(regions))
        ]
        for k in range(people)
    ]
    about = draw(st.lists(st.sampled_from(ABOUT), max_size=5, unique=True))
    cells = st.sampled_from(
        ["1", "2", "60.5", "CN", "AD", "F", "M", "", "n/a", "-9", "1500000", "old"]
    )
    facts = [[draw(cells) for _ in about] for _ in range(people)]
    separator = draw(st.sampled_from([",", "\t", ";"]))
    first = [
        ["ID", *regions],
        *([name, *row] for name, row in zip(ids, rows, strict=True)),
    ]
    second = [
        ["participant_id", *about],
        *([name, *row] for name, row in zip(ids, facts, strict=True)),
    ]
    texts = (
        "\n".join(separator.join(row) for row in table)
        for table in (first, draw(st.permutations(second[1:])))
    )
    volumes, others = texts
    return volumes.encode(), (separator.join(second[0]) + "\n" + others).encode()


def examine_bytes(folder: Path, first: bytes, second: bytes | None) -> bool:
    """Read the files, check the result, and return whether they became a cohort."""
    (folder / "v.csv").write_bytes(first)
    options: dict[str, object] = {
        "covariates": ["age", "icv"],
        "group": "diagnosis",
        "on_missing": "drop",
    }
    if second is None:
        result = validate_files(folder / "v.csv")
    else:
        (folder / "p.tsv").write_bytes(second)
        result = validate_files(folder / "v.csv", folder / "p.tsv", **options)
    if result.cohort is None:
        assert not result.ok
        assert all(problem.what for problem in result.problems)
    else:
        assert result.cohort.volumes.isna().mean(axis=None) <= MAX_MISSING_SHARE
        assert not result.cohort.covariates.isna().any(axis=None)
    return result.cohort is not None


@MANY
@given(first=st.binary(max_size=300), second=st.none() | st.binary(max_size=100))
def test_random_bytes(
    first: bytes, second: bytes | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    examine_bytes(tmp_path_factory.getbasetemp(), first, second)


@MANY
@given(first=tables(), second=st.none() | tables())
def test_random_tables(
    first: bytes, second: bytes | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    examine_bytes(tmp_path_factory.getbasetemp(), first, second)


ACCEPTED: Counter[bool] = Counter()


@MANY
@given(files=near_tables(), together=st.booleans())
def test_random_tables_that_are_almost_right(
    files: tuple[bytes, bytes], together: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ACCEPTED[
        examine_bytes(
            tmp_path_factory.getbasetemp(), files[0], files[1] if together else None
        )
    ] += 1


def test_some_of_the_random_tables_are_accepted() -> None:
    """Otherwise the test before would show little."""
    if sum(ACCEPTED.values()):  # run together with it, in one process
        assert ACCEPTED[True]
        assert ACCEPTED[False]

"""Altered tables, and what a plain reader finds in them."""

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.altered.alterations import (
    PARQUET_ALTERATIONS,
    TEXT_ALTERATIONS,
    Random,
    alter_byte,
    cut_file,
    delete_bytes,
)

PEOPLE, REGIONS = 24, 8
SEPARATORS = {"csv": ",", "tsv": "\t", "semicolon": ";", "blanks": " ", "parquet": ""}
WAYS = (
    "apply in one chunk",
    "apply in many chunks",
    "apply in memory",
    "apply with participants",
    "check",
)
LAST_REGION = f"roi{REGIONS - 1}"
ID, LABELS = "participant_id", ("comment", "group", "sex")
_MISSING = {"", "NA", "NaN"}


@cache
def make_frame(
    people: int = PEOPLE, seed: int = 0, regions: int = REGIONS
) -> pd.DataFrame:
    """Return ids, labels, age and regions of controls and as many patients."""
    rng = np.random.default_rng(seed)
    patients = np.arange(people) >= people // 2
    severity = rng.uniform(0, 0.5, people) * patients
    columns = {
        ID: [f"sub-{k:07d}" for k in range(people)],
        "comment": ["none"] * people,
    }
    columns |= {
        "group": np.where(patients, "patient", "control"),
        "sex": rng.choice(["F", "M"], people),
    }
    columns |= {"age": rng.uniform(50, 80, people).round(1)}
    for k in range(regions):
        volumes = rng.normal(3000 + 150 * k, 200, people)
        columns[f"roi{k}"] = (
            volumes * (1 - severity if k < regions // 2 else 1)
        ).round(2)
    return pd.DataFrame(columns)


@dataclass(frozen=True)
class Case:
    """An altered table.

    Attributes
    ----------
    kind, way : str
        Format, and how the table is read.
    names : tuple of str
        What was altered.
    content : bytes
    people : int or None
        Rows of the table; None if a plain reader cannot tell.
    frame : DataFrame or None
        The table as a plain reader reads it; None if that is not clear.
    """

    kind: str
    way: str
    names: tuple[str, ...]
    content: bytes
    people: int | None
    frame: pd.DataFrame | None


def make_case(number: int, seed: int, folder: Path) -> Case:
    """Alter a good table in one to three places; the same number gives the
    same case.
    """
    rng = np.random.default_rng([seed, number])
    kind, way = list(SEPARATORS)[number % 5], WAYS[number // 5 % len(WAYS)]
    frame = make_frame()
    if way == "apply in memory":
        frame = frame.drop(columns=LAST_REGION)
    if way == "apply with participants":
        frame = frame[[ID, *LABELS, "age"]].assign(score=np.arange(PEOPLE) / 8 + 10)
    if kind == "parquet":
        return _alter_parquet(frame, rng, way, folder / "case.parquet")
    sep = SEPARATORS[kind]
    content = frame.to_csv(
        index=False, sep=sep, decimal="," if sep == ";" else ".", lineterminator="\n"
    ).encode()
    chosen = [
        TEXT_ALTERATIONS[k]
        for k in rng.choice(
            len(TEXT_ALTERATIONS), rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1])
        )
    ]
    for alter in chosen:
        if content.count(b"\n") > 2 and content.count(sep.encode()) > 2:
            content = alter(content, sep.encode(), rng)
    names = tuple(alter.__name__.replace("_", " ") for alter in chosen)
    people, table = read_plainly(content, sep)
    return Case(kind, way, names, content, people, table)


def _alter_parquet(frame: pd.DataFrame, rng: Random, way: str, path: Path) -> Case:
    frame = frame if "roi1" in frame else frame.assign(roi1=frame["age"])
    name = str(rng.choice(list(PARQUET_ALTERATIONS)))
    frame = PARQUET_ALTERATIONS[name](frame, rng)
    frame.to_parquet(path, index=False, row_group_size=int(rng.integers(1, 30)))
    content = path.read_bytes()
    if rng.uniform() < 0.3:  # no reader can know the values behind an altered byte
        content = [cut_file, alter_byte, delete_bytes][int(rng.integers(3))](
            content, b"", rng
        )
        return Case("parquet", way, (name, "bytes"), content, len(frame), None)
    return Case("parquet", way, (name,), content, len(frame), frame)


def read_plainly(content: bytes, sep: str) -> tuple[int | None, pd.DataFrame | None]:
    """Return the number of rows of a text, and its table where there is no doubt about
    it.

    This is written without `rindices` and pandas: a line is a row, a row has one cell
    for each name of the header.
    """
    lines = _split_lines(content)
    filled = [line for line in lines if line.strip(f' \t,;"{sep}')]
    while filled and re.match(r"\s*#|sep=.$", filled[0], re.IGNORECASE):
        filled = filled[1:]
    if not filled:
        return None, None
    names, *rows = (_split_cells(line, sep) for line in filled)
    clear = all(len(row) == len(names) for row in rows) and len(set(names)) == len(
        names
    )
    if not clear or not rows or not all(map(str.strip, names)):
        return len(rows), None
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return len(rows), pd.DataFrame(
        {name: _read_column(name, cells, sep) for name, cells in columns.items()}
    )


def _split_lines(content: bytes) -> list[str]:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return re.split(r"\r\n|\n|\r", content.decode("utf-16", errors="replace"))
    return list(
        map(
            _decode_line,
            re.split(rb"\r\n|\n|\r", content.removeprefix(b"\xef\xbb\xbf")),
        )
    )


def _decode_line(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _split_cells(line: str, sep: str) -> list[str]:
    if '"' not in line:
        return [
            cell.strip() for cell in (line.split() if sep == " " else line.split(sep))
        ]
    try:
        cells = next(
            csv.reader(
                [line.strip(" ")], delimiter=sep, strict=True, skipinitialspace=True
            )
        )
    except csv.Error:
        return []
    return [cell.strip() for cell in cells if sep != " " or cell]


def _read_column(
    name: str, cells: tuple[str, ...], sep: str
) -> list[str | float | None]:
    """Return labels as they are, without the apostrophe before a formula, and numbers
    where all cells are numbers.
    """
    texts = [
        None if cell in _MISSING else re.sub(r"^'(?='*[=+\-@])", "", cell)
        for cell in cells
    ]
    numbers = [re.fullmatch(r"[+-]?\d+(\.\d+)?(e-?\d+)?|None", str(text).replace("," if sep == ";" else ".", "."), re.A)
               for text in texts]  # fmt: skip
    if name == ID or not all(numbers):
        return list(texts)
    return [None if text is None else float(text.replace(",", ".")) for text in texts]

"""Misleading tables: what a table does not say plainly is refused or said, and never
used in silence.

    python -m benchmarks.misleading_tables [--tables 2000] [--out FILE]

Makes small good tables wrong in one of eight ways: rows that lack a cell, files that
are cut, labels with look-alike letters, numbers as labels, zeros, repeated ids of
different people, sites that are equal to the groups, and participants of another study.
``rindices check`` reads each of them, as ``fit`` would. A table is refused (an error)
or said (a warning or note), both with a code that is about this fault and that the good
table does not have; or it is silent, which is a failure. Writes
``results/misleading_tables.md``. A sample runs in the tests
(``tests/cli/test_altered_tables.py``).
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.altered.cases import ID, make_frame
from benchmarks.altered_tables import RESULTS, run_program

PEOPLE = 60
LOOK_ALIKES = {
    "o": "\u043e",
    "c": "\u0441",
    "a": "\u0430",
    "e": "\u0435",
    "p": "\u0440",
}
FULL_WIDTH = {chr(code): chr(code + 0xFEE0) for code in range(ord("a"), ord("z") + 1)}
SITE_COLUMNS = ("site", "scanner", "Site_ID", "center", "study")
GROUPS = ["--group", "group"]
LABELS = [*GROUPS, "--controls", "control", "--patients", "*"]

Random = np.random.Generator
Table = tuple[bytes, list[str]]
"""A text and the options of check."""
Mislead = Callable[[pd.DataFrame, Random, Path], Table]


def to_text(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False, lineterminator="\n").encode()


def choose_rows(rng: Random, most: int = 20) -> list[int]:
    return sorted(
        rng.choice(PEOPLE, int(rng.integers(1, most + 1)), replace=False).tolist()
    )


def drop_cells(frame: pd.DataFrame, rng: Random, folder: Path) -> Table:
    """Leave a cell and its comma out of some rows."""
    lines = to_text(frame).decode().splitlines()
    for row in choose_rows(rng):
        cells = lines[row + 1].split(",")
        del cells[int(rng.integers(1, len(cells)))]
        lines[row + 1] = ",".join(cells)
    return "\n".join([*lines, ""]).encode(), LABELS


def cut_file(frame: pd.DataFrame, rng: Random, folder: Path) -> Table:
    """Cut the file within a row."""
    lines = to_text(frame).splitlines(keepends=True)
    row = int(rng.integers(len(lines) // 2, len(lines)))
    line = lines[row]
    stop = int(rng.integers(1, len(line)))
    return b"".join(lines[:row]) + line[:stop], LABELS


def write_look_alikes(frame: pd.DataFrame, rng: Random, folder: Path) -> Table:
    """Write labels of some controls in letters that look the same."""
    changes: list[Callable[[str], str]] = [
        lambda text: "".join(LOOK_ALIKES.get(char, char) for char in text),
        lambda text: "".join(FULL_WIDTH.get(char, char) for char in text),
        lambda text: f"{text}\u00a0x".removesuffix("x") + "\u200b",
        lambda text: text[:3] + "\u200b" + text[3:],
        lambda text: text.replace("o", "\u043e", 1),
        str.upper,
    ]
    change = changes[int(rng.integers(len(changes)))]
    rows = [
        row for row in choose_rows(rng, 30) if frame["group"][row] == "control"
    ] or [0]
    frame.loc[rows, "group"] = [change(label) for label in frame.loc[rows, "group"]]
    return to_text(frame), LABELS


def write_numbers(frame: pd.DataFrame, rng: Random, folder: Path) -> Table:
    """Write groups as numbers."""
    numbers = [("-1", "1"), ("0", "1"), ("1", "2"), ("1.0", "2.0"), ("\u22121", "1")][
        int(rng.integers(5))
    ]
    labels = dict(
        zip(("control", "patient"), rng.permutation(numbers).tolist(), strict=True)
    )
    return to_text(frame.assign(group=frame["group"].map(labels))), GROUPS


def write_zeros(frame: pd.DataFrame, rng: Random, folder: Path) -> Table:
    """Write 0 for regions or ages of some people."""
    column = str(
        rng.choice(["age", *(name for name in frame if name.startswith("roi"))])
    )
    frame.loc[choose_rows(rng), column] = 0.0
    return to_text(frame), LABELS


def repeat_ids(frame: pd.DataFrame, rng: Random, folder: Path) -> Table:
    """Join two studies that both count their people from 1."""
    half = PEOPLE // 2
    frame = frame.iloc[rng.permutation(PEOPLE)].reset_index(drop=True)
    frame["dataset"] = ["one"] * half + ["two"] * half
    frame[ID] = [f"sub-{k % half:03d}" for k in range(PEOPLE)]
    return to_text(frame), [
        *LABELS,
        *(["--session", "dataset"] if rng.uniform() < 0.5 else []),
    ]


def separate_sites(frame: pd.DataFrame, rng: Random, folder: Path) -> Table:
    """Measure controls and patients at different sites."""
    is_patient = (frame["group"] == "patient").to_numpy()
    number = rng.integers(1, 4, PEOPLE)
    names = [
        f"{'B' if patient else 'A'}{k}"
        for patient, k in zip(is_patient, number, strict=True)
    ]
    column = str(rng.choice(SITE_COLUMNS))
    return to_text(frame.assign(**{column: names})), [
        *LABELS,
        *(["--site", column] if rng.uniform() < 0.3 else []),
    ]


def give_other_people(frame: pd.DataFrame, rng: Random, folder: Path) -> Table:
    """Give the participants of another study, of which none, some or all ids are the
    same.
    """
    other = make_frame(PEOPLE, int(rng.integers(100, 10_000)))[
        [ID, "group", "sex", "age"]
    ].copy()
    way = int(rng.integers(3))
    if way == 0:
        other[ID] = [f"other-{k}" for k in range(PEOPLE)]
    if way == 1:
        other = other.iloc[int(rng.integers(5, PEOPLE - 5)) :]
    other.to_csv(folder / "people.csv", index=False)
    table = frame if way == 2 else frame.drop(columns=["group", "sex", "age"])
    return to_text(table), [*LABELS, "--participants", str(folder / "people.csv")]


WAYS: dict[str, tuple[Mislead, set[str]]] = {
    "rows that lack a cell": (drop_cells, {"short_rows"}),
    "cut files": (cut_file, {"short_rows", "no_line_end"}),
    "look-alike labels": (
        write_look_alikes,
        {"labels_folded", "mixed_scripts", "similar_labels"},
    ),
    "numbers as labels": (write_numbers, {"labels_unclear"}),
    "zeros": (write_zeros, {"zero_volumes", "impossible_values"}),
    "repeated ids of strangers": (
        repeat_ids,
        {"duplicate_ids", "contradictory_visits"},
    ),
    "sites equal to the groups": (separate_sites, {"site_separates_groups"}),
    "participants of another study": (
        give_other_people,
        {"no_common_ids", "missing_values", "contradictory_columns"},
    ),
}
"""How tables are made wrong, and the codes of problems that say it."""

TEXT = """# Misleading tables
`python -m benchmarks.misleading_tables`. {tables:,} tables of {people} people, each wrong in one way, read by
`rindices check`. Refused: exit code 1 and an error about the fault. Said: a warning or note about the fault. Silent:
anything else. {silent} silent; {seconds:.0f} s of processor time.

| wrong | refused | said | silent |
|---|---|---|---|
{rows}
"""


def run_case(number: int, folder: Path) -> tuple[str, str, str]:
    """Return how a table is wrong, what became of it, and the messages of a
    silent one.
    """
    name = list(WAYS)[number % len(WAYS)]
    mislead, codes = WAYS[name]
    content, options = mislead(
        make_frame(PEOPLE, number).copy(), np.random.default_rng([7, number]), folder
    )
    path = folder / "table.csv"
    path.write_bytes(content)
    outcome = run_program(["check", path, *options, "--json"], folder / "none")
    said = {problem["code"] for problem in outcome.numbers.get("problems", ())}
    if outcome.fault or not said & codes:
        return (
            name,
            "silent",
            f"case {number} ({name}): {outcome.fault or sorted(said)}",
        )
    return name, "refused" if outcome.code else "said", ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=2_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "misleading_tables.md")
    options = parser.parse_args()
    start, counts, failures = time.process_time(), Counter[tuple[str, str]](), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "table.csv").write_bytes(to_text(make_frame(PEOPLE)))
        good = run_program(
            ["check", folder / "table.csv", *LABELS, "--json"], folder / "none"
        )
        unneeded = {
            problem["code"] for problem in good.numbers["problems"]
        } & set().union(*(c for _, c in WAYS.values()))
        if good.code or unneeded:
            sys.exit(f"the good table is not read as such: {good.messages or unneeded}")
        for number in range(options.tables):
            kind, verdict, failure = run_case(number, folder)
            counts[kind, verdict] += 1
            failures += [failure] if failure else []
    rows = [f"| {kind} | " + " | ".join(f"{counts[kind, each]:,}" for each in ("refused", "said", "silent")) + " |"
            for kind in WAYS]  # fmt: skip
    facts = {"tables": options.tables, "people": PEOPLE, "silent": len(failures)}
    options.out.write_text(
        TEXT.format(**facts, seconds=time.process_time() - start, rows="\n".join(rows)),
        "utf-8",
    )
    for failure in failures:
        print(failure, file=sys.stderr)
    print(json.dumps(facts))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

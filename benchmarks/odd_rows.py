"""Oddities in a large table: ``rindices apply`` reads each as it is meant or names it,
in the time of a clean table.

    python -m benchmarks.odd_rows [--rows 2000000] [--oddities 1000] [--folder FOLDER]
    [--out FILE]

Writes a csv file of 20 regions (0.3 GB for two million people) and plants oddities in
random lines: quotation marks, line breaks, repeated people, encodings, control
characters, missing and superfluous cells. Three versions are applied:

clean
    Without oddities.
readable
    With those that can be read. All people must come out, with the R-indices of the
    clean file.
all
    With all oddities. The lines and people that the errors name are removed from the
    file, as a user would do, and the command is run again until it succeeds. Each
    oddity must be named, and nobody else may be missing from the result.

Every run has one process, and its processor time is compared with that of the clean
file. A run that names repeated people looks for them in the parts of the table a second
time, so a run with errors may take twice as long. Writes ``results/odd_rows.md``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv

import rindices as ri

RESULTS = Path(__file__).parent / "results"
PROGRAM = "from rindices.cli.main import run; run()"
REGIONS, BLOCK = 20, 100_000
MAX_ROUNDS = 8


def make_block(first: int, people: int) -> dict[str, np.ndarray]:
    """Return ids, a comment, age and regions; columns of numbers have one decimal."""
    rng = np.random.default_rng([9, first])
    columns = {
        "participant_id": np.array(
            [f"sub-{k:08d}" for k in range(first, first + people)]
        )
    }
    columns |= {
        "comment": np.full(people, "none"),
        "age": rng.uniform(50, 80, people).round(1),
    }
    return columns | {
        f"roi{k}": rng.normal(3000 + 100 * k, 200, people).round(1)
        for k in range(REGIONS)
    }


def write_clean(path: Path, rows: int) -> None:
    """Write the clean table."""
    with path.open("wb") as file:
        for first in range(0, rows, BLOCK):
            options = pa_csv.WriteOptions(
                include_header=first == 0, quoting_style="none"
            )
            pa_csv.write_csv(
                pa.table(make_block(first, min(BLOCK, rows - first))), file, options
            )


def fit_model(folder: Path) -> Path:
    """Fit a model of one pattern with the covariate age, and return its file."""
    frame = pd.DataFrame(make_block(10**7, 400)).assign(
        group=["control"] * 200 + ["patient"] * 200
    )
    severity = np.random.default_rng(6).uniform(0, 0.5, 200)
    for k in range(REGIONS // 2):
        frame.loc[200:, f"roi{k}"] *= 1 - severity
    frame.to_csv(folder / "train.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cohort = ri.read_cohort(folder / "train.csv", group="group", covariates=["age"])
        ri.fit(cohort, 1, members=2, method="contrastive", workers=1).save(
            folder / "model.safetensors"
        )
    return folder / "model.safetensors"


def split_id(line: bytes) -> tuple[bytes, bytes]:
    name, rest = line.split(b",", 1)
    return name, b"," + rest


def change_comment(text: bytes) -> Callable[[bytes], bytes]:
    return lambda line: line.replace(b",none,", b"," + text + b",", 1)


def change_id(form: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def change(line: bytes) -> bytes:
        name, rest = split_id(line)
        return form(name) + rest

    return change


READABLE: dict[str, Callable[[bytes], bytes]] = {
    "comment in quotation marks with a separator": change_comment(b'"a, b"'),
    "comment with doubled quotation marks": change_comment(b'"say ""x"", y"'),
    "comment with a quotation mark inside": change_comment(b'5" x'),
    "id in quotation marks": change_id(lambda name: b'"' + name + b'"'),
    "id with blanks around it": change_id(lambda name: b" " + name + b" "),
    "id with letters in UTF-8": change_id(
        lambda name: name.replace(b"sub", "süb".encode())
    ),
    "id with letters in Latin-1": change_id(
        lambda name: name.replace(b"sub", "süb".encode("latin-1"))
    ),
    "id that begins as a formula": change_id(lambda name: b"=" + name),
    "end of line of Windows": lambda line: line + b"\r",
    "empty line": lambda line: line + b"\n",
    "line of separators": lambda line: line + b"\n" + b"," * (REGIONS + 2),
}
REFUSED: dict[str, Callable[[bytes], bytes]] = {
    "line break in a comment": change_comment(b'"no\nne"'),
    "line break of Windows in a comment": change_comment(b'"no\r\nne"'),
    "quotation mark that is not closed": change_comment(b'"none'),
    "control character": change_comment(b"no\x07ne"),
    "zero byte": change_comment(b"no\x00ne"),
    "comment of 150,000 bytes": change_comment(b"x" * 150_000),
    "id with an invisible character": change_id(lambda name: name + "\u200b".encode()),
    "id missing": change_id(lambda name: b""),
    "person repeated in the next line": lambda line: line + b"\n" + line,
    "person repeated at the end of the file": lambda line: line,
    "cell too many": lambda line: line + b",1.5",
    "cells missing at the end": lambda line: line.rsplit(b",", 3)[0],
    "text in place of a number": lambda line: line.rsplit(b",", 1)[0] + b",30x0.1",
    "number missing": lambda line: line.rsplit(b",", 1)[0] + b",NA",
}
AT_THE_END = "person repeated at the end of the file"


@dataclass(frozen=True)
class Oddity:
    """A planted oddity: its kind, the person, and the numbers of its lines
    in the file.
    """

    kind: str
    person: str
    lines: range


def plant_oddities(clean: Path, path: Path, kinds: dict[int, str]) -> list[Oddity]:
    """Write a copy of a table with oddities of some kinds in some of its rows, counted
    from 0.
    """
    changes, oddities, repeated, number = READABLE | REFUSED, [], [], 1
    with clean.open("rb") as source, path.open("wb") as target:
        target.write(source.readline())
        for row, line in enumerate(source):
            if row not in kinds:
                target.write(line)
                number += 1
                continue
            altered = changes[kinds[row]](line.rstrip(b"\n")) + b"\n"
            target.write(altered)
            last = number + altered.count(b"\n")
            person = split_id(altered)[0].strip(b' "') or split_id(line)[0]
            oddities.append(
                Oddity(kinds[row], decode(person), range(number + 1, last + 1))
            )
            repeated += [line] if kinds[row] == AT_THE_END else []
            number = last
        target.writelines(repeated)
    return oddities


def decode(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


class Run(NamedTuple):
    """A run of the program: exit code, processor seconds, what it printed."""

    code: int
    seconds: float
    printed: dict[str, Any]
    messages: list[str]


def apply(model: Path, table: Path, out: Path) -> Run:
    """Apply a model as a user does, with one process."""
    options = ["--out", out, "--workers", "1", "--json", "--on-missing", "error"]
    words = [sys.executable, "-c", PROGRAM, "apply", model, table, *options]
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(list(map(str, words)), stdout=stdout, stderr=stderr)
        _, status, usage = os.wait4(process.pid, 0)
        stdout.seek(0)
        stderr.seek(0)
        printed = json.loads(stdout.read() or b"{}")
        messages = stderr.read().decode(errors="replace").splitlines()
    return Run(
        os.waitstatus_to_exitcode(status),
        usage.ru_utime + usage.ru_stime,
        printed,
        messages,
    )


def remove_rows(
    table: Path, lines: set[int], people: set[str], repeated: set[str]
) -> list[int]:
    """Remove lines by number, people by id and all but the first row of repeated
    people; return the lines that stay.
    """
    met: set[str] = set()
    staying = [1]
    with table.open("rb") as source, table.with_suffix(".new").open("wb") as target:
        target.write(source.readline())
        for number, line in enumerate(source, start=2):
            name = decode(split_id(line)[0].strip(b' "')) if b"," in line else ""
            if number in lines or name in people or (name in repeated and name in met):
                continue
            met.update({name} & repeated)
            target.write(line)
            staying.append(number)
    table.with_suffix(".new").replace(table)
    return staying


class Mended(NamedTuple):
    """The oddities that were named, and the numbers which the remaining lines had in
    the first file.
    """

    named: set[Oddity]
    numbers: np.ndarray


def mend_table(
    table: Path, problems: list[dict], oddities: list[Oddity], numbers: np.ndarray
) -> Mended:
    """Remove what errors name, with the other lines of the same cell."""
    lines = {
        int(numbers[int(k) - 1])
        for p in problems
        if p["offender_kind"] == "row"
        for k in p["offenders"]
    }
    repeated = {
        name
        for p in problems
        if p["code"] == "duplicate_ids"
        for name in p["offenders"]
    }
    people = {
        name
        for p in problems
        if p["offender_kind"] == "participant"
        for name in p["offenders"]
    } - repeated
    named = {
        o for o in oddities if lines & set(o.lines) or o.person in people | repeated
    }
    rest_of_cells = {line for o in named if "line break" in o.kind for line in o.lines}
    removed = set(np.flatnonzero(np.isin(numbers, list(lines | rest_of_cells))) + 1)
    staying = remove_rows(table, removed, people, repeated)
    return Mended(named, numbers[np.array(staying) - 1])


def compare_people(
    out: Path, clean_out: Path, oddities: list[Oddity], rows: list[int], lost: set[int]
) -> str:
    """Return an empty text if all people but the ``lost`` rows have the R-indices of
    the clean table.
    """
    expected, table = pd.read_parquet(clean_out), pd.read_parquet(out)
    names = expected["participant_id"].to_numpy(dtype=object, copy=True)
    names[rows] = [oddity.person for oddity in oddities]
    expected = (
        expected.assign(participant_id=names)
        .drop(index=list(lost))
        .reset_index(drop=True)
    )
    if len(table) != len(expected):
        return f"{len(table):,} people instead of {len(expected):,}"
    different = (table != expected) & ~(table.isna() & expected.isna())
    return (
        f"other results for {different.any(axis=1).sum():,} people"
        if different.to_numpy().any()
        else ""
    )


TEXT = """# Oddities in a large table
`python -m benchmarks.odd_rows --rows {rows} --oddities {oddities}`. A csv file of {rows:,} people with {regions}
regions; one process. {readable:,} oddities that can be read and {refused:,} that must be named, in random lines.

| file | exit code | people out | errors | oddities named | processor seconds | of the clean file |
|---|---|---|---|---|---|---|
{table}

{verdict}

| oddity | planted | read as meant | named |
|---|---|---|---|
{kinds}
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--oddities", type=int, default=1_000)
    parser.add_argument(
        "--folder",
        type=Path,
        help="for the files, which are deleted; the temporary folder if left out",
    )
    parser.add_argument(
        "--max-ratio",
        type=float,
        default=1.3,
        help="of the processor times of a run without errors and of the clean file",
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "odd_rows.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        faults = run_versions(
            options.rows, options.oddities, options.max_ratio, Path(folder), options.out
        )
    print("\n".join(faults) or "no faults")
    sys.exit(bool(faults))


def run_versions(
    rows: int, n_oddities: int, max_ratio: float, folder: Path, report: Path
) -> list[str]:
    """Run all versions of the table, write the report, and return what is wrong."""
    model, clean, odd = fit_model(folder), folder / "clean.csv", folder / "odd.csv"
    write_clean(clean, rows)
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.choice(rows, n_oddities, replace=False))
    all_kinds = [*READABLE, *REFUSED]
    kinds = {
        int(row): all_kinds[k % len(all_kinds)]
        for row, k in zip(chosen, rng.permutation(n_oddities), strict=True)
    }
    faults: list[str] = []
    table: list[str] = []
    first = apply(model, clean, folder / "clean.parquet")

    def add_run(name: str, run: Run, named: int, people: object) -> None:
        ratio = run.seconds / first.seconds
        codes = ", ".join(
            sorted(
                {str(problem["code"]) for problem in run.printed.get("problems", [])}
            )
        )
        table.append(
            f"| {name} | {run.code} | {people} | {codes} | {named} | {run.seconds:.1f} | {ratio:.2f} |"
        )
        if ratio > (2.0 if run.code else max_ratio):
            faults.append(f"{name}: {ratio:.2f} times the clean file")

    add_run("clean", first, 0, f"{first.printed['people']:,}")
    readable = {row: kind for row, kind in kinds.items() if kind in READABLE}
    oddities = plant_oddities(clean, odd, readable)
    run = apply(model, odd, folder / "odd.parquet")
    add_run("readable", run, 0, f"{run.printed.get('people', 0):,}")
    fault = compare_people(
        folder / "odd.parquet",
        folder / "clean.parquet",
        oddities,
        list(readable),
        set(),
    )
    faults += [f"readable: {fault or run.messages}"] if fault or run.code else []

    oddities = plant_oddities(clean, odd, kinds)
    named: set[Oddity] = set()
    with odd.open("rb") as file:
        numbers = np.arange(1, 1 + sum(1 for _ in file))
    for number in range(1, MAX_ROUNDS + 1):
        run = apply(model, odd, folder / "odd.parquet")
        if run.code == 0:
            add_run(f"all, run {number}", run, 0, f"{run.printed['people']:,}")
            break
        new, numbers = mend_table(odd, run.printed["problems"], oddities, numbers)
        add_run(f"all, run {number}", run, len(new - named), "")
        named |= new
    faults += judge_end(run, oddities, named, kinds, folder)
    write_report(report, rows, kinds, table, named, oddities, faults)
    return faults


def judge_end(
    run: Run,
    oddities: list[Oddity],
    named: set[Oddity],
    kinds: dict[int, str],
    folder: Path,
) -> list[str]:
    """Return what is wrong after the last run."""
    if run.code:
        return [f"all: still refused after {MAX_ROUNDS} runs: {run.messages[:3]}"]
    faults = [
        f"not named: {o.kind}, {o.person}"
        for o in oddities
        if (o.kind in REFUSED) != (o in named)
    ]
    stays = {"person repeated in the next line", AT_THE_END}
    lost = {
        row
        for row, o in zip(kinds, oddities, strict=True)
        if o.kind in REFUSED and o.kind not in stays
    }
    fault = compare_people(
        folder / "odd.parquet", folder / "clean.parquet", oddities, list(kinds), lost
    )
    return [*faults[:20], *([f"all: {fault}"] if fault else [])]


def write_report(
    report: Path,
    rows: int,
    kinds: dict[int, str],
    table: list[str],
    named: set[Oddity],
    oddities: list[Oddity],
    faults: list[str],
) -> None:
    planted, counted = Counter(kinds.values()), Counter(oddity.kind for oddity in named)
    lines = [
        f"| {kind} | {planted[kind]} | {planted[kind] - counted[kind]} | {counted[kind]} |"
        for kind in planted
    ]
    readable = sum(kind in READABLE for kind in kinds.values())
    text = TEXT.format(
        rows=rows,
        oddities=len(kinds),
        regions=REGIONS,
        readable=readable,
        refused=len(kinds) - readable,
        table="\n".join(table),
        verdict="; ".join(faults)
        or "Every oddity was read as it is meant or named, and nobody else is missing.",
        kinds="\n".join(sorted(lines)),
    )
    report.write_text(text, "utf-8")


if __name__ == "__main__":
    main()

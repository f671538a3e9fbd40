"""Altered tables: as many people come out of ``rindices apply`` and ``check`` as the
file holds, or an error does.

    python -m benchmarks.altered_tables [--tables 5000] [--first 0] [--out FILE]

Alters small good tables of every format (csv, tsv, semicolons with decimal commas,
blanks, parquet) in one to three places (``altered/``): bytes, quotation marks,
separators, ends of lines, encodings, labels, numbers, repeated and missing rows, cut
files. Each is applied in one chunk, in many chunks, in memory or as the table of
participants, or checked. If it is accepted, the people are counted by a second reader,
written without `rindices` and pandas, and all results are compared with those of a
clean parquet file of what this reader finds. Writes ``results/altered_tables.md``. A
sample runs in the tests (``tests/cli/test_altered_tables.py``).
"""

import argparse
import io
import json
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pandas as pd
import typer

import rindices as ri
from benchmarks.altered.cases import (
    ID,
    LAST_REGION,
    PEOPLE,
    SEPARATORS,
    Case,
    make_case,
    make_frame,
)
from rindices.apply import chunks
from rindices.cli.main import app
from rindices.errors import RindicesError
from rindices.tables.chunks import ChunkSize

RESULTS = Path(__file__).parent / "results"
PROGRAM = typer.main.get_command(app)
MANY_CHUNKS = partial(
    chunks.apply_stream,
    size=ChunkSize(rows=5, parquet_rows=7, text_bytes=500, schema_rows=6),
)


class Outcome(NamedTuple):
    """What a command did: its exit code, messages and results (the object that it
    prints, the table that it writes).
    """

    code: int
    messages: list[str]
    numbers: dict[str, Any]
    table: pd.DataFrame | None
    fault: str


def fit_model(folder: Path) -> Path:
    """Fit a model of one pattern with the covariates age and sex, and
    return its file.
    """
    path = folder / "model.safetensors"
    make_frame(200, seed=5).to_csv(folder / "train.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cohort = ri.read_cohort(
            folder / "train.csv", group="group", covariates=["age", "sex"]
        )
        ri.fit(cohort, 1, members=2, method="contrastive", workers=1).save(path)
    return path


def run_program(arguments: Sequence[object], out: Path) -> Outcome:
    """Run a command in this process; messages that are not one line each, warnings and
    tracebacks are faults.
    """
    stdout, stderr, code, messages, fault = io.StringIO(), io.StringIO(), 0, [], ""
    with (
        redirect_stdout(stdout),
        redirect_stderr(stderr),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        try:
            code = PROGRAM(list(map(str, arguments)), standalone_mode=False) or 0
        except RindicesError as error:
            code, messages = 1, list(map(str, error.problems))
        except SystemExit as ending:
            code = int(ending.code or 0)
        except Exception:
            fault = " ".join(traceback.format_exc().splitlines()[-3:])
    if caught:
        fault = fault or f"warning: {caught[0].message}"
    numbers = json.loads(stdout.getvalue() or "{}")
    if code:
        problems = numbers.get("problems", [])
        messages += [
            str(problem["what"])
            for problem in problems
            if problem["severity"] == "error"
        ]
        fault = (
            fault
            or ("" if messages else "no message")
            or ("a file was written" if out.exists() else "")
        )
        fault = fault or (
            "a message of more than one line"
            if any("\n" in text for text in messages)
            else ""
        )
        return Outcome(code, messages, numbers, None, fault)
    table = (
        pd.read_csv(out, dtype={ID: str}, keep_default_na=False)
        if out.exists()
        else None
    )
    return Outcome(code, stderr.getvalue().splitlines(), numbers, table, fault)


def build_command(
    way: str, table: Path, model: Path, ids: Sequence[str], folder: Path
) -> list[object]:
    """Return the arguments that read a table in a way; further tables that it needs are
    written.
    """
    if way == "check":
        groups = ["--group", "group", "--controls", "control", "--patients", "*"]
        return ["check", table, *groups, "--covariates", "age,sex", "--json"]
    tables: list[object] = [table]
    if way == "apply in memory":  # tables that are joined are read in memory
        good = make_frame().set_index(ID)[LAST_REGION]
        regions = good.reindex(list(dict.fromkeys(ids))).fillna(3000.0)
        regions.rename_axis(ID).reset_index().to_csv(
            folder / "last_region.csv", index=False
        )
        tables = [table, folder / "last_region.csv"]
    if way == "apply with participants":
        make_frame().drop(columns=["comment", "group", "sex", "age"]).to_csv(
            folder / "regions.csv", index=False
        )
        tables = [folder / "regions.csv", "--participants", table]
    return [
        "apply",
        model,
        *tables,
        "--out",
        folder / "out.csv",
        "--workers",
        1,
        "--json",
    ]


def run_way(
    way: str, table: Path, model: Path, ids: Sequence[str], folder: Path
) -> Outcome:
    out = folder / "out.csv"
    out.unlink(missing_ok=True)
    shutil.rmtree(folder / ".out.csv.parts", ignore_errors=True)
    command = build_command(way, table, model, ids, folder)
    if way != "apply in many chunks":
        return run_program(command, out)
    with patch.object(chunks, "apply_stream", MANY_CHUNKS):
        return run_program(command, out)


def run_case(case: Case, model: Path, folder: Path) -> tuple[Outcome, str]:
    """Return what the program did with a case, and what is wrong with it or an empty
    text.
    """
    table = folder / f"case.{'parquet' if case.kind == 'parquet' else 'csv'}"
    table.write_bytes(case.content)
    has_ids = case.frame is not None and ID in case.frame
    ids = (
        [str(name).strip() for name in case.frame[ID]]
        if has_ids
        else list(make_frame()[ID])
    )
    outcome = run_way(case.way, table, model, ids, folder)
    if outcome.fault or outcome.code:
        return outcome, outcome.fault
    people = PEOPLE if case.way == "apply with participants" else case.people
    rows = people if outcome.table is None else len(outcome.table)
    if not outcome.numbers["people"] == rows == people:
        return (
            outcome,
            f"{people} people in the file, {outcome.numbers['people']} counted, {rows} written",
        )
    return outcome, "" if case.frame is None else compare_with_clean_copy(
        case, outcome, model, ids, folder
    )


def compare_with_clean_copy(
    case: Case, outcome: Outcome, model: Path, ids: Sequence[str], folder: Path
) -> str:
    """Return how the results differ from those of a clean parquet file of the same
    people, or an empty text.
    """
    case.frame.to_parquet(folder / "clean.parquet", index=False)
    way = "apply in one chunk" if case.way == "apply in many chunks" else case.way
    clean = run_way(way, folder / "clean.parquet", model, ids, folder)
    if clean.code or clean.fault:
        return f"accepted, the clean copy not: {clean.messages or clean.fault}"
    counts = ("people", "controls", "patients", "novel", "regions")
    different = [
        name for name in counts if clean.numbers.get(name) != outcome.numbers.get(name)
    ]
    if different:
        return f"other numbers of {', '.join(different)}"
    if outcome.table is None:
        return ""
    written = [restore_id(name) for name in outcome.table[ID]]
    expected = sorted(ids) if case.way == "apply in memory" else ids
    if (
        case.way != "apply with participants"
        and ID in case.frame
        and written != expected
    ):
        return f"other ids: {sorted(set(written) ^ set(ids))[:4] or 'in another order'}"
    return "" if outcome.table.equals(clean.table) else "other R-indices"


def restore_id(name: str) -> str:
    """Return an id without the apostrophe that keeps spreadsheets from running it."""
    return (
        name[1:]
        if name.startswith("'") and name.lstrip("'").startswith(("=", "+", "-", "@"))
        else name
    )


def run_cases(
    numbers: Iterable[int], seed: int = 0
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Run cases; return how often tables of each format and way were accepted or
    refused, and the failures.
    """
    counts: Counter[tuple[str, str]] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = fit_model(folder)
        for number in numbers:
            case = make_case(number, seed, folder)
            outcome, fault = run_case(case, model, folder)
            verdict = "failed" if fault else "refused" if outcome.code else "accepted"
            counts.update([(case.kind, verdict), (case.way, verdict)])
            if fault:
                failures.append(
                    f"case {number} ({case.kind}, {case.way}, {', '.join(case.names)}): {fault}"
                )
    return counts, failures


TEXT = """# Altered tables
`python -m benchmarks.altered_tables`. {tables:,} tables of {people} people, altered in one to three places. Accepted:
as many people came out as the file holds, and their ids, groups and R-indices are those of a clean table with the
content that an independent reader finds in the file. Refused: exit code 1 and messages of one line, nothing written.
Failed: anything else. {failures} failures; {seconds:.0f} s of processor time.

| table | accepted | refused | failed |
|---|---|---|---|
{rows}
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=5_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "altered_tables.md")
    options = parser.parse_args()
    start = time.process_time()
    counts, failures = run_cases(range(options.first, options.first + options.tables))
    verdicts = ("accepted", "refused", "failed")
    names = dict.fromkeys([*SEPARATORS, *(name for name, _ in counts)])
    rows = [
        f"| {name} | "
        + " | ".join(f"{counts[name, verdict]:,}" for verdict in verdicts)
        + " |"
        for name in names
    ]
    text = TEXT.format(
        tables=options.tables,
        people=PEOPLE,
        failures=len(failures),
        seconds=time.process_time() - start,
        rows="\n".join(rows),
    )
    options.out.write_text(text, "utf-8")
    for failure in failures:
        print(failure, file=sys.stderr)
    totals = {
        verdict: sum(counts[kind, verdict] for kind in SEPARATORS)
        for verdict in ("accepted", "refused")
    }
    print(json.dumps({"tables": options.tables, **totals, "failures": len(failures)}))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

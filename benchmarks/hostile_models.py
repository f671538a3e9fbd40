"""Altered model files and checkpoints: each is refused in one line, or gives finite
numbers.

    python -m benchmarks.hostile_models [--models 5000] [--checkpoints 500]
    [--subprocesses 50]

Takes good models of every kind and a good checkpoint (``hostile/``), alters each in one
place (container, field of the metadata, values of an array), and runs ``rindices
apply``, ``rindices model show`` and ``rindices model import``. Writes
``results/hostile_models.md``. ``tests/model/test_hostile_models.py`` runs it every
week.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from benchmarks.hostile.alterations import Alteration
from benchmarks.hostile.checkpoints import list_checkpoint_alterations
from benchmarks.hostile.models import list_model_alterations
from benchmarks.hostile.sources import (
    ROOT,
    Source,
    make_checkpoint_source,
    make_model_sources,
)
from rindices.cli.main import app
from rindices.errors import RindicesError

PROGRAM = "from rindices.cli.main import run; run()"
MAX_MEMORY = 1_000_000_000
# so that a file that asks for more fails here and does not stop the machine
ADDRESS_SPACE = 8_000_000_000
EXECUTION_EVENTS = {
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "socket.connect",
    "pickle.find_class",
}


class Outcome(NamedTuple):
    """What a command did with an altered file; ``fault`` is empty if that is as it
    should be.
    """

    family: str
    name: str
    end: str
    fault: str


def fill_command(command: Sequence[str], file: Path, out: Path) -> list[str]:
    return [
        word.replace("{file}", str(file)).replace("{out}", str(out)) for word in command
    ]


def find_table_fault(path: Path) -> str:
    """Return what is wrong with a table of R-indices: missing people, numbers that are
    empty or not finite.
    """
    table = pd.read_csv(path, sep="\t", keep_default_na=False)
    if len(table) != 20:
        return f"{len(table)} people of 20"
    columns = [name for name in table if name.startswith("r") or name == "unusual"]
    numbers = table[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
    return (
        "" if columns and np.isfinite(numbers).all() else "numbers that are not finite"
    )


def invoke(command: Sequence[str]) -> tuple[str, str]:
    """Run a command in this process; return how it ended (done or refused), and its
    fault.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = CliRunner().invoke(app, list(command))
    if caught:
        return "done", f"warning: {caught[0].message}"
    if result.exit_code == 0:
        return "done", ""
    if isinstance(result.exception, RindicesError):
        lines = [
            line
            for problem in result.exception.problems
            for line in str(problem).splitlines()
        ]
        return "refused", "" if len(lines) == len(
            result.exception.problems
        ) else "more than one line"
    return "refused", "traceback: " + " ".join(
        traceback.format_exception(*(result.exc_info or (None, None, None)))[-2:]
    )


def try_file(
    source: Source, altered: Alteration, content: bytes, folder: Path
) -> Outcome:
    """Run the command of a source, and what depends on its result, on an
    altered file.
    """
    is_model = source.command == source.apply
    file = folder / ("m.safetensors" if is_model else "c.saved_model")
    out, table = folder / ("r.tsv" if is_model else "m.safetensors"), folder / "r.tsv"
    for old in (out, table):
        old.unlink(missing_ok=True)
    file.write_bytes(content)
    end, fault = invoke(fill_command(source.command, file, out))
    if end == "refused" and not fault and out.exists():
        fault = "a file was written"
    if end == "done" and not fault and not is_model:
        fault = invoke(fill_command(source.apply, out, table))[1]
    if table.exists() and not fault:
        fault = find_table_fault(table)
    model = file if is_model else out
    if altered.family != "values" and model.exists() and not fault:
        for option in ([], ["--json"], ["--card"]):
            fault = fault or invoke(["model", "show", str(model), *option])[1]
    return Outcome(altered.family, f"{source.name}: {altered.name}", end, fault)


def list_cases(
    kind: str, folder: Path, marker: Path
) -> list[tuple[Source, Alteration]]:
    """Return all pairs of a good file and an alteration."""
    if kind == "checkpoints":
        source = make_checkpoint_source(folder)
        return [
            (source, altered) for altered in list_checkpoint_alterations(source, marker)
        ]
    sources = make_model_sources(folder)
    return [
        (source, altered)
        for source in sources
        for altered in list_model_alterations(source, marker)
    ]


def choose_cases(
    kind: str, number: int, folder: Path, marker: Path
) -> list[tuple[Source, Alteration]]:
    """Return a fixed sample, of each family the same share."""
    cases = list_cases(kind, folder, marker)
    rng = np.random.default_rng(0)
    families = sorted({altered.family for _, altered in cases})
    chosen: list[tuple[Source, Alteration]] = []
    for place, family in enumerate(families):
        members = [case for case in cases if case[1].family == family]
        share = min(len(members), (number - len(chosen)) // (len(families) - place))
        chosen += [
            members[index]
            for index in sorted(rng.choice(len(members), share, replace=False))
        ]
    return chosen


class Result(NamedTuple):
    """Outcomes of a sample, and the largest memory of the process in bytes."""

    outcomes: list[Outcome]
    memory: int


def run_cases(kind: str, number: int, first: int, step: int) -> Result:
    """Try every ``step``-th file of a sample in this process."""
    events: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder, marker = Path(name), Path(name) / "executed"
        cases = choose_cases(kind, number, folder, marker)[first::step]
        for source in {source.name: source for source, _ in cases}.values():
            good = try_file(
                source, Alteration("", "good", bytes), source.content, folder
            )
            assert (good.end, good.fault) == ("done", ""), good
        sys.addaudithook(
            lambda event, _: events.append(event) if event in EXECUTION_EVENTS else None
        )
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        outcomes = []
        for source, altered in cases:
            content = altered.make()
            events.clear()
            outcome = try_file(source, altered, content, folder)
            executed = f"executed {events}" if events or marker.exists() else ""
            outcomes.append(outcome._replace(fault=executed or outcome.fault))
    return Result(outcomes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def run_in_processes(kind: str, number: int, workers: int) -> Result:
    """Try a sample in fresh processes."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        results = list(
            pool.map(
                run_cases,
                [kind] * workers,
                [number] * workers,
                range(workers),
                [workers] * workers,
            )
        )
    return Result(
        [out for result in results for out in result.outcomes],
        max(result.memory for result in results),
    )


def run_as_user(number: int) -> list[Outcome]:
    """Try a small sample as a user does, each file with a program of its own."""
    outcomes = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source, altered in choose_cases(
            "models", number, folder, folder / "executed"
        ):
            file, out = folder / "m.safetensors", folder / "r.tsv"
            out.unlink(missing_ok=True)
            file.write_bytes(altered.make())
            words = [
                sys.executable,
                "-c",
                PROGRAM,
                *fill_command(source.command, file, out),
            ]
            done = subprocess.run(
                words, capture_output=True, text=True, check=False, errors="replace"
            )
            lines = [
                line
                for line in done.stderr.splitlines()
                if not line.startswith(("warning:", "note:"))
            ]
            is_clear = done.returncode in (0, 1) and len(lines) == 1 and not done.stdout
            fault = find_table_fault(out) if done.returncode == 0 else ""
            outcomes.append(
                Outcome(
                    "as a user",
                    f"{source.name}: {altered.name}",
                    "refused" if done.returncode else "done",
                    fault or ("" if is_clear else done.stderr[-300:] or "no message"),
                )
            )
    return outcomes


TEXT = """# Altered model files and checkpoints
`python -m benchmarks.hostile_models`. Good files are altered in one place and read by `rindices apply` (models) and
`rindices model import` (checkpoints); what can be read is also shown by `rindices model show`. A fault is a traceback,
a warning of Python, a message of more than one line, a number that is not finite with exit 0, a person lost, a file
written by a command that failed, or something executed.

| files | altered | tried | refused | results written | faults |
|---|---|---|---|---|---|
{rows}

Largest memory of a process: {models:.0f} MB with models, {checkpoints:.0f} MB with checkpoints (torch included). Time:
{seconds:.0f} s.

Results are written where an alteration leaves a valid model: another text in the card, other weights, numbers rounded
to single precision. No check can tell that these numbers are not the authors'.
"""


def summarise(outcomes: dict[str, list[Outcome]]) -> list[dict[str, Any]]:
    """Return the counts of each kind of file and family."""
    rows = []
    for kind, tried in outcomes.items():
        for family in sorted({outcome.family for outcome in tried}):
            chosen = [outcome for outcome in tried if outcome.family == family]
            ends = Counter(outcome.end for outcome in chosen)
            faults = sum(bool(outcome.fault) for outcome in chosen)
            rows.append(
                {
                    "files": kind,
                    "altered": family,
                    "tried": len(chosen),
                    **ends,
                    "faults": faults,
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=5_000)
    parser.add_argument("--checkpoints", type=int, default=500)
    parser.add_argument("--subprocesses", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "benchmarks" / "results" / "hostile_models.md",
    )
    options = parser.parse_args()
    start = time.perf_counter()
    models, checkpoints = (
        run_in_processes(kind, getattr(options, kind), options.workers)
        for kind in ("models", "checkpoints")
    )
    outcomes = {"models": models.outcomes, "checkpoints": checkpoints.outcomes}
    if options.subprocesses:
        outcomes["models, one program each"] = run_as_user(options.subprocesses)
    rows = summarise(outcomes)
    lines = [
        f"| {row['files']} | {row['altered']} | {row['tried']:,} | {row.get('refused', 0):,} | {row.get('done', 0):,} "
        f"| {row['faults']} |"
        for row in rows
    ]
    memory = {"models": models.memory / 1e6, "checkpoints": checkpoints.memory / 1e6}
    options.out.write_text(
        TEXT.format(
            rows="\n".join(lines), **memory, seconds=time.perf_counter() - start
        ),
        "utf-8",
    )
    faults = [
        outcome for tried in outcomes.values() for outcome in tried if outcome.fault
    ]
    for outcome in faults:
        print(
            f"{outcome.family} {outcome.name[:150]} ({outcome.end}): {outcome.fault[-600:]}",
            file=sys.stderr,
        )
    print(json.dumps({"rows": rows, "memory": memory, "faults": len(faults)}))
    sys.exit(bool(faults) or max(models.memory, checkpoints.memory) > MAX_MEMORY)


if __name__ == "__main__":
    main()

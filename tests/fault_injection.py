"""Make the n-th operation on a file fail, for every n, and look at what a command
leaves behind.

    python -m tests.fault_injection FOLDER [--sample N] [--limit N] [--only COMMAND]
    [--out TABLE]

A small study is written to FOLDER. Each command runs once without a fault, and its
operations on files of the study are listed: open, read, write, sync, rename, delete,
make a folder. Then, for each operation and each effect, the command runs again with
this one fault. Whatever happens, it must end with the right files, or with one line
that says why; no file may be half written; and the same command without a fault must
then give the right files. Results are printed as JSON. A run that was interrupted goes
on in the same FOLDER; use a new one after a change of the code. A process that has
imported everything is forked for each run, and numerical functions remember their
results (by their arguments), so that a fault costs a fraction of a second.
"""

import argparse
import gc
import hashlib
import io
import json
import os
import pickle
import random
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import typer.main

import rindices as ri
from rindices.experiments.simulate import write_cohort
from tests.faulty_disk import EFFECTS, FaultyDisk, Operation
from tests.report.helpers import remove_random_data

TIMEOUT = 900  # seconds of a run, also on a busy machine
REGIONS = 12
STUDY = [
    "--group",
    "group",
    "--covariates",
    "age,sex",
    "--method",
    "contrastive",
    "--patterns",
    "2",
    "--members",
    "2",
]
APPLY = ["--participants", "participants.tsv", "--workers", "1"]
COMMANDS = {
    "report": ["report", "study"],
    "change": ["change", "visits.tsv", "--time", "age", "--out", "changed"],
    "fit": [
        "fit",
        "volumes.csv",
        "--participants",
        "participants.tsv",
        *STUDY,
        "--workers",
        "1",
        "--out",
        "fitted",
    ],
    "apply": ["apply", "model.safetensors", "table", *APPLY, "--out", "out.tsv"],
    "apply in memory": [
        "apply",
        "model.safetensors",
        "left.csv",
        "right.csv",
        *APPLY,
        "--out",
        "out.csv",
    ],
    "apply to a folder": [
        "apply",
        "model.safetensors",
        "table",
        *APPLY,
        "--out",
        "parts",
    ],
}
TABLE_HEADER = """\
# Injected faults

One operation on a file fails, for every operation of a command and every effect: an error of the disk, a full disk, an
interrupt, fewer bytes than asked for, a kill. The command ends with the right files, with an error of one line, or
killed. The same command without a fault then gives the right files, or does not replace them where they are complete,
and leaves no lock and no parts (it is run once for each state in which faults leave the folder). Anything else is a
failure.
`python -m tests.fault_injection FOLDER --out benchmarks/results/faults.md`

| | faults | right files at once | one line | killed | failures |
|---|---|---|---|---|---|"""


class Fault(NamedTuple):
    """The effect of the n-th operation of a command."""

    command: str
    number: int
    operation: Operation
    effect: str

    @property
    def key(self) -> str:
        """A name of the fault that is the same in the next run."""
        return f"{self.command}: {self.effect} at {self.operation.kind} {self.number}"


class Outcome(NamedTuple):
    """How a run ended; the code is negative for a signal."""

    code: int
    messages: str


class Verdict(NamedTuple):
    """How a run with a fault ended, and what was wrong; an empty text if
    nothing was.
    """

    end: str
    problem: str


def remember_results(module: Any, name: str) -> None:
    """Let a function of a module return the result of an earlier call with the same
    arguments.
    """
    original: Callable[..., Any] = getattr(module, name)
    results: dict[bytes, Any] = {}

    @wraps(original)
    def function(*arguments: Any, **options: Any) -> Any:
        key = hashlib.sha256(pickle.dumps((arguments, options))).digest()
        if key not in results:
            results[key] = original(*arguments, **options)
        return results[key]

    setattr(module, name, function)


def import_everything() -> None:
    """Import what the commands import while they run, and let slow functions remember
    their results.
    """
    import rindices.learners.ensemble as ensemble
    import rindices.report.page as page
    import rindices.study.build as build
    import rindices.study.study as study
    from rindices.plot import geometry
    from rindices.report import figures, sections

    geometry.list_missing_packages = lambda: ["nilearn"]  # pictures take time
    remember_results(study, "run_group_tests")
    remember_results(build, "assess_pattern_stability")
    remember_results(ensemble, "fit_linear_members")
    for name in ("plot_agreement", "plot_severities", "plot_index_pairs"):
        remember_results(figures, name)
    for name in (
        "build_trust_section",
        "build_pattern_sections",
        "build_effect_section",
    ):
        remember_results(sections, name)
    page.make_environment = lru_cache(page.make_environment)
    typer.main.get_command = lru_cache(typer.main.get_command)
    remember_picture()


def remember_picture() -> None:
    """Draw the only picture that is a file once; it is still written by the same
    library.
    """
    from matplotlib.figure import Figure
    from PIL import Image

    original, pictures = Figure.savefig, []

    def save(figure: Figure, target: Any, **options: Any) -> None:
        if not isinstance(target, Path):
            original(figure, target, **options)
            return
        if not pictures:
            content = io.BytesIO()
            original(figure, content, format="png", dpi=40)
            pictures.append(Image.open(content).copy())
        pictures[0].save(target)

    Figure.savefig = save


def write_inputs(folder: Path) -> None:
    """Write a small study, and what the other commands read."""
    folder.mkdir(parents=True)
    write_cohort(ri.simulate_cohort("tiny", seed=1), folder)
    for name in ("truth.tsv", "patterns.tsv"):
        (folder / name).unlink()
    volumes = pd.read_csv(folder / "volumes.csv").iloc[:, : 1 + REGIONS]
    volumes.columns = [
        "participant_id",
        *(f"region{number}" for number in range(REGIONS)),
    ]
    volumes.to_csv(folder / "volumes.csv", index=False)
    volumes.iloc[:, :6].to_csv(folder / "left.csv", index=False)
    volumes.iloc[:, [0, *range(6, 1 + REGIONS)]].to_csv(
        folder / "right.csv", index=False
    )
    (folder / "table").mkdir()
    for number in range(2):
        volumes.iloc[number * 90 : (number + 1) * 90].to_csv(
            folder / "table" / f"{number}.csv", index=False
        )
    run_quietly(COMMANDS["fit"], folder)
    shutil.move(folder / "fitted", folder / "study")
    shutil.rmtree(folder / "study" / "runs")
    (folder / "changed").mkdir()
    for name in (
        "study/report.html",
        "out.tsv",
        "changed/change.tsv",
    ):  # of an earlier time
        (folder / name).write_text("old")
    shutil.copy(folder / "study" / "model.safetensors", folder)
    people = pd.read_csv(folder / "participants.tsv", sep="\t")[
        ["participant_id", "age"]
    ]
    first = (
        pd.read_csv(folder / "study" / "r_indices.tsv", sep="\t")[:30]
        .merge(people)
        .assign(session_id="a")
    )
    second = first.assign(session_id="b", age=first["age"] + 1.5, r1=first["r1"] * 1.1)
    pd.concat([first, second]).to_csv(folder / "visits.tsv", sep="\t", index=False)


def run_here(arguments: list[str], folder: Path) -> int:
    """Run a command in this process; return its exit code."""
    from rindices.cli.main import run

    os.chdir(folder)
    sys.argv = ["rindices", *arguments]
    try:
        run()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def run_quietly(arguments: list[str], folder: Path) -> None:
    """Run a command in this process without its messages; it must succeed."""
    messages = io.StringIO()
    with redirect_stdout(messages), redirect_stderr(messages):
        code = run_here(arguments, folder)
    assert code == 0, messages.getvalue()


def run_apart(
    arguments: list[str], folder: Path, disk: FaultyDisk
) -> tuple[Outcome, list[Operation]]:
    """Run a command in a copy of this process, on a disk that may fail; return its end
    and its operations.
    """
    printed, listed = (
        folder.with_name("printed.txt"),
        folder.with_name("operations.json"),
    )
    pid = os.fork()
    if pid == 0:
        _run_and_exit(arguments, folder, disk, printed, listed)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    messages = printed.read_text("utf-8", errors="replace")
    is_listed = not disk.effect and code == 0
    operations = (
        [Operation(*item) for item in json.loads(listed.read_text())]
        if is_listed
        else []
    )
    return Outcome(code, messages), operations


def _run_and_exit(
    arguments: list[str], folder: Path, disk: FaultyDisk, printed: Path, listed: Path
) -> None:
    """Run a command in a new process, and end it."""
    code = 99
    try:
        signal.alarm(TIMEOUT)
        descriptor = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        disk.install()
        code = run_here(arguments, folder)
        listed.write_text(json.dumps(disk.operations))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the files that a user sees: no hidden ones, no locks, no journals, which
    hold times.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not re.search(r"(^|/)(\.|journal/|lock$|people-)", name):
            content = path.read_bytes()
            files[name] = (
                remove_random_data(content.decode()).encode()
                if path.suffix == ".html"
                else content
            )
    return files


def judge(
    fault: Fault,
    inputs: Path,
    folder: Path,
    expected: dict[str, bytes],
    mended_states: set[tuple[str, str]],
) -> Verdict:
    """Run a command with a fault and then without; return how the first run ended, and
    what was wrong.

    ``mended_states`` are the states of the folder after which the command gave the
    right files: it is not run again.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(inputs, folder)
    outcome, _ = run_apart(
        COMMANDS[fault.command], folder, FaultyDisk(folder, fault.number, fault.effect)
    )
    end = {0: "right files", -signal.SIGKILL: "killed"}.get(outcome.code, "one line")
    problem = _find_problem(
        fault, outcome, read_files(folder), read_files(inputs), expected
    )
    if problem:
        return Verdict(end, problem)
    state = fault.command, compute_state_digest(folder)
    if state in mended_states:
        return Verdict(end, "")
    again, _ = run_apart(COMMANDS[fault.command], folder, FaultyDisk(folder))
    is_refused = (
        again.code == 1 and "finished results are not replaced" in again.messages
    )
    if (again.code != 0 and not is_refused) or read_files(folder) != expected:
        return Verdict(
            end, f"wrong after running again: {again}; the first time: {outcome}"
        )
    left = [
        str(path)
        for path in folder.rglob("*")
        if path.name in ("lock", ".lock") or path.name.endswith(".parts")
    ]
    if left:
        return Verdict(end, f"left behind: {left}")
    mended_states.add(state)
    return Verdict(end, "")


def compute_state_digest(folder: Path) -> str:
    """Return a digest of all files, hidden ones too, without the parts of names and
    contents that are new each time.
    """
    state = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = re.sub(
            r"\.[0-9a-f]{16}\.part|(?<=journal/).*", "", str(path.relative_to(folder))
        )
        is_compared = (
            path.is_file() and path.name != "lock" and path.parent.name != "journal"
        )
        state.update(repr((name, path.read_bytes() if is_compared else b"")).encode())
    return state.hexdigest()


def _find_problem(
    fault: Fault,
    outcome: Outcome,
    files: dict[str, bytes],
    old: dict[str, bytes],
    expected: dict[str, bytes],
) -> str:
    """Return what is wrong after a run with a fault, or nothing."""
    wrong = [
        name
        for name, content in files.items()
        if content not in (expected.get(name), old.get(name))
    ]
    if wrong:
        return f"wrong files: {wrong}; {outcome}"
    if outcome.code == 0 and files != expected:
        return f"success, but missing: {sorted(set(expected) - set(files))}"
    if outcome.code not in (0, 1, 3, -signal.SIGKILL) or (
        outcome.code == -signal.SIGKILL
    ) != (fault.effect == "kill"):
        return f"unexpected end: {outcome}"
    errors = [
        line
        for line in outcome.messages.splitlines()
        if line.startswith(("error:", "interrupted"))
    ]
    if "Traceback" in outcome.messages or (outcome.code > 0 and len(errors) != 1):
        return f"not one line: {outcome}"
    return ""


def list_faults(
    inputs: Path, folder: Path
) -> tuple[list[Fault], dict[str, dict[str, bytes]]]:
    """Return all faults of all commands, and the files that each command
    should leave.
    """
    faults, expected = [], {}
    for command, arguments in COMMANDS.items():
        for is_first in (True, False):  # the first run fills the memory of this process
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(inputs, folder)
            if is_first:
                run_quietly(arguments, folder)
                continue
            outcome, operations = run_apart(arguments, folder, FaultyDisk(folder))
            assert outcome.code == 0, outcome
            expected[command] = read_files(folder)
            faults += [
                Fault(command, number, operation, effect)
                for number, operation in enumerate(operations)
                for effect in EFFECTS[operation.kind]
            ]
    return faults, expected


def judge_all(
    faults: list[Fault],
    home: Path,
    expected: dict[str, dict[str, bytes]],
    limit: int | None,
) -> dict[str, Verdict]:
    """Judge faults; those that an earlier run in the same folder judged to be mended
    are not injected again.
    """
    # collecting garbage would copy the memory of this process into each of its copies
    gc.freeze()
    gc.disable()
    journal, mended_states = home / "verdicts.jsonl", set[tuple[str, str]]()
    lines = journal.read_text("utf-8").splitlines() if journal.exists() else []
    verdicts = {
        key: Verdict(end, problem) for key, end, problem in map(json.loads, lines)
    }
    missing = [
        fault
        for fault in faults
        if fault.key not in verdicts or verdicts[fault.key].problem
    ]
    for number, fault in enumerate(missing[:limit]):
        verdict = judge(
            fault,
            home / "inputs",
            home / "work",
            expected[fault.command],
            mended_states,
        )
        verdicts[fault.key] = verdict
        with journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps([fault.key, *verdict]) + "\n")
        if verdict.problem:
            sys.stderr.write(f"{fault}: {verdict.problem}\n")
        if number % 100 == 99:
            sys.stderr.write(f"{number + 1} of {len(missing)}\n")
    return verdicts


def format_table(faults: list[Fault], verdicts: list[Verdict], n_possible: int) -> str:
    """Return the counts as a page of Markdown."""
    groups: dict[str, list[Verdict]] = {f"all ({n_possible:,} are possible)": verdicts}
    groups |= {f"`{command}`": [] for command in COMMANDS}
    groups |= {
        f"{kind}: {effect}": []
        for kind, effects in EFFECTS.items()
        for effect in effects
    }
    for fault, verdict in zip(faults, verdicts, strict=True):
        groups[f"`{fault.command}`"].append(verdict)
        groups[f"{fault.operation.kind}: {fault.effect}"].append(verdict)
    lines = [TABLE_HEADER]
    for name, members in groups.items():
        ends = [
            sum(verdict.end == end for verdict in members)
            for end in ("right files", "one line", "killed")
        ]
        numbers = [
            len(members),
            *ends,
            sum(bool(verdict.problem) for verdict in members),
        ]
        lines.append(
            f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line, inject faults, and print a summary as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--sample", type=int, help="number of faults, drawn at random; all without it"
    )
    parser.add_argument(
        "--limit", type=int, help="number of faults to inject now; the next run goes on"
    )
    parser.add_argument(
        "--only", default="", help="names of commands, separated by commas"
    )
    parser.add_argument("--out", type=Path, help="for a table of the counts")
    options = parser.parse_args()
    home, out = options.folder.resolve(), options.out and options.out.resolve()
    import_everything()
    if not (home / "inputs").is_dir():
        write_inputs(home / "inputs")
    faults, expected = list_faults(home / "inputs", home / "work")
    chosen = [
        fault
        for fault in faults
        if not options.only or fault.command in options.only.split(",")
    ]
    if options.sample is not None and options.sample < len(chosen):
        chosen = sorted(random.Random(0).sample(chosen, options.sample))
    judged = judge_all(chosen, home, expected, options.limit)
    chosen = [fault for fault in chosen if fault.key in judged]
    verdicts = [judged[fault.key] for fault in chosen]
    if out:
        out.write_text(format_table(chosen, verdicts, len(faults)), "utf-8")
    counts = {
        command: sum(fault.command == command for fault in chosen)
        for command in COMMANDS
    }
    failures = [
        [*fault, verdict.problem]
        for fault, verdict in zip(chosen, verdicts, strict=True)
        if verdict.problem
    ]
    summary = {
        "possible": len(faults),
        "injected": len(chosen),
        "by_command": counts,
        "failures": failures,
    }
    sys.stdout.write(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()

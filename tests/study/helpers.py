"""A small study, and how to run it as users do."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

STUDY = """
[data]
volumes = "volumes.csv"
participants = "participants.tsv"
group = "group"
covariates = ["age", "sex", "icv"]

[model]
patterns = [2, 3]
members = 10
recipe = "contrastive"

[run]
seed = 3
"""


def command(*arguments: object, report: bool = False) -> list[str]:
    if arguments[0] == "fit" and not report:  # studies are run many times here; their page is tested elsewhere
        arguments = (*arguments, "--no-report")
    return [sys.executable, "-c", "from rindices.cli.main import run; run()", *map(str, arguments)]


def restore_interrupts() -> None:
    """Let a child obey Ctrl-C, also where the tests run in the background, whose children ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(*arguments: object, report: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments, report=report), capture_output=True, text=True, check=False)


def outputs(path: Path) -> tuple[bytes, ...]:
    names = ("r_indices.tsv", "r_indices.json", "model.safetensors", "selection.json")
    return tuple((path / name).read_bytes() for name in names)


BRIEF = {"max_steps": 40, "min_steps": 40, "reconstruction_bar": 1e3, "monotonicity_bar": 1e3}
"""Changes of recipe paper: a training of 40 steps that always converges."""
LONG = {"recipe": "paper", "patterns": (2,), "orthogonality": (0.1,), "members": 2}


def sets(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.glob("runs/[!.]*.safetensors")}


def begin(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def wait_for(condition: Callable[[], object], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def newest_states(runs: Path, trainings: int) -> dict[Path, int]:
    """Wait until so many trainings keep their state, which they do every now and then; return when they last did."""
    wait_for(lambda: len(list(runs.glob("[!.]*.checkpoint"))) == trainings)
    return {path: path.stat().st_mtime_ns for path in runs.glob("[!.]*.checkpoint")}


@contextmanager
def scheduler(folder: Path, workers: int = 2) -> Iterator[tuple[str, psutil.Process, list[psutil.Process]]]:
    """A scheduler and its workers, each a process of its own, as on a cluster; ended by their own ids."""
    name = folder / f"scheduler-{time.monotonic_ns()}.json"
    dask = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    how = ["--scheduler-file", str(name), "--nthreads", "1", "--local-directory", str(folder), "--no-dashboard"]
    started = [
        subprocess.Popen([*dask, "scheduler", "--port", "0", "--scheduler-file", str(name), "--no-dashboard"], **quiet)
    ]
    try:
        wait_for(lambda: name.is_file() and '"address"' in name.read_text())  # it is there before it is written
        started += [subprocess.Popen([*dask, "worker", *how, "--death-timeout", "20"], **quiet) for _ in range(workers)]
        address = re.search(r'"address": "([^"]+)"', name.read_text())
        assert address is not None
        yield address[1], psutil.Process(started[0].pid), [psutil.Process(each.pid) for each in started[1:]]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

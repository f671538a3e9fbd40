"""A small study, and how to run it as users do."""

import io
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from unittest import mock

import psutil

from rindices.cli.main import run as run_program
from rindices.engine.local import LocalEngine
from rindices.model.fitted import FittedModel
from rindices.study.config import DataConfig, ModelConfig, RunConfig, StudyConfig
from rindices.study.engines import StudyObserver
from rindices.study.run import fit_study
from rindices.study.store import RunStore
from rindices.study.study import Study
from rindices.tables.cohort import Cohort

STUDY = """
[data]
volumes = "volumes.csv"
participants = "participants.tsv"
group = "group"
covariates = ["age", "sex", "icv"]

[model]
patterns = [1, 2]
members = 6
method = "contrastive"

[run]
seed = 3
"""
LONG_STUDY = STUDY.replace("patterns = [1, 2]", "patterns = [2, 3]").replace(
    "members = 6", "members = 10"
)
"""With all regions, it takes long enough to be killed at random moments."""
NO_OBSERVER = StudyObserver()


def fit_cohort(
    cohort: Cohort,
    model: ModelConfig,
    seed: int,
    store: RunStore,
    workers: int = -1,
    *,
    observer: StudyObserver = NO_OBSERVER,
) -> FittedModel:
    """Fit a model with the default settings of a study's data, on processes of this
    machine.
    """
    study = StudyConfig(
        data=DataConfig(volumes=("memory",)), model=model, run=RunConfig(seed=seed)
    )
    return fit_study(Study(cohort, study), store, LocalEngine(workers), observer)


def list_arguments(*arguments: object, report: bool = False) -> list[str]:
    if (
        arguments[0] == "fit" and not report
    ):  # studies are run many times here; their page is tested elsewhere
        arguments = (*arguments, "--no-report")
    return [str(argument) for argument in arguments]


def command(*arguments: object) -> list[str]:
    return [
        sys.executable,
        "-c",
        "from rindices.cli.main import run; run()",
        *list_arguments(*arguments),
    ]


def restore_interrupts() -> None:
    """Let a child obey Ctrl-C, also where the tests run in the background, whose
    children ignore it.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_apart(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False
    )


def run(*arguments: object, report: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which saves the seconds of the imports; a fit has
    one worker if none is given.
    """
    words = list_arguments(*arguments, report=report)
    if words[0] == "fit" and not {"--workers", "--scheduler", "--in-parts"} & set(
        words
    ):
        words += ["--workers", "1"]
    printed, messages, handler = (
        io.StringIO(),
        io.StringIO(),
        signal.getsignal(signal.SIGTERM),
    )
    code = 0
    try:
        with (
            mock.patch.object(sys, "argv", ["rindices", *words]),
            redirect_stdout(printed),
            redirect_stderr(messages),
        ):
            run_program()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        signal.signal(signal.SIGTERM, handler)
    return subprocess.CompletedProcess(
        words, code, printed.getvalue(), messages.getvalue()
    )


def outputs(path: Path) -> tuple[bytes, ...]:
    names = ("r_indices.tsv", "r_indices.json", "model.safetensors", "selection.json")
    return tuple((path / name).read_bytes() for name in names)


BRIEF = {
    "max_steps": 40,
    "min_steps": 40,
    "reconstruction_bar": 1e3,
    "monotonicity_bar": 1e3,
}
"""Changes of method surreal-gan: a training of 40 steps that always converges."""
BRIEF_START = {"start_steps": 30, "warm_steps": 10}
"""Changes of method surreal-gan: a start after which members hardly agree."""
LONG = {
    "method": "surreal-gan",
    "patterns": (2,),
    "orthogonality": (0.1,),
    "members": 2,
}


def sets(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.glob("runs/[!.]*.safetensors")}


def begin(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def wait_for(condition: Callable[[], object], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def newest_states(runs: Path, trainings: int) -> dict[Path, int]:
    """Wait until so many trainings keep their state, which they do every now and then;
    return when they last did.
    """
    wait_for(lambda: len(list(runs.glob("[!.]*.checkpoint"))) == trainings)
    return {path: path.stat().st_mtime_ns for path in runs.glob("[!.]*.checkpoint")}


@contextmanager
def scheduler(
    folder: Path, workers: int = 2
) -> Iterator[tuple[str, psutil.Process, list[psutil.Process]]]:
    """A scheduler and its workers, each a process of its own, as on a cluster; ended by
    their own ids.
    """
    name = folder / f"scheduler-{time.monotonic_ns()}.json"
    dask = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    how = [
        "--scheduler-file",
        str(name),
        "--nthreads",
        "1",
        "--local-directory",
        str(folder),
        "--no-dashboard",
    ]
    started = [
        subprocess.Popen(
            [
                *dask,
                "scheduler",
                "--port",
                "0",
                "--scheduler-file",
                str(name),
                "--no-dashboard",
            ],
            **quiet,
        )
    ]
    try:
        wait_for(
            lambda: name.is_file() and '"address"' in name.read_text()
        )  # it is there before it is written
        started += [
            subprocess.Popen([*dask, "worker", *how, "--death-timeout", "20"], **quiet)
            for _ in range(workers)
        ]
        address = re.search(r'"address": "([^"]+)"', name.read_text())
        assert address is not None
        yield (
            address[1],
            psutil.Process(started[0].pid),
            [psutil.Process(each.pid) for each in started[1:]],
        )
    # workers that are asked to end wait for their scheduler, which may be gone
    finally:
        alive = [
            psutil.Process(process.pid) for process in started if process.poll() is None
        ]
        for each in [
            *alive,
            *(child for parent in alive for child in parent.children(recursive=True)),
        ]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        for process in started:
            process.wait()

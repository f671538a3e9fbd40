"""Process that trains one member set after the other for a worker.

Training has a process of its own, so that the worker stays responsive, a crash does not take the worker with it, and
signals reach the training. Jobs arrive on its standard input and results leave on its standard output, one line of JSON
each. SIGTERM, or the end of its input, makes it write a checkpoint and exit.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from rindices.errors import RindicesError, StudyError
from rindices.selection.choose import GridPoint
from rindices.study.engines.base import TrainingJob, run_training_job
from rindices.study.plan import MemberSet

_STOPPED_EXIT_CODE = 75  # as in sysexits.h: try again later
_STOP_TIMEOUT = 60.0  # seconds for the last checkpoint
_ONE_THREAD_ENV = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class WorkerDiedError(Exception):
    """The process died while training: it was killed, for instance for its memory, or it crashed."""


class TrainingPausedError(Exception):
    """The process was asked to stop and has written its checkpoint."""


class TrainingProcess:
    """A training process, as its worker sees it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rindices.study.engines.worker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | _ONE_THREAD_ENV,
            process_group=0 if os.name == "posix" else None,  # Ctrl-C reaches the command alone, which then asks
        )
        self.folder: Path | None = None

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def train(self, job: TrainingJob) -> None:
        """Run a job to its end.

        Raises StudyError: if the user can mend it. Raises WorkerDiedError, TrainingPausedError: if the process ended
        before the job.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.folder, answer = job.folder, ""
        with suppress(BrokenPipeError, ValueError):  # ValueError: the input was closed by `request_stop`
            self._process.stdin.write(_encode_job(job) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        self.folder = None
        if not answer:
            raise _make_exit_error(self._process.wait())
        if error := json.loads(answer)["error"]:
            raise StudyError(error)

    def request_stop(self) -> None:
        """Ask for a checkpoint and the end, without waiting."""
        if not self.alive:
            return
        if os.name == "nt":  # terminate() would kill it there
            self._close_input()
        else:
            self._process.terminate()

    def stop(self) -> None:
        """Let the process write its checkpoint, and end it."""
        self.request_stop()
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close_input()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _close_input(self) -> None:
        with suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()


def _make_exit_error(code: int) -> Exception:
    if code == _STOPPED_EXIT_CODE or -code in (signal.SIGTERM, signal.SIGINT):
        return TrainingPausedError()
    return WorkerDiedError(f"its process ended with {signal.Signals(-code).name if code < 0 else f'code {code}'}")


def _encode_job(job: TrainingJob) -> str:
    work = job.work
    parts = [list(work.point), work.numbers, work.recipe, work.values, work.seed, work.data]
    return json.dumps([parts, str(job.folder), str(job.people)])


def _decode_job(line: str) -> TrainingJob:
    (point, numbers, recipe, values, seed, data), folder, people = json.loads(line)
    work = MemberSet(GridPoint(*point), tuple(numbers), recipe, values, seed, data)
    return TrainingJob(work, Path(folder), Path(people))


def _forward_jobs(lines: "queue.SimpleQueue[str]", source: IO[str]) -> None:
    """Queue the lines of the input; at its end, interrupt a training and end a process that waits."""
    for line in source:
        lines.put(line)
    lines.put("")
    signal.raise_signal(signal.SIGTERM)


def _interrupt_training(*_: Any) -> None:
    """Interrupt the training once; further signals must not disturb its checkpoint.

    They get a function that does nothing: with ``SIG_IGN``, Python reports a signal that has already arrived as an
    error.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _do_nothing)
    raise KeyboardInterrupt


def _do_nothing(*_: Any) -> None:
    """Handle a signal that is not to interrupt anything any more."""


def main() -> None:
    """Train the jobs of the standard input until it ends."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not be taken for an answer
    with suppress(KeyboardInterrupt):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _interrupt_training)
        threading.Thread(target=_forward_jobs, args=(lines, sys.stdin), daemon=True).start()
        while line := lines.get():
            error = ""
            try:
                run_training_job(_decode_job(line))
            except RindicesError as problem:
                error = str(problem)
            answers.write(json.dumps({"error": error}) + "\n")
            answers.flush()
    os._exit(_STOPPED_EXIT_CODE)  # nothing is open, and the listening thread may hold standard input


if __name__ == "__main__":
    main()

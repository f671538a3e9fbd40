"""A process that trains one member set after the other for a worker.

The training has a process of its own, so that a worker answers while it lasts, that a crash takes nobody along, and
that a signal reaches it. It is asked on its standard input and answers on its standard output, a line of JSON each. A
SIGTERM, or the end of its input when the worker is gone, makes it write a checkpoint and leave.
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

_STOPPED_EXIT_CODE = 75  # exit code: try again later
_STOP_TIMEOUT = 60.0  # seconds for the last checkpoint
_ONE_THREAD_ENV = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class WorkerDiedError(Exception):
    """The process died while training: killed for its memory, or crashed."""


class TrainingPausedError(Exception):
    """The process was asked to stop; its checkpoint is written."""


class TrainingProcess:
    """The worker's end of such a process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rindices.study.engines.worker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | _ONE_THREAD_ENV,
        )
        self.folder: Path | None = None

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def train(self, order: TrainingJob) -> None:
        """Carry out an order; raises what a user can mend, `WorkerDiedError` or `TrainingPausedError`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.folder, answer = order.folder, ""
        with suppress(BrokenPipeError):
            self._process.stdin.write(_encode_job(order) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        self.folder = None
        if not answer:
            raise _make_exit_error(self._process.wait())
        if error := json.loads(answer)["error"]:
            raise StudyError(error)

    def request_stop(self) -> None:
        """Ask for a checkpoint and the end; returns at once."""
        if self.alive:
            self._process.terminate()

    def stop(self) -> None:
        """Let the process write its checkpoint, and end it."""
        self.request_stop()
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def _make_exit_error(code: int) -> Exception:
    if code == _STOPPED_EXIT_CODE or -code in (signal.SIGTERM, signal.SIGINT):
        return TrainingPausedError()
    return WorkerDiedError(f"its process ended with {signal.Signals(-code).name if code < 0 else f'code {code}'}")


def _encode_job(order: TrainingJob) -> str:
    work = order.work
    parts = [list(work.point), work.numbers, work.recipe, work.values, work.seed, work.data]
    return json.dumps([parts, str(order.folder), str(order.people)])


def _decode_job(line: str) -> TrainingJob:
    (point, numbers, recipe, values, seed, data), folder, people = json.loads(line)
    work = MemberSet(GridPoint(*point), tuple(numbers), recipe, values, seed, data)
    return TrainingJob(work, Path(folder), Path(people))


def _forward_jobs(orders: "queue.SimpleQueue[str]", source: IO[str]) -> None:
    """Pass orders on; when the worker is gone, stop."""
    for line in source:
        orders.put(line)
    os.kill(os.getpid(), signal.SIGTERM)


def _interrupt_training(*_: Any) -> None:
    """Interrupt the training once; further signals must not disturb its checkpoint."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> None:
    """Train what comes in."""
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what others print must not be taken for an answer
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _interrupt_training)
        threading.Thread(target=_forward_jobs, args=(orders, sys.stdin), daemon=True).start()
        while True:
            order, error = _decode_job(orders.get()), ""
            try:
                run_training_job(order)
            except RindicesError as mistake:
                error = str(mistake)
            answers.write(json.dumps({"error": error}) + "\n")
            answers.flush()
    except KeyboardInterrupt:
        os._exit(_STOPPED_EXIT_CODE)  # nothing is open, and the listening thread may hold standard input


if __name__ == "__main__":
    main()

"""Processes of this machine, by joblib's loky.

loky does not import the user's script again, and sends functions and classes that were
defined there. It ends all processes of an executor when one of them dies, so that each
process has an executor of its own here: the task of the dead one is known, and the
others go on.
"""

import os
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from rindices.engine.tasks import MessageCallback, StoppedError, Task, WorkerLostError

_ONE_THREAD_ENV = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
_PARENT_INTERVAL = 1.0  # seconds between looks for the process that gives tasks


def count_processes(workers: int, n_tasks: int) -> int:
    """Return how many processes of this machine to use; -1 workers are all cores."""
    if n_tasks < 2 or workers == 1:
        return 1
    from joblib import cpu_count

    return min(workers if workers > 0 else int(cpu_count()), n_tasks)


@dataclass(frozen=True)
class LocalEngine:
    """Computes tasks on this machine.

    Attributes
    ----------
    workers : int
        Number of processes. -1 means all cores. With 1, tasks are computed in this
        process.
    kept : list of ProcessPool
        Processes that wait for tasks, see `keep_processes`.
    """

    workers: int = -1
    kept: "list[ProcessPool]" = field(default_factory=list, compare=False)

    @contextmanager
    def keep_processes(self, n_tasks: int, module: str) -> Iterator[None]:
        """Start processes for at least so many tasks before the first of them, and end
        them after the last.

        Importing torch takes seconds; so it is imported while this process is testing
        the groups.
        """
        n_processes = count_processes(self.workers, n_tasks)
        pool = ProcessPool(n_processes)
        try:
            if n_processes > 1:
                pool.warm_up(module)
                self.kept.append(pool)
            yield
        finally:
            self.kept.clear()
            pool.close()

    @contextmanager
    def start(
        self, n_tasks: int, folder: Path, on_message: MessageCallback
    ) -> "Iterator[ProcessPool | None]":
        """Yield processes, those that are kept first; None for this process."""
        n_processes = count_processes(self.workers, n_tasks)
        if n_processes == 1:
            yield None
        elif self.kept:
            self.kept[0].capacity = n_processes
            yield self.kept[0]
        else:
            pool = ProcessPool(n_processes)
            try:
                yield pool
            finally:
                pool.close()


class ProcessPool:
    """Processes of this machine; each begins with its first task.

    Attributes
    ----------
    capacity : int
        Number of processes that have a task.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._free: deque[Any] = deque()
        self._executors: list[Any] = []

    def warm_up(self, module: str) -> None:
        """Start all processes, which import a module."""
        executors = [self._begin() for _ in range(self.capacity)]
        for executor in executors:
            with _without_interrupts():
                executor.submit(_import_quietly, module)
            self._free.append(executor)

    def submit(self, task: Task[Any], attempt: int) -> "Future[Any]":
        """Give a task to a process that is free."""
        while True:
            executor = self._free.popleft() if self._free else self._begin()
            try:
                with _without_interrupts():
                    future: Future[Any] = executor.submit(task.call)
            except BrokenExecutor:  # killed while it had no task
                self._drop(executor)
                continue
            future.add_done_callback(partial(self._take_back, executor))
            return future

    def get_result(self, future: "Future[Any]") -> Any:
        """Return the result of a task, or raise its error."""
        error = future.exception()
        if isinstance(error, BrokenExecutor):
            code = re.search(r"\{(\w+)\(", str(error))
            ended = f" with {code[1]}" if code else ""
            raise WorkerLostError(f"its process ended{ended}") from None
        if isinstance(error, KeyboardInterrupt):  # SIGTERM, see `_begin_process`
            raise StoppedError(
                "the work was stopped from outside: run the same command again to go on."
            )
        return future.result()

    def tend(self) -> None:
        """Processes are replaced with their next task."""

    def close(self) -> None:
        """End all processes; a task in work is lost since its last checkpoint."""
        for executor in self._executors:
            executor.shutdown(wait=True, kill_workers=True)
        self._executors.clear()
        self._free.clear()

    def _begin(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        executor = ProcessPoolExecutor(
            max_workers=1,
            initializer=_begin_process,
            initargs=(os.getpid(),),
            env=_ONE_THREAD_ENV,
        )
        self._executors.append(executor)
        return executor

    def _take_back(self, executor: Any, done: "Future[Any]") -> None:
        if isinstance(done.exception(), BrokenExecutor):
            self._drop(executor)
        else:
            self._free.append(executor)

    def _drop(self, executor: Any) -> None:
        with suppress(ValueError):  # the pool was closed meanwhile
            self._executors.remove(executor)
        executor.shutdown(wait=False, kill_workers=True)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let a process that begins within the block ignore Ctrl-C, from its first
    instruction: only this process heeds it.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_process(parent: int) -> None:
    """Prepare a process for tasks.

    Ctrl-C, which a terminal sends to all processes, is ignored. SIGTERM, by which batch
    systems end a job, interrupts a task as Ctrl-C would, so that a training saves its
    state. The process ends with the one that gives it tasks.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if sys.platform != "win32":  # there, the number of the parent does not change
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_INTERVAL)
    os._exit(0)


def _import_quietly(module: str) -> None:
    """Import a module; one that is missing is an error of the tasks that need it."""
    with suppress(ImportError):
        import_module(module)

"""Tasks, and `run`, which computes them on an engine: processes of this machine
(`rindices.engine.local`) or Dask workers (`rindices.engine.cluster`).

A task may be computed twice, or by two workers at once: it writes its files whole, and
always the same bytes. Its key changes with everything that could change its result.
"""

import json
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rindices.atomic import write_atomically
from rindices.errors import RindicesError

MAX_RETRIES = 3
"""How often a task whose worker died is tried again."""
_POLL_INTERVAL = 0.1  # seconds between looks for reports of tasks
_TEND_INTERVAL = 5.0  # seconds between looks for lost workers
_REPORT = ".report"

Result = TypeVar("Result")
Report = Callable[[Mapping[str, Any]], None]
"""Takes where a long task stands, as values that JSON can hold."""
MessageCallback = Callable[[str], None]
"""Called with a line for the user."""


class StoppedError(RindicesError):
    """The work was ended from outside; what is finished is kept."""


class WorkerLostError(Exception):
    """The worker of a task died: it was killed, for instance for its memory, or it
    crashed.

    Parameters
    ----------
    reason : str
        Why, as far as is known.
    times : int
        How many workers the task has lost.
    """

    def __init__(self, reason: str, times: int = 1) -> None:
        super().__init__(reason)
        self.times = times


@dataclass(frozen=True, kw_only=True)
class Task(Generic[Result]):
    """A function to call on some worker.

    Attributes
    ----------
    key : str
        Name that changes with all that could change the result.
    function : callable
        Importable by workers.
    arguments : tuple
        Arguments that can be pickled.
    mailbox : Path or None
        Folder that the workers share, for reports of a long task. If it is given, the
        function gets a `Report` as its last argument.
    """

    key: str
    function: Callable[..., Result]
    arguments: tuple[Any, ...] = ()
    mailbox: Path | None = None

    def call(self, report: Report | None = None) -> Result:
        """Call the function; reports go to the mailbox unless another place is
        given.
        """
        if self.mailbox is None:
            return self.function(*self.arguments)
        report = report or partial(_post_report, self.mailbox / f"{self.key}{_REPORT}")
        return self.function(*self.arguments, report)


@dataclass(frozen=True, kw_only=True)
class Finished(Generic[Result]):
    """A task that is finished, or was given up.

    Attributes
    ----------
    task : Task
        The task.
    result : object
        What its function returned; None if it was given up.
    lost : str
        Why it was given up.
    """

    task: Task[Result]
    result: Result | None = None
    lost: str = ""

    def get_result(self) -> Result:
        """Return the result of a task that was not given up."""
        assert not self.lost
        return self.result  # type: ignore[return-value]


class Pool(Protocol):
    """Workers that wait for tasks."""

    @property
    def capacity(self) -> int:
        """Number of tasks that they are given at a time."""
        ...

    def submit(self, task: Task[Any], attempt: int) -> Any:
        """Return the future of a task."""
        ...

    def get_result(self, future: Any) -> Any:
        """Return the result of a future that is done, or raise its error; a worker that
        died is a `WorkerLostError`.
        """
        ...

    def tend(self) -> None:
        """Replace lost workers; called every few seconds."""
        ...


class Engine(Protocol):
    """Has workers."""

    def start(
        self, n_tasks: int, folder: Path, on_message: MessageCallback
    ) -> AbstractContextManager[Pool | None]:
        """Start workers for so many tasks, and end them after the block; None stands
        for this process.

        folder: that all workers share, for the output of their jobs.
        """
        ...


def _ignore(*arguments: object) -> None:
    """Do nothing."""


def run(
    engine: Engine,
    tasks: Sequence[Task[Result]],
    folder: Path,
    *,
    on_message: MessageCallback = _ignore,
    on_report: Callable[[Task[Result], Mapping[str, Any]], None] = _ignore,
) -> Iterator[Finished[Result]]:
    """Yield tasks as they are finished, in any order.

    A task whose worker dies is tried again up to `MAX_RETRIES` times. An error of a
    task is raised at once. However the loop ends, the workers are ended with it.

    Parameters
    ----------
    engine : Engine
        Where tasks are computed.
    tasks : sequence of Task
        Tasks with different keys.
    folder : Path
        Folder that all workers share, for the output of their jobs.
    on_message : callable
        Called with a line for the user.
    on_report : callable
        Called with a task and where it stands.

    Raises
    ------
    StoppedError
        If a worker, or the scheduler, was ended from outside.
    """
    if not tasks:
        return
    with engine.start(len(tasks), folder, on_message) as pool:
        if pool is None:
            for task in tasks:
                yield Finished(task=task, result=task.call(partial(on_report, task)))
            return
        mailboxes = _Mailboxes(tasks, on_report)
        try:
            yield from _run_on_pool(pool, tasks, mailboxes)
        finally:
            mailboxes.clear()


def _run_on_pool(
    pool: Pool, tasks: Sequence[Task[Result]], mailboxes: "_Mailboxes"
) -> Iterator[Finished[Result]]:
    """Keep the workers busy, and yield tasks as they are finished."""
    waiting, losses = deque(tasks), Counter[str]()
    running: dict[str, tuple[Any, Task[Result]]] = {}
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    while waiting or running:
        while waiting and len(running) < pool.capacity:
            task = waiting.popleft()
            future = pool.submit(task, losses[task.key])
            running[task.key] = future, task
            future.add_done_callback(lambda _, key=task.key: done.put(key))
        future, task = running.pop(_wait(done, pool, mailboxes))
        mailboxes.collect()
        try:
            result = pool.get_result(future)
        except WorkerLostError as error:
            losses[task.key] += error.times
            if losses[task.key] <= MAX_RETRIES:
                waiting.appendleft(task)
                continue
            yield Finished(task=task, lost=f"{error}, {losses[task.key]} times")
        else:
            yield Finished(task=task, result=result)


def _wait(done: "queue.SimpleQueue[str]", pool: Pool, mailboxes: "_Mailboxes") -> str:
    """Return the key of a task that is done; meanwhile, pass on reports and tend the
    workers.
    """
    tended_at = time.monotonic()
    while True:
        try:
            return done.get(timeout=_POLL_INTERVAL)
        except queue.Empty:
            mailboxes.collect()
        if time.monotonic() - tended_at > _TEND_INTERVAL:
            pool.tend()
            tended_at = time.monotonic()


def _post_report(path: Path, values: Mapping[str, Any]) -> None:
    """Replace the report of a task."""
    write_atomically(path, json.dumps(dict(values)).encode())


class _Mailboxes:
    """Reports of tasks in the folders that workers share."""

    def __init__(
        self,
        tasks: Sequence[Task[Any]],
        on_report: Callable[[Task[Any], Mapping[str, Any]], None],
    ) -> None:
        self._tasks = {
            task.mailbox / f"{task.key}{_REPORT}": task
            for task in tasks
            if task.mailbox is not None
        }
        self._folders = {path.parent for path in self._tasks}
        self._on_report, self._seen = on_report, dict[Path, int]()
        self.clear()

    def collect(self) -> None:
        """Pass on the reports that are new."""
        for path in self._list_reports():
            with suppress(OSError, ValueError):  # it is being replaced
                stamp = path.stat().st_mtime_ns
                if stamp == self._seen.get(path):
                    continue
                values = json.loads(path.read_bytes())
                self._seen[path] = stamp
                self._on_report(self._tasks[path], values)

    def clear(self) -> None:
        """Delete all reports."""
        for path in self._list_reports():
            path.unlink(missing_ok=True)

    def _list_reports(self) -> list[Path]:
        found = (path for each in self._folders for path in each.glob(f"*{_REPORT}"))
        return [path for path in found if path in self._tasks]

"""The engine of many machines: Dask hands out the member sets.

Dask schedules; a worker passes each set to a process beside it (`trainer`). The people are read from the run folder,
once a process. Results go into the run folder, so that nothing is lost with a worker, the scheduler or the client.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from rindices.errors import StudyError
from rindices.study.engines.base import (
    MAX_RETRIES,
    JobResult,
    MessageCallback,
    TrainingJob,
    count_processes,
)
from rindices.study.engines.worker_process import TrainingPausedError, TrainingProcess, WorkerDiedError
from rindices.study.exceptions import StudyStoppedError
from rindices.study.store import RunStore

MAX_SUBMITTED_JOBS = 1000
"""Member sets that the scheduler knows of at a time: enough for any cluster, little for the client's memory."""
_POLL_INTERVAL = 0.02  # seconds between looks for finished sets
_CONNECT_TIMEOUT = 10.0  # seconds for a scheduler to answer
_SCALE_INTERVAL = 5.0  # seconds between looks after the cluster

JobFunction = Callable[[TrainingJob], str]
"""Carries out an order on a worker; returns what a user must mend, or nothing."""

_thread_state = threading.local()
_active_processes: set[TrainingProcess] = set()


def train_in_subprocess(order: TrainingJob) -> str:
    """Carry out an order in the process beside this thread of a worker."""
    from distributed import Reschedule

    trainer: TrainingProcess | None = getattr(_thread_state, "trainer", None)
    if trainer is None or not trainer.alive:
        if trainer is not None:
            _active_processes.discard(trainer)
        trainer = _thread_state.trainer = TrainingProcess()
        _active_processes.add(trainer)
    try:
        trainer.train(order)
    except TrainingPausedError:  # not this set's fault: it goes on elsewhere from its checkpoint
        time.sleep(1)
        raise Reschedule from None
    except StudyError as error:
        return str(error)
    return ""


def pause_trainings(folder: Path) -> None:
    """Ask the trainings of a study on this worker for a checkpoint and the end."""
    for trainer in [trainer for trainer in _active_processes if trainer.folder == folder]:
        trainer.request_stop()


@dataclass(frozen=True)
class DaskEngine:
    """Trains on the workers of Dask.

    Parameters
    ----------
    workers : int
        Workers of a cluster of its own on this machine; -1 for all cores.
    scheduler : str, optional
        Address of a scheduler whose workers are used instead.
    task : callable
        What a worker does with an order.
    """

    workers: int = -1
    scheduler: str | None = None
    task: JobFunction = train_in_subprocess

    def run(self, orders: Sequence[TrainingJob], say: MessageCallback) -> Iterator[JobResult]:
        """Carry out all orders on the workers."""
        require_packages("dask")
        if self.scheduler is not None:
            with connect_client(self.scheduler, say) as client:
                yield from run_on_client(client, orders, self.task)
            return
        from distributed import LocalCluster

        number = count_processes(self.workers, len(orders))
        how = {"n_workers": number, "threads_per_worker": 1, "memory_limit": None}
        with (
            configure_dask(),
            LocalCluster(**how, dashboard_address=":0", silence_logs=logging.CRITICAL) as cluster,
            connect_client(cluster, say) as client,
        ):
            yield from run_on_client(client, orders, self.task, tend=lambda: cluster.scale(number))


def require_packages(engine: str) -> None:
    """Refuse an engine whose packages are missing, and say how to get them."""
    try:
        for package in ("distributed", "dask_jobqueue"):
            import_module(package)
    except ModuleNotFoundError as error:
        cure = 'pip install "rindices[cluster]"'
        raise StudyError(f"the engine {engine} needs {package}, which is not installed: {cure}.") from error


def configure_dask() -> AbstractContextManager[Any]:
    """Return settings of Dask: a worker has one set at a time and waits for no other's data."""
    import dask

    return dask.config.set({"distributed.scheduler.worker-saturation": 1.0})  # type: ignore[no-any-return]


@contextmanager
def connect_client(where: Any, say: MessageCallback) -> Iterator[Any]:
    """Yield a client of a cluster, or of the scheduler at an address."""
    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # a lost worker is no news; what matters is reported
    try:
        client = Client(where, timeout=_CONNECT_TIMEOUT)
    except (OSError, ValueError) as error:
        what = f"no scheduler answers at {where}: start one with 'dask scheduler', or leave --scheduler out."
        raise StudyError(what) from error
    with client:
        say(f"dashboard: {client.dashboard_link}")
        yield client


def run_on_client(
    client: Any, orders: Sequence[TrainingJob], task: JobFunction, tend: Callable[[], None] | None = None
) -> Iterator[JobResult]:
    """Have all orders carried out by the workers of a client.

    Parameters
    ----------
    client : distributed.Client
    orders : sequence of Order
    task : callable
        What a worker does with an order.
    tend : callable, optional
        Called now and then, to replace what the cluster has lost.
    """
    desk = _JobTracker(client, task, RunStore(orders[0].folder))
    waiting = iter(orders)
    desk.submit(list(islice(waiting, MAX_SUBMITTED_JOBS)))
    tended = time.monotonic()
    try:
        while desk.open:
            reports = desk.finished()
            desk.submit(list(islice(waiting, len(reports))))
            yield from reports
            if not reports:
                time.sleep(_POLL_INTERVAL)
            if tend is not None and time.monotonic() - tended > _SCALE_INTERVAL:
                tend()
                tended = time.monotonic()
    finally:
        if desk.open:
            desk.cancel_pending()


class _JobTracker:
    """The client's side: what is out, and what comes back."""

    def __init__(self, client: Any, task: JobFunction, store: RunStore) -> None:
        from distributed import as_completed

        self.client, self.task, self.store = client, task, store
        self.open: dict[Any, TrainingJob] = {}
        self.completed_futures = as_completed(loop=client.loop)
        self.previous_starts = store.count_events("begun")
        self.n_retries: Counter[str] = Counter()
        self.group = f"rindices-{sha256(str(store.folder).encode()).hexdigest()[:12]}"

    def submit(self, orders: Sequence[TrainingJob]) -> None:
        """Hand out orders. The names are the sets' own: a client that comes back finds its trainings running."""
        if not orders:
            return
        keys = [(self.group, f"{order.work.key}-{self.n_retries[order.work.key]}") for order in orders]
        futures = self.client.map(self.task, orders, key=keys)
        self.open.update(zip(futures, orders, strict=True))
        self.completed_futures.update(futures)

    def finished(self) -> list[JobResult]:
        """Return reports of what came back since the last call."""
        reports = []
        for future in self.completed_futures.next_batch(block=False):
            order = self.open.pop(future)
            report = self._report(future, order)
            if report is None:
                self.n_retries[order.work.key] += 1
                self.submit([order])
            else:
                reports.append(report)
        return reports

    def _report(self, future: Any, order: TrainingJob) -> JobResult | None:
        """Return the report of a set, or None where it is to be tried again."""
        from distributed import KilledWorker

        if future.cancelled():
            self.open.clear()
            again = f"what is finished is in {self.store.folder}; start a scheduler and run again"
            raise StudyStoppedError(f"the scheduler at {self.client.scheduler.address} is gone: {again}.")
        error = future.exception() if future.status == "error" else None
        if error is None:
            if mistake := future.result():
                raise StudyError(mistake)
            return JobResult(order.work)
        if not isinstance(error, KilledWorker | WorkerDiedError):
            raise error
        # A worker's death is held against every set it had, begun or not; the journal knows which it had begun.
        begun = self.store.count_events("begun")[order.work.key] - self.previous_starts[order.work.key]
        if begun <= MAX_RETRIES and self.n_retries[order.work.key] < MAX_RETRIES:
            return None
        why = str(error) if isinstance(error, WorkerDiedError) else "its worker was lost"
        return JobResult(order.work, f"{why}, {1 + MAX_RETRIES} times")

    def cancel_pending(self) -> None:
        """Take back what is out, and let what is in training write its checkpoint."""
        folder = next(iter(self.open.values())).folder
        self.client.cancel(list(self.open), force=True)
        self.client.run(pause_trainings, folder, on_error="ignore")

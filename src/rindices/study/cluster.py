"""Engines for many machines, by Dask: on this machine, at a scheduler, or in jobs of
Slurm, PBS, LSF or SGE.

A worker trains each member set in a process of its own (`rindices.study.engines`).
People are read from the run folder and results are written to it, so that nothing is
lost with a worker, the scheduler or the client.
"""

import logging
import math
import shutil
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

from rindices.errors import StudyError, make_install_command
from rindices.study.config import QueueConfig, RunConfig
from rindices.study.engines import (
    MAX_RETRIES,
    NO_OBSERVER,
    Engine,
    JobResult,
    LocalEngine,
    MessageCallback,
    TrainingCallback,
    TrainingJob,
    TrainingProcess,
    WorkerDiedError,
    count_processes,
)
from rindices.study.exceptions import StudyStoppedError
from rindices.study.store import RunStore
from rindices.tables.checks.ids import has_control_characters

MAX_SUBMITTED_JOBS = 1000
"""Member sets submitted at a time: enough for any cluster, and little for the client's
memory.
"""
_POLL_INTERVAL = 0.02  # seconds between checks for finished sets
_CONNECT_TIMEOUT = 10.0  # seconds
_SCALE_INTERVAL = 5.0  # seconds between checks of the size of the cluster

CLUSTER_CLASSES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
}
_ACCOUNT_OPTION = {
    "slurm": "account",
    "pbs": "account",
    "lsf": "project",
    "sge": "project",
}
_MARGIN_SHARE = 0.1  # share of the wall time in which workers leave
_MAX_MARGIN_SECONDS = 300.0

JobFunction = Callable[[TrainingJob], None]
"""Runs a job on a worker."""

_processes: dict[int, TrainingProcess] = {}  # of the threads of a worker


def train_in_subprocess(job: TrainingJob) -> None:
    """Run a job in the training process of this thread of a worker."""
    from distributed import Reschedule

    process = _processes.get(threading.get_ident())
    if process is None or not process.alive:
        process = _processes[threading.get_ident()] = TrainingProcess()
    try:
        process.train(job)
    except (
        StudyStoppedError
    ):  # no failure of this set: it continues elsewhere from its checkpoint
        time.sleep(1)
        raise Reschedule from None


def kill_trainings(folder: Path) -> None:
    """End the trainings of a study on this worker."""
    for process in [
        process for process in _processes.values() if process.folder == folder
    ]:
        process.kill()


@dataclass(frozen=True)
class DaskEngine:
    """Trains on Dask workers.

    Attributes
    ----------
    workers : int
        Number of workers of a temporary cluster on this machine. -1 means all cores.
    scheduler : str or None
        Address of a scheduler whose workers are used instead.
    task : JobFunction
        Function that runs a job on a worker.
    """

    workers: int = -1
    scheduler: str | None = None
    task: JobFunction = train_in_subprocess

    def run(
        self, jobs: Sequence[TrainingJob], on_message: MessageCallback
    ) -> Iterator[JobResult]:
        """Run all jobs on the workers."""
        require_packages("dask")
        if self.scheduler is not None:
            with connect_client(self.scheduler, on_message) as client:
                yield from run_on_client(client, jobs, self.task)
            return
        from distributed import LocalCluster

        n_workers = count_processes(self.workers, len(jobs))
        settings = {
            "n_workers": n_workers,
            "threads_per_worker": 1,
            "memory_limit": None,
        }
        with (
            configure_dask(),
            LocalCluster(
                **settings, dashboard_address=":0", silence_logs=logging.CRITICAL
            ) as cluster,
            connect_client(cluster, on_message) as client,
        ):
            yield from run_on_client(
                client, jobs, self.task, lambda: cluster.scale(n_workers)
            )


def require_packages(engine: str) -> None:
    """Raise an error if the packages of an engine are missing."""
    try:
        for package in ("distributed", "dask_jobqueue"):
            import_module(package)
    except ModuleNotFoundError as error:
        cure = make_install_command("cluster")
        raise StudyError(
            f"the engine {engine} needs {package}, which is not installed: {cure}"
        ) from error


def configure_dask() -> AbstractContextManager[Any]:
    """Return a context in which Dask gives each worker one set at a time and reports
    each death of a worker.
    """
    import dask

    settings = {"worker-saturation": 1.0, "allowed-failures": 0}
    context: AbstractContextManager[Any] = dask.config.set(
        {f"distributed.scheduler.{key}": value for key, value in settings.items()}
    )
    return context


@contextmanager
def connect_client(address: Any, on_message: MessageCallback) -> Iterator[Any]:
    """Yield a client of a cluster, or of the scheduler at an address."""
    from distributed import Client

    logging.getLogger("distributed").setLevel(
        logging.CRITICAL
    )  # lost workers are reported by the engine itself
    try:
        client = Client(address, timeout=_CONNECT_TIMEOUT)
    except (OSError, ValueError) as error:
        what = f"no scheduler answers at {address}: start one with 'dask scheduler', or leave --scheduler out."
        raise StudyError(what) from error
    with client:
        on_message(f"dashboard: {client.dashboard_link}")
        yield client


def run_on_client(
    client: Any,
    jobs: Sequence[TrainingJob],
    task: JobFunction,
    rescale: Callable[[], None] | None = None,
) -> Iterator[JobResult]:
    """Run all jobs on the workers of a client, and yield their results in any order.

    task: function that runs a job on a worker; rescale: called every few seconds, to
    replace lost workers.
    """
    tracker = _JobTracker(client, task, RunStore(jobs[0].folder))
    waiting = iter(jobs)
    tracker.submit(list(islice(waiting, MAX_SUBMITTED_JOBS)))
    rescaled_at = time.monotonic()
    try:
        while tracker.open:
            results = tracker.collect_results()
            tracker.submit(list(islice(waiting, len(results))))
            yield from results
            if not results:
                time.sleep(_POLL_INTERVAL)
            if rescale is not None and time.monotonic() - rescaled_at > _SCALE_INTERVAL:
                rescale()
                rescaled_at = time.monotonic()
    finally:
        if tracker.open:
            client.cancel(list(tracker.open), force=True)
            client.run(kill_trainings, jobs[0].folder, on_error="ignore")


class _JobTracker:
    """Jobs that a client has submitted, and their results."""

    def __init__(self, client: Any, task: JobFunction, store: RunStore) -> None:
        from distributed import as_completed

        self.client, self.task, self.store = client, task, store
        self.open: dict[Any, TrainingJob] = {}
        self.completed_futures = as_completed(loop=client.loop)
        self.previous_starts = store.count_events("begun")
        self.n_retries: Counter[str] = Counter()
        self.group = f"rindices-{sha256(str(store.folder).encode()).hexdigest()[:12]}"

    def submit(self, jobs: Sequence[TrainingJob]) -> None:
        """Submit jobs under the keys of their sets, so that a client that comes back
        finds its trainings running.
        """
        if not jobs:
            return
        keys = [
            (self.group, f"{job.work.key}-{self.n_retries[job.work.key]}")
            for job in jobs
        ]
        futures = self.client.map(self.task, jobs, key=keys)
        self.open.update(zip(futures, jobs, strict=True))
        self.completed_futures.update(futures)

    def collect_results(self) -> list[JobResult]:
        """Return the results since the last call; jobs to be tried again
        are submitted.
        """
        results = []
        for future in self.completed_futures.next_batch(block=False):
            job = self.open.pop(future)
            result = self._get_result(future, job)
            if result is None:
                self.n_retries[job.work.key] += 1
                self.submit([job])
            else:
                results.append(result)
        return results

    def _get_result(self, future: Any, job: TrainingJob) -> JobResult | None:
        """Return the result of a job; None if it is to be tried again."""
        from distributed import KilledWorker

        if future.cancelled():
            self.open.clear()
            again = f"what is finished is in {self.store.folder}; start a scheduler and run again"
            raise StudyStoppedError(
                f"the scheduler at {self.client.scheduler.address} is gone: {again}."
            )
        error = future.exception() if future.status == "error" else None
        if error is None:
            return JobResult(job.work)
        if not isinstance(error, KilledWorker | WorkerDiedError):
            raise error
        # Dask blames a worker's death on every set it had; the journal knows which of
        # them had begun.
        key = job.work.key
        n_starts = self.store.count_events("begun")[key] - self.previous_starts[key]
        n_deaths_before_start = self.n_retries[key] + 1 - n_starts
        if n_starts <= MAX_RETRIES and n_deaths_before_start <= MAX_RETRIES:
            return None
        reason = (
            str(error) if isinstance(error, WorkerDiedError) else "its worker was lost"
        )
        return JobResult(
            job.work, f"{reason}, {max(n_starts, n_deaths_before_start)} times"
        )


@dataclass(frozen=True)
class QueueEngine:
    """Trains in jobs of a batch system.

    Attributes
    ----------
    system : str
        Name of the batch system.
    queue : QueueConfig
        Request for each job.
    workers : int
        Number of workers in all jobs, one core each. -1 means the cores of
        ``queue.jobs`` jobs.
    """

    system: str
    queue: QueueConfig
    workers: int = -1

    def run(
        self, jobs: Sequence[TrainingJob], on_message: MessageCallback
    ) -> Iterator[JobResult]:
        """Train in jobs of the batch system; a job that ends before the study is
        replaced.
        """
        require_packages(self.system)
        import dask_jobqueue

        n_jobs = (
            math.ceil(min(self.workers, len(jobs)) / self.queue.cores)
            if self.workers > 0
            else self.queue.jobs
        )
        logs = jobs[0].folder / "jobs"
        with (
            configure_dask(),
            getattr(dask_jobqueue, CLUSTER_CLASSES[self.system])(
                **self.options(logs)
            ) as cluster,
        ):
            cluster.scale(jobs=n_jobs)
            on_message(
                f"{self.system}: {n_jobs} jobs of {self.queue.cores} workers; their output is in {logs}"
            )
            with connect_client(cluster, on_message) as client:
                yield from run_on_client(
                    client,
                    jobs,
                    train_in_subprocess,
                    lambda: cluster.scale(jobs=n_jobs),
                )

    def options(self, logs: Path) -> dict[str, Any]:
        """Return the options of dask-jobqueue; workers leave before the wall time: no
        failure of their sets.
        """
        queue = self.queue
        if has_control_characters(str(logs)):
            raise StudyError(
                f"{str(logs)!r} holds a control character, which a job script cannot: rename the folder."
            )
        lifetime = math.floor(compute_worker_lifetime(queue.walltime))
        options = {
            "queue": queue.partition,
            _ACCOUNT_OPTION[self.system]: queue.account,
            "cores": queue.cores,
            "processes": queue.cores,
            "memory": queue.memory,
            "walltime": queue.walltime,
            "interface": queue.interface,
            "job_extra_directives": list(queue.directives),
            "job_script_prologue": list(queue.setup),
            "worker_extra_args": ["--lifetime", f"{lifetime}s"],
            "log_directory": str(logs),
            "scheduler_options": {"dashboard_address": ":0"},
        }
        return {name: value for name, value in options.items() if value is not None}


def compute_worker_lifetime(walltime: str) -> float:
    """Return the lifetime of workers in seconds for a wall time
    [days-]hours:minutes[:seconds].
    """
    days, _, clock = walltime.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    units = (3600, 60, 1)
    seconds = 86_400 * int(days or 0) + sum(
        part * unit for part, unit in zip(parts, units, strict=False)
    )
    return seconds - min(_MARGIN_SHARE * seconds, _MAX_MARGIN_SECONDS)


def check_engine(run: RunConfig) -> None:
    """Raise StudyError if the engine of a study cannot work here; called before
    anything is computed.
    """
    if run.engine == "local" and not run.in_parts:
        return
    require_packages("dask" if run.in_parts else run.engine)
    if run.scheduler is not None:
        with connect_client(run.scheduler, lambda text: None):
            return
    if run.engine in CLUSTER_CLASSES:
        import dask_jobqueue

        program = getattr(
            dask_jobqueue, CLUSTER_CLASSES[run.engine]
        ).job_cls.submit_command.split()[0]
        if shutil.which(program) is None:
            here = f"the engine {run.engine} needs the program {program}, which is not on this machine"
            raise StudyError(
                f"{here}: run it where jobs are submitted, or with --engine local."
            )


def count_workers(run: RunConfig, n_jobs: int) -> int:
    """Return how many workers a study has."""
    if run.scheduler is not None:
        with connect_client(run.scheduler, lambda text: None) as client:
            return max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    if run.engine in CLUSTER_CLASSES:
        queue = getattr(run, run.engine) or QueueConfig()
        return run.workers if run.workers > 0 else queue.jobs * queue.cores
    return count_processes(run.workers, n_jobs)


def make_engine(
    run: RunConfig, on_training: TrainingCallback = NO_OBSERVER.on_training
) -> Engine:
    """Return the engine of a study; on_training: called by the engine of this machine
    alone.
    """
    if run.engine == "local":
        return LocalEngine(run.workers, on_training)
    if run.engine == "dask":
        return DaskEngine(run.workers, run.scheduler)
    return QueueEngine(
        run.engine, getattr(run, run.engine) or QueueConfig(), run.workers
    )

"""Many machines, by Dask: workers on this machine, those of a scheduler, or jobs of
Slurm, PBS, LSF or SGE.

Tasks read and write files that all machines share, so that nothing is lost with a
worker, the scheduler or the client. Connections are encrypted where Dask's own
configuration names certificates (``distributed.comm.tls``).
"""

import logging
import math
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

from rindices.engine.local import count_processes
from rindices.engine.tasks import MessageCallback, StoppedError, Task, WorkerLostError
from rindices.errors import StudyError, make_install_command

MAX_SUBMITTED = 1000
"""Tasks submitted at a time: enough for any cluster, and little for the client's
memory.
"""
_CONNECT_TIMEOUT = 10.0  # seconds
_LOOPBACK = "127.0.0.1:0"  # the dashboard is for this machine alone
_SETTINGS = {
    "distributed.scheduler.worker-saturation": 1.0,  # one task a worker at a time
    # results are files, so that nothing could be spilled, and a pause would not end
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
}

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


class DaskPool:
    """Workers of a Dask client.

    Parameters
    ----------
    client : distributed.Client
        Client of the scheduler.
    rescale : callable
        Replaces lost workers.
    hint : str
        Why a worker may have been lost, for messages.
    """

    capacity = MAX_SUBMITTED

    def __init__(
        self,
        client: Any,
        rescale: Callable[[], None] = lambda: None,
        hint: str = "",
    ) -> None:
        self.client, self._rescale, self._hint = client, rescale, hint
        self._futures: dict[str, Any] = {}

    def submit(self, task: Task[Any], attempt: int) -> Any:
        """Submit a task under its key, so that a client that comes back finds it
        running.
        """
        key = f"{task.key}-{attempt}"
        future = self.client.submit(call_on_worker, task, key=key)
        self._futures[key] = future
        return future

    def get_result(self, future: Any) -> Any:
        """Return the result of a task, or raise its error."""
        from distributed import KilledWorker

        if future.cancelled():
            raise StoppedError(
                f"the scheduler at {self.client.scheduler.address} is gone; what is finished is kept: "
                "start a scheduler and run the same command again."
            )
        del self._futures[future.key]
        error = future.exception() if future.status == "error" else None
        if isinstance(error, KilledWorker):
            times = error.allowed_failures + 1
            raise WorkerLostError(f"its worker was lost{self._hint}", times)
        if error is not None:
            raise error
        return future.result()

    def tend(self) -> None:
        """Replace lost workers."""
        self._rescale()

    def close(self) -> None:
        """Cancel what has not begun; what is running is finished, and kept."""
        if self._futures and self.client.status == "running":
            self.client.cancel(list(self._futures.values()), force=True)


def call_on_worker(task: Task[Any]) -> Any:
    """Call the function of a task on one thread, so that sums are equal everywhere."""
    # for good: tasks in threads of one worker would end each other's limits
    threadpool_limits(1)
    return task.call()


@dataclass(frozen=True)
class DaskEngine:
    """Computes tasks on Dask workers.

    Attributes
    ----------
    workers : int
        Number of workers of a temporary cluster on this machine. -1 means all cores.
    scheduler : str or None
        Address of a scheduler whose workers are used instead.
    memory_limit : int or None
        Bytes of memory of a worker of a temporary cluster, which is ended if it needs
        more. By default, the workers share the memory of this machine.
    """

    workers: int = -1
    scheduler: str | None = None
    memory_limit: int | None = None

    @contextmanager
    def start(
        self, n_tasks: int, folder: Path, on_message: MessageCallback
    ) -> Iterator[DaskPool]:
        """Yield workers of the scheduler, or of a temporary cluster."""
        with self.connect(n_tasks, on_message) as pool:
            try:
                yield pool
            finally:
                pool.close()

    @contextmanager
    def connect(self, n_tasks: int, on_message: MessageCallback) -> Iterator[DaskPool]:
        """Yield workers, as `start` does, for callers that submit by the client."""
        require_packages("dask")
        if self.scheduler is not None:
            with connect_client(self.scheduler, on_message) as client:
                leave_gracefully(client)
                yield DaskPool(client)
            return
        from distributed import LocalCluster
        from distributed.system import MEMORY_LIMIT

        n_workers = count_processes(self.workers, n_tasks)
        limit = self.memory_limit or MEMORY_LIMIT // n_workers
        with ExitStack() as stack:
            stack.enter_context(configure_dask())
            with explain_start():
                cluster = stack.enter_context(
                    LocalCluster(
                        n_workers=n_workers,
                        threads_per_worker=1,
                        memory_limit=limit,
                        dashboard_address=_LOOPBACK,
                        silence_logs=logging.CRITICAL,
                    )
                )
            client = stack.enter_context(connect_client(cluster, on_message, True))
            leave_gracefully(client)
            hint = f"; a worker that needs more than {limit / 1e9:.1f} GB is ended: give fewer --workers"
            yield DaskPool(client, lambda: cluster.scale(n_workers), hint)


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
    """Return a context in which Dask gives each worker one task at a time."""
    import dask

    context: AbstractContextManager[Any] = dask.config.set(_SETTINGS)
    return context


@contextmanager
def explain_start() -> Iterator[None]:
    """Say in a sentence that a cluster did not start, for instance as its processes
    were killed.
    """
    try:
        yield
    except (OSError, RuntimeError, TimeoutError) as error:
        what = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise StudyError(
            f"the Dask workers did not start ({what}): run the same command again."
        ) from error


@contextmanager
def connect_client(
    address: Any, on_message: MessageCallback, is_own: bool = False
) -> Iterator[Any]:
    """Yield a client of a cluster, or of the scheduler at an address; the dashboard of
    a scheduler of our own is for this machine alone.
    """
    from distributed import Client

    # lost workers and schedulers are reported by `run`; each logger has its own level
    for name in [*logging.root.manager.loggerDict]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=_CONNECT_TIMEOUT)
    except (OSError, ValueError) as error:
        what = f"no scheduler answers at {address}: start one with 'dask scheduler', or leave --scheduler out."
        raise StudyError(what) from error
    except TypeError as error:  # of TLS
        what = f"{address} needs certificates: name them in Dask's configuration (distributed.comm.tls)."
        raise StudyError(what) from error
    with client:
        link = str(client.dashboard_link)
        here = f"//{_LOOPBACK.partition(':')[0]}:"
        on_message(f"dashboard: {re.sub('//[^/]*:', here, link) if is_own else link}")
        yield client


def leave_gracefully(client: Any) -> None:
    """Let workers give their tasks back at SIGTERM, by which batch systems end a job:
    that is no failure of the tasks.
    """
    from distributed import WorkerPlugin

    class LeaveGracefully(WorkerPlugin):  # type: ignore[misc]
        name = "rindices-leave-gracefully"

        def setup(self, worker: Any) -> None:
            import os
            import signal
            import threading

            async def leave() -> None:
                try:
                    await worker.scheduler.retire_workers(
                        workers=[worker.address], stimulus_id="rindices-sigterm"
                    )
                finally:
                    os._exit(0)  # without waiting for the task

            is_main = threading.current_thread() is threading.main_thread()
            if worker.nanny is not None and is_main:
                signal.signal(
                    signal.SIGTERM,
                    lambda *_: worker.loop.add_callback_from_signal(leave),
                )

    client.register_plugin(LeaveGracefully())


class JobRequest(Protocol):
    """Request for each job of a batch system."""

    partition: str | None
    account: str | None
    walltime: str
    memory: str
    cores: int
    jobs: int
    directives: tuple[str, ...]
    setup: tuple[str, ...]
    interface: str | None


@dataclass(frozen=True)
class QueueEngine:
    """Computes tasks in jobs of a batch system.

    Attributes
    ----------
    system : str
        Name of the batch system.
    queue : JobRequest
        Request for each job.
    workers : int
        Number of workers in all jobs, one core each. -1 means the cores of
        ``queue.jobs`` jobs.
    """

    system: str
    queue: JobRequest
    workers: int = -1

    @contextmanager
    def start(
        self, n_tasks: int, folder: Path, on_message: MessageCallback
    ) -> Iterator[DaskPool]:
        """Yield the workers of jobs; a job that ends before the work is replaced."""
        require_packages(self.system)
        import dask_jobqueue

        logs = folder / "jobs"
        n_jobs = (
            math.ceil(min(self.workers, n_tasks) / self.queue.cores)
            if self.workers > 0
            else self.queue.jobs
        )
        with ExitStack() as stack:
            stack.enter_context(configure_dask())
            with explain_start():
                kind = getattr(dask_jobqueue, CLUSTER_CLASSES[self.system])
                cluster = stack.enter_context(kind(**self.options(logs)))
                cluster.scale(jobs=n_jobs)
            on_message(
                f"{self.system}: {n_jobs} jobs of {self.queue.cores} workers; their output is in {logs}"
            )
            client = stack.enter_context(connect_client(cluster, on_message, True))
            leave_gracefully(client)
            hint = f"; look into {logs}"
            pool = DaskPool(client, lambda: cluster.scale(jobs=n_jobs), hint)
            try:
                yield pool
            finally:
                pool.close()

    def options(self, logs: Path) -> dict[str, Any]:
        """Return the options of dask-jobqueue; workers leave before the wall time: no
        failure of their tasks.
        """
        import dask

        queue = self.queue
        if not str(logs).isprintable():
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
            "job_script_prologue": [*queue.setup, *_list_exports()],
            "worker_extra_args": ["--lifetime", f"{lifetime}s", "--no-dashboard"],
            "log_directory": str(logs),
            "scheduler_options": {"dashboard_address": _LOOPBACK},
        }
        if dask.config.get("distributed.comm.require-encryption", None):
            from distributed import Security

            options |= {"protocol": "tls://", "security": Security()}
        return {name: value for name, value in options.items() if value is not None}


def _list_exports() -> list[str]:
    """Return the lines of a job script that give a worker our settings of its
    memory.
    """
    names = (name for name in _SETTINGS if ".worker." in name)
    return [
        f"export DASK_{name.upper().replace('.', '__')}={_SETTINGS[name]}"
        for name in names
    ]


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

"""Independent jobs run in parallel, with one cache file per finished job."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar

from joblib import Parallel, delayed, parallel_config

from rindices.atomic import write_atomically
from rindices.errors import SimulationError, describe_os_error

ResultT = TypeVar("ResultT", covariant=True)
JobCallback = Callable[[int, int, object], None]
"""Called with the number of finished jobs, the number of all jobs, and the job just
finished.
"""


class Job(Protocol[ResultT]):
    """A measurement whose result is a dataclass of values that JSON can hold."""

    @property
    def key(self) -> str:
        """Name of the cache file: equal for equal jobs, different for all others."""

    def measure(self) -> ResultT:
        """Measure the result."""

    def restore(self, **fields: Any) -> ResultT:
        """Return the result with these fields."""


def run_jobs(
    jobs: Sequence[Job[ResultT]],
    store: Path | None = None,
    workers: int = -1,
    progress: JobCallback | None = None,
) -> list[ResultT]:
    """Run all jobs that have no result in the cache.

    Parameters
    ----------
    jobs : sequence of Job
    store : Path, optional
        Folder of the cache. A damaged cache file is measured again.
    workers : int
        Processes; -1 for all cores. Results do not depend on it.
    progress : callable, optional
        See `JobCallback`.

    Returns
    -------
    list
        One result per job, in the order of the jobs.
    """
    results = {
        job.key: result
        for job in jobs
        if (result := _load_result(store, job)) is not None
    }
    rest = [job for job in jobs if job.key not in results]
    with parallel_config(backend="loky", inner_max_num_threads=1):
        finished: Iterator[tuple[Job[ResultT], ResultT]] = Parallel(
            n_jobs=workers, return_as="generator_unordered"
        )(delayed(_run_job)(job) for job in rest)
        for job, result in finished:
            results[job.key] = result
            if store is not None:
                _save_result(store, job, result)
            if progress is not None:
                progress(len(results), len(jobs), job)
    return [results[job.key] for job in jobs]


def _run_job(job: Job[ResultT]) -> tuple[Job[ResultT], ResultT]:
    return job, job.measure()


def _save_result(store: Path, job: Job[Any], result: Any) -> None:
    try:
        store.mkdir(parents=True, exist_ok=True)
        write_atomically(store / f"{job.key}.json", json.dumps(asdict(result)).encode())
    except OSError as error:
        raise SimulationError(
            f"cannot write to {store} ({describe_os_error(error)}): give another folder with --out."
        ) from error


def _load_result(store: Path | None, job: Job[ResultT]) -> ResultT | None:
    path = store / f"{job.key}.json" if store else None
    if path is None or not path.is_file():
        return None
    try:
        return job.restore(**json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError):  # damaged: measure again
        return None

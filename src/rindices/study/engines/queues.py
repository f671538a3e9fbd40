"""Engine for batch systems: Dask workers run in jobs of Slurm, PBS, LSF or SGE."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rindices.errors import StudyError
from rindices.study.config import QueueConfig
from rindices.study.engines.base import JobResult, MessageCallback, TrainingJob
from rindices.study.engines.dask import (
    configure_dask,
    connect_client,
    require_packages,
    run_on_client,
    train_in_subprocess,
)
from rindices.tables.validation.ids import has_control_characters

CLUSTER_CLASSES = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster"}
_ACCOUNT_OPTION = {"slurm": "account", "pbs": "account", "lsf": "project", "sge": "project"}
_MARGIN_SHARE = 0.1  # share of the wall time that is reserved for checkpoints
_MAX_MARGIN_SECONDS = 300.0


@dataclass(frozen=True)
class QueueEngine:
    """Trains in jobs of a batch system.

    queue: request for each job; workers: number of workers in all jobs, one core each; -1 for the cores of
    ``queue.jobs`` jobs.
    """

    system: str
    queue: QueueConfig
    workers: int = -1

    def run(self, jobs: Sequence[TrainingJob], on_message: MessageCallback) -> Iterator[JobResult]:
        """Train in jobs of the batch system; a job that ends before the study is replaced."""
        require_packages(self.system)
        import dask_jobqueue

        n_jobs = math.ceil(min(self.workers, len(jobs)) / self.queue.cores) if self.workers > 0 else self.queue.jobs
        logs = jobs[0].folder / "jobs"
        with configure_dask(), getattr(dask_jobqueue, CLUSTER_CLASSES[self.system])(**self.options(logs)) as cluster:
            cluster.scale(jobs=n_jobs)
            on_message(f"{self.system}: {n_jobs} jobs of {self.queue.cores} workers; their output is in {logs}")
            with connect_client(cluster, on_message) as client:
                yield from run_on_client(client, jobs, train_in_subprocess, lambda: cluster.scale(jobs=n_jobs))

    def options(self, logs: Path) -> dict[str, Any]:
        """Return the options of dask-jobqueue; workers leave before the wall time ends, to write a checkpoint."""
        queue = self.queue
        if has_control_characters(str(logs)):
            raise StudyError(f"{str(logs)!r} holds a control character, which a job script cannot: rename the folder.")
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
    """Return the lifetime of workers in seconds for a wall time [days-]hours:minutes[:seconds]."""
    days, _, clock = walltime.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    units = (3600, 60, 1)
    seconds = 86_400 * int(days or 0) + sum(part * unit for part, unit in zip(parts, units, strict=False))
    return seconds - min(_MARGIN_SHARE * seconds, _MAX_MARGIN_SECONDS)

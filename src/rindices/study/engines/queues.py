"""The engine of a batch system: Dask's workers are jobs of Slurm, PBS, LSF or SGE."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rindices.study.config import QueueConfig
from rindices.study.engines.base import JobResult, MessageCallback, TrainingJob
from rindices.study.engines.dask import (
    configure_dask,
    connect_client,
    require_packages,
    run_on_client,
    train_in_subprocess,
)

CLUSTER_CLASSES = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster"}
_ACCOUNT_OPTION = {"slurm": "account", "pbs": "account", "lsf": "project", "sge": "project"}
_MARGIN_SHARE = 0.1  # of the wall time is left for checkpoints
_MAX_MARGIN_SECONDS = 300.0  # seconds


@dataclass(frozen=True)
class QueueEngine:
    """Trains in jobs of a batch system.

    Parameters
    ----------
    system : {'slurm', 'pbs', 'lsf', 'sge'}
    queue : Queue
        What to ask of the system for each job.
    workers : int
        Workers in all, a core each; -1 for what ``queue.jobs`` have.
    """

    system: str
    queue: QueueConfig
    workers: int = -1

    def run(self, orders: Sequence[TrainingJob], say: MessageCallback) -> Iterator[JobResult]:
        """Carry out all orders in jobs; a job that ends before the study is replaced."""
        require_packages(self.system)
        import dask_jobqueue

        jobs = math.ceil(min(self.workers, len(orders)) / self.queue.cores) if self.workers > 0 else self.queue.jobs
        logs = orders[0].folder / "jobs"
        with configure_dask(), getattr(dask_jobqueue, CLUSTER_CLASSES[self.system])(**self.options(logs)) as cluster:
            cluster.scale(jobs=jobs)
            say(f"{self.system}: {jobs} jobs of {self.queue.cores} workers; their output is in {logs}")
            with connect_client(cluster, say) as client:
                yield from run_on_client(client, orders, train_in_subprocess, tend=lambda: cluster.scale(jobs=jobs))

    def options(self, logs: Path) -> dict[str, Any]:
        """Return what dask-jobqueue is asked for. Workers leave before the wall time ends, and so with a checkpoint."""
        queue = self.queue
        lifetime = math.floor(compute_worker_lifetime(queue.walltime))
        asked = {
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
        return {name: value for name, value in asked.items() if value is not None}


def compute_worker_lifetime(walltime: str) -> float:
    """Return the seconds that workers stay, given the wall time as [days-]hours:minutes[:seconds]."""
    days, _, clock = walltime.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    units = (3600, 60, 1)
    seconds = 86_400 * int(days or 0) + sum(part * unit for part, unit in zip(parts, units, strict=False))
    return seconds - min(_MARGIN_SHARE * seconds, _MAX_MARGIN_SECONDS)

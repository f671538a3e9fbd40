"""The engine of a batch system: Dask's workers are jobs of Slurm, PBS, LSF or SGE."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rindices.study.config import Queue
from rindices.study.engines.base import Order, Report, Say
from rindices.study.engines.cluster import connected, follow, need, settings, train_beside

CLUSTERS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster"}
_ACCOUNT = {"slurm": "account", "pbs": "account", "lsf": "project", "sge": "project"}
_MARGIN = 0.1  # of the wall time is left for checkpoints
_LONGEST_MARGIN = 300.0  # seconds


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
    queue: Queue
    workers: int = -1

    def run(self, orders: Sequence[Order], say: Say) -> Iterator[Report]:
        """Carry out all orders in jobs; a job that ends before the study is replaced."""
        need(self.system)
        import dask_jobqueue

        jobs = math.ceil(min(self.workers, len(orders)) / self.queue.cores) if self.workers > 0 else self.queue.jobs
        logs = orders[0].folder / "jobs"
        with settings(), getattr(dask_jobqueue, CLUSTERS[self.system])(**self.options(logs)) as cluster:
            cluster.scale(jobs=jobs)
            say(f"{self.system}: {jobs} jobs of {self.queue.cores} workers; their output is in {logs}")
            with connected(cluster, say) as client:
                yield from follow(client, orders, train_beside, tend=lambda: cluster.scale(jobs=jobs))

    def options(self, logs: Path) -> dict[str, Any]:
        """Return what dask-jobqueue is asked for. Workers leave before the wall time ends, and so with a checkpoint."""
        queue = self.queue
        lifetime = math.floor(lifetime_of(queue.walltime))
        asked = {
            "queue": queue.partition,
            _ACCOUNT[self.system]: queue.account,
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


def lifetime_of(walltime: str) -> float:
    """Return the seconds that workers stay, given the wall time as [days-]hours:minutes[:seconds]."""
    days, _, clock = walltime.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    units = (3600, 60, 1)
    seconds = 86_400 * int(days or 0) + sum(part * unit for part, unit in zip(parts, units, strict=False))
    return seconds - min(_MARGIN * seconds, _LONGEST_MARGIN)

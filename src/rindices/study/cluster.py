"""Where a study is trained, as its settings say: on this machine, at a Dask scheduler,
or in jobs of a batch system.
"""

import shutil

from rindices.engine.cluster import (
    CLUSTER_CLASSES,
    DaskEngine,
    QueueEngine,
    connect_client,
    require_packages,
)
from rindices.engine.local import LocalEngine, count_processes
from rindices.engine.tasks import Engine
from rindices.errors import StudyError
from rindices.study.config import QueueConfig, RunConfig


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


def count_workers(run: RunConfig, n_tasks: int) -> int:
    """Return how many workers a study has."""
    if run.scheduler is not None:
        with connect_client(run.scheduler, lambda text: None) as client:
            return max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    if run.engine in CLUSTER_CLASSES:
        queue = getattr(run, run.engine) or QueueConfig()
        return run.workers if run.workers > 0 else queue.jobs * queue.cores
    return count_processes(run.workers, n_tasks)


def make_engine(run: RunConfig) -> Engine:
    """Return the engine of a study."""
    if run.engine == "local":
        return LocalEngine(run.workers)
    if run.engine == "dask":
        return DaskEngine(run.workers, run.scheduler)
    return QueueEngine(
        run.engine, getattr(run, run.engine) or QueueConfig(), run.workers
    )

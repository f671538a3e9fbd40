"""Choose the engine of a study."""

from rindices.study.config import QueueConfig, RunConfig
from rindices.study.engines.base import Engine
from rindices.study.engines.dask import DaskEngine
from rindices.study.engines.local import LocalEngine
from rindices.study.engines.queues import QueueEngine


def make_engine(run: RunConfig) -> Engine:
    """Return the engine of a study."""
    if run.engine == "local":
        return LocalEngine(run.workers)
    if run.engine == "dask":
        return DaskEngine(run.workers, run.scheduler)
    return QueueEngine(run.engine, getattr(run, run.engine) or QueueConfig(), run.workers)

"""The engines of batch systems."""

from pathlib import Path

import pytest

from rindices.engine.cluster import (
    CLUSTER_CLASSES,
    QueueEngine,
    compute_worker_lifetime,
)
from rindices.study.cluster import make_engine
from rindices.study.config import make_study


@pytest.mark.parametrize("system", list(CLUSTER_CLASSES))
def test_every_batch_system_gets_the_same_options(system: str, tmp_path: Path) -> None:
    import dask_jobqueue

    asked = {
        "partition": "long",
        "account": "brains",
        "walltime": "02:00:00",
        "memory": "3GB",
        "cores": 4,
    }
    asked |= {"directives": ["--qos=low"], "setup": ["module load python"]}
    study = make_study(
        {"data": {"volumes": "v.csv"}, "run": {"engine": system, system: asked}}
    )
    engine = make_engine(study.run)
    assert isinstance(engine, QueueEngine)
    options = engine.options(tmp_path / "jobs")
    options.pop("scheduler_options")
    job = getattr(dask_jobqueue, CLUSTER_CLASSES[system]).job_cls(
        scheduler="tcp://x:1", name="w", **options
    )
    script = job.job_script()
    for part in (
        "long",
        "brains",
        "--qos=low",
        "module load python",
        "--nworkers 4",
        "--lifetime 6900s",
    ):
        assert part in script


def test_workers_leave_before_the_wall_time_ends() -> None:
    assert compute_worker_lifetime("12:00:00") == 12 * 3600 - 300
    assert compute_worker_lifetime("00:20") == 1080
    assert compute_worker_lifetime("2-00:00:00") == 2 * 86_400 - 300

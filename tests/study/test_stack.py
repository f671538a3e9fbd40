"""How deep the function that computes members lies below the engine."""

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rindices as ri
from rindices.engine.local import LocalEngine
from rindices.engine.tasks import Task, run
from rindices.learners.prepared_people import PreparedPeople
from rindices.study.config import ModelConfig
from rindices.study.engines import list_jobs, run_training_job
from rindices.study.store import RunStore
from rindices.study.study import make_plan
from tests.cohorts import simulate_few_regions

MOST_FRAMES = 3
SOURCE = str(Path(ri.__file__).parent)
COMPUTES = {
    "trajectories": "rindices.learners.trajectory.members.fit_trajectory_members",
    "contrastive": "rindices.learners.ensemble.fit_linear_members",
}


def run_watched(name: str, job: Any, report: Any) -> list[str]:
    """Run a job, and return the frames of rindices above the function that computes
    members, without those of the engine.
    """
    module, _, function = name.rpartition(".")
    found: list[str] = []

    class Printed(BaseException):
        pass

    def print_stack(*arguments: object, **options: object) -> None:
        found.extend(
            f"{frame.filename}:{frame.name}"
            for frame in traceback.extract_stack()
            if frame.filename.startswith(SOURCE)
            and "/rindices/engine/" not in frame.filename
        )
        raise Printed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{module}.{function}", print_stack)
        with pytest.raises(Printed):
            run_training_job(job, report)
    return found


@pytest.mark.parametrize("method", list(COMPUTES))
def test_few_frames_lie_above_the_function_that_computes_members(
    method: str, tmp_path: Path
) -> None:
    cohort = simulate_few_regions("tiny", seed=1).cohort
    model = ModelConfig(method=method, patterns=(1,), members=10)
    plan = make_plan(model, 0, cohort.fingerprint())
    X = ri.Preprocessing.fit(cohort).transform(cohort)
    people = PreparedPeople(X=X, y=cohort.is_patient.astype(np.intp))
    path = RunStore(tmp_path).save_people(people.deal_to_members(range(5), 0))
    tasks = [
        Task(
            key=job.key,
            function=run_watched,
            arguments=(COMPUTES[method], job),
            mailbox=tmp_path,
        )
        for work in plan
        for job in list_jobs(work, tmp_path, path)
    ]
    assert len(tasks) == 2
    for each in run(LocalEngine(2), tasks, tmp_path):
        frames = each.get_result()
        assert 0 < len(frames) <= MOST_FRAMES, frames

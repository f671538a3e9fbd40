"""The process that trains for a worker."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import rindices as ri
from rindices.errors import StudyError
from rindices.learners.gan.callbacks import TrainingEvent
from rindices.learners.prepared_people import PreparedPeople
from rindices.study.config import ModelConfig
from rindices.study.engines import (
    LocalEngine,
    TrainingJob,
    TrainingProcess,
    WorkerDiedError,
    run_plan,
)
from rindices.study.exceptions import StudyStoppedError
from rindices.study.methods import MemberSet
from rindices.study.store import RunStore
from rindices.study.study import make_plan
from tests.cohorts import simulate_few_regions
from tests.study.helpers import LONG, wait_for


@pytest.fixture
def order(tmp_path: Path) -> TrainingJob:
    """A training that takes far longer than a test."""
    cohort = simulate_few_regions("tiny", seed=1).cohort
    (work,) = make_plan(ModelConfig(**LONG), 0, cohort.fingerprint())
    X, y = (
        ri.Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    return TrainingJob(
        work, tmp_path, RunStore(tmp_path).save_people([PreparedPeople(X=X, y=y)])
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("end", "error", "message"),
    [
        (
            "terminated",
            StudyStoppedError,
            "stopped from outside: run the same command again",
        ),
        ("killed", WorkerDiedError, "its process ended with SIGKILL"),
        ("abandoned", WorkerDiedError, "its process ended with code 0"),
    ],
)
def test_a_training_that_is_ended(
    order: TrainingJob, end: str, error: type[Exception], message: str
) -> None:
    """By a batch system, by the command, and with the worker that asked for it."""
    process, store, caught = (
        TrainingProcess(),
        RunStore(order.folder),
        list[Exception](),
    )

    def train() -> None:
        try:
            process.train(order)
        except (WorkerDiedError, StudyError) as error:
            caught.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    wait_for(lambda: store.count_events("begun"))
    assert process.folder == order.folder
    if end == "terminated":
        process._process.terminate()
    elif end == "killed":
        process.kill()
    else:
        assert process._process.stdin is not None
        process._process.stdin.close()
    thread.join(60)
    process.kill()
    assert not process.alive
    assert [type(each) for each in caught] == [error]
    assert message in str(caught[0])
    assert store.load(order.work) is None


def test_a_job_is_decoded_as_it_was_encoded(order: TrainingJob) -> None:
    from rindices.study.engines import _decode_job, _encode_job

    again = _decode_job(_encode_job(order))
    assert again == order
    assert isinstance(again.work, MemberSet)
    assert again.work.key == order.work.key


@pytest.mark.slow  # tests/cli/test_surreal_gan.py reads the lines of progress
@pytest.mark.parametrize("workers", [1, 2])
def test_where_a_training_stands_is_reported(tmp_path: Path, workers: int) -> None:
    """By a training in this process, and through the pipe of another one."""
    cohort, events = (
        simulate_few_regions("tiny", seed=1).cohort,
        list[tuple[MemberSet, TrainingEvent]](),
    )
    config = ModelConfig(
        **LONG | {"orthogonality": (0.1, 0.2)},
        method_settings={"max_steps": 20, "start_steps": 20, "warm_steps": 5},
    )
    plan = make_plan(config, 0, cohort.fingerprint())
    X, y = (
        ri.Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    engine = LocalEngine(workers, lambda work, event: events.append((work, event)))
    people = PreparedPeople(X=X, y=y).deal_to_members(range(5), 0)
    run_plan(plan, lambda numbers: people, RunStore(tmp_path), engine)
    assert {work for work, _ in events} == set(plan)
    for work in plan:
        own = [event for each, event in events if each == work]
        assert {event.members for event in own} == {5}
        assert own[-1].step == own[-1].max_steps == 20
        assert own[-1].running == 0


def test_processes_that_wait_for_jobs_are_used_replaced_and_ended(
    tmp_path: Path,
) -> None:
    """A process that dies before its first job is replaced; none is left at the end."""
    cohort = simulate_few_regions("tiny", seed=1).cohort
    X, y = (
        ri.Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    model = ModelConfig(method="contrastive", patterns=(1, 2), members=5)
    plan = make_plan(model, 0, cohort.fingerprint())
    people = PreparedPeople(X=X, y=y).deal_to_members(range(5), 0)
    engine = LocalEngine(2)
    with engine.keep_processes(2, "rindices.learners.contrastive.estimator"):
        begun = list(engine.kept)
        begun[0].kill()
        run_plan(plan, lambda numbers: people, RunStore(tmp_path), engine)
        kept = list(engine.kept)
        assert len(kept) == 2
        assert begun[1] in kept
        assert begun[0] not in kept
        assert all(process.alive for process in kept)
    assert engine.kept == []
    assert not any(process.alive for process in [*begun, *kept])
    assert all(RunStore(tmp_path).load(work) is not None for work in plan)

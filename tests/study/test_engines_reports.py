"""Reports of trainings, and processes that wait for them."""

from pathlib import Path

import numpy as np
import psutil
import pytest

import rindices as ri
from rindices.engine.cluster import DaskEngine
from rindices.engine.local import LocalEngine
from rindices.engine.tasks import Engine
from rindices.learners.gan.callbacks import TrainingEvent
from rindices.learners.prepared_people import PreparedPeople
from rindices.study.config import ModelConfig
from rindices.study.engines import (
    StudyObserver,
    TrainingJob,
    run_plan,
    run_training_job,
)
from rindices.study.exceptions import StudyStoppedError
from rindices.study.methods import MemberSet
from rindices.study.store import RunStore
from rindices.study.study import make_plan
from tests.cohorts import simulate_few_regions
from tests.study.helpers import LONG

BRIEF = {"max_steps": 20, "start_steps": 20, "warm_steps": 5}


def make_job(folder: Path) -> TrainingJob:
    cohort = simulate_few_regions("tiny", seed=1).cohort
    config = ModelConfig(**LONG, method_settings=BRIEF)
    (work,) = make_plan(config, 0, cohort.fingerprint())
    X = ri.Preprocessing.fit(cohort).transform(cohort)
    people = PreparedPeople(X=X, y=cohort.is_patient.astype(np.intp))
    path = RunStore(folder).save_people([people])
    return TrainingJob(work=work, folder=folder, people=path)


def test_a_training_ends_with_the_command_that_asked_for_it(tmp_path: Path) -> None:
    """Workers of a scheduler outlive the command, which deletes its people."""
    job, events = make_job(tmp_path), list[object]()

    def report(event: object) -> None:
        events.append(event)
        job.people.unlink()

    with pytest.raises(StudyStoppedError, match=r"the command .* ended"):
        run_training_job(job, report)
    assert len(events) == 1
    assert RunStore(tmp_path).load(job.work) is None


# tests/cli/test_surreal_gan.py reads the lines of progress
@pytest.mark.slow
@pytest.mark.parametrize("engine", [LocalEngine(1), LocalEngine(2), DaskEngine(2)])
def test_where_a_training_stands_is_reported(tmp_path: Path, engine: Engine) -> None:
    """By a training in this process, and through the files of another one."""
    cohort, events = (
        simulate_few_regions("tiny", seed=1).cohort,
        list[tuple[MemberSet, TrainingEvent]](),
    )
    config = ModelConfig(**LONG | {"orthogonality": (0.1, 0.2)}, method_settings=BRIEF)
    plan = make_plan(config, 0, cohort.fingerprint())
    X, y = (
        ri.Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    observer = StudyObserver(on_training=lambda *event: events.append(event))
    people = PreparedPeople(X=X, y=y).deal_to_members(range(5), 0)
    store = RunStore(tmp_path)
    run_plan(plan, lambda numbers: people, store, engine, observer)
    assert {work for work, _ in events} == set(plan)
    for work in plan:
        own = [event for each, event in events if each == work]
        assert {event.members for event in own} == {5}
        assert own[-1].step == own[-1].max_steps == 20
        assert own[-1].running == 0
    assert not list(tmp_path.rglob("*.report*"))


def test_processes_that_wait_for_tasks_are_used_replaced_and_ended(
    tmp_path: Path,
) -> None:
    """A process that dies before its first task is replaced; none is left at the
    end.
    """
    cohort = simulate_few_regions("tiny", seed=1).cohort
    X, y = (
        ri.Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    model = ModelConfig(method="contrastive", patterns=(1, 2), members=5)
    plan = make_plan(model, 0, cohort.fingerprint())
    people = PreparedPeople(X=X, y=y).deal_to_members(range(5), 0)
    engine, here = LocalEngine(2), psutil.Process()
    before = set(here.children(recursive=True))

    def find_workers() -> set[psutil.Process]:
        new = set(here.children(recursive=True)) - before
        return {each for each in new if "LokyProcess" in " ".join(each.cmdline())}

    with engine.keep_processes(2, "rindices.learners.contrastive.estimator"):
        begun = find_workers()
        assert len(begun) == 2
        killed = begun.pop()
        killed.kill()
        run_plan(plan, lambda numbers: people, RunStore(tmp_path), engine)
        kept = find_workers()
        assert len(kept) == 2
        assert begun < kept
        assert killed not in kept
    assert engine.kept == []
    assert not find_workers()
    assert all(RunStore(tmp_path).load(work) is not None for work in plan)

"""Parts that all engines share: jobs, their execution, and running a plan to its end."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from rindices.errors import Problem, StudyError, describe_os_error, format_count, join_names
from rindices.learners.prepared_people import PreparedPeople
from rindices.selection.choose import GridPoint
from rindices.study.plan import MemberSet
from rindices.study.recipes import get_study_recipe
from rindices.study.store import RunStore
from rindices.threads import limit_blas_threads

MAX_RETRIES = 3
"""How often a member set whose worker died is tried again."""
_PROGRESS_INTERVAL = 5.0  # seconds between updates of the progress of sets in training

ProgressCallback = Callable[[float, int, MemberSet | None], None]
"""Called with the number of finished sets, which may be a fraction, of all sets, and the set just finished."""
MessageCallback = Callable[[str], None]
"""Called with a line for the user."""


def _ignore(*arguments: object) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class StudyObserver:
    """Functions that are called while a study runs.

    on_progress: see `ProgressCallback`; on_setting: called with a setting whose members are all trained, and the
    concordance among them; on_message: called with a line for the user; on_problems: called with problems of the data,
    and with reasons to doubt the result; on_written: called with the folder of the study when its files are written,
    while it is still locked.
    """

    on_progress: ProgressCallback = _ignore
    on_setting: Callable[[GridPoint, float], None] = _ignore
    on_message: MessageCallback = _ignore
    on_problems: Callable[[Sequence[Problem]], None] = _ignore
    on_written: Callable[[Path], None] = _ignore


_NO_OBSERVER = StudyObserver()


class TrainingJob(NamedTuple):
    """A member set to train, with the folder of the run store and the file of the people."""

    work: MemberSet
    folder: Path
    people: Path


class JobResult(NamedTuple):
    """A member set that is finished, or was given up for the reason ``lost``."""

    work: MemberSet
    lost: str = ""


class Engine(Protocol):
    """Runs training jobs."""

    def run(self, jobs: Sequence[TrainingJob], on_message: MessageCallback) -> Iterator[JobResult]:
        """Run all jobs and yield their results in any job; an error that the user can mend is raised at once."""
        ...


def count_processes(workers: int, n_jobs: int) -> int:
    """Return how many processes of this machine to use; -1 workers are all cores."""
    return min(workers if workers > 0 else os.cpu_count() or 1, max(1, n_jobs))


def run_training_job(job: TrainingJob) -> None:
    """Train a member set that the store lacks, and save it; on one thread, so that sums are equal everywhere."""
    store = RunStore(job.folder)
    if store.load(job.work) is not None:
        return
    people = _load_people(job.people)
    try:
        store.log_event("begun", job.work)
        with limit_blas_threads():
            recipe = get_study_recipe(job.work.recipe)
            members = recipe.train_members(people, job.work, store.checkpoint_path(job.work))
        store.save(job.work, members)
        store.log_event("finished", job.work)
    except OSError as error:
        raise StudyError(
            f"cannot write to {store.folder} ({describe_os_error(error)}): make room and run again."
        ) from error


@lru_cache(maxsize=1)
def _load_people(path: Path) -> list[PreparedPeople]:
    """Return the people of a set of members; a process keeps the last ones that it has read."""
    return RunStore(path.parent).load_people(path)


def run_plan(
    plan: Sequence[MemberSet],
    prepare_people: Callable[[Sequence[int]], Sequence[PreparedPeople]],
    store: RunStore,
    engine: Engine,
    observer: StudyObserver = _NO_OBSERVER,
) -> None:
    """Train every member set that the store lacks; an error names those that were given up, at the end.

    prepare_people: takes the numbers of the members of a set; returns the people of each, or of one if members share
    them.
    """
    missing = [work for work in plan if store.load(work) is None]
    if not missing:
        return
    done, lost = len(plan) - len(missing), list[JobResult]()
    paths = {numbers: store.save_people(prepare_people(numbers)) for numbers in {work.numbers for work in missing}}
    jobs = [TrainingJob(work, store.folder.absolute(), paths[work.numbers]) for work in missing]
    try:
        with _report_progress(missing, store, lambda partly: observer.on_progress(done + partly, len(plan), None)):
            for result in engine.run(jobs, observer.on_message):
                if result.lost:
                    lost.append(result)
                    observer.on_message(f"given up: {result.work.key} ({result.lost})")
                else:
                    store.wait_for(result.work)
                    done += 1
                    observer.on_progress(done, len(plan), result.work)
    finally:
        for path in paths.values():
            path.unlink(missing_ok=True)
    if lost:
        names = join_names([f"{result.work.key} ({result.lost})" for result in lost], 3)
        what = f"{format_count(len(lost), 'member set')} of {len(plan)} could not be trained: {names}"
        raise StudyError(f"{what}. The others are finished: look into {store.folder / 'journal'}, then run again.")


@contextmanager
def _report_progress(
    missing: Sequence[MemberSet], store: RunStore, on_progress: Callable[[float], None]
) -> Iterator[None]:
    """Report the progress of sets in training at once, then every few seconds."""
    end = threading.Event()

    def report() -> None:
        while not end.wait(_PROGRESS_INTERVAL):
            on_progress(store.sum_partial_progress(missing))

    on_progress(store.sum_partial_progress(missing))
    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()

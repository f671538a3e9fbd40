"""What all engines share: an order, the one function that carries it out, and following a plan to its end."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from rindices._typing import FloatArray, IntArray
from rindices.errors import Problem, StudyError, describe_os_error, format_count, join_names
from rindices.selection.choose import GridPoint
from rindices.study.plan import MemberSet
from rindices.study.recipes import get_study_recipe
from rindices.study.store import RunStore
from rindices.threads import limit_blas_threads

MAX_RETRIES = 3
"""How often a member set is tried again whose worker was lost."""
_PROGRESS_INTERVAL = 5.0  # seconds between looks at the sets in training

ProgressCallback = Callable[[float, int, MemberSet | None], None]
"""Called with the number of finished sets (parts of sets count), of all sets, and the set that was just finished."""
MessageCallback = Callable[[str], None]
"""Called with a line for the user."""


def _ignore(*arguments: object) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class StudyObserver:
    """Functions that are called while a study runs.

    Attributes
    ----------
    on_progress : callable
        See `ProgressCallback`.
    on_setting : callable
        Called with a setting whose members are all trained, and the concordance among them.
    on_message : callable
        Called with a line for the user.
    on_problems : callable
        Called with problems of the data, and with reasons to doubt the result.
    on_written : callable
        Called with the folder of the study when its files are written, while it is still locked.
    """

    on_progress: ProgressCallback = _ignore
    on_setting: Callable[[GridPoint, float], None] = _ignore
    on_message: MessageCallback = _ignore
    on_problems: Callable[[Sequence[Problem]], None] = _ignore
    on_written: Callable[[Path], None] = _ignore


_NO_OBSERVER = StudyObserver()


class TrainingJob(NamedTuple):
    """A member set to train, with the places of the run store and of the people; small enough to travel."""

    work: MemberSet
    folder: Path
    people: Path


class JobResult(NamedTuple):
    """A member set that is finished, or was given up; then ``lost`` says why."""

    work: MemberSet
    lost: str = ""


class Engine(Protocol):
    """Carries out orders somewhere."""

    def run(self, orders: Sequence[TrainingJob], say: MessageCallback) -> Iterator[JobResult]:
        """Carry out all orders and yield a report of each, in any order; a user's mistake is raised at once."""
        ...


def count_processes(workers: int, pieces: int) -> int:
    """Return how many processes of this machine to use for so many pieces of work; -1 workers are all cores."""
    return min(workers if workers > 0 else os.cpu_count() or 1, max(1, pieces))


def run_training_job(order: TrainingJob) -> None:
    """Train a member set, unless it is there, and leave it in the store. Threads are one everywhere, for equal sums."""
    store = RunStore(order.folder)
    if store.load(order.work) is not None:
        return
    X, y = _load_training_data(order.people)
    try:
        store.note("begun", order.work)
        with limit_blas_threads():
            recipe = get_study_recipe(order.work.recipe)
            members = recipe.train_members(X, y, order.work, store.checkpoint(order.work))
        store.save(order.work, members)
        store.note("finished", order.work)
    except OSError as error:
        raise StudyError(
            f"cannot write to {store.folder} ({describe_os_error(error)}): make room and run again."
        ) from error


@lru_cache(maxsize=1)
def _load_training_data(path: Path) -> tuple[FloatArray, IntArray]:
    """Return the people of a study, which a process reads once."""
    return RunStore(path.parent).people(path)


def run_plan(
    plan: Sequence[MemberSet],
    X: FloatArray,
    y: IntArray,
    store: RunStore,
    engine: Engine,
    observer: StudyObserver = _NO_OBSERVER,
) -> None:
    """Train every member set that the store does not have; results go through the store.

    Sets that were given up are named in an error after all others are finished.

    Parameters
    ----------
    plan : sequence of MemberSet
    X : (N, R)
        Prepared people.
    y : (N,)
        0 control, 1 patient.
    store : RunStore
    engine : Engine
    observer : StudyObserver
    """
    missing = [work for work in plan if store.load(work) is None]
    if not missing:
        return
    done, lost = len(plan) - len(missing), list[JobResult]()
    people = store.save_training_data(X, y)
    orders = [TrainingJob(work, store.folder.absolute(), people) for work in missing]
    try:
        with _report_progress(missing, store, lambda partly: observer.on_progress(done + partly, len(plan), None)):
            for result in engine.run(orders, observer.on_message):
                if result.lost:
                    lost.append(result)
                    observer.on_message(f"given up: {result.work.key} ({result.lost})")
                else:
                    store.wait_for(result.work)
                    done += 1
                    observer.on_progress(done, len(plan), result.work)
    finally:
        people.unlink(missing_ok=True)
    if lost:
        names = join_names([f"{result.work.key} ({result.lost})" for result in lost], 3)
        what = f"{format_count(len(lost), 'member set')} of {len(plan)} could not be trained: {names}"
        raise StudyError(f"{what}. The others are finished: look into {store.folder / 'journal'}, then run again.")


@contextmanager
def _report_progress(rest: Sequence[MemberSet], store: RunStore, tell: Callable[[float], None]) -> Iterator[None]:
    """Tell at once, then now and then, how much is done of the sets in training, from the steps they took."""
    end = threading.Event()

    def look() -> None:
        while not end.wait(_PROGRESS_INTERVAL):
            tell(store.sum_partial_progress(rest))

    tell(store.sum_partial_progress(rest))
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()

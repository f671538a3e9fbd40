"""What all engines share: an order, the one function that carries it out, and following a plan to its end."""

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rindices.errors import StudyError, count, named, reason
from rindices.learners.members import Member, contrastive_members
from rindices.study.plan import MemberSet
from rindices.study.store import RunStore
from rindices.threads import one_thread

RETRIES = 3
"""How often a member set is tried again whose worker was lost."""
_EVERY = 5.0  # seconds between looks at the sets in training

Told = Callable[[float, int, MemberSet | None], None]
"""Called with the number of finished sets (parts of sets count), of all sets, and the set that was just finished."""
Say = Callable[[str], None]
"""Called with a line for the user."""


class Order(NamedTuple):
    """A member set to train, with the places of the run store and of the people; small enough to travel."""

    work: MemberSet
    folder: Path
    people: Path


class Report(NamedTuple):
    """A member set that is finished, or was given up; then ``lost`` says why."""

    work: MemberSet
    lost: str = ""


class Engine(Protocol):
    """Carries out orders somewhere."""

    def run(self, orders: Sequence[Order], say: Say) -> Iterator[Report]:
        """Carry out all orders and yield a report of each, in any order; a user's mistake is raised at once."""
        ...


class StoppedError(StudyError):
    """The study was interrupted from outside; what is finished is kept, and the same command goes on."""


def processes(workers: int, pieces: int) -> int:
    """Return how many processes of this machine to use for so many pieces of work; -1 workers are all cores."""
    return min(workers if workers > 0 else os.cpu_count() or 1, max(1, pieces))


def train_set(work: MemberSet, X: NDArray[np.float64], y: NDArray[np.intp], checkpoint: Path | None) -> list[Member]:
    """Train one member set.

    Parameters
    ----------
    X : (N, R)
        Prepared people.
    y : (N,)
        0 control, 1 patient.
    checkpoint : Path, optional
        File to keep the state of a long training in, and to resume from.
    """
    if work.recipe == "contrastive":
        return contrastive_members(X, y, work.point.n_patterns, work.numbers, work.seed)
    from rindices.learners.surreal.members import surreal_members

    values = json.loads(work.values)
    return surreal_members(X, y, work.point.n_patterns, work.numbers, work.seed, values, checkpoint)


def carry_out(order: Order) -> None:
    """Train a member set, unless it is there, and leave it in the store. Threads are one everywhere, for equal sums."""
    store = RunStore(order.folder)
    if store.load(order.work) is not None:
        return
    X, y = _people(order.people)
    try:
        store.note("begun", order.work)
        with one_thread():
            members = train_set(order.work, X, y, store.checkpoint(order.work))
        store.save(order.work, members)
        store.note("finished", order.work)
    except OSError as error:
        raise StudyError(f"cannot write to {store.folder} ({reason(error)}): make room and run again.") from error


@lru_cache(maxsize=1)
def _people(path: Path) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the people of a study, which a process reads once."""
    return RunStore(path.parent).people(path)


def run_plan(
    plan: Sequence[MemberSet],
    X: NDArray[np.float64],
    y: NDArray[np.intp],
    store: RunStore,
    engine: Engine,
    told: Told | None = None,
    say: Say | None = None,
) -> None:
    """Train every member set that the store does not have; results go through the store.

    Sets that were given up are named in an error after all others are finished.
    """
    rest = [work for work in plan if store.load(work) is None]
    if not rest:
        return
    done, lost = len(plan) - len(rest), list[Report]()
    people = store.put_people(X, y)
    orders = [Order(work, store.folder.absolute(), people) for work in rest]
    tell, line = told or _nothing, say or _nothing
    try:
        with _looks(rest, store, lambda partly: tell(done + partly, len(plan), None)):
            for report in engine.run(orders, line):
                if report.lost:
                    lost.append(report)
                    line(f"given up: {report.work.key} ({report.lost})")
                else:
                    store.wait_for(report.work)
                    done += 1
                    tell(done, len(plan), report.work)
    finally:
        people.unlink(missing_ok=True)
    if lost:
        names = named([f"{report.work.key} ({report.lost})" for report in lost], 3)
        what = f"{count(len(lost), 'member set')} of {len(plan)} could not be trained: {names}. The others are finished"
        raise StudyError(f"{what}: look into {store.folder / 'journal'}, then run again.")


@contextmanager
def _looks(rest: Sequence[MemberSet], store: RunStore, tell: Callable[[float], None]) -> Iterator[None]:
    """Tell at once, then now and then, how much is done of the sets in training, from the steps they took."""
    end = threading.Event()

    def look() -> None:
        while not end.wait(_EVERY):
            tell(store.partly(rest))

    tell(store.partly(rest))
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _nothing(*told: object) -> None:
    """Tell nobody."""

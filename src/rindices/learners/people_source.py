"""People as a source of sums: a fit asks for totals over people, and never sees a
person.

A question names a set of people, and what to sum over them. `PeopleSource.sum` returns
the totals. So a fit is the same function for people in memory, for a table in parts,
and for people whom no machine holds together.

Where an answer takes a round over a network, the questions of all calls that run
together are asked in one round (`GatheredRounds`). The totals of a question do not
depend on the others.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

HALVES = ("first half", "second half")

Totals = TypeVar("Totals")
Result = TypeVar("Result")
Place = tuple[int, ...]
"""Which of the calls that run together a thread is, at each level."""


class PeopleSet(NamedTuple):
    """A set of people: those that a member has seen or not seen, or one of two halves,
    which have nobody in common.

    Parameters
    ----------
    member : int
        Number of the ensemble member.
    part : str
        ``seen``, ``unseen``, or one of `HALVES`.
    """

    member: int
    part: str


class Question(ABC, Generic[Totals]):
    """Asks for totals over a set of people."""

    people: PeopleSet

    @abstractmethod
    def sum_in_memory(self, people: Any) -> Totals:
        """Return the totals over the people of a member, who are in memory."""


class PeopleSource(ABC):
    """Answers questions by totals over people."""

    @abstractmethod
    def sum_each(self, questions: Sequence[Question[Totals]]) -> list[Totals]:
        """Return the totals that each question asks for."""

    def sum(self, question: Question[Totals]) -> Totals:
        """Return the totals that a question asks for."""
        return self.sum_each([question])[0]

    def run_together(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """Return the results of functions that ask this source; their questions may
        share rounds.
        """
        return [call() for call in calls]


@dataclass(eq=False)
class _Waiting:
    """A thread that waits for the totals of its questions.

    Attributes
    ----------
    questions : sequence of Question
        Questions that the thread asked.
    totals : list of object
        Answers, in the order of the questions.
    is_answered : bool
        Whether the totals are complete.
    """

    questions: Sequence[Question[Any]]
    totals: list[Any] = field(default_factory=list)
    is_answered: bool = False


class GatheredRounds(PeopleSource):
    """Asks the questions of all threads that are waiting in one round.

    Calls that run together have a thread each. A round begins when all threads wait for
    totals. So which questions share a round, and in which order, depends on the calls
    alone and not on the speed of threads.

    Parameters
    ----------
    ask : callable
        Takes the questions of a round, and returns the totals of each.
    """

    def __init__(self, ask: Callable[[list[Any]], list[Any]]) -> None:
        self._ask = ask
        self._condition = threading.Condition()
        self._n_running = (
            1  # threads that wait neither for totals nor for calls that they run
        )
        self._waiting: dict[Place, _Waiting] = {}
        self._error: BaseException | None = None
        self._thread = threading.local()

    def sum_each(self, questions: Sequence[Question[Totals]]) -> list[Totals]:
        """Wait for the round that has these questions, and return their totals."""
        waiting = _Waiting(questions)
        with self._condition:
            self._waiting[self._get_place()] = waiting
            self._stop_running()
            self._condition.wait_for(
                lambda: waiting.is_answered or self._error is not None
            )
            if self._error is not None:
                raise self._error
        return waiting.totals

    def run_together(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """Run each function in a thread; if some raise an error, the first of these
        errors is raised at the end.
        """
        place, n_left = self._get_place(), len(calls)
        if n_left < 2:
            return [call() for call in calls]

        def run(number: int) -> Result:
            nonlocal n_left
            self._thread.place = (*place, number)
            try:
                return calls[number]()
            finally:
                with self._condition:
                    n_left -= 1
                    if n_left:  # after the last one, the caller runs in its place
                        self._stop_running()

        with self._condition:
            self._n_running += len(calls) - 1
        with ThreadPoolExecutor(len(calls)) as pool:
            try:
                futures = [pool.submit(run, number) for number in range(len(calls))]
                return [future.result() for future in futures]
            except KeyboardInterrupt as error:
                with self._condition:
                    self._error = error
                    self._condition.notify_all()
                raise

    def _get_place(self) -> Place:
        return getattr(self._thread, "place", ())

    def _stop_running(self) -> None:
        """Count a thread that does not run any more; after the last one, ask the
        questions of all that wait.
        """
        self._n_running -= 1
        if self._n_running or self._error is not None:
            return
        waiting = [self._waiting[place] for place in sorted(self._waiting)]
        try:
            totals = iter(
                self._ask([question for each in waiting for question in each.questions])
            )
            for each in waiting:
                each.totals = [next(totals) for _ in each.questions]
                each.is_answered = True
        except BaseException as error:  # every thread that waits raises it
            self._error = error
        self._n_running = len(waiting)
        self._waiting.clear()
        self._condition.notify_all()

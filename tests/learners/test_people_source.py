"""Questions of calls that run together share rounds, and their totals do not depend on
it.
"""

import threading
import time
from dataclasses import dataclass
from functools import partial

import pytest

from rindices.learners.people_source import GatheredRounds, Question


@dataclass(frozen=True)
class Square(Question[int]):
    """Asks for a square."""

    number: int

    def sum_in_memory(self, people: None) -> int:
        return self.number**2


class Recorded:
    """Answers rounds, and keeps the numbers that were asked for in each."""

    def __init__(self) -> None:
        self.rounds: list[list[int]] = []

    def __call__(self, questions: list[Square]) -> list[int]:
        self.rounds.append([question.number for question in questions])
        return [question.number**2 for question in questions]


def ask_in_turn(
    people: GatheredRounds, numbers: list[int], pause: float = 0.0
) -> list[int]:
    """Ask for one square after the other."""
    totals = []
    for number in numbers:
        time.sleep(pause)
        totals.append(people.sum(Square(number)))
    return totals


def test_each_round_has_the_questions_of_all_that_wait() -> None:
    ask = Recorded()
    people = GatheredRounds(ask)
    calls = [
        partial(ask_in_turn, people, numbers)
        for numbers in ([1, 2, 3], [10], [], [20, 21])
    ]
    assert people.run_together(calls) == [[1, 4, 9], [100], [], [400, 441]]
    assert ask.rounds == [[1, 10, 20], [2, 21], [3]]
    assert people.sum_each([Square(5), Square(6)]) == [25, 36]
    assert ask.rounds[3:] == [[5, 6]]


def test_rounds_do_not_depend_on_the_speed_of_threads() -> None:
    for pauses in ((0.0, 0.02), (0.02, 0.0)):
        ask = Recorded()
        people = GatheredRounds(ask)
        pairs = zip(([1, 2], [11, 12, 13]), pauses, strict=True)
        people.run_together(
            [partial(ask_in_turn, people, numbers, pause) for numbers, pause in pairs]
        )
        assert ask.rounds == [[1, 11], [2, 12], [13]]


def test_calls_may_run_others_together() -> None:
    ask = Recorded()
    people = GatheredRounds(ask)

    def ask_for_both(first: int) -> list[list[int]]:
        own = [partial(ask_in_turn, people, [first + k]) for k in range(2)]
        return [*people.run_together(own), ask_in_turn(people, [first + 2])]

    found = people.run_together([partial(ask_for_both, 1), partial(ask_for_both, 11)])
    assert found == [[[1], [4], [9]], [[121], [144], [169]]]
    assert ask.rounds == [[1, 2, 11, 12], [3, 13]]


def test_an_error_of_a_call_is_raised_after_the_others_ended() -> None:
    ask = Recorded()
    people = GatheredRounds(ask)

    def fail() -> None:
        people.sum(Square(7))
        raise ValueError("too few patients")

    with pytest.raises(ValueError, match="too few patients"):
        people.run_together([partial(ask_in_turn, people, [1, 2, 3]), fail])
    assert ask.rounds == [[1, 7], [2], [3]]
    assert people.sum(Square(4)) == 16


def test_a_round_that_fails_ends_all_calls() -> None:
    def fail(questions: list[Square]) -> list[int]:
        raise ConnectionError("site B does not answer")

    people, before = GatheredRounds(fail), threading.active_count()
    with pytest.raises(ConnectionError, match="site B"):
        people.run_together(
            [partial(ask_in_turn, people, [number]) for number in range(3)]
        )
    assert threading.active_count() == before

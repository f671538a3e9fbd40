"""Steps of a fit as conversations: they ask for sums over people, and go on with the answers.

A conversation is a generator. It yields a list of questions, is sent their answers in the same order, and returns its
result. It never sees a person, so the same steps run on people in memory and on the people of sites that answer with
sums. Whoever holds the people answers.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

Result = TypeVar("Result")
Conversation = Generator[list[Any], list[Any], Result]
"""Yields questions, is sent answers, and returns a result."""


HALVES = ("first half", "second half")


class PeopleSet(NamedTuple):
    """A set of people: those that a member has seen or not seen, or one of two halves, which have nobody in common.

    part: ``seen``, ``unseen``, or one of `HALVES`.
    """

    member: int
    part: str


def run_conversation(conversation: Conversation[Result], answer: Callable[[list[Any]], list[Any]]) -> Result:
    """Run a conversation to its end; ``answer`` takes questions and returns their answers."""
    try:
        questions = next(conversation)
        while True:
            questions = conversation.send(answer(questions))
    except StopIteration as end:
        result: Result = end.value
        return result


def join_conversations(conversations: Sequence[Conversation[Result]]) -> Conversation[list[Result]]:
    """Return one conversation for several: each round has the questions of all that go on."""
    results: dict[int, Result] = {}
    questions: dict[int, list[Any]] = {}

    def advance(k: int, answers: list[Any] | None) -> None:
        try:
            questions[k] = next(conversations[k]) if answers is None else conversations[k].send(answers)
        except StopIteration as end:
            results[k] = end.value
            questions.pop(k, None)

    for k in range(len(conversations)):
        advance(k, None)
    while questions:
        answers = iter((yield [question for own in questions.values() for question in own]))
        for k, own in list(questions.items()):
            advance(k, [next(answers) for _ in own])
    return [results[k] for k in range(len(conversations))]

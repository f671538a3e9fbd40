"""Rounds of requests: ask everyone who holds people, check the answers, add the sums
up.

How requests travel is not decided here: a transport takes a request and returns the
answers of all parts. Sums that no people can have are refused, and their part is named,
before they are added to those of others (`kinds`).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from rindices._typing import FloatArray
from rindices.errors import join_names
from rindices.learners.people_source import PeopleSet
from rindices.sums import kinds
from rindices.sums.messages import (
    Answer,
    Arrays,
    Preparation,
    Request,
    SumsError,
    check_arrays,
    number_arrays,
    pack_preparations,
)
from rindices.sums.people import LocalPeople
from rindices.sums.subsets import EVERYONE, GROUPS, SubsetPlan, name_set

MAX_PART_PEOPLE = 100_000_000
"""More people than any part has."""
_MAX_SUM = 1e30
_Name = Annotated[
    str, Field(max_length=300, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")
]  # one line that can be printed


class Transport(Protocol):
    """Takes requests to those who hold people, and their answers back."""

    def ask(self, request: Request) -> Mapping[str, Answer]:
        """Return the answer of every part, by its name and in the order of names.

        Where the answers of single parts are not seen, there is one with their totals,
        for all requests but those of the kind ``describe``.
        """


@dataclass
class InMemoryTransport:
    """Parts in this process.

    Attributes
    ----------
    parts : sequence of LocalPeople
        People of each part.
    """

    parts: Sequence[LocalPeople]

    def ask(self, request: Request) -> Mapping[str, Answer]:
        """Return the answers of all parts, to what is left of the request after it was
        sent.
        """
        sent = Request.decode(request.encode())
        return {part.name: part.answer(sent) for part in self.parts}


class Total(NamedTuple):
    """Sums over all people.

    Parameters
    ----------
    arrays : dict of str to ndarray
        The sums.
    numbers : list of int
        People of each set of the request (`kinds.list_sets`).
    answers : mapping of str to Answer
        As the transport returned them.
    """

    arrays: dict[str, FloatArray]
    numbers: list[int]
    answers: Mapping[str, Answer]


class RoundRecord(NamedTuple):
    """A round that is over.

    Parameters
    ----------
    kind : str
    sent : int
        Bytes of the request.
    received : int
        Bytes of the longest answer.
    """

    kind: str
    sent: int
    received: int


@dataclass(kw_only=True)
class Rounds:
    """Asks one request after the other.

    Attributes
    ----------
    transport : Transport
        Takes requests to those who hold people.
    on_round : callable or None
        Called with the number of each round and its `RoundRecord`.
    records : list of RoundRecord
        The rounds that are over.
    """

    transport: Transport
    on_round: Callable[[int, RoundRecord], None] | None = None
    records: list[RoundRecord] = field(default_factory=list)
    _group_sizes: dict[str, Sequence[int]] = field(default_factory=dict)
    """Controls and patients of each part, as the first round told them."""

    def ask(
        self,
        kind: str,
        settings: Mapping[str, Any] | None = None,
        arrays: Arrays | None = None,
    ) -> Total:
        """Ask for sums, and return their totals.

        Raises SumsError: if an answer is not as it should be; its part is named.
        """
        request = Request(
            kind=kind,
            round=len(self.records) + 1,
            settings=settings or {},
            arrays=arrays or {},
        )
        answers = self.transport.ask(request)
        everyone = [
            sum(sizes) for sizes in zip(*self._group_sizes.values(), strict=True)
        ]
        for name, answer in answers.items():
            check_answer(name, answer, request, self._group_sizes.get(name, everyone))
        if kind == kinds.DESCRIBE:
            self._group_sizes = {
                name: answer.numbers for name, answer in answers.items()
            }
        received = max(len(answer.encode()) for answer in answers.values())
        self.records.append(RoundRecord(kind, len(request.encode()), received))
        if self.on_round is not None:
            self.on_round(len(self.records), self.records[-1])
        names = kinds.get_answer_shapes(request)
        totals = {
            name: np.sum([each.arrays[name] for each in answers.values()], axis=0)
            for name in names
        }
        return Total(totals, _add_numbers(answers.values()), answers)

    @property
    def parts(self) -> list[str]:
        """Names of the parts that answered the first request."""
        return list(self._group_sizes)


@dataclass(frozen=True, kw_only=True)
class PreparedRounds:
    """Rounds after the adjustment: each request has the preparations of its members and
    the plan of their sets.

    Parameters
    ----------
    rounds : Rounds
    everyone : Preparation
        That of everyone.
    preparations : mapping of int to Preparation
        Those of members, by their numbers.
    plan : SubsetPlan
    """

    rounds: Rounds
    everyone: Preparation
    preparations: Mapping[int, Preparation]
    plan: SubsetPlan

    def ask(
        self,
        kind: str,
        members: Iterable[int],
        settings: Mapping[str, Any],
        arrays: Arrays | None = None,
        with_everyone: bool = False,
    ) -> Total:
        """Ask for sums over people, as the preparations of members prepare them."""
        used = {
            str(number): self.preparations[number] for number in sorted(set(members))
        }
        prepared, prepared_arrays = pack_preparations(
            used | ({EVERYONE: self.everyone} if with_everyone else {})
        )
        settings = {"plan": self.plan.to_dict(), **settings, **prepared}
        return self.rounds.ask(kind, settings, {**prepared_arrays, **(arrays or {})})

    def ask_for_tasks(
        self,
        kind: str,
        tasks: Sequence[tuple[PeopleSet, PeopleSet | None]],
        parameters: Sequence[Arrays],
    ) -> list[dict[str, FloatArray]]:
        """Ask for the sums of many tasks in one round, and return those of each.

        tasks: a set of people, and the held-out people, if any; parameters: arrays of
        each task.
        """
        names = [
            [name_set(people), name_set(others) if others else ""]
            for people, others in tasks
        ]
        members = [people.member for people, _ in tasks]
        total = self.ask(kind, members, {"tasks": names}, number_arrays(parameters))
        sums = [dict[str, FloatArray]() for _ in tasks]
        for name, array in total.arrays.items():
            name, _, k = name.partition(".")
            sums[int(k)][name] = array
        return sums


def check_answer(
    part: str, answer: Answer, request: Request, group_sizes: Sequence[int] = ()
) -> None:
    """Refuse an answer that does not fit its request.

    group_sizes: number of controls and patients of the part. Raises SumsError: that
    names the part and the fault.
    """
    name = f"the answer of {part} in round {request.round}"
    check_arrays(answer.arrays, kinds.get_answer_shapes(request), name)
    if request.kind == kinds.DESCRIBE:
        _check_facts(answer, name)
    sets, sizes = (
        kinds.list_sets(request),
        group_sizes or [MAX_PART_PEOPLE] * len(GROUPS),
    )
    if len(answer.numbers) != len(sets):
        raise SumsError(
            f"{name} counts other sets of people than those that were asked for."
        )
    for number, (people, group) in zip(answer.numbers, sets, strict=True):
        size = sizes[GROUPS.index(group)]
        if not 0 <= number <= size:
            raise SumsError(
                f"{name} counts {number} {group} in {people}, where there are {size} at most."
            )
    counted = (
        array
        for key, array in answer.arrays.items()
        if not key.startswith("likelihood.")
    )  # of held-out people
    if not any(answer.numbers) and any(array.any() for array in counted):
        raise SumsError(f"{name} has sums over nobody.")
    large = (
        key
        for key, array in answer.arrays.items()
        if np.abs(array).max(initial=0.0) > _MAX_SUM
    )
    if key := next(large, "") or kinds.find_impossible_sums(answer, request):
        raise SumsError(f"{name}: {key!r} has sums that people cannot have.")


def _add_numbers(answers: Iterable[Answer]) -> list[int]:
    """Return the numbers of people of all parts, set by set."""
    return [
        sum(numbers)
        for numbers in zip(*(answer.numbers for answer in answers), strict=True)
    ]


class _CovariateFacts(BaseModel):
    """What a part says about a covariate.

    Attributes
    ----------
    levels : list of str
        Values of a categorical covariate. Empty for a number.
    """

    levels: list[_Name]


class _TableFacts(BaseModel):
    """What a part says about its table.

    Attributes
    ----------
    regions : list of str
        Names of the regions.
    covariates : dict
        Facts of each covariate by its name.
    unit : str
        Unit of the regions.
    source : str
        Program that wrote the table.
    """

    regions: Annotated[list[_Name], Field(min_length=1)]
    covariates: dict[_Name, _CovariateFacts]
    unit: _Name
    source: _Name


def _check_facts(answer: Answer, name: str) -> None:
    try:
        facts = _TableFacts.model_validate(answer.facts, strict=True)
    except ValidationError as error:
        raise SumsError(f"{name} does not describe a table.") from error
    if len(set(facts.regions)) < len(facts.regions):
        raise SumsError(f"{name} names a region twice.")


def check_same_table(answers: Mapping[str, Answer]) -> None:
    """Refuse sites whose tables have other regions or covariates than most sites.

    Raises SumsError: that names the sites.
    """
    for what in ("regions", "covariates", "unit"):
        sites: dict[str, list[str]] = {}
        for site, answer in answers.items():
            sites.setdefault(json.dumps(list(answer.facts[what])), []).append(site)
        if len(sites) > 1:
            most, *others = sorted(sites.values(), key=len, reverse=True)
            raise SumsError(
                f"the {what} of {join_names([site for each in others for site in each])} are not those of "
                f"{join_names(most)}: use the same program, and name the same columns."
            )

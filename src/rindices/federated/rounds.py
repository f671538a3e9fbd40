"""Rounds of an exchange: ask all sites, check their answers, add the sums up.

How messages travel is not decided here: a transport takes a request and returns the answers of all sites
(`InMemoryTransport`, `rindices.federated.folder`).

A site that sends sums which no people can have is named, before they are added to those of others. Sums of products of
functions of people are Gram matrices, which have no negative eigenvalue, and sums of functions with a range lie within
that range times the number of people. What is possible and merely untrue passes.

Shape letters: D columns of a Gram matrix.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from rindices._typing import FloatArray
from rindices.errors import join_names
from rindices.federated import kinds, secure
from rindices.federated.messages import (
    Answer,
    Arrays,
    ExchangeError,
    Preparation,
    Request,
    check_arrays,
    number_arrays,
    pack_preparations,
    receive_answer,
    unpack_symmetric,
)
from rindices.federated.site import Site
from rindices.federated.subsets import EVERYONE, GROUPS, SubsetPlan, name_set
from rindices.learners.contrastive.whole_cohort_start import MAX_LOG_RATIO
from rindices.learners.people_source import PeopleSet

MAX_SITE_PEOPLE = 100_000_000
"""More people than any site has."""
_MAX_SUM = 1e30
_TOLERANCE = 1e-8
_SQUARE_ROOT_OF_E = float(np.exp(0.5))
_MAX_LOSS = float(np.logaddexp(0.0, MAX_LOG_RATIO))


class Transport(Protocol):
    """Takes messages to the sites and back."""

    def ask(self, request: Request) -> Mapping[str, Answer]:
        """Return the answer of every site, as `receive_answer` returns it, in the order of their names."""


@dataclass
class InMemoryTransport:
    """Sites in this process: with a single one, the fit of people who may be pooled.

    Messages are encoded as for other transports, so that results are the same, bit for bit.
    """

    sites: Sequence[Site]

    def ask(self, request: Request) -> Mapping[str, Answer]:
        """Return the answers of all sites."""
        sent = Request.decode(request.encode())
        return {site.name: receive_answer(site.answer(sent).encode(), site.name, request) for site in self.sites}


class Total(NamedTuple):
    """Sums over the people of all sites.

    numbers: people of each set of the request (`kinds.list_sets`); answers: of single sites, or one of all of them
    under masks.
    """

    arrays: dict[str, FloatArray]
    numbers: list[int]
    answers: Mapping[str, Answer]


class RoundRecord(NamedTuple):
    """A round that is over: its kind, and the bytes of the request and of the longest answer."""

    kind: str
    sent: int
    received: int


@dataclass
class Rounds:
    """Asks one request after the other.

    on_round: called with each `RoundRecord`; masked: whether all sums but names and numbers of people are asked for
    under masks, so that their total alone can be read; left: first round without a site, of those that left.
    """

    transport: Transport
    on_round: Callable[[int, RoundRecord], None] | None = None
    masked: bool = False
    left: Mapping[str, int] = field(default_factory=dict)
    records: list[RoundRecord] = field(default_factory=list)
    _answers: dict[str, Mapping[str, Answer]] = field(default_factory=dict)
    """Answers of the rounds that later ones are compared with, by kind and site."""

    def ask(self, kind: str, settings: Mapping[str, Any] | None = None, arrays: Arrays | None = None) -> Total:
        """Ask all sites and return the total of their sums.

        Raises ExchangeError: if an answer is not as it should be; its site is named.
        """
        is_masked = self.masked and kind != kinds.DESCRIBE
        own = {"sites": self._list_sites(kind)} if is_masked else {}
        request = Request(kind, len(self.records) + 1, {**(settings or {}), **own}, arrays or {})
        answers = parts = self.transport.ask(request)
        if kind != kinds.DESCRIBE and list(answers) != secure.list_sites(request, self.sites):
            raise ExchangeError(f"the sites of round {request.round} are not those of the first round: begin again.")
        described, means = (self._answers.get(each, {}) for each in (kinds.DESCRIBE, kinds.MEANS))
        sizes = {name: answer.numbers for name, answer in described.items()}
        if is_masked:
            parts = {secure.TOTAL: secure.add_answers(answers, request)}
            sizes = {secure.TOTAL: _add_numbers(described.values())}
        for name, part in parts.items():
            check_answer(name, part, request, sizes.get(name))
            if kind == kinds.PRODUCTS and name in means and "harmonise" not in request.settings and not self.left:
                _check_means(name, part, means[name], request)
        self._answers[kind] = parts
        received = max(len(answer.encode()) for answer in answers.values())
        self.records.append(RoundRecord(kind, len(request.encode()), received))
        if self.on_round is not None:
            self.on_round(len(self.records), self.records[-1])
        names = kinds.get_answer_shapes(request)
        totals = {name: np.sum([part.arrays[name] for part in parts.values()], axis=0) for name in names}
        return Total(totals, _add_numbers(parts.values()), parts)

    def _list_sites(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return keys and numbers of people of all sites, and when they left, for a request."""
        described = self._answers[kinds.DESCRIBE]
        if lacking := [name for name, answer in described.items() if not answer.facts.get("key")]:
            raise ExchangeError(
                f"{join_names(lacking)} has no key for masks: pip install cryptography there, or let all sites and "
                "the centre do without masks (--no-masks)."
            )
        number, rounds = len(self.records) + 1, [record.kind for record in self.records]
        left = {name: {"until": until} for name, until in self.left.items() if until <= number}
        n_counted = rounds.index(kinds.MOMENTS) + 1 if kinds.MOMENTS in rounds else number
        lost = [name for name, entry in left.items() if entry["until"] > n_counted]
        if lost and kind in (kinds.ROTATION, kinds.CURVES, kinds.LOSSES):
            raise ExchangeError(
                f"{join_names(lost)} left after its patients were counted in round {n_counted} (moments), so patterns "
                "cannot be fitted without it: wait for it, or begin another study, in another folder at each site "
                "(--private)."
            )
        return {
            name: {"key": answer.facts["key"], **dict(zip(GROUPS, answer.numbers, strict=True)), **left.get(name, {})}
            for name, answer in described.items()
        }

    @property
    def sites(self) -> list[str]:
        """Names of the sites that answered."""
        return list(self._answers.get(kinds.DESCRIBE, {}))


@dataclass(frozen=True)
class PreparedRounds:
    """Rounds after the adjustment: each request has the preparations of its members and the plan of their sets.

    preparations: by the number of the member; everyone: that of everyone.
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
        """Ask all sites for sums over people, as the preparations of members prepare them."""
        used = {str(number): self.preparations[number] for number in sorted(set(members))}
        prepared, prepared_arrays = pack_preparations(used | ({EVERYONE: self.everyone} if with_everyone else {}))
        settings = {"plan": self.plan.to_dict(), **settings, **prepared}
        return self.rounds.ask(kind, settings, {**prepared_arrays, **(arrays or {})})

    def ask_for_tasks(
        self, kind: str, tasks: Sequence[tuple[PeopleSet, PeopleSet | None]], parameters: Sequence[Arrays]
    ) -> list[dict[str, FloatArray]]:
        """Ask for the sums of many tasks in one round, and return those of each.

        tasks: a set of people, and the held-out people, if any; parameters: arrays of each task.
        """
        names = [[name_set(people), name_set(others) if others else ""] for people, others in tasks]
        members = [people.member for people, _ in tasks]
        total = self.ask(kind, members, {"tasks": names}, number_arrays(parameters))
        sums = [dict[str, FloatArray]() for _ in tasks]
        for name, array in total.arrays.items():
            name, _, k = name.partition(".")
            sums[int(k)][name] = array
        return sums


def check_answer(site: str, answer: Answer, request: Request, group_sizes: Sequence[int] | None = None) -> None:
    """Refuse an answer that does not fit its request.

    group_sizes: number of controls and patients that the site named in the first round. Raises ExchangeError: that
    names the site and the fault.
    """
    name = f"the answer of {site} in round {request.round}"
    check_arrays(answer.arrays, kinds.get_answer_shapes(request), name)
    if request.kind == kinds.DESCRIBE:
        _check_facts(answer, name)
    sets, sizes = kinds.list_sets(request), group_sizes or [MAX_SITE_PEOPLE] * len(GROUPS)
    if len(answer.numbers) != len(sets):
        raise ExchangeError(f"{name} counts other sets of people than those that were asked for.")
    is_whole = request.kind == kinds.MEANS and site != secure.TOTAL  # all people of a group, or nobody
    for number, (people, group) in zip(answer.numbers, sets, strict=True):
        size = sizes[GROUPS.index(group)]
        if not 0 <= number <= size or (is_whole and number not in (0, size)):
            raise ExchangeError(f"{name} counts {number} {group} in {people}, where the site has {size} at most.")
    counted = (array for key, array in answer.arrays.items() if not key.startswith("likelihood."))  # of held-out people
    if not any(answer.numbers) and any(array.any() for array in counted):
        raise ExchangeError(f"{name} has sums over nobody.")
    large = (key for key, array in answer.arrays.items() if np.abs(array).max(initial=0.0) > _MAX_SUM)
    if key := next(large, "") or _find_impossible_sums(answer, request):
        raise ExchangeError(f"{name}: {key!r} has sums that people cannot have.")


def _add_numbers(answers: Iterable[Answer]) -> list[int]:
    """Return the numbers of people of all sites, set by set."""
    return [sum(numbers) for numbers in zip(*(answer.numbers for answer in answers), strict=True)]


def _check_means(site: str, answer: Answer, means: Answer, request: Request) -> None:
    """Refuse sums about the centre that are not those of the round before."""
    sets = kinds.list_sets(request)
    for group, total, n_before in zip(GROUPS, means.arrays["sum"], means.numbers, strict=True):
        row = sets.index(("all", group))
        offset = answer.numbers[row] * request.arrays["centre"]
        error = np.abs(answer.arrays["sum"][row] - (total - offset))
        if n_before != answer.numbers[row] or (error > 1e-6 * (np.abs(total) + np.abs(offset))).any():
            raise ExchangeError(
                f"the answer of {site} in round {request.round} has other sums of {group} than in the round before: "
                "its table or its program changed, or it sends wrong sums. Leave it out (--leave-out)."
            )


_Name = Annotated[str, Field(max_length=300, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")]  # one line that can be printed


class _CovariateFacts(BaseModel):
    levels: list[_Name]


class _TableFacts(BaseModel):
    regions: Annotated[list[_Name], Field(min_length=1)]
    covariates: dict[_Name, _CovariateFacts]
    unit: _Name
    source: _Name


def _check_facts(answer: Answer, name: str) -> None:
    try:
        facts = _TableFacts.model_validate(answer.facts, strict=True)
    except ValidationError as error:
        raise ExchangeError(f"{name} does not describe a table.") from error
    if len(set(facts.regions)) < len(facts.regions):
        raise ExchangeError(f"{name} names a region twice.")


def check_same_table(answers: Mapping[str, Answer]) -> None:
    """Refuse sites whose tables have other regions or covariates than most sites.

    Raises ExchangeError: that names the sites.
    """
    for what in ("regions", "covariates", "unit"):
        sites: dict[str, list[str]] = {}
        for site, answer in answers.items():
            sites.setdefault(json.dumps(list(answer.facts[what])), []).append(site)
        if len(sites) > 1:
            most, *others = sorted(sites.values(), key=len, reverse=True)
            raise ExchangeError(
                f"the {what} of {join_names([site for each in others for site in each])} are not those of "
                f"{join_names(most)}: use the same program, and name the same columns."
            )


def _find_impossible_sums(answer: Answer, request: Request) -> str:
    """Return the name of sums that no people can have; empty if there are none."""
    grams = (name for name, matrices in _list_grams(answer, request) if not _is_gram(matrices))
    ranges = (
        name
        for name, array, low, high in _list_ranges(answer, request)
        if ((array < low - _TOLERANCE * (high + 1.0)) | (array > high + _TOLERANCE * (high + 1.0))).any()
    )
    return next(grams, "") or next(ranges, "")


def _list_grams(answer: Answer, request: Request) -> Iterator[tuple[str, FloatArray]]:
    """Yield sums of products (..., D, D) of 1 and functions of people; the first is their number."""
    arrays, numbers = answer.arrays, np.array(answer.numbers, dtype=float)
    if "products" in arrays:
        yield "products", _border(unpack_symmetric(arrays["products"]), arrays["sum"], numbers)
    if "within" in arrays:
        is_control = np.array([group == "controls" for _, group in kinds.list_sets(request)])
        within = unpack_symmetric(arrays["within"])
        yield "within", _border(within, 0.0 * within[:, 0], numbers[is_control])
    if "squares" in arrays:
        squares, total = arrays["squares"][..., None, None], arrays["sum"][..., None]
        yield "squares", _border(squares, total, numbers[:, None, None])
    for name in [name for name in arrays if name.startswith(("moments.", "normal."))]:
        yield name, unpack_symmetric(arrays[name])


def _list_ranges(answer: Answer, request: Request) -> Iterator[tuple[str, FloatArray, float, float]]:
    """Yield sums with the smallest and the largest value that their people can have."""
    numbers = answer.numbers
    for name, array in answer.arrays.items():
        array_name, _, task = name.partition(".")
        if array_name == "sum" and request.kind == kinds.AGREEMENT:  # of numbers from 0 to 1
            yield name, array, 0.0, numbers[0]
        if array_name == "distances":
            yield name, array, -sum(numbers), sum(numbers)
        if array_name == "cosines":
            yield from ((name, row, -number, number) for row, number in zip(array, numbers, strict=True))
        if array_name == "moments":
            yield name, array, 0.0, numbers[int(task)]
        if array_name == "losses":
            first = len(array) * int(task)
            sizes = numbers[first : first + len(array)]
            yield from ((name, value, 0.0, _MAX_LOSS * size) for value, size in zip(array, sizes, strict=True))
        if array_name == "sums":  # s exp(-s^2 / 2) and exp(-s^2 / 2)
            largest = numbers[int(task)] / _SQUARE_ROOT_OF_E
            yield name, array[..., 0], -largest, largest
            yield name, array[..., array.shape[-1] // 2], 0.0, numbers[int(task)]


def _border(products: FloatArray, edge: FloatArray, corner: FloatArray) -> FloatArray:
    """Return matrices (..., D, D) with one more row and column in front."""
    matrices = np.empty((*products.shape[:-2], *(size + 1 for size in products.shape[-2:])))
    matrices[..., 1:, 1:], matrices[..., 0, 0] = products, corner
    matrices[..., 0, 1:] = matrices[..., 1:, 0] = edge
    return matrices


def _is_gram(matrices: FloatArray) -> bool:
    """Return whether matrices (..., D, D) have no negative eigenvalue, but for rounding, and nobody has no sums."""
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    if (diagonal < 0).any() or matrices[diagonal[..., 0] == 0].any():
        return False
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = matrices / scale[..., :, None] / scale[..., None, :]
    try:
        np.linalg.cholesky(scaled + _TOLERANCE * np.eye(matrices.shape[-1]))
    except np.linalg.LinAlgError:
        return False
    return True

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
from typing import Any, NamedTuple, Protocol

import numpy as np

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
    compute_message_digest,
    pack_preparations,
    unpack_symmetric,
)
from rindices.federated.site import Site
from rindices.federated.subsets import EVERYONE, GROUPS, SubsetPlan, get_member, name_member

MAX_SITE_PEOPLE = 100_000_000
"""More people than any site has."""
_MAX_SUM, _MAX_NAME = 1e30, 300
_TOLERANCE = 1e-8
_SQUARE_ROOT_OF_E = float(np.exp(0.5))


class Transport(Protocol):
    """Takes messages to the sites and back."""

    def ask(self, request: Request) -> Sequence[Answer]:
        """Return the answer of every site, in the order of their names."""


@dataclass
class InMemoryTransport:
    """Sites in this process: with a single one, the fit of people who may be pooled.

    Messages are encoded as for other transports, so that results are the same, bit for bit.
    """

    sites: Sequence[Site]

    def ask(self, request: Request) -> list[Answer]:
        """Return the answers of all sites."""
        sent = Request.decode(request.encode())
        return [Answer.decode(site.answer(sent).encode()) for site in self.sites]


class Total(NamedTuple):
    """Sums over the people of all sites.

    counts: number of people by the name of the set; answers: of single sites, or one of all of them under masks.
    """

    arrays: dict[str, FloatArray]
    counts: dict[str, int]
    answers: Sequence[Answer]


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
    _answers: dict[str, dict[str, Answer]] = field(default_factory=dict)
    """Answers of the rounds that later ones are compared with, by kind and site."""

    def ask(self, kind: str, settings: Mapping[str, Any] | None = None, arrays: Arrays | None = None) -> Total:
        """Ask all sites and return the total of their sums.

        Raises ExchangeError: if an answer is not as it should be; its site is named.
        """
        is_masked = self.masked and kind != kinds.DESCRIBE
        own = {"sites": self._list_sites(kind)} if is_masked else {}
        request = Request(kind, len(self.records) + 1, {**(settings or {}), **own}, arrays or {})
        answers = parts = self.transport.ask(request)
        names = [answer.site for answer in answers]
        if kind != kinds.DESCRIBE and names != (secure.list_sites(request) if is_masked else self.sites):
            raise ExchangeError(f"the sites of round {request.round} are not those of the first round: begin again.")
        described, means = (self._answers.get(each, {}) for each in (kinds.DESCRIBE, kinds.MEANS))
        sizes = {name: answer.counts for name, answer in described.items()}
        if is_masked:
            for answer in answers:
                _check_belongs(answer, request)
            parts, sizes = [secure.add_answers(answers, request)], {secure.TOTAL: _add_counts(list(described.values()))}
        shapes = kinds.get_kind(kind).get_shapes(request)
        for part in parts:
            check_answer(part, request, shapes, sizes.get(part.site))
            if kind == kinds.PRODUCTS and part.site in means and "harmonise" not in request.settings and not self.left:
                _check_means(part, means[part.site], request)
        self._answers[kind] = {part.site: part for part in parts}
        self.records.append(RoundRecord(kind, len(request.encode()), max(len(answer.encode()) for answer in answers)))
        if self.on_round is not None:
            self.on_round(len(self.records), self.records[-1])
        totals = {name: np.sum([part.arrays[name] for part in parts], axis=0) for name in shapes}
        return Total(totals, _add_counts(parts), parts)

    def _list_sites(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return keys and numbers of people of all sites, and when they left, for a request."""
        described = self._answers[kinds.DESCRIBE]
        if lacking := [name for name, answer in described.items() if not answer.facts.get("key")]:
            raise ExchangeError(
                f"{join_names(lacking)} has no key for masks: install rindices[federated] there, or let all sites and "
                "the centre do without masks (--no-masks)."
            )
        number, rounds = len(self.records) + 1, [record.kind for record in self.records]
        left = {name: {"until": until} for name, until in self.left.items() if until <= number}
        n_counted = rounds.index(kinds.MOMENTS) + 1 if kinds.MOMENTS in rounds else number
        lost = [name for name, entry in left.items() if entry["until"] > n_counted]
        if lost and kind in (kinds.ROTATION, kinds.CURVES):
            raise ExchangeError(
                f"{join_names(lost)} left after its patients were counted in round {n_counted} (moments), so patterns "
                "cannot be fitted without it: wait for it, or begin another study, in another folder at each site "
                "(--private)."
            )
        return {
            name: {"key": answer.facts["key"], **answer.counts, **left.get(name, {})}
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
        self, kind: str, tasks: Sequence[Sequence[Any]], get_arrays: Callable[[list[int]], Arrays]
    ) -> list[dict[str, FloatArray]]:
        """Ask for the sums of many tasks in one round, and return those of each.

        tasks: set of people, held-out people, number of patterns, and shape if there are several; get_arrays: takes the
        positions of tasks with the same number and shape; returns their parameters, one row each.
        """
        groups, arrays = kinds.list_groups_of_tasks(tasks), dict[str, FloatArray]()
        for key, positions in groups.items():
            arrays |= {f"{name}.{key}": array for name, array in get_arrays(positions).items()}
        total = self.ask(kind, [get_member(str(task[0])) for task in tasks], {"tasks": tasks}, arrays).arrays
        sums = [dict[str, FloatArray]() for _ in tasks]
        for name, array in total.items():
            name, _, key = name.partition(".")
            for position, row in zip(groups[key], array, strict=True):
                sums[position][name] = row
        return sums


def check_answer(
    answer: Answer,
    request: Request,
    shapes: Mapping[str, tuple[int, ...]],
    group_sizes: Mapping[str, int] | None = None,
) -> None:
    """Refuse an answer that does not fit its request.

    shapes: names and shapes of the arrays that the answer must have; group_sizes: number of controls and patients that
    the site named in the first round. Raises ExchangeError: that names the site and the fault.
    """
    name = _check_belongs(answer, request)
    check_arrays(answer.arrays, shapes, name)
    if request.kind == kinds.DESCRIBE:
        _check_facts(answer, name)
    _check_counts(answer, request, name, group_sizes)
    large = (key for key, array in answer.arrays.items() if np.abs(array).max(initial=0.0) > _MAX_SUM)
    if key := next(large, "") or _find_impossible_sums(answer, request):
        raise ExchangeError(f"{name}: {key!r} has sums that people cannot have.")


def _check_belongs(answer: Answer, request: Request) -> str:
    """Refuse an answer to another request; return what it is called in messages."""
    name = f"the answer of {answer.site[:60]} in round {request.round}"
    if (answer.kind, answer.round) != (request.kind, request.round):
        raise ExchangeError(f"{name} is to round {answer.round} ({answer.kind[:40]}): it is late or repeated.")
    if answer.request_digest != compute_message_digest(request.encode()):
        raise ExchangeError(f"{name} is to another request: it is from an earlier study or forged.")
    return name


def _add_counts(answers: Sequence[Answer]) -> dict[str, int]:
    """Return the numbers of people of all sites by the name of the set."""
    return {key: sum(answer.counts[key] for answer in answers) for key in answers[0].counts}


def _check_counts(answer: Answer, request: Request, name: str, group_sizes: Mapping[str, int] | None) -> None:
    """Refuse numbers of people that cannot be."""
    if set(answer.counts) != set(kinds.list_counted_sets(request)):
        raise ExchangeError(f"{name} counts other sets of people than those that were asked for.")
    for key, count in answer.counts.items():
        size = MAX_SITE_PEOPLE if group_sizes is None else group_sizes[key.rpartition("/")[2]]
        is_whole = request.kind == kinds.MEANS and answer.site != secure.TOTAL and group_sizes
        if not 0 <= count <= size or (is_whole and count not in (0, size)):
            raise ExchangeError(f"{name} counts {count} people in {key[:60]}, where the site has {size} at most.")
    if not any(answer.counts.values()) and any(array.any() for array in answer.arrays.values()):
        raise ExchangeError(f"{name} has sums over nobody.")


def _check_means(answer: Answer, means: Answer, request: Request) -> None:
    """Refuse sums about the centre that are not those of the round before."""
    sets = [list(each) for each in request.settings["sets"]]
    for group in GROUPS:
        number, row = answer.counts[f"all/{group}"], sets.index([EVERYONE, "all", group])
        total, offset = means.arrays[f"{group}.sum"], number * request.arrays["centre"]
        error = np.abs(answer.arrays["sum"][row] - (total - offset))
        if means.counts[group] != number or (error > 1e-6 * (np.abs(total) + np.abs(offset))).any():
            raise ExchangeError(
                f"the answer of {answer.site} in round {request.round} has other sums of {group} than in the round "
                "before: its table or its program changed, or it sends wrong sums. Leave it out (--leave-out)."
            )


def _check_facts(answer: Answer, name: str) -> None:
    facts = answer.facts
    regions, covariates = facts.get("regions"), facts.get("covariates")
    lists = [regions]
    if isinstance(covariates, dict):
        lists += [list(covariates), *(each.get("levels") for each in covariates.values() if isinstance(each, dict))]
    is_described = (
        regions
        and isinstance(covariates, dict)
        and len(lists) == 2 + len(covariates)
        and all(isinstance(names, list) and all(map(_is_name, names)) for names in lists)
        and len(set(regions)) == len(regions)
        and all(_is_name(facts.get(key)) for key in ("unit", "source"))
    )
    if not is_described:
        raise ExchangeError(f"{name} does not describe a table.")


def _is_name(text: object) -> bool:
    return isinstance(text, str) and len(text) <= _MAX_NAME and text.isprintable()


def check_same_table(answers: Sequence[Answer]) -> None:
    """Refuse sites whose tables have other regions or covariates than most sites.

    Raises ExchangeError: that names the sites.
    """
    for what in ("regions", "covariates", "unit"):
        sites: dict[str, list[str]] = {}
        for answer in answers:
            sites.setdefault(json.dumps(list(answer.facts[what])), []).append(answer.site)
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
    arrays = answer.arrays
    if request.kind == kinds.AGREEMENT:
        yield "products", _border(unpack_symmetric(arrays["products"]), arrays["sum"], answer.counts["patients"])
    if "within" in arrays:
        rows = [f"{name}/{group}" for _, name, group in request.settings["sets"] if group == "controls"]
        within, sizes = unpack_symmetric(arrays["within"]), np.array([float(answer.counts[name]) for name in rows])
        yield "within", _border(within, 0.0 * within[:, 0], sizes)
    if request.kind == kinds.TRANSFORM:
        for group in GROUPS:
            names = [f"{name_member(number)}/{group}" for number in request.settings["members"]]
            numbers = np.array([float(answer.counts[name]) for name in names])[:, None, None]
            yield f"{group}.squares", _pair(arrays[f"{group}.sum"], arrays[f"{group}.squares"], numbers)
    if request.kind in (kinds.PRODUCTS, kinds.MOMENTS):
        names = [f"{name}/{group}" for *_, name, group in request.settings["sets"]]
        numbers = np.array([float(answer.counts[name]) for name in names])
        yield "products", _border(unpack_symmetric(arrays["products"]), arrays["sum"], numbers)
    if request.kind == kinds.BLOCKS:
        numbers = np.array([float(answer.counts[name]) for name in kinds.list_counted_sets(request)])
        products = arrays["products"]
        yield "squares", _pair(arrays["sum"], arrays["squares"], numbers[:, None])
        yield "products", _border(unpack_symmetric(products), arrays["sum"] @ request.arrays["directions"], numbers)
    if request.kind == kinds.CURVES:
        for name, array in arrays.items():
            if name.startswith(("moments.", "normal.")):
                yield name, unpack_symmetric(array)


def _list_ranges(answer: Answer, request: Request) -> Iterator[tuple[str, FloatArray, FloatArray, FloatArray]]:
    """Yield sums with the smallest and the largest value that their people can have."""
    arrays, counts = answer.arrays, answer.counts
    everyone = np.array(float(sum(counts.values())))
    if request.kind == kinds.AGREEMENT:  # of numbers from 0 to 1
        yield "sum", arrays["sum"], 0.0 * everyone, everyone
    if request.kind == kinds.DISTRIBUTION:
        for name, array in arrays.items():
            number = np.array(float(counts.get(name.removesuffix(".cosines"), everyone)))
            yield name, array, -number, number
    for name, array in arrays.items() if "tasks" in request.settings else ():
        tasks = kinds.group_tasks(request.settings)[name.partition(".")[2]]
        numbers = np.array([float(counts[f"{task[0]}/patients"]) for task in tasks])
        if name.startswith("moments."):
            yield name, array, np.zeros((len(tasks), 1)), numbers[:, None]
        if name.startswith("sums."):  # s exp(-s^2 / 2) and exp(-s^2 / 2)
            numbers, half = numbers[:, None, None], array.shape[-1] // 2
            yield name, array[..., 0], -numbers / _SQUARE_ROOT_OF_E, numbers / _SQUARE_ROOT_OF_E
            yield name, array[..., half], 0.0 * numbers, numbers


def _border(products: FloatArray, edge: FloatArray, corner: FloatArray | int) -> FloatArray:
    """Return matrices (..., D, D) with one more row and column in front."""
    matrices = np.empty((*products.shape[:-2], *(size + 1 for size in products.shape[-2:])))
    matrices[..., 1:, 1:], matrices[..., 0, 0] = products, corner
    matrices[..., 0, 1:] = matrices[..., 1:, 0] = edge
    return matrices


def _pair(total: FloatArray, squares: FloatArray, number: FloatArray | int) -> FloatArray:
    return _border(squares[..., None, None], total[..., None], number)


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

"""Rounds of an exchange: ask all sites, check their answers, add the sums up.

How messages travel is not decided here: a transport takes a request and returns the answers of all sites
(`InMemoryTransport`, `rindices.federated.folder`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import join_names
from rindices.federated import kinds
from rindices.federated.exceptions import ExchangeError
from rindices.federated.messages import Answer, Request, compute_message_digest
from rindices.federated.preparation import check_arrays
from rindices.federated.site import Site
from rindices.federated.subsets import GROUPS
from rindices.federated.sum_checks import find_impossible_sums

MAX_SITE_PEOPLE = 100_000_000
"""More people than any site has."""
_MAX_SUM, _MAX_NAME = 1e30, 300


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

    counts: number of people by the name of the set.
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

    on_round: called with each `RoundRecord`.
    """

    transport: Transport
    on_round: Callable[[int, RoundRecord], None] | None = None
    records: list[RoundRecord] = field(default_factory=list)
    _answers: dict[str, dict[str, Answer]] = field(default_factory=dict)
    """Answers of the rounds that later ones are compared with, by kind and site."""

    def ask(
        self, kind: str, settings: Mapping[str, Any] | None = None, arrays: Mapping[str, FloatArray] | None = None
    ) -> Total:
        """Ask all sites and return the total of their sums.

        Raises ExchangeError: if an answer is not as it should be; its site is named.
        """
        request = Request(kind, len(self.records) + 1, settings or {}, arrays or {})
        answers = self.transport.ask(request)
        shapes = kinds.get_kind(kind).get_shapes(request)
        described, means = (self._answers.get(each, {}) for each in (kinds.DESCRIBE, kinds.MEANS))
        for answer in answers:
            sizes = described[answer.site].counts if answer.site in described else None
            check_answer(answer, request, shapes, sizes)
            if kind == kinds.PRODUCTS and answer.site in means:
                _check_means(answer, means[answer.site], request)
        self._answers[kind] = {answer.site: answer for answer in answers}
        sites = self._answers[kinds.DESCRIBE]
        if [answer.site for answer in answers] != list(sites):
            raise ExchangeError(f"the sites of round {request.round} are not those of the first round: begin again.")
        self.records.append(RoundRecord(kind, len(request.encode()), max(len(answer.encode()) for answer in answers)))
        if self.on_round is not None:
            self.on_round(len(self.records), self.records[-1])
        totals = {name: np.sum([answer.arrays[name] for answer in answers], axis=0) for name in shapes}
        counts = {key: sum(answer.counts[key] for answer in answers) for key in answers[0].counts}
        return Total(totals, counts, answers)

    @property
    def sites(self) -> list[str]:
        """Names of the sites that answered."""
        return list(self._answers.get(kinds.DESCRIBE, {}))

    @property
    def bytes_per_site(self) -> tuple[int, int]:
        """Bytes that a site received and, at most, sent in all rounds."""
        return sum(record.sent for record in self.records), sum(record.received for record in self.records)


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
    name = f"the answer of {answer.site[:60]} in round {request.round}"
    if (answer.kind, answer.round) != (request.kind, request.round):
        raise ExchangeError(f"{name} is to round {answer.round} ({answer.kind[:40]}): it is late or repeated.")
    if answer.request_digest != compute_message_digest(request.encode()):
        raise ExchangeError(f"{name} is to another request: it is from an earlier study or forged.")
    check_arrays(answer.arrays, shapes, name)
    if request.kind == kinds.DESCRIBE:
        _check_facts(answer, name)
    _check_counts(answer, request, name, group_sizes)
    for key, array in answer.arrays.items():
        if np.abs(array).max(initial=0.0) > _MAX_SUM:
            raise ExchangeError(f"{name}: {key!r} has sums that people cannot have.")
    if key := find_impossible_sums(answer, request):
        raise ExchangeError(f"{name}: {key!r} has sums that people cannot have.")


def _check_counts(answer: Answer, request: Request, name: str, group_sizes: Mapping[str, int] | None) -> None:
    """Refuse numbers of people that cannot be."""
    if set(answer.counts) != set(kinds.list_counted_sets(request)):
        raise ExchangeError(f"{name} counts other sets of people than those that were asked for.")
    for key, count in answer.counts.items():
        size = MAX_SITE_PEOPLE if group_sizes is None else group_sizes[key.rpartition("/")[2]]
        is_whole = request.kind in (kinds.MEANS, kinds.PRODUCTS) and group_sizes is not None
        if not 0 <= count <= size or (is_whole and count not in (0, size)):
            raise ExchangeError(f"{name} counts {count} people in {key[:60]}, where the site has {size} at most.")
    if not any(answer.counts.values()) and any(array.any() for array in answer.arrays.values()):
        raise ExchangeError(f"{name} has sums over nobody.")


def _check_means(answer: Answer, means: Answer, request: Request) -> None:
    """Refuse sums about the centre that are not those of the round before."""
    for group in GROUPS:
        total, offset = means.arrays[f"{group}.sum"], answer.counts[group] * request.arrays["centre"]
        error = np.abs(answer.arrays[f"{group}.sum"] - (total - offset))
        if means.counts[group] != answer.counts[group] or (error > 1e-6 * (np.abs(total) + np.abs(offset))).any():
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

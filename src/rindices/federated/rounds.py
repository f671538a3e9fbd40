"""Rounds of an exchange: ask all sites, check their answers, add the sums up.

How messages travel is not decided here: a transport takes a request and returns the answers of all sites
(`InMemoryTransport`, `rindices.federated.folder`).
"""

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

_NON_NEGATIVE = ("squares", "fourth")
"""Last part of the names of sums that cannot be negative."""


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

    Attributes
    ----------
    arrays : dict of str to ndarray
    counts : dict of str to int
        Number of people by the name of the set.
    answers : sequence of Answer
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

    Parameters
    ----------
    transport : Transport
    on_round : callable, optional
        Called with each `RoundRecord`.
    """

    transport: Transport
    on_round: Callable[[int, RoundRecord], None] | None = None
    records: list[RoundRecord] = field(default_factory=list)
    _group_sizes: dict[str, dict[str, int]] = field(default_factory=dict)

    def ask(
        self, kind: str, settings: Mapping[str, Any] | None = None, arrays: Mapping[str, FloatArray] | None = None
    ) -> Total:
        """Ask all sites and return the total of their sums.

        Raises
        ------
        ExchangeError
            If an answer is not as it should be; its site is named.
        """
        request = Request(kind, len(self.records) + 1, settings or {}, arrays or {})
        answers = self.transport.ask(request)
        shapes = kinds.get_kind(kind).get_shapes(request)
        for answer in answers:
            check_answer(answer, request, shapes, self._group_sizes.get(answer.site))
        if kind == kinds.DESCRIBE:
            self._group_sizes = {answer.site: dict(answer.counts) for answer in answers}
        if {answer.site for answer in answers} != set(self._group_sizes) or len(answers) != len(self._group_sizes):
            raise ExchangeError(f"the sites of round {request.round} are not those of the first round: begin again.")
        self.records.append(RoundRecord(kind, len(request.encode()), max(len(answer.encode()) for answer in answers)))
        if self.on_round is not None:
            self.on_round(len(self.records), self.records[-1])
        totals = {name: np.sum([answer.arrays[name] for answer in answers], axis=0) for name in shapes}
        counts = {key: sum(answer.counts[key] for answer in answers) for key in answers[0].counts}
        return Total(totals, counts, answers)

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

    Parameters
    ----------
    answer : Answer
    request : Request
    shapes : mapping
        Names and shapes of the arrays that the answer must have.
    group_sizes : mapping, optional
        Number of controls and patients that the site named in the first round.

    Raises
    ------
    ExchangeError
        That names the site and the fault.
    """
    name = f"the answer of {answer.site[:60]} in round {request.round}"
    if (answer.kind, answer.round) != (request.kind, request.round):
        raise ExchangeError(f"{name} is to round {answer.round} ({answer.kind[:40]}): it is late or repeated.")
    if answer.request_digest != compute_message_digest(request.encode()):
        raise ExchangeError(f"{name} is to another request: it is from an earlier study or forged.")
    check_arrays(answer.arrays, shapes, name)
    _check_counts(answer, name, group_sizes)
    for key, array in answer.arrays.items():
        if key.rpartition(".")[2] in _NON_NEGATIVE and (array < 0).any():
            raise ExchangeError(f"{name}: {key!r} has negative sums of squares.")
        if np.abs(array).max(initial=0.0) > 1e30:
            raise ExchangeError(f"{name}: {key!r} has sums that people cannot have.")
    if request.kind == kinds.DESCRIBE:
        _check_facts(answer, name)


def _check_counts(answer: Answer, name: str, group_sizes: Mapping[str, int] | None) -> None:
    """Refuse numbers of people that cannot be."""
    negative = [key for key, count in answer.counts.items() if count < 0]
    if negative or not answer.counts:
        raise ExchangeError(f"{name} has no or impossible numbers of people.")
    for key, count in answer.counts.items():
        group = key.rpartition("/")[2]
        if group_sizes is not None and count > group_sizes.get(group, -1):
            raise ExchangeError(f"{name} counts {count} people in {key[:60]}: the site has fewer.")
    if not any(answer.counts.values()) and any(array.any() for array in answer.arrays.values()):
        raise ExchangeError(f"{name} has sums over nobody.")


def _check_facts(answer: Answer, name: str) -> None:
    facts = answer.facts
    has_regions = isinstance(facts.get("regions"), list) and all(isinstance(each, str) for each in facts["regions"])
    has_covariates = isinstance(facts.get("covariates"), dict) and all(
        isinstance(each, dict) and isinstance(each.get("levels"), list) for each in facts["covariates"].values()
    )
    if not has_regions or not has_covariates or set(answer.counts) != {"controls", "patients"}:
        raise ExchangeError(f"{name} does not describe a table.")


def check_same_table(answers: Sequence[Answer]) -> None:
    """Refuse sites whose tables have other regions or covariates than the first.

    Raises
    ------
    ExchangeError
        That names the sites.
    """
    first = answers[0]
    for what in ("regions", "covariates", "unit"):
        others = [answer.site for answer in answers if list(answer.facts[what]) != list(first.facts[what])]
        if others:
            raise ExchangeError(
                f"the {what} of {join_names(others)} are not those of {first.site}: use the same program, and name "
                "the same columns."
            )

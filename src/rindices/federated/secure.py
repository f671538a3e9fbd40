"""Sums as integers that can be added up under masks; the masks are made in `rindices.federated.masks`.

A sum is an integer modulo 2^128, in steps of 2^-64: two unsigned numbers of 64 bits, the lower one first. Sums of
doubles are exact in it from 1e-3 on, and a total stays below 2^62, or 4e18; a site refuses larger sums. Each masked
answer is one array of such integers: the numbers of people, then the sums in the order of `kinds.get_answer_shapes`.

The request names all sites, with their public keys and numbers of people (``sites``); ``until`` is the first round
without a site that left.

Shape letters: n numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rindices._typing import AnyArray, FloatArray
from rindices.federated import kinds
from rindices.federated.messages import Answer, ExchangeError, RefusedError, Request

MASKED = "masked"
"""Name of the array of a masked answer."""
TOTAL = "all sites"
"""Name of the site that stands for the total."""
FEWEST_SITES = 3
"""Sites from which masks are the default."""
_STEPS = 2.0**64
_LARGEST = 2.0**62

Sites = Mapping[str, Mapping[str, Any]]


def is_masked(request: Request) -> bool:
    """Return whether a request asks for masked sums."""
    return "sites" in request.settings


def list_sites(request: Request, sites: Sequence[str] = ()) -> list[str]:
    """Return the sites that are asked; under masks those that the request names and that have not left."""
    if not is_masked(request):
        return list(sites)
    named: Sites = request.settings["sites"]
    return sorted(name for name, entry in named.items() if request.round < entry.get("until", np.inf))


def write_numbers(answer: Answer, request: Request) -> AnyArray:
    """Return numbers of people and sums of a site as integers (n, 2).

    Raises RefusedError: if a sum is too large.
    """
    numbers = np.concatenate(
        [answer.numbers, *(answer.arrays[name].ravel() for name in kinds.get_answer_shapes(request))]
    )
    if np.abs(numbers).max(initial=0.0) * len(list_sites(request)) > _LARGEST:
        raise RefusedError(
            f"overflow: a sum of {request.kind} is larger than {_LARGEST:.0e}: give columns other units."
        )
    steps = np.rint(np.abs(numbers) * _STEPS)
    high = np.floor(steps / _STEPS)
    integers = np.stack([steps - high * _STEPS, high], axis=1).astype(np.uint64)
    return np.where(numbers[:, None] < 0, negate(integers), integers)


def add(first: AnyArray, second: AnyArray) -> AnyArray:
    """Add integers (n, 2) modulo 2^128."""
    total = first + second
    total[:, 1] += total[:, 0] < first[:, 0]
    return np.asarray(total)


def negate(integers: AnyArray) -> AnyArray:
    """Return -x modulo 2^128 of integers (n, 2)."""
    inverted = ~integers
    inverted[:, 0] += np.uint64(1)
    inverted[:, 1] += inverted[:, 0] == 0
    return np.asarray(inverted)


def add_answers(answers: Mapping[str, Answer], request: Request) -> Answer:
    """Return the total of masked answers, whose masks cancel, as the answer of one site.

    Raises ExchangeError: if an answer does not have the integers that were asked for.
    """
    shapes, n_sets = kinds.get_answer_shapes(request), len(kinds.list_sets(request))
    sizes = [n_sets, *(int(np.prod(shape)) for shape in shapes.values())]
    total = np.zeros((sum(sizes), 2), dtype=np.uint64)
    for site, answer in answers.items():
        masked = answer.arrays.get(MASKED)
        if set(answer.arrays) != {MASKED} or answer.numbers or masked is None or masked.dtype != np.uint64:
            raise ExchangeError(f"the answer of {site} in round {request.round} is not masked: let it refuse.")
        if masked.shape != total.shape:
            raise ExchangeError(f"the answer of {site} in round {request.round} has {len(masked)} numbers.")
        total = add(total, masked)
    numbers = read_numbers(total)
    if (np.abs(numbers) > _LARGEST).any():
        raise ExchangeError(
            f"the masks of round {request.round} do not cancel: a site was shown another request, or sends wrong sums."
        )
    counts, *parts = np.split(numbers, np.cumsum(sizes)[:-1])
    arrays = {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
    return Answer(request.digest, [round(number) for number in counts.tolist()], arrays)


def read_numbers(integers: AnyArray) -> FloatArray:
    """Return the numbers (n,) of integers (n, 2)."""
    is_negative = integers[:, 1] >> np.uint64(63) == 1
    size = np.where(is_negative[:, None], negate(integers), integers).astype(float)
    return np.asarray(np.where(is_negative, -1.0, 1.0) * (size[:, 1] + size[:, 0] / _STEPS))

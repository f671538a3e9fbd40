"""What leaves a site: arrays of declared name, type and shape, and codes with integers.

Never text.

An answer is rebuilt from what the question declares: only arrays that it names are
copied, in the type and the shape that it gives. The server sends text (names of
regions, settings), and a site compares it with its own; what a site knows and the
server does not, it can say by a code alone.
"""

import json
import math
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from rindices_nvflare.core import GROUPS, Request, list_sums

Arrays = dict[str, np.ndarray[Any, Any]]
Declared = dict[str, tuple[str, tuple[int, ...]]]
HELLO, SEEDS, SUMS, COMPARE = "hello", "seeds", "sums", "compare"
TASKS = (HELLO, SEEDS, SUMS, COMPARE)
STATUS, MESSAGE = "status", "message"
N_STATUS = 2
"""Numbers of a status: a code, and an integer that belongs to it."""
N_FACTS = 2
"""Facts of a covariate before those of its categories: whether it is a number, and
positive.
"""


class Code(IntEnum):
    """What a site says of a question, besides sums."""

    DONE = 0
    FAILED = 1
    KIT_OPEN = 2
    OTHER_SITES = 3
    OTHER_PEOPLE = 4
    OTHER_PLAN = 5
    OTHER_ROUND = 6
    SEEDS_MISSING = 7
    MASK_USED = 8
    REFUSED = 9
    OTHER_REGIONS = 10
    OTHER_UNIT = 11
    OTHER_COVARIATE = 12
    OTHER_CATEGORY = 13
    TOO_MANY_ROUNDS = 14
    NO_TABLE = 15
    UNMASKED = 16
    TOO_FEW = 17
    NO_SEED_SENT = 18
    VISITS = 19


SENTENCES: Mapping[Code, str] = {
    Code.FAILED: "could not answer: its own log says why",
    Code.KIT_OPEN: "has a start kit that is not closed: run rindices-nvflare kit there and start the client again",
    Code.OTHER_SITES: "lists other sites than this job: run rindices-nvflare kit there with the same --site names",
    Code.OTHER_PEOPLE: "took part before with other people: if this is agreed, run rindices-nvflare allow there",
    Code.OTHER_PLAN: "took part before in another study: if this is agreed, run rindices-nvflare allow there",
    Code.OTHER_ROUND: "answered this round before for another question: to begin again, run "
    "rindices-nvflare allow there",
    Code.SEEDS_MISSING: "is missing the seeds of {0} sites: submit the same job again",
    Code.MASK_USED: "has answered round {0} in this job, and a mask is used once: submit the same job again",
    Code.REFUSED: "refuses sums over few people: its own log says which",
    Code.OTHER_REGIONS: "is missing {0} of the regions of this job, or has others: compare rindices-nvflare check there",
    Code.OTHER_UNIT: "has regions in another unit: compare rindices-nvflare check there",
    Code.OTHER_COVARIATE: "has other covariates than this job: compare rindices-nvflare check there",
    Code.OTHER_CATEGORY: "has a category of covariate {0} that the job does not name: compare rindices-nvflare check",
    Code.TOO_MANY_ROUNDS: "has answered {0} rounds about its people, its limit: if more is agreed, "
    "close its kit with another --private folder",
    Code.NO_TABLE: "cannot use its table or study file: run rindices-nvflare check there",
    Code.VISITS: 'has people with several visits: set visits = "first" in [data] of its study file',
    Code.UNMASKED: "gives masked sums alone from three sites on: make the job without --no-masks",
    Code.TOO_FEW: "has too few people to compare the model with",
    Code.NO_SEED_SENT: "could not send a seed to {0} sites: submit the same job again",
}


class SiteError(Exception):
    """A site refuses, by a code and an integer."""

    def __init__(self, code: Code, number: int = 0) -> None:
        super().__init__(f"{code.name} {number}")
        self.code, self.number = code, int(number)


def say(status: np.ndarray[Any, Any]) -> str:
    """Return the sentence of a status."""
    code = Code(int(status[0])) if int(status[0]) in set(Code) else Code.FAILED
    return SENTENCES[code].format(int(status[1]))


def write_message(values: Mapping[str, Any]) -> bytes:
    """Return plain values as bytes, the same for the same values."""
    return json.dumps(values, sort_keys=True, allow_nan=False).encode()


def declare(task: str, message: bytes) -> Declared:
    """Return the type and the shape of each array that a question allows to leave,
    besides the status.
    """
    if task == HELLO:
        covariates = json.loads(message)["columns"]["covariates"]
        n_facts = 1 + sum(N_FACTS + len(each["levels"]) for each in covariates.values())
        return {"people": ("int64", (len(GROUPS),)), "facts": ("int64", (n_facts,))}
    if task == SUMS:
        return list_sums(Request.decode(message))
    return {"hundredths": ("int64", ())} if task == COMPARE else {}


def count_bytes(declared: Declared) -> int:
    """Return the bytes of the arrays that a question allows to leave."""
    return sum(
        math.prod(shape) * np.dtype(dtype).itemsize
        for dtype, shape in declared.values()
    )


def rebuild(arrays: Mapping[str, Any], declared: Declared) -> Arrays:
    """Return an answer that holds what was declared and nothing else; the status alone
    where it is not as declared.
    """
    try:
        status = _copy(arrays[STATUS], "int64", (N_STATUS,))
        if int(status[0]) not in set(Code):
            return make_status(Code.FAILED)
        if int(status[0]) != Code.DONE:
            return {STATUS: status}
        return {
            STATUS: status,
            **{name: _copy(arrays[name], *each) for name, each in declared.items()},
        }
    except Exception:
        return make_status(Code.FAILED)


def make_status(code: Code, number: int = 0) -> Arrays:
    """Return an answer of a code alone."""
    return {STATUS: np.array([code, number], dtype=np.int64)}


def _copy(array: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if (
        type(array) is not np.ndarray
        or array.dtype != np.dtype(dtype)
        or array.shape != shape
    ):
        raise ValueError("not as declared")
    copy = np.array(array, dtype=dtype, order="C")
    if copy.dtype.kind == "f" and not np.isfinite(copy).all():
        raise ValueError("not finite")
    return copy


def encode_facts(
    facts: Mapping[str, Any], columns: Mapping[str, Any]
) -> np.ndarray[Any, Any]:
    """Return facts about a table as integers, in the order of the columns of a job.

    facts: of ``describe``, with text. Raises SiteError: where the table is not that of
    the columns.
    """
    if list(facts["regions"]) != list(columns["regions"]):
        raise SiteError(
            Code.OTHER_REGIONS, len(set(columns["regions"]) - set(facts["regions"]))
        )
    if (facts["unit"], facts["source"]) != (columns["unit"], columns["source"]):
        raise SiteError(Code.OTHER_UNIT)
    if list(facts["covariates"]) != list(columns["covariates"]):
        raise SiteError(Code.OTHER_COVARIATE)
    numbers = [int(facts["positive"])]
    for k, (name, column) in enumerate(columns["covariates"].items()):
        own = facts["covariates"][name]
        if set(own["levels"]) - set(column["levels"]):
            raise SiteError(Code.OTHER_CATEGORY, k + 1)
        numbers += [
            int(own["numeric"]),
            int(own["positive"]),
            *(int(each in own["levels"]) for each in column["levels"]),
        ]
    return np.array(numbers, dtype=np.int64)


def decode_facts(
    numbers: np.ndarray[Any, Any], columns: Mapping[str, Any]
) -> dict[str, Any]:
    """Invert `encode_facts`; all text is that of the columns."""
    positive, *rest = (bool(number) for number in numbers)
    covariates = {}
    for name, column in columns["covariates"].items():
        own, rest = (
            rest[: N_FACTS + len(column["levels"])],
            rest[N_FACTS + len(column["levels"]) :],
        )
        levels = [
            level
            for level, is_there in zip(column["levels"], own[N_FACTS:], strict=True)
            if is_there
        ]
        covariates[name] = {"numeric": own[0], "positive": own[1], "levels": levels}
    return {
        **{name: columns[name] for name in ("regions", "unit", "source")},
        "positive": positive,
        "covariates": covariates,
    }

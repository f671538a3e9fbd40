"""Requests of the centre and answers of the sites, as bytes that can be checked.

A message is a safetensors file: arrays of numbers, and the rest as an array of bytes that is JSON. Nothing in it is
executed. Numbers have double precision, or are masked integers. A digest (SHA-256) shows damage; with a key that centre
and site share, a code (HMAC-SHA-256) shows who wrote it.

Every request after the adjustment carries the preparations of its members, so that a site needs no memory of earlier
rounds.

Shape letters: N people, R regions.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from rindices._typing import FloatArray
from rindices.errors import RindicesError, StudyError
from rindices.learners.inference import ContrastiveHead, ShiftHead
from rindices.preprocess.pipeline import Preprocessing

COMPUTE_ERRORS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What numbers and settings of others can raise, LinAlgError among them."""
MAX_MESSAGE_BYTES = 200_000_000
"""Longer messages are refused before they are read."""
REFUSED = "refused"
"""Fact of an answer that says why there are no sums."""
_FIELDS = "fields"  # name of the array of bytes that is JSON
_HEAD_ARRAYS = tuple(each.name for each in fields(ShiftHead) if each.name != "weights")

Arrays = Mapping[str, FloatArray]


class ExchangeError(StudyError):
    """A message is damaged, forged, late or of the wrong content."""


class RefusedError(StudyError):
    """A site refuses a request, because the answer would tell too much about single people."""


class WaitingError(StudyError):
    """Sites have not answered in time; what was answered is kept, and the same command goes on."""


@dataclass(frozen=True, eq=False)
class Request:
    """What the centre asks all sites in one round.

    kind: one of `rindices.federated.kinds.KINDS`; round: number of the round, from 1; settings: plain values: the plan
    of the subsamples, names of sets of people, codings of covariates; arrays: parameters at which to sum.
    """

    kind: str
    round: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the request as bytes, the same for the same values."""
        return _encode({"kind": self.kind, "round": self.round, "settings": self.settings}, self.arrays)

    @cached_property
    def digest(self) -> str:
        """Digest of the request as bytes."""
        return compute_message_digest(self.encode())

    @classmethod
    def decode(cls, content: bytes) -> "Request":
        """Return the request of bytes."""
        fields, arrays = _decode(content, "the request", ("float64",))
        try:
            return cls(str(fields["kind"]), int(fields["round"]), dict(fields["settings"]), arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise ExchangeError("the request is none: copy it again.") from error


@dataclass(frozen=True, eq=False)
class Answer:
    """Sums over the people of one site.

    request: digest of the request that is answered; numbers: number of people in each set of the request
    (`rindices.federated.kinds.list_sets`); arrays: the sums; facts: answer to ``describe``: names of regions and
    covariates; or why the request is refused; site: name of the site, so that an answer in the place of another one is
    noticed without keys, too.
    """

    request: str
    numbers: Sequence[int] = ()
    arrays: Arrays = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    site: str = ""

    def encode(self) -> bytes:
        """Return the answer as bytes."""
        fields = {"request": self.request, "site": self.site, "numbers": list(self.numbers), "facts": self.facts}
        return _encode(fields, self.arrays)

    @classmethod
    def decode(cls, content: bytes, name: str = "the answer") -> "Answer":
        """Return the answer of bytes; ``name`` stands in messages."""
        fields, arrays = _decode(content, name, ("float64", "uint64"))
        try:
            numbers = list(fields["numbers"])
            if not all(type(number) is int for number in numbers):
                raise TypeError
            return cls(str(fields["request"]), numbers, arrays, dict(fields["facts"]), str(fields["site"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ExchangeError(f"{name} is not an answer: let the site send it again.") from error


def receive_answer(content: bytes, site: str, request: Request, digest: str = "") -> Answer:
    """Return the answer of a site to a request; all transports receive answers by it.

    digest: that of the request, if it is equal but for rounding. Raises ExchangeError: if the answer is damaged, to
    another request or of another site. Raises RefusedError: if the site refuses.
    """
    name = f"the answer of {site} in round {request.round}"
    answer = Answer.decode(content, name)
    if answer.request != (digest or request.digest):
        raise ExchangeError(f"{name} is to another request: it is late, repeated or forged.")
    if answer.site != site:
        raise ExchangeError(f"{name} is that of {make_printable(answer.site)}: let {site} send its own.")
    if REFUSED in answer.facts:
        reason = make_printable(answer.facts[REFUSED])
        raise RefusedError(f"{site} refuses round {request.round} ({request.kind}): {reason}")
    return answer


def make_printable(text: object) -> str:
    """Return the words of others for the screen: one line, no control characters, not long."""
    return "".join(char if char.isprintable() else " " for char in str(text)[:500])


def compute_message_digest(content: bytes) -> str:
    """Return the SHA-256 of a message."""
    return hashlib.sha256(content).hexdigest()


def sign_message(content: bytes, key: bytes | None, *belongs_to: str | int) -> str:
    """Return the HMAC-SHA-256 of a message under a key; empty without one.

    *belongs_to: what the message is, its run, its site and its round: nowhere else is the signature valid.
    """
    return "" if key is None else hmac.new(key, json.dumps(belongs_to).encode() + content, hashlib.sha256).hexdigest()


def is_signed(content: bytes, signature: object, key: bytes | None, *belongs_to: str | int) -> bool:
    """Return whether a signature fits a message and what it belongs to; without a key all do."""
    signed = sign_message(content, key, *belongs_to)
    return key is None or hmac.compare_digest(signed.encode(), str(signature).encode("utf-8", "surrogatepass"))


def pack_symmetric(matrices: FloatArray) -> FloatArray:
    """Return the upper triangles of symmetric matrices, (..., R, R) -> (..., R (R + 1) / 2)."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    return np.ascontiguousarray(matrices[..., rows, columns])


def unpack_symmetric(packed: FloatArray) -> FloatArray:
    """Invert `pack_symmetric`."""
    size = round((np.sqrt(8 * packed.shape[-1] + 1) - 1) / 2)
    rows, columns = np.triu_indices(size)
    matrices = np.empty((*packed.shape[:-1], size, size))
    matrices[..., rows, columns] = packed
    matrices[..., columns, rows] = packed
    return matrices


def count_packed(size: int) -> int:
    """Return the length of a packed symmetric matrix."""
    return size * (size + 1) // 2


def _encode(fields: Mapping[str, Any], arrays: Arrays) -> bytes:
    text = json.dumps(fields, sort_keys=True, allow_nan=False).encode()
    types = {name: np.uint64 if array.dtype == np.uint64 else np.float64 for name, array in arrays.items()}
    content = {name: np.array(array, dtype=types[name], order="C") for name, array in arrays.items()}
    return bytes(to_bytes({**content, _FIELDS: np.frombuffer(text, dtype=np.uint8)}))


def _decode(content: bytes, name: str, types: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return the plain values and the arrays of a message."""
    if len(content) > MAX_MESSAGE_BYTES:
        raise ExchangeError(f"{name} has {len(content):,} bytes, which no message has: let it be sent again.")
    try:
        arrays = from_bytes(content)
        fields = json.loads(arrays.pop(_FIELDS).tobytes())
    except (SafetensorError, ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise ExchangeError(f"{name} is truncated or damaged: let it be sent again.") from error
    if not isinstance(fields, dict) or any(array.dtype not in types for array in arrays.values()):
        raise ExchangeError(f"{name} has values of another type than a message: let it be sent again.")
    return fields, arrays


def number_arrays(parts: Sequence[Arrays]) -> dict[str, FloatArray]:
    """Return the arrays of several tasks or models, named by their positions."""
    return {f"{name}.{k}": array for k, arrays in enumerate(parts) for name, array in arrays.items()}


def check_arrays(arrays: Arrays, shapes: Mapping[str, tuple[int, ...]], name: str) -> None:
    """Refuse arrays of other names or shapes than expected, and numbers that are not finite.

    Raises ExchangeError: that names the first fault.
    """
    for extra in sorted(set(arrays) - set(shapes)):
        raise ExchangeError(f"{name} has an array {extra[:40]!r} that was not asked for.")
    for key, shape in shapes.items():
        if key not in arrays:
            raise ExchangeError(f"{name} lacks the array {key!r}.")
        if arrays[key].shape != shape:
            raise ExchangeError(f"{name}: {key!r} has shape {arrays[key].shape}, not {shape}.")
        if arrays[key].dtype.kind != "f" or not np.isfinite(arrays[key]).all():
            raise ExchangeError(f"{name}: {key!r} has numbers that are not finite.")


@dataclass(frozen=True, eq=False)
class Preparation:
    """Adjustment and scale of the people of a member, learnt from the controls that it sees.

    head: standardisation and log transform; its weights are not used.
    """

    preprocessing: Preprocessing
    head: ContrastiveHead

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the arrays for a request."""
        return self.preprocessing.to_arrays() | {f"head.{name}": getattr(self.head, name) for name in _HEAD_ARRAYS}

    @classmethod
    def from_request(cls, request: Request, key: str) -> Self:
        """Return a preparation of a request.

        Raises ExchangeError: if the request lacks it.
        """
        try:
            arrays = get_prepared_arrays(request, key)
            preprocessing = Preprocessing.from_parts(request.settings["preparations"][key], arrays)
            head = {name: arrays[f"head.{name}"] for name in _HEAD_ARRAYS}
        except (KeyError, TypeError, ValueError, AttributeError, RindicesError) as error:
            raise ExchangeError(f"the request {request.kind} lacks the adjustment: the centre must send it.") from error
        return cls(preprocessing, ContrastiveHead(**head, weights=np.zeros((len(preprocessing.regions), 1))))


def pack_preparations(preparations: Mapping[str, Preparation]) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return settings and arrays of a request with these preparations, by key."""
    settings = {key: each.preprocessing.to_dict() for key, each in preparations.items()}
    packed = {key: each.to_arrays() for key, each in preparations.items()}
    arrays = {f"{key}/{name}": array for key, own in packed.items() for name, array in own.items()}
    return {"preparations": settings}, arrays


def get_prepared_arrays(request: Request, key: str) -> dict[str, FloatArray]:
    """Return the arrays of one preparation of a request."""
    prefix = f"{key}/"
    return {name.removeprefix(prefix): each for name, each in request.arrays.items() if name.startswith(prefix)}

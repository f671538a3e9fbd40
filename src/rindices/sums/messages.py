"""Requests for sums over people, and answers, as bytes that can be checked.

A message is a safetensors file: arrays of numbers of double precision, and the rest as
an array of bytes that is JSON. Nothing in it is executed.

Every request after the adjustment carries the preparations of its members. So who
answers needs no memory of earlier rounds.

Shape letters: N people, R regions.
"""

import hashlib
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

COMPUTE_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)
"""What numbers and settings of others can raise, LinAlgError among them."""
MAX_MESSAGE_BYTES = 200_000_000
"""Longer messages are refused before they are read."""
_FIELDS = "fields"  # name of the array of bytes that is JSON
_HEAD_ARRAYS = tuple(each.name for each in fields(ShiftHead) if each.name != "weights")

Arrays = Mapping[str, FloatArray]


class SumsError(StudyError):
    """A request or an answer is not as it should be, or cannot be computed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """What is asked of all people in one round.

    Parameters
    ----------
    kind : str
        One of `rindices.sums.kinds.KINDS`.
    round : int
        Number of the round, from 1.
    settings : mapping
        Plain values: the plan of the subsamples, names of sets of people, codings of
        covariates.
    arrays : mapping of str to ndarray
        Parameters at which to sum.
    """

    kind: str
    round: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the request as bytes, the same for the same values."""
        return _encode(
            {"kind": self.kind, "round": self.round, "settings": self.settings},
            self.arrays,
        )

    @cached_property
    def digest(self) -> str:
        """Digest of the request as bytes."""
        return compute_message_digest(self.encode())

    @classmethod
    def decode(cls, content: bytes) -> "Request":
        """Return the request of bytes."""
        fields, arrays = _decode(content, "the request")
        try:
            return cls(
                kind=str(fields["kind"]),
                round=int(fields["round"]),
                settings=dict(fields["settings"]),
                arrays=arrays,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SumsError(
                "the request has no kind, round or settings: it must be sent again."
            ) from error


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """Sums over the people of one part.

    Parameters
    ----------
    request : str
        Digest of the request that is answered.
    numbers : sequence of int
        Number of people in each set of the request (`rindices.sums.kinds.list_sets`).
    arrays : mapping of str to ndarray
        The sums.
    facts : mapping
        Answer to ``describe``: names of regions and covariates.
    """

    request: str
    numbers: Sequence[int] = ()
    arrays: Arrays = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the answer as bytes."""
        fields = {
            "request": self.request,
            "numbers": list(self.numbers),
            "facts": self.facts,
        }
        return _encode(fields, self.arrays)

    @classmethod
    def decode(cls, content: bytes, name: str = "the answer") -> "Answer":
        """Return the answer of bytes; errors call it by ``name``."""
        fields, arrays = _decode(content, name)
        try:
            numbers = list(fields["numbers"])
            if not all(type(number) is int for number in numbers):
                raise TypeError
            return cls(
                request=str(fields["request"]),
                numbers=numbers,
                arrays=arrays,
                facts=dict(fields["facts"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SumsError(
                f"{name} is not an answer: it must be sent again."
            ) from error


def receive_answer(content: bytes, part: str, request: Request) -> Answer:
    """Return the answer of a part to a request.

    Raises SumsError: if the answer is damaged, or to another request.
    """
    name = f"the answer of {part} in round {request.round}"
    answer = Answer.decode(content, name)
    if answer.request != request.digest:
        raise SumsError(f"{name} is to another request: it is late or repeated.")
    return answer


def compute_message_digest(content: bytes) -> str:
    """Return the SHA-256 of a message."""
    return hashlib.sha256(content).hexdigest()


def pack_symmetric(matrices: FloatArray) -> FloatArray:
    """Return the upper triangles of symmetric matrices, (..., R, R) -> (..., R (R + 1)
    / 2).
    """
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
    content = {
        name: np.array(array, dtype=np.float64, order="C")
        for name, array in arrays.items()
    }
    return bytes(to_bytes({**content, _FIELDS: np.frombuffer(text, dtype=np.uint8)}))


def _decode(content: bytes, name: str) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return the plain values and the arrays of a message."""
    if len(content) > MAX_MESSAGE_BYTES:
        raise SumsError(
            f"{name} has {len(content):,} bytes, which no message has: let it be sent again."
        )
    try:
        arrays = from_bytes(content)
        fields = json.loads(arrays.pop(_FIELDS).tobytes())
    except (
        SafetensorError,
        ValueError,
        TypeError,
        KeyError,
        RecursionError,
        MemoryError,
    ) as error:
        raise SumsError(
            f"{name} is truncated or damaged: let it be sent again."
        ) from error
    if not isinstance(fields, dict) or any(
        array.dtype != np.float64 for array in arrays.values()
    ):
        raise SumsError(
            f"{name} has values of another type than a message: let it be sent again."
        )
    return fields, arrays


def number_arrays(parts: Sequence[Arrays]) -> dict[str, FloatArray]:
    """Return the arrays of several tasks or models, with their positions in their
    names.
    """
    return {
        f"{name}.{k}": array
        for k, arrays in enumerate(parts)
        for name, array in arrays.items()
    }


def check_arrays(
    arrays: Arrays, shapes: Mapping[str, tuple[int, ...]], name: str
) -> None:
    """Refuse arrays of other names or shapes than expected, and numbers that are not
    finite.

    Raises SumsError: that names the first fault.
    """
    for extra in sorted(set(arrays) - set(shapes)):
        raise SumsError(f"{name} has an array {extra[:40]!r} that was not asked for.")
    for key, shape in shapes.items():
        if key not in arrays:
            raise SumsError(f"the array {key!r} is missing in {name}.")
        if arrays[key].shape != shape:
            raise SumsError(
                f"{name}: {key!r} has shape {arrays[key].shape}, not {shape}."
            )
        if arrays[key].dtype.kind != "f" or not np.isfinite(arrays[key]).all():
            raise SumsError(f"{name}: {key!r} has numbers that are not finite.")


@dataclass(frozen=True, eq=False)
class Preparation:
    """Adjustment and scale of the people of a member, learnt from the controls that it
    sees.

    Parameters
    ----------
    preprocessing : Preprocessing
        Adjustment for covariates, and standardisation.
    head : ContrastiveHead
        Scale of controls and log transform; its weights are not used.
    """

    preprocessing: Preprocessing
    head: ContrastiveHead

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the arrays for a request."""
        return self.preprocessing.to_arrays() | {
            f"head.{name}": getattr(self.head, name) for name in _HEAD_ARRAYS
        }

    @classmethod
    def from_request(cls, request: Request, key: str) -> Self:
        """Return a preparation of a request.

        Raises SumsError: if it is missing.
        """
        try:
            arrays = get_prepared_arrays(request, key)
            preprocessing = Preprocessing.from_parts(
                request.settings["preparations"][key], arrays
            )
            head = {name: arrays[f"head.{name}"] for name in _HEAD_ARRAYS}
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            RindicesError,
        ) as error:
            raise SumsError(
                f"the adjustment is missing in the request {request.kind}: it must be sent again."
            ) from error
        return cls(
            preprocessing,
            ContrastiveHead(**head, weights=np.zeros((len(preprocessing.regions), 1))),
        )


def pack_preparations(
    preparations: Mapping[str, Preparation],
) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return settings and arrays of a request with these preparations, by key."""
    settings = {key: each.preprocessing.to_dict() for key, each in preparations.items()}
    packed = {key: each.to_arrays() for key, each in preparations.items()}
    arrays = {
        f"{key}/{name}": array
        for key, own in packed.items()
        for name, array in own.items()
    }
    return {"preparations": settings}, arrays


def get_prepared_arrays(request: Request, key: str) -> dict[str, FloatArray]:
    """Return the arrays of one preparation of a request."""
    prefix = f"{key}/"
    return {
        name.removeprefix(prefix): each
        for name, each in request.arrays.items()
        if name.startswith(prefix)
    }

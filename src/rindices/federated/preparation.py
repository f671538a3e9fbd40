"""Preparation of people, as every request after the adjustment carries it: a site needs no memory of earlier rounds.

Shape letters: N people, R regions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import RindicesError
from rindices.federated.exceptions import ExchangeError
from rindices.federated.messages import Request
from rindices.learners.inference import ContrastiveHead, ShiftHead
from rindices.preprocess.pipeline import Preprocessing

_PREFIXES = ("harmonise.", "residualise.", "standardise.", "head.")
_HEAD_ARRAYS = tuple(field.name for field in fields(ShiftHead) if field.name != "weights")


@dataclass(frozen=True, eq=False)
class Preparation:
    """Adjustment and scale of the people, learnt from the controls of all sites.

    head: standardisation and log transform; its weights are not used.
    """

    preprocessing: Preprocessing
    head: ContrastiveHead

    def to_settings(self) -> dict[str, Any]:
        """Return the plain values for a request."""
        return {"preprocessing": self.preprocessing.to_dict()}

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the arrays for a request."""
        return self.preprocessing.to_arrays() | {f"head.{name}": getattr(self.head, name) for name in _HEAD_ARRAYS}

    @classmethod
    def from_request(cls, request: Request) -> Self:
        """Return the preparation of a request.

        Raises ExchangeError: if the request has none.
        """
        try:
            preprocessing = Preprocessing.from_parts(request.settings["preprocessing"], request.arrays)
            arrays = {name: request.arrays[f"head.{name}"] for name in _HEAD_ARRAYS}
        except (KeyError, TypeError, ValueError, AttributeError, RindicesError) as error:
            raise ExchangeError(f"the request {request.kind} lacks the adjustment: the centre must send it.") from error
        return cls(preprocessing, ContrastiveHead(**arrays, weights=np.zeros((len(preprocessing.regions), 1))))

    @staticmethod
    def get_key(request: Request) -> tuple[bytes, ...]:
        """Return a key that changes with the preparation of a request."""
        names = sorted(name for name in request.arrays if name.startswith(_PREFIXES))
        return tuple(request.arrays[name].tobytes() for name in names)


def get_control_scale(n_controls: int) -> float:
    """Return the standard deviation of controls, divided by N, where that divided by N - 1 is 0.1."""
    return float(0.1 * np.sqrt((n_controls - 1) / n_controls))


def check_arrays(arrays: Mapping[str, FloatArray], shapes: Mapping[str, tuple[int, ...]], name: str) -> None:
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
        if not np.isfinite(arrays[key]).all():
            raise ExchangeError(f"{name}: {key!r} has numbers that are not finite.")

"""Arrays inside a page: numbers as small integers, compressed, as text in base 64.

The script ``packing.js``, which a page includes, decodes them. Shape letters: N numbers.
"""

import base64
import zlib
from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise, takewhile
from typing import NotRequired, TypedDict

import numpy as np

from rindices._typing import AnyArray, FloatArray

_TYPES = ("uint8", "uint16", "float32", "float64")
_MAX_SHARED = 127  # characters that texts share; at most 254 units of UTF-16, which one byte can hold


class PackedArray(TypedDict):
    """Where an array is in the bytes of a page, and how its numbers are to be read.

    The first bytes of all numbers come first, then the second bytes, and so on: bytes of the same place are more alike
    than those of a number, so that they are compressed better.
    A code c of a quantised array means ``low + c * step``; the largest code means that the number is missing.
    """

    type: str
    start: int
    length: int
    low: NotRequired[float]
    step: NotRequired[float]


class PackedArrays(TypedDict):
    """Arrays for a page: their places, and all bytes compressed by zlib, in base 64."""

    arrays: dict[str, PackedArray]
    bytes: str


class ArrayPacker:
    """Collects arrays for a page."""

    def __init__(self) -> None:
        self._arrays: dict[str, PackedArray] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, name: str, values: AnyArray) -> None:
        """Add an array of one of the types uint8, uint16, float32 and float64, as it is."""
        if values.dtype.name not in _TYPES:
            raise TypeError(f"{name} has the type {values.dtype.name}: give {', '.join(_TYPES)}.")
        numbers = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        content = numbers.reshape(-1, 1).view(np.uint8).T.tobytes()
        self._parts.append(content)
        self._arrays[name] = PackedArray(type=values.dtype.name, start=self._size, length=values.size)
        self._size += len(content)

    def add_quantised(self, name: str, values: FloatArray, n_levels: int = 65_535) -> float:
        """Add numbers (N,) in equal steps from the smallest to the largest; NaN stays missing.

        Few levels are compressed well, also if they need two bytes each.

        values (N,); n_levels: at most 65,535. Returns the largest error, half a step.
        """
        kind = "uint8" if n_levels < 256 else "uint16"
        missing = int(np.iinfo(kind).max)
        measured = values[np.isfinite(values)]
        low, high = (float(measured.min()), float(measured.max())) if measured.size else (0.0, 0.0)
        step = (high - low) / (n_levels - 1) or 1.0
        codes = np.where(np.isfinite(values), np.round((values - low) / step), missing)
        self.add(name, codes.astype(kind))
        self._arrays[name] |= {"low": low, "step": step}
        return step / 2

    def add_sorted_texts(self, name: str, texts: Sequence[str]) -> None:
        """Add texts, each as the number of characters that it shares with the one before, and the rest.

        name: of the rests, which are separated by line ends; the numbers are called ``name_shared``; texts: without
        line ends. Sorted texts are compressed best.
        """
        prefixes = [_find_prefix(before, text)[:_MAX_SHARED] for before, text in pairwise(["", *texts])]
        rests = [text[len(prefix) :] for prefix, text in zip(prefixes, texts, strict=True)]
        # scripts count characters in units of UTF-16
        shared = np.array([len(prefix.encode("utf-16-le")) // 2 for prefix in prefixes], dtype=np.uint8)
        self.add(f"{name}_shared", shared)
        self.add(name, np.frombuffer("\n".join(rests).encode(), np.uint8))

    def pack(self) -> PackedArrays:
        """Return all arrays for a page."""
        return PackedArrays(
            arrays=self._arrays, bytes=base64.b64encode(zlib.compress(b"".join(self._parts), 9)).decode()
        )


def _find_prefix(first: str, second: str) -> str:
    """Return the characters with which both texts begin."""
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return "".join(pair[0] for pair in equal)


def read_decoder() -> str:
    """Return the script with which a page decodes its arrays: ``await unpackArrays(packed)``."""
    return (files("rindices") / "packing.js").read_text("utf-8")

"""Arrays inside a page, compressed, as text in base 64; the script ``packing.js``,
which it includes, decodes them.
"""

import base64
import zlib
from importlib.resources import files
from typing import TypedDict

import numpy as np

from rindices._typing import AnyArray

_TYPES = ("uint8", "uint16", "float32", "float64")


class PackedArray(TypedDict):
    """Where an array is in the bytes of a page.

    The first bytes of all numbers come first, then the second bytes, and so on. Bytes
    of the same place are more alike than those of a number, and so compress better.

    Attributes
    ----------
    type : str
        Type of the numbers.
    start : int
        Position of the first byte.
    length : int
        Number of bytes.
    """

    type: str
    start: int
    length: int


class PackedArrays(TypedDict):
    """Arrays for a page.

    Attributes
    ----------
    arrays : dict
        Place of each array.
    bytes : str
        All bytes, compressed by zlib, in base 64.
    """

    arrays: dict[str, PackedArray]
    bytes: str


class ArrayPacker:
    """Collects arrays for a page."""

    def __init__(self) -> None:
        self._arrays: dict[str, PackedArray] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, name: str, values: AnyArray) -> None:
        """Add an array of one of the types uint8, uint16, float32 and float64, as it
        is.
        """
        if values.dtype.name not in _TYPES:
            raise TypeError(
                f"{name} has the type {values.dtype.name}: give {', '.join(_TYPES)}."
            )
        numbers = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        content = numbers.reshape(-1, 1).view(np.uint8).T.tobytes()
        self._parts.append(content)
        self._arrays[name] = PackedArray(
            type=values.dtype.name, start=self._size, length=values.size
        )
        self._size += len(content)

    def pack(self) -> PackedArrays:
        """Return all arrays for a page."""
        return PackedArrays(
            arrays=self._arrays,
            bytes=base64.b64encode(zlib.compress(b"".join(self._parts), 9)).decode(),
        )


def read_decoder() -> str:
    """Return the script with which a page decodes its arrays: ``await
    unpackArrays(packed)``.
    """
    return (files("rindices") / "packing.js").read_text("utf-8")

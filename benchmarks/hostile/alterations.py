"""Ways to alter a value, an array or bytes, wherever they stand."""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

HOSTILE_VALUES: list[Any] = [
    *(
        None,
        True,
        -1,
        0,
        1,
        2.5,
        1e-300,
        1e300,
        1e999,
        -1e999,
        float("nan"),
        10**30,
        10**400,
        2**31,
        "",
        "x",
    ),
    *(
        "n\ne\nw",
        "\ud800",
        "\x1b[31m",
        "é" * 300,
        "x" * 1_000_000,
        [],
        {},
        [[]],
        [None],
        [1, 2],
        ["a", "a"],
    ),
    *({"a": 1}, {"": []}),
]


class Alteration(NamedTuple):
    """A way to alter a file: its family, its name, and a function that returns the
    content.
    """

    family: str
    name: str
    make: Callable[[], bytes]


class FileMaker:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __deepcopy__(self, memo: dict[int, Any]) -> "FileMaker":
        return self  # copying would call what it is reduced to

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self.path, "w"))


def flip_bytes(content: bytes, low: int, high: int, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    changed = bytearray(content)
    for place in rng.integers(low, high, size=rng.integers(1, 4)):
        changed[place] = rng.integers(256)
    return bytes(changed)


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value in nested dictionaries and lists; of a long list
    only to its ends.
    """
    if path:
        yield path
    keys = (
        list(value)
        if isinstance(value, dict)
        else list(range(len(value)))
        if isinstance(value, list)
        else []
    )
    for key in keys if isinstance(value, dict) else [*keys[:2], *keys[2:][-1:]]:
        yield from list_paths(value[key], (*path, key))


def set_path(path: Sequence[Any], value: Any, container: Any) -> None:
    for key in path[:-1]:
        container = container[key]
    container[path[-1]] = copy.deepcopy(value)


def delete_path(path: Sequence[Any], container: Any) -> None:
    for key in path[:-1]:
        container = container[key]
    del container[path[-1]]


def double_path(path: Sequence[Any], container: Any) -> None:
    """Repeat a list, reverse a text, and change the sign of a number."""
    for key in path[:-1]:
        container = container[key]
    value = container[path[-1]]
    is_number = isinstance(value, int | float)
    container[path[-1]] = (
        value * 2
        if isinstance(value, list)
        else -value
        if is_number
        else str(value)[::-1]
    )


def set_first(value: float, array: np.ndarray) -> np.ndarray:
    array.flat[0] = value
    return array


def cast(dtype: str, array: np.ndarray) -> np.ndarray:
    return array.astype(dtype)


ARRAY_CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{
        f"one {value}": partial(set_first, value)
        for value in (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, 1e-300, 1e20)
    },
    **{
        f"all {value}": partial(np.full_like, fill_value=value)
        for value in (np.nan, np.inf, -1.0, 0.0, 1e38, 5e-324)
    },
    **{
        f"type {dtype}": partial(cast, dtype)
        for dtype in ("int64", "float32", "float16", "bool", "uint8")
    },
    "negative": np.negative,
    "reversed": lambda array: array[..., ::-1] if array.ndim else -array,
    "transposed": np.transpose,
    "huge": lambda array: array * 1e29,
    "tiny": lambda array: array * 1e-29,
    "squared": lambda array: array**9,
    "longer": lambda array: (
        np.concatenate([array, array]) if array.ndim else np.zeros(2)
    ),
    "shorter": lambda array: array[:-1] if array.ndim else np.zeros(0),
    "flat": np.ravel,
    "lower triangle": lambda array: (
        np.tril(array) if array.ndim == 2 else array[..., None]
    ),
    "random": lambda array: np.random.default_rng(0).normal(0, 1e6, array.shape),
}

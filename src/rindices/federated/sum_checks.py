"""Sums that no people can have: a site that sends them is named, before they are added to those of others.

Sums of products of functions of people are Gram matrices, which have no negative eigenvalue, and sums of functions with
a range lie within that range times the number of people. What is possible and merely untrue passes.

Shape letters: D columns of a Gram matrix.
"""

from collections.abc import Iterator

import numpy as np

from rindices._typing import FloatArray
from rindices.federated import kinds
from rindices.federated.messages import Answer, Request, unpack_symmetric
from rindices.federated.subsets import GROUPS

_TOLERANCE = 1e-8
_SQUARE_ROOT_OF_E = float(np.exp(0.5))


def find_impossible_sums(answer: Answer, request: Request) -> str:
    """Return the name of sums that no people can have; empty if there are none.

    answer: with the arrays and counts that the request asks for.
    """
    grams = (name for name, matrices in _list_grams(answer, request) if not _is_gram(matrices))
    ranges = (
        name
        for name, array, low, high in _list_ranges(answer, request)
        if ((array < low - _TOLERANCE * (high + 1.0)) | (array > high + _TOLERANCE * (high + 1.0))).any()
    )
    return next(grams, "") or next(ranges, "")


def _list_grams(answer: Answer, request: Request) -> Iterator[tuple[str, FloatArray]]:
    """Yield sums of products (..., D, D) of 1 and functions of people; the first is their number."""
    arrays = answer.arrays
    if request.kind in (kinds.PRODUCTS, kinds.AGREEMENT):
        for group, number in answer.counts.items():
            prefix = f"{group}." if request.kind == kinds.PRODUCTS else ""
            products = unpack_symmetric(arrays[f"{prefix}products"])
            yield f"{prefix}products", _border(products, arrays[f"{prefix}sum"], number)
    if request.kind == kinds.TRANSFORM:
        for group in GROUPS:
            yield f"{group}.squares", _pair(arrays[f"{group}.sum"], arrays[f"{group}.squares"], answer.counts[group])
    if request.kind in (kinds.MOMENTS, kinds.BLOCKS):
        numbers = np.array([float(answer.counts[name]) for name in kinds.list_counted_sets(request)])
        products = unpack_symmetric(arrays["products"])
        if request.kind == kinds.BLOCKS:
            yield "squares", _pair(arrays["sum"], arrays["squares"], numbers[:, None])
            yield "products", _border(products, arrays["sum"] @ request.arrays["directions"], numbers)
        else:  # 1, |x|^2 and x
            lengths = np.trace(products, axis1=1, axis2=2)[:, None]
            inner = _border(products, arrays["weighted"], arrays["fourth"])
            yield "products", _border(inner, np.concatenate([lengths, arrays["sum"]], axis=1), numbers)
    if request.kind == kinds.CURVES:
        for name, array in arrays.items():
            if name.startswith(("gram.", "normal.")):
                yield name, unpack_symmetric(array)


def _list_ranges(answer: Answer, request: Request) -> Iterator[tuple[str, FloatArray, FloatArray, FloatArray]]:
    """Yield sums with the smallest and the largest value that their people can have."""
    arrays, counts = answer.arrays, answer.counts
    everyone = np.array(float(sum(counts.values())))
    if request.kind == kinds.AGREEMENT:  # of numbers from 0 to 1
        yield "sum", arrays["sum"], 0.0 * everyone, everyone
    if request.kind == kinds.DISTRIBUTION:
        for name, array in arrays.items():
            number = np.array(float(counts.get(name.removesuffix(".cosines"), everyone)))
            yield name, array, -number, number
    for name, array in arrays.items() if "tasks" in request.settings else ():
        key, positions = name.partition(".")[2], kinds.list_groups_of_tasks(request.settings["tasks"])
        tasks = [request.settings["tasks"][k] for k in positions[key]]
        numbers = np.array([float(counts[f"{task[0]}/patients"]) for task in tasks])
        if name.startswith("gram."):
            yield name, array, np.zeros((len(tasks), 1)), numbers[:, None]
        if name.startswith("sums."):  # s exp(-s^2 / 2) and exp(-s^2 / 2)
            numbers, half = numbers[:, None, None], array.shape[-1] // 2
            yield name, array[..., 0], -numbers / _SQUARE_ROOT_OF_E, numbers / _SQUARE_ROOT_OF_E
            yield name, array[..., half], 0.0 * numbers, numbers


def _border(products: FloatArray, edge: FloatArray, corner: FloatArray | int) -> FloatArray:
    """Return matrices (..., D, D) with one more row and column in front."""
    matrices = np.empty((*products.shape[:-2], *(size + 1 for size in products.shape[-2:])))
    matrices[..., 1:, 1:], matrices[..., 0, 0] = products, corner
    matrices[..., 0, 1:] = matrices[..., 1:, 0] = edge
    return matrices


def _pair(total: FloatArray, squares: FloatArray, number: FloatArray | int) -> FloatArray:
    return _border(squares[..., None, None], total[..., None], number)


def _is_gram(matrices: FloatArray) -> bool:
    """Return whether matrices (..., D, D) have no negative eigenvalue, but for rounding, and nobody has no sums."""
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    if (diagonal < 0).any() or matrices[diagonal[..., 0] == 0].any():
        return False
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = matrices / scale[..., :, None] / scale[..., None, :]
    try:
        np.linalg.cholesky(scaled + _TOLERANCE * np.eye(matrices.shape[-1]))
    except np.linalg.LinAlgError:
        return False
    return True

"""Missing cells under a normal distribution: what the measured regions of a person say
about the others.

With precision P = C^-1 and a person's missing regions m and measured regions o,
everything follows from the small matrix P_mm: the covariance of the missing regions
given the measured ones is P_mm^-1, their expectation is -P_mm^-1 P_mo x_o, the measured
part of a product a' C_oo^-1 b is a' P b - (P a)_m' P_mm^-1 (P b)_m, and the determinant
of C_oo is that of C times that of P_mm. People who lack the same regions are treated
together. Shape letters: N people, R regions, J groups, Q missing regions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray

_MAX_BLOCK_CELLS = 2_000_000  # in memory at once
_N_COMPLETIONS = (
    8  # rounds in which missing cells and the covariance are estimated in turn
)
_MIN_COMPLETION_CHANGE = (
    1e-2  # of the completed cells, in standard deviations, at which the rounds end
)


class MissingGroup(NamedTuple):
    """People who lack the same regions.

    Attributes
    ----------
    rows : ndarray of shape (N,)
        Their positions in the table.
    missing : ndarray of shape (Q,)
        Positions of the regions that they lack.
    """

    rows: IntArray
    missing: IntArray


def group_by_missing_cells(values: FloatArray) -> list[MissingGroup]:
    """Return the people (N, R) in groups that lack the same regions; people who lack
    none are in no group.
    """
    return _group_by_mask(np.isnan(values))


def _group_by_mask(is_missing: BoolArray) -> list[MissingGroup]:
    """Return the groups of a mask (N, R) of missing cells."""
    rows = np.flatnonzero(is_missing.any(axis=1))
    if not len(rows):
        return []
    keys = np.packbits(is_missing[rows], axis=1)
    _, first, labels = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(labels.ravel(), kind="stable")
    parts = np.split(rows[order], np.cumsum(np.bincount(labels.ravel()))[:-1])
    return [
        MissingGroup(part, np.flatnonzero(is_missing[rows[k]]))
        for part, k in zip(parts, first, strict=True)
    ]


def find_complete_rows(values: FloatArray) -> BoolArray:
    """Return the mask (N,) of people (N, R) without missing cells."""
    return np.asarray(~np.isnan(values).any(axis=1))


@dataclass(frozen=True, kw_only=True)
class MissingRegions:
    """What is needed of a precision for people who lack regions, J groups at a time.

    Groups that lack fewer than Q regions are filled up with a region that does not
    exist, for which all is 0.

    Attributes
    ----------
    rows : ndarray of shape (N,)
        Positions of the people, group after group.
    group : ndarray of shape (N,)
    missing : ndarray of shape (J, Q)
        Positions of the missing regions. R for one that does not exist.
    inverse_root : ndarray of shape (J, Q, Q)
        Inverse of the lower Cholesky factor of P_mm.
    log_determinant : ndarray of shape (J,)
        Log-determinant of C_oo minus that of C.
    """

    rows: IntArray
    group: IntArray
    missing: IntArray
    inverse_root: FloatArray
    log_determinant: FloatArray

    @classmethod
    def compute(cls, batch: "_Batch", precision: FloatArray) -> Self:
        """Return the missing regions of a batch of groups for a precision (R, R)."""
        missing, diagonal = batch.missing, np.arange(batch.missing.shape[1])
        is_padding = missing == len(precision)
        padded = np.pad(precision, ((0, 1), (0, 1)))
        blocks = padded[missing[:, :, None], missing[:, None, :]]
        blocks[:, diagonal, diagonal] += is_padding
        root = np.asarray(np.linalg.cholesky(blocks))
        inverse_root = _invert_triangles(root)
        inverse_root[is_padding] = 0.0
        log_determinant = 2.0 * np.log(root[:, diagonal, diagonal]).sum(axis=1)
        return cls(
            rows=batch.rows,
            group=batch.group,
            missing=missing,
            inverse_root=inverse_root,
            log_determinant=log_determinant,
        )

    def reduce(self, products: FloatArray) -> FloatArray:
        """Return what is lost of products P a, (R, K) -> (J, Q, K): a' C_oo^-1 b is a'
        P b less the lost parts'.
        """
        padded = np.concatenate([products, np.zeros((1, products.shape[1]))])
        return np.asarray(self.inverse_root @ padded[self.missing])

    def reduce_people(self, products: FloatArray) -> FloatArray:
        """Return what is lost of each person's x' P: (N, R) -> (N, Q)."""
        padded = np.pad(products, ((0, 0), (0, 1)))
        own = np.take_along_axis(padded, self.missing[self.group], axis=1)
        return np.asarray((self.inverse_root[self.group] @ own[:, :, None])[:, :, 0])

    def expect(self, reduced: FloatArray) -> FloatArray:
        """Return P_mm^-1 (P a)_m from the result of `reduce`: (J, Q, K) ->
        (J, Q, K).
        """
        return np.asarray(self.inverse_root.transpose(0, 2, 1) @ reduced)

    def expect_people(self, reduced: FloatArray) -> FloatArray:
        """Return the expected missing regions of people of mean 0, from the result of
        `reduce_people`: (N, Q).
        """
        return np.asarray(-(reduced[:, None] @ self.inverse_root[self.group])[:, 0])

    @property
    def covariance(self) -> FloatArray:
        """Covariance (J, Q, Q) of the missing regions, given the others."""
        return np.asarray(self.inverse_root.transpose(0, 2, 1) @ self.inverse_root)

    @property
    def counts(self) -> FloatArray:
        """Number of people (J,) in each group."""
        return np.bincount(self.group, minlength=len(self.missing)).astype(float)

    def find_rows(self) -> slice | IntArray:
        """Return the rows of the people, as a slice where they follow each other
        (`order_by_missing_cells`): it takes no copy.
        """
        first, number = int(self.rows[0]), len(self.rows)
        if np.array_equal(self.rows, np.arange(first, first + number)):
            return slice(first, first + number)
        return self.rows

    def sum_by_group(self, people: FloatArray) -> FloatArray:
        """Return the sum over the people of each group: (N, ...) -> (J, ...)."""
        ends = np.searchsorted(self.group, np.arange(1, len(self.missing) + 1)).tolist()
        sums, start = np.empty((len(self.missing), *people.shape[1:])), 0
        # faster than np.add.reduceat for wide rows
        for total, end in zip(sums, ends, strict=True):
            np.add.reduce(people[start:end], axis=0, out=total)
            start = end
        return sums

    def sum_products(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the sum over the people of each group of products: (N, K), (N, T) ->
        (J, K, T).
        """
        return self.sum_by_group(first[:, :, None] * second[:, None, :])

    def add_blocks(self, target: FloatArray, blocks: FloatArray) -> None:
        """Add blocks (J, Q, Q) of the missing regions to a matrix (R, R), in place."""
        n = len(target) + 1
        flat = self.missing[:, :, None] * n + self.missing[:, None, :]
        target += np.bincount(flat.ravel(), blocks.ravel(), n * n).reshape(n, n)[
            :-1, :-1
        ]

    def add_rows(self, target: FloatArray, blocks: FloatArray) -> None:
        """Add blocks (J, Q, K) of rows of the missing regions to a matrix (R, K), in
        place.
        """
        total = np.zeros((len(target) + 1, target.shape[1]))
        np.add.at(total, self.missing, blocks)
        target += total[:-1]

    def set_missing(self, target: FloatArray, cells: FloatArray) -> None:
        """Set the missing cells of people, (N, Q), in a table that has these people
        among its rows.
        """
        people, columns = np.nonzero(self.missing[self.group] < target.shape[1])
        target[self.rows[people], self.missing[self.group][people, columns]] = cells[
            people, columns
        ]


def _invert_triangles(roots: FloatArray) -> FloatArray:
    """Return the inverses of lower triangular matrices (J, Q, Q), row by row of all of
    them.
    """
    inverse = np.zeros_like(roots)
    for row in range(roots.shape[1]):
        before = roots[:, row, None, :row] @ inverse[:, :row, :row]
        inverse[:, row, :row] = -before[:, 0]
        inverse[:, row, row] = 1.0
        inverse[:, row, : row + 1] /= roots[:, row, row, None]
    return inverse


class _Batch(NamedTuple):
    """Groups side by side, as `MissingRegions` has them.

    Attributes
    ----------
    rows : ndarray of shape (N,)
    group : ndarray of shape (N,)
    missing : ndarray of shape (J, Q)
    """

    rows: IntArray
    group: IntArray
    missing: IntArray

    @classmethod
    def join(cls, groups: Sequence[MissingGroup], n_regions: int) -> Self:
        """Return groups side by side."""
        sizes = [len(group.missing) for group in groups]
        missing = np.full((len(groups), max(sizes)), n_regions)
        for j, group in enumerate(groups):
            missing[j, : sizes[j]] = group.missing
        numbers = [len(group.rows) for group in groups]
        return cls(
            np.concatenate([group.rows for group in groups]),
            np.repeat(np.arange(len(groups)), numbers),
            missing,
        )


def iterate_missing_regions(
    values: FloatArray, precision: FloatArray
) -> Iterator[MissingRegions]:
    """Yield the people (N, R) who lack regions, in batches of groups that lack about as
    many.
    """
    is_missing = np.isnan(values)
    for batch in _make_batches(
        np.packbits(is_missing, axis=1).tobytes(), *values.shape
    ):
        yield MissingRegions.compute(batch, precision)


def order_by_missing_cells(values: FloatArray) -> FloatArray:
    """Return people (N, R) of whom each lacks a cell, in the order in which
    `iterate_missing_regions` takes them.
    """
    batches = _make_batches(
        np.packbits(np.isnan(values), axis=1).tobytes(), *values.shape
    )
    order = np.concatenate([np.zeros(0, np.intp), *(each.rows for each in batches)])
    return np.asarray(values[order])


@lru_cache(maxsize=64)
def _make_batches(packed_mask: bytes, n_people: int, n_regions: int) -> list[_Batch]:
    """Return the groups of a mask of missing cells, in batches; the iterations of a fit
    ask for the same few masks.
    """
    packed = np.frombuffer(packed_mask, np.uint8).reshape(n_people, -1)
    is_missing = np.unpackbits(packed, axis=1, count=n_regions).astype(bool)
    batches: list[list[MissingGroup]] = []
    n_batch_people = 0
    for group in sorted(
        _group_by_mask(is_missing), key=lambda group: len(group.missing)
    ):
        n_batch_people += len(group.rows)
        if not batches or n_batch_people * len(group.missing) ** 2 > _MAX_BLOCK_CELLS:
            batches.append([])
            n_batch_people = len(group.rows)
        batches[-1].append(group)
    return [_Batch.join(batch, n_regions) for batch in batches]


def fill_missing_cells(
    values: FloatArray, precision: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fill the missing cells of people of mean 0 and of this precision.

    Parameters
    ----------
    values : ndarray of shape (N, R)
        Missing cells are NaN.
    precision : ndarray of shape (R, R)

    Returns
    -------
    values : ndarray of shape (N, R)
        Missing cells are their expectations, given the measured ones.
    scatter : ndarray of shape (R, R)
        Sum over people of the covariance of their missing cells, given the others.
    """
    filled = np.where(np.isnan(values), 0.0, values)
    products, scatter = filled @ precision, np.zeros_like(precision)
    for regions in iterate_missing_regions(values, precision):
        cells = regions.expect_people(regions.reduce_people(products[regions.rows]))
        regions.set_missing(filled, cells)
        regions.add_blocks(scatter, regions.counts[:, None, None] * regions.covariance)
    return filled, scatter


def complete_people(
    values: FloatArray, y: IntArray, rng: np.random.Generator | None = None
) -> FloatArray:
    """Fill missing cells by the other cells of a person, with the mean and the
    covariance of the person's group.

    Cells and covariance are estimated in turn (EM of the normal distribution, with a
    Ledoit-Wolf covariance). Patients vary in ways in which controls do not, so each
    group has a covariance of its own.

    Parameters
    ----------
    values : ndarray of shape (N, R)
        Prepared people. Missing cells are NaN.
    y : ndarray of shape (N,)
        Group of each person. 0 for everyone where groups must not matter.
    rng : Generator or None
        If given, cells are drawn from their distribution instead of being its
        expectation. The covariance of people with drawn cells is unbiased. That of
        people with expected cells is too small.

    Returns
    -------
    ndarray of shape (N, R)
        , the same array if nothing is missing.
    """
    if not np.isnan(values).any():
        return values
    completed = values.copy()
    for label in np.unique(y):
        completed[y == label] = _complete_group(values[y == label], rng)
    return completed


def _complete_group(values: FloatArray, rng: np.random.Generator | None) -> FloatArray:
    """Fill the missing cells of people (N, R) of one group; a region that nobody has is
    filled with 1, its mean.
    """
    from rindices.learners.normal_variation import (
        shrink_scatter,
    )  # needs scipy, which applying a model does not

    is_missing = np.isnan(values)
    number = np.maximum((~is_missing).sum(axis=0), 1)
    mean = np.where(
        is_missing.all(axis=0),
        1.0,
        np.where(is_missing, 0.0, values).sum(axis=0) / number,
    )
    deviations = values - mean
    scale = np.sqrt(np.where(is_missing, 0.0, deviations**2).sum(axis=0) / number)
    scale = np.where(scale > 0, scale, 1.0)
    deviations = deviations / scale
    filled, scatter = (
        np.where(is_missing, 0.0, deviations),
        np.zeros((values.shape[1],) * 2),
    )
    precision: FloatArray = np.eye(values.shape[1])
    for _ in range(_N_COMPLETIONS):
        before, centre = filled, filled.mean(axis=0)
        residuals = filled - centre
        fourth_power = float(np.square(np.square(residuals).sum(axis=1)).sum())
        covariance = shrink_scatter(
            residuals.T @ residuals + scatter, fourth_power, len(values)
        )
        precision = np.asarray(np.linalg.inv(covariance))
        filled, scatter = fill_missing_cells(deviations - centre, precision)
        filled = filled + centre
        if np.abs(filled - before).max() < _MIN_COMPLETION_CHANGE:
            break
    if rng is not None:
        noise = np.zeros_like(filled)
        for regions in iterate_missing_regions(deviations, precision):
            drawn = rng.standard_normal((len(regions.rows), regions.missing.shape[1]))
            regions.set_missing(noise, regions.expect_people(drawn))
        filled = filled + noise
    return np.where(is_missing, mean + scale * filled, values)

"""Left and right exchanged in a block.

a = log left - log right of each pair of regions, m the mean of the others and S the
covariance within blocks. With w = S^-1 m, the slope b = a w / m w of a person is about
1, and -1 where the sides are exchanged. Shape letters: N people, P pairs of regions.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from rindices._typing import BoolArray, FloatArray
from rindices.errors import ProblemCode
from rindices.tables.checks.block_table import (
    SMALLEST_BLOCK,
    Block,
    BlockTable,
    Division,
)
from rindices.tables.checks.numbers import (
    MAD_SCALE,
    NO_BLOCK,
    centre_blocks,
    cut_chunks,
    decompose_covariance,
    find_best_segment,
)
from rindices.tables.layouts.sides import pair_sides

SIDES_SD, SIDES_LIMIT, MAX_SLOPE = 0.25, 4.0, -0.35
"""Spread of the slope between sites, standard errors from both 1 and 0, and slope below
which sides are exchanged.
"""
RANGE_LIMIT = 16.0
"""Log likelihood ratio of a range of rows beyond which its sides are exchanged."""
_MIN_PAIRS, _MAX_CHUNKS, _CHUNK_SIZE, _N_ROUNDS = 6, 8, 20, 4
_WEAK, _CLEAR, _CERTAIN, _LEAST = (
    2.0,
    6.0,
    9.0,
    0.8,
)  # squared distances of exchanged people from others


@dataclass(eq=False, kw_only=True)
class _Discriminant:
    """Axis that separates people with exchanged sides from others.

    Attributes
    ----------
    a : ndarray of shape (N, P)
        Standardised differences of the sides.
    sign : ndarray of shape (N,)
        -1 for people who look exchanged.
    slopes : ndarray of shape (N,)
        Slope of each person's differences on the expected ones.
    distance : float
        Squared distance of exchanged people from the others.
    values : ndarray
        Eigenvalues of the covariance within blocks.
    vectors : ndarray
        Eigenvectors of that covariance.
    """

    a: FloatArray
    sign: FloatArray
    slopes: FloatArray
    distance: float
    values: FloatArray
    vectors: FloatArray

    def weigh(self, mean: FloatArray) -> FloatArray:
        """Return the weights (P,) of the pairs for a mean (P,) of the others."""
        return np.asarray(self.vectors @ ((self.vectors.T @ mean) / self.values))


def check_sides(table: BlockTable) -> None:
    """Find blocks and people whose left and right are exchanged, and exchange them
    again.
    """
    pairs = pair_sides(table.regions)
    if len(pairs) < _MIN_PAIRS:
        return
    left, right = np.array(pairs).T
    discriminant = _discriminate(table, table.X[:, left] - table.X[:, right])
    if discriminant is None:
        table.untested += [("left and right", block) for block in table.main or ()]
        return
    is_swapped = np.zeros(table.n_people, dtype=bool)
    for division in table.divisions:
        _check_division(table, division, discriminant, is_swapped, len(pairs))
    _check_others(table, discriminant, is_swapped)
    table.X[np.ix_(is_swapped, np.concatenate([left, right]))] = table.X[
        np.ix_(is_swapped, np.concatenate([right, left]))
    ]


def _average_profile(table: BlockTable, a: FloatArray, sign: FloatArray) -> FloatArray:
    """Return the mean (P,) of the sites, if there are at least three, else
    of everyone.
    """
    signed = a * sign[:, None]
    if table.main is not None and len(table.main) >= 3:
        rows = [block.rows & table.usable for block in table.main]
        return np.asarray(
            np.median(
                [signed[each].mean(axis=0) for each in rows if each.any()], axis=0
            )
        )
    return np.asarray(signed[table.usable].mean(axis=0))


def _discriminate(table: BlockTable, differences: FloatArray) -> _Discriminant | None:
    """Return the axis that tells exchanged people apart; None if the sides hardly
    differ.
    """
    people = table.usable
    a = np.clip(
        differences
        / np.maximum(MAD_SCALE * np.median(np.abs(differences), axis=0), 1e-9),
        -4,
        4,
    )
    n_chunks = max(1, min(_MAX_CHUNKS, table.n_people // _CHUNK_SIZE))
    chunks = np.where(people, cut_chunks(table.n_people, n_chunks), NO_BLOCK)
    codes = np.where(people, table.main_codes, NO_BLOCK)
    sign, first_axis = (
        np.ones(table.n_people),
        np.linalg.eigh(a[people].T @ a[people])[1][:, -1],
    )
    mean = _average_profile(table, a, sign)
    for number in range(_N_ROUNDS):
        residuals = centre_blocks(centre_blocks(a * sign[:, None], codes), chunks)
        values, vectors = decompose_covariance(residuals[people])
        weights = vectors @ ((vectors.T @ mean) / values)
        distance = float(mean @ weights)
        if distance <= 1e-6:
            return None
        slopes = a @ weights / distance
        if (
            number == 0 and distance < _WEAK
        ):  # little asymmetry, or about half of the people exchanged
            base = np.where(a @ first_axis > 0, 1.0, -1.0)
            base_mean = (a[people] * base[people, None]).mean(axis=0)
            base_values, base_vectors = decompose_covariance(
                a[people] - base[people, None] * base_mean
            )
            if (
                float(
                    base_mean
                    @ (base_vectors @ ((base_vectors.T @ base_mean) / base_values))
                )
                > _CERTAIN
            ):
                sign, mean = base, base_mean
                continue
        if distance > _CLEAR:
            sign = np.where(slopes < -0.5, -1.0, 1.0)
            mean = _average_profile(table, a, sign)
    if (sign[people] < 0).mean() > 0.5:
        sign, slopes = -sign, -slopes
    return _Discriminant(
        a=a, sign=sign, slopes=slopes, distance=distance, values=values, vectors=vectors
    )


def _check_division(
    table: BlockTable,
    division: Division,
    discriminant: _Discriminant,
    is_swapped: BoolArray,
    n_pairs: int,
) -> None:
    """Report blocks whose slope is negative; of two such blocks the smaller one."""
    blocks = list(division)
    measured = [
        (block, _measure_slope(table, division, block, discriminant))
        for block in blocks
    ]
    found = [(block, *each) for block, each in measured if each is not None]
    found = [
        (block, slope, error)
        for block, slope, error in found
        if -slope / error > SIDES_LIMIT
        and (1 - slope) / np.hypot(error, SIDES_SD) > SIDES_LIMIT
        and slope < MAX_SLOPE
    ]
    if len(blocks) == 2 and len(found) == 2:
        found = [min(found, key=lambda each: each[0].size)]
    for block, slope, error in found:
        if (is_swapped & block.rows).sum() > 0.4 * block.size:
            continue
        is_swapped |= block.rows
        ending = f"; slope {slope:.2f} +- {error:.2f} on the differences of {n_pairs} pairs in the others"
        ending += " (1 if alike, -1 if exchanged)"
        ending += (
            "; which of the two blocks is right the table does not say"
            if len(blocks) == 2
            else ""
        )
        _report(table, block, slope, ending)


def _measure_slope(
    table: BlockTable, division: Division, block: Block, discriminant: _Discriminant
) -> tuple[float, float] | None:
    """Return the mean slope of a block on the others, and its standard error; None if
    there are too few others.
    """
    rows, others = (
        block.rows & table.usable,
        ~block.rows & table.usable & (discriminant.sign > 0),
    )
    if others.sum() < SMALLEST_BLOCK or rows.sum() < SMALLEST_BLOCK:
        return None
    signed = discriminant.a * discriminant.sign[:, None]
    if division is table.main and len(division) >= 4:
        blocks = [
            other.rows & table.usable
            for other in division
            if other.label != block.label
        ]
        mean = np.median(
            [signed[each].mean(axis=0) for each in blocks if each.any()], axis=0
        )
    else:
        mean = discriminant.a[others].mean(axis=0)
    weights = discriminant.weigh(mean)
    distance = max(float(mean @ weights), 1e-9)
    slopes = discriminant.a[rows] @ weights / distance
    slope = float(slopes.mean())
    error = max(
        float(slopes.std()) / np.sqrt(rows.sum()), 1 / np.sqrt(distance * rows.sum())
    )
    return slope, float(np.hypot(error, abs(slope) / np.sqrt(distance * others.sum())))


def _check_others(
    table: BlockTable, discriminant: _Discriminant, is_swapped: BoolArray
) -> None:
    """Find exchanged people, or a range of rows, outside the blocks that were found."""
    slopes, distance, people = discriminant.slopes, discriminant.distance, table.usable
    if distance > _CERTAIN:
        is_odd = (slopes < MAX_SLOPE) & people & ~is_swapped
        sound = slopes[people & ~is_odd & ~is_swapped]
        if not len(sound):
            return
        tail = (
            NormalDist().cdf((MAX_SLOPE - 1) / max(float(sound.std()), distance**-0.5))
            * table.n_people
        )
        if (
            is_odd.sum() >= 5
            and is_odd.sum() > 5 * tail + 3
            and np.median(slopes[is_odd]) < -0.6
        ):
            is_swapped |= is_odd
            slope = float(np.median(slopes[is_odd]))
            _report(
                table,
                table.make_rows_block(is_odd),
                slope,
                f"; median slope {slope:.2f} on the others",
            )
    elif distance > _LEAST:  # too weak for single people
        gains = (
            -2 * distance * slopes / max(1.0, float(slopes[people].var()) * distance)
        )
        start, stop, gain = find_best_segment(
            np.where(people & ~is_swapped, gains, 0.0)
        )
        size = stop - start
        slope = float(slopes[start:stop].mean()) if size else 0.0
        is_long_enough = SMALLEST_BLOCK <= size < 0.6 * table.n_people
        if (
            is_long_enough
            and gain > RANGE_LIMIT + np.log(table.n_people)
            and slope < MAX_SLOPE
        ):
            rows = np.zeros(table.n_people, dtype=bool)
            rows[start:stop] = True
            is_swapped |= rows
            _report(
                table,
                table.make_rows_block(rows),
                slope,
                f"; slope {slope:.2f} on the others",
            )


def _report(table: BlockTable, block: Block, slope: float, ending: str) -> None:
    cause = ", usually columns in another order, or images that were mirrored"
    what = f"left and right of {block.phrase} are exchanged"
    table.suspect(
        ProblemCode.SUSPECT_SIDES, block, what, ending + cause, slope, stops=True
    )

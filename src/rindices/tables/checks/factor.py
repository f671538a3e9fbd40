"""One factor common to all regions of a block: another unit, voxels instead of volumes,
another program.

Regions are adjusted for age, sex and head size. The median difference of the regions of
a block from those of the others is compared with the differences between scanners, or
between groups of one scanner. A factor that spares some regions is not uniform, so the
spread of the differences between regions counts as noise. Shape letters: N people, R
regions, K blocks.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import ProblemCode
from rindices.tables.checks.block_table import (
    SMALLEST_BLOCK,
    AdjustedRegions,
    Block,
    BlockKind,
    BlockTable,
    Division,
)
from rindices.tables.checks.codes import name_factor, name_measure
from rindices.tables.checks.numbers import MAD_SCALE, compute_mad

SITE_SD, GROUP_SD = 0.035, 0.015
"""Standard deviation of a uniform difference of logarithms between scanners, and
between groups of one scanner.
"""
MAX_SITE_SD = 0.06
GROUP_LIMITS = ((0.14, 9.0), (0.19, 6.5), (0.25, 5.0))
"""Size of the difference between the groups, and its ratio to the spread of the
regions, of which both must be reached: disease takes much of some regions and little of
others (``benchmarks/artefact_limits.py``).
"""
GAIN_RATIO = 0.75
"""The same ratio where patients have more in all regions, times this: no disease adds
to all regions alike.
"""
FACTOR_LIMIT, RANGE_EXTRA = 4.0, 0.7
"""Standard deviations of a uniform difference that are too many, and more of them for
the best of all ranges.
"""
MIN_GROUP_REGIONS = 16
"""Fewest regions in which a factor on a group can be told from a disease of all of
them.
"""
_MIN_OF_GROUP = 3  # people of each group in a site
_MAX_ROUNDS, _MAX_TOLD_FRACTION, _N_STEPS, _CLIP = 8, 0.3, 60, 6.0


@dataclass(frozen=True, kw_only=True)
class _Shift:
    """Factor by which all regions of a block differ from the others.

    Attributes
    ----------
    z : float
        Evidence, in standard errors.
    block : Block
        The people.
    size : float
        Logarithm of the factor.
    spread : float
        Spread of the factor over regions.
    is_one_of_two : bool
        Whether there are two blocks alone, so that either may be wrong.
    """

    z: float
    block: Block
    size: float
    spread: float
    is_one_of_two: bool


def check_factors(table: BlockTable) -> None:
    """Find blocks all of whose regions are multiplied by one factor; divide
    them by it.
    """
    for measure, columns in table.list_measures():
        is_told = np.zeros(table.n_people, dtype=bool)
        for _ in range(
            _MAX_ROUNDS
        ):  # the worst block first; then again with its values corrected
            residuals = _Residuals.fit(table, columns)
            shifts = [
                shift
                for division in table.divisions
                for shift in _compare(table, division, residuals, is_told)
            ]
            shifts += _compare_sites_of_rows(table, residuals.site, is_told)
            shift = max(shifts, key=lambda each: each.z, default=None)
            shift = shift or _find_range(table, residuals.rows, table.usable & ~is_told)
            if shift is None:
                break
            _report(table, measure, shift)
            is_told |= shift.block.rows
            table.X[np.ix_(shift.block.rows, columns)] -= shift.size


class _Residuals(NamedTuple):
    """Residuals of the regions, one set for each comparison.

    Attributes
    ----------
    site : ndarray of shape (N, R)
        For the comparison of sites.
    group : ndarray of shape (N, R)
        For the comparison of groups.
    rows : ndarray of shape (N, R)
        For the comparison of rows within a site and a group.
    """

    site: FloatArray
    group: FloatArray
    rows: FloatArray

    @classmethod
    def fit(cls, table: BlockTable, columns: IntArray) -> "_Residuals":
        """Return the residuals of some regions as the table is now."""
        plain = AdjustedRegions.fit(table, columns, with_groups=False)
        grouped = (
            plain
            if table.groups is None
            else AdjustedRegions.fit(table, columns, with_groups=True)
        )
        return cls(
            grouped.between,
            plain.within if _has_sites(table) else plain.between,
            grouped.within,
        )


def _has_sites(table: BlockTable) -> bool:
    return table.main is not None and table.main.kind is not BlockKind.GROUP


def _estimate_usual_sd(others: FloatArray, usual_sd: float) -> float:
    """Return how much blocks differ usually, given the shifts of the other blocks; a
    few of them do not tell.
    """
    if len(others) < 4:
        return usual_sd
    own = MAD_SCALE * float(np.median(np.abs(others - np.median(others))))
    return max(usual_sd, min(own, MAX_SITE_SD))


def _select_residuals(
    table: BlockTable, division: Division, residuals: _Residuals
) -> tuple[FloatArray, float]:
    """Return the residuals in which the blocks of a division are compared, and by how
    much such blocks differ usually.
    """
    if division.kind is BlockKind.GROUP:
        return residuals.group, GROUP_SD
    if division is table.main:
        return residuals.site, SITE_SD
    return residuals.rows, GROUP_SD if table.given else SITE_SD


def _compare(
    table: BlockTable, division: Division, residuals: _Residuals, is_told: BoolArray
) -> list[_Shift]:
    """Return the blocks of a division that are shifted too far; of two blocks the
    smaller one.
    """
    is_group = division.kind is BlockKind.GROUP
    values, usual_sd = _select_residuals(table, division, residuals)
    if is_group and values.shape[1] < MIN_GROUP_REGIONS:
        return []
    people = table.usable
    if is_group and _has_sites(table):
        people = people & _find_mixed_sites(table)
    blocks = [
        block for block in division if (block.rows & people).sum() >= SMALLEST_BLOCK
    ]
    if len(blocks) < 2:
        return []
    medians = np.array(
        [np.median(values[block.rows & people], axis=0) for block in blocks]
    )
    numbers = range(len(blocks))
    others = [np.median(np.delete(medians, each, 0), axis=0) for each in numbers]
    sizes = np.median(medians - others, axis=1)
    shifts = []
    for number, block in enumerate(blocks):
        difference = medians[number] - others[number]
        spread = MAD_SCALE * float(np.median(np.abs(difference - sizes[number])))
        rows = block.rows & people
        own = np.median(values[rows] - others[number], axis=1)
        error = 1.25 * own.std() / np.sqrt(rows.sum())
        sd = _estimate_usual_sd(np.delete(sizes, number), usual_sd)
        noise = float(np.sqrt(sd**2 + error**2 + (0.5 * spread) ** 2))
        size, z = float(sizes[number]), abs(sizes[number]) / noise
        least = GROUP_LIMITS[0][0] if is_group else 0.0
        table.smallest_factors.append(float(np.exp(max(FACTOR_LIMIT * noise, least))))
        is_gain = is_group and _is_gain_of_patients(table, block, size)
        if is_group and not _is_uniform(size, spread, is_gain):
            continue
        told = (is_told & block.rows).sum()
        if z > FACTOR_LIMIT and told < _MAX_TOLD_FRACTION * block.size:
            shifts.append(
                _Shift(
                    z=float(z),
                    block=block,
                    size=size,
                    spread=spread,
                    is_one_of_two=len(blocks) == 2,
                )
            )
    if len(blocks) == 2 and shifts:
        return [min(shifts, key=lambda each: each.block.size)]
    return shifts


def _find_mixed_sites(table: BlockTable) -> BoolArray:
    """Return a mask (N,) of the people of sites that have both groups: the others say
    nothing about the groups once each site has its own mean.
    """
    is_mixed = np.zeros(table.n_people, dtype=bool)
    for site in table.main or ():
        rows = site.rows & table.usable
        groups = table.groups[rows] if table.groups is not None else np.empty(0)
        if min((groups == 0).sum(), (groups == 1).sum()) >= _MIN_OF_GROUP:
            is_mixed |= rows
    return is_mixed


def _compare_sites_of_rows(
    table: BlockTable, residuals: FloatArray, is_told: BoolArray
) -> list[_Shift]:
    """Return parts of the rows, or other blocks of whole sites, whose sites are all
    shifted against the other sites.

    residuals (N, R): sites still differ. Each site counts once, with the standard
    deviation of scanners.
    """
    if table.main is None or not _has_sites(table):
        return []
    sites = [
        site
        for site in table.main
        if (site.rows & table.usable).sum() >= SMALLEST_BLOCK
    ]
    medians = np.array(
        [np.median(residuals[site.rows & table.usable], axis=0) for site in sites]
    )
    shifts = []
    for division in table.divisions:
        for block in (
            division if division.kind not in (BlockKind.SITE, BlockKind.GROUP) else ()
        ):
            share = np.array([block.rows[site.rows].mean() for site in sites])
            inside, outside = medians[share > 0.8], medians[share < 0.2]
            if (
                min(len(inside), len(outside)) < 2
                or (is_told & block.rows).sum() >= _MAX_TOLD_FRACTION * block.size
            ):
                continue
            difference = np.median(inside, axis=0) - np.median(outside, axis=0)
            size = float(np.median(difference))
            spread = MAD_SCALE * float(np.median(np.abs(difference - size)))
            sd = MAX_SITE_SD * np.sqrt(1.57 * (1 / len(inside) + 1 / len(outside)))
            z = abs(size) / np.sqrt(sd**2 + (0.5 * spread) ** 2)
            if z > FACTOR_LIMIT:
                shifts.append(
                    _Shift(
                        z=float(z),
                        block=block,
                        size=size,
                        spread=spread,
                        is_one_of_two=len(division) == 2,
                    )
                )
    return shifts


def _is_gain_of_patients(table: BlockTable, block: Block, size: float) -> bool:
    """Return whether patients have more, where a group differs by a size."""
    assert table.groups is not None
    is_patient = (table.groups[block.rows] == 1).mean() > 0.5
    return bool((size > 0) == is_patient)


def _is_uniform(size: float, spread: float, is_gain: bool) -> bool:
    """Return whether the difference of a group is large, and alike in all regions."""
    factor = GAIN_RATIO if is_gain else 1.0
    return any(
        abs(size) >= least and abs(size) >= factor * ratio * spread
        for least, ratio in GROUP_LIMITS
    )


def _find_range(
    table: BlockTable, residuals: FloatArray, people: BoolArray
) -> _Shift | None:
    """Return the range of rows that is shifted most, if it is too far; residuals (N, R)
    within sites and groups.
    """
    values, n_people = np.median(residuals, axis=1), table.n_people
    values = np.where(people, values - np.median(values[people]), 0.0)
    sd = max(float(compute_mad(values[people])), 1e-4)
    sums = np.concatenate([[0.0], np.cumsum(np.clip(values / sd, -_CLIP, _CLIP))])
    steps = np.unique(np.linspace(0, n_people, min(n_people, _N_STEPS) + 1).astype(int))
    starts, stops = (grid.ravel() for grid in np.meshgrid(steps, steps, indexing="ij"))
    sizes = stops - starts
    is_possible = (sizes >= 2 * SMALLEST_BLOCK) & (sizes <= 0.75 * n_people)
    starts, stops, sizes = starts[is_possible], stops[is_possible], sizes[is_possible]
    if not len(sizes):
        return None
    inner = sums[stops] - sums[starts]
    difference = np.abs(inner / sizes - (sums[-1] - inner) / (n_people - sizes))
    best = int(np.argmax(difference * np.sqrt(sizes * (n_people - sizes) / n_people)))
    rows = np.zeros(n_people, dtype=bool)
    rows[starts[best] : stops[best]] = True
    if min((rows & people).sum(), (~rows & people).sum()) < SMALLEST_BLOCK:
        return None
    shift = np.median(residuals[rows & people], axis=0) - np.median(
        residuals[~rows & people], axis=0
    )
    size = float(np.median(shift))
    spread = MAD_SCALE * float(np.median(np.abs(shift - size)))
    error = sd * np.sqrt(1 / sizes[best] + 1 / (n_people - sizes[best]))
    z = abs(size) / np.sqrt(
        (GROUP_SD if table.given else SITE_SD) ** 2 + error**2 + (0.5 * spread) ** 2
    )
    if z <= FACTOR_LIMIT + RANGE_EXTRA:
        return None
    return _Shift(
        z=float(z),
        block=table.make_rows_block(rows),
        size=size,
        spread=spread,
        is_one_of_two=False,
    )


def _report(table: BlockTable, measure: str, shift: _Shift) -> None:
    factor = float(np.exp(shift.size))
    adjusted = ", ".join(table.covariates)
    what = f"{name_measure(measure)} of {shift.block.phrase} are {factor:.3g} times those of the others"
    ending = f"; in all regions alike (they differ by {shift.spread:.1%})"
    ending += f" after {adjusted}" if adjusted else ""
    ending += f": usually {name_factor(factor, measure)}"
    ending += ", unless the others are wrong" if shift.is_one_of_two else ""
    table.suspect(
        ProblemCode.SUSPECT_FACTOR,
        shift.block,
        what,
        ending,
        shift.z * np.sign(shift.size),
        stops=True,
    )

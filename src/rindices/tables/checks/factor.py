"""One factor common to all regions of a block: another unit, voxels instead of volumes, another program.

Regions are adjusted for age, sex and head size. The median difference of the regions of a block from those of the
others is compared with the differences between scanners, or between groups of one scanner. A factor that spares some
regions is not uniform, so the spread of the differences between regions counts as noise.
Shape letters: N people, R regions, K blocks.
"""

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
"""Standard deviation of a uniform difference of logarithms between scanners, and between groups of one scanner."""
MAX_SITE_SD = 0.06
GROUP_LIMITS = ((0.14, 9.0), (0.25, 5.0))
"""Size of the difference between the groups, and its ratio to the spread of the regions, of which both must be
reached: disease takes much of some regions and little of others (``benchmarks/artefact_limits.py``)."""
FACTOR_LIMIT, RANGE_EXTRA = 4.0, 0.7
"""Standard deviations of a uniform difference that are too many, and more of them for the best of all ranges."""
MIN_GROUP_REGIONS = 16
"""Fewest regions in which a factor on a group can be told from a disease of all of them."""
_MAX_ROUNDS, _MAX_TOLD_SHARE, _N_STEPS, _CLIP = 8, 0.3, 60, 6.0


class _Shift(NamedTuple):
    z: float
    block: Block
    size: float
    spread: float
    is_one_of_two: bool


def check_factors(table: BlockTable) -> None:
    """Find blocks all of whose regions are multiplied by one factor; divide them by it."""
    for measure, columns in table.list_measures():
        is_told = np.zeros(table.n_people, dtype=bool)
        for _ in range(_MAX_ROUNDS):  # the worst block first; then again with its values corrected
            residuals = _Residuals.fit(table, columns)
            shifts = [shift for division in table.divisions for shift in _compare(table, division, residuals, is_told)]
            shifts += _compare_sites_of_rows(table, residuals.site, is_told)
            shift = max(shifts, key=lambda each: each.z, default=None)
            shift = shift or _find_range(table, residuals.rows, table.usable & ~is_told)
            if shift is None:
                break
            _report(table, measure, shift)
            is_told |= shift.block.rows
            table.X[np.ix_(shift.block.rows, columns)] -= shift.size


class _Residuals(NamedTuple):
    """Residuals (N, R) for the comparison of sites, of groups, and of rows within a site and a group."""

    site: FloatArray
    group: FloatArray
    rows: FloatArray

    @classmethod
    def fit(cls, table: BlockTable, columns: IntArray) -> "_Residuals":
        """Return the residuals of some regions as the table is now."""
        plain = AdjustedRegions.fit(table, columns, with_groups=False)
        grouped = plain if table.groups is None else AdjustedRegions.fit(table, columns, with_groups=True)
        return cls(grouped.between, plain.within if _has_sites(table) else plain.between, grouped.within)


def _has_sites(table: BlockTable) -> bool:
    return table.main is not None and table.main.kind is not BlockKind.GROUP


def _compare(table: BlockTable, division: Division, residuals: _Residuals, is_told: BoolArray) -> list[_Shift]:
    """Return the blocks of a division that are shifted too far; of two blocks the smaller one."""
    if division.kind is BlockKind.GROUP:
        values, usual_sd = residuals.group, GROUP_SD
    elif division is table.main:
        values, usual_sd = residuals.site, SITE_SD
    else:
        values, usual_sd = residuals.rows, GROUP_SD if table.given else SITE_SD
    if division.kind is BlockKind.GROUP and values.shape[1] < MIN_GROUP_REGIONS:
        return []
    blocks = [block for block in division if (block.rows & table.usable).sum() >= SMALLEST_BLOCK]
    if len(blocks) < 2:
        return []
    medians = np.array([np.median(values[block.rows & table.usable], axis=0) for block in blocks])
    others = [np.median(np.delete(medians, number, 0), axis=0) for number in range(len(blocks))]
    sizes = np.median(medians - others, axis=1)
    shifts = []
    for number, block in enumerate(blocks):
        difference = medians[number] - others[number]
        spread = MAD_SCALE * float(np.median(np.abs(difference - sizes[number])))
        rows = block.rows & table.usable
        error = 1.25 * np.median(values[rows] - others[number], axis=1).std() / np.sqrt(rows.sum())
        rest = np.delete(sizes, number)
        sd = usual_sd
        if len(rest) >= 4:
            sd = max(usual_sd, min(MAD_SCALE * float(np.median(np.abs(rest - np.median(rest)))), MAX_SITE_SD))
        noise = float(np.sqrt(sd**2 + error**2 + (0.5 * spread) ** 2))
        z = abs(sizes[number]) / noise
        least = GROUP_LIMITS[0][0] if division.kind is BlockKind.GROUP else 0.0
        table.smallest_factors.append(float(np.exp(max(FACTOR_LIMIT * noise, least))))
        if division.kind is BlockKind.GROUP and not _is_uniform(float(sizes[number]), spread):
            continue
        if z > FACTOR_LIMIT and (is_told & block.rows).sum() < _MAX_TOLD_SHARE * block.size:
            shifts.append(_Shift(float(z), block, float(sizes[number]), spread, len(blocks) == 2))
    return [min(shifts, key=lambda each: each.block.size)] if len(blocks) == 2 and shifts else shifts


def _compare_sites_of_rows(table: BlockTable, residuals: FloatArray, is_told: BoolArray) -> list[_Shift]:
    """Return parts of the rows, or other blocks of whole sites, whose sites are all shifted against the other sites.

    residuals (N, R): sites still differ. Each site counts once, with the standard deviation of scanners.
    """
    if table.main is None or not _has_sites(table):
        return []
    sites = [site for site in table.main if (site.rows & table.usable).sum() >= SMALLEST_BLOCK]
    medians = np.array([np.median(residuals[site.rows & table.usable], axis=0) for site in sites])
    shifts = []
    for division in table.divisions:
        for block in division if division.kind not in (BlockKind.SITE, BlockKind.GROUP) else ():
            share = np.array([block.rows[site.rows].mean() for site in sites])
            inside, outside = medians[share > 0.8], medians[share < 0.2]
            if min(len(inside), len(outside)) < 2 or (is_told & block.rows).sum() >= _MAX_TOLD_SHARE * block.size:
                continue
            difference = np.median(inside, axis=0) - np.median(outside, axis=0)
            size = float(np.median(difference))
            spread = MAD_SCALE * float(np.median(np.abs(difference - size)))
            sd = MAX_SITE_SD * np.sqrt(1.57 * (1 / len(inside) + 1 / len(outside)))
            z = abs(size) / np.sqrt(sd**2 + (0.5 * spread) ** 2)
            if z > FACTOR_LIMIT:
                shifts.append(_Shift(float(z), block, size, spread, len(division) == 2))
    return shifts


def _is_uniform(size: float, spread: float) -> bool:
    """Return whether the difference of a group is large, and alike in all regions."""
    return any(abs(size) >= least and abs(size) >= ratio * spread for least, ratio in GROUP_LIMITS)


def _find_range(table: BlockTable, residuals: FloatArray, people: BoolArray) -> _Shift | None:
    """Return the range of rows that is shifted most, if it is too far; residuals (N, R) within sites and groups."""
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
    shift = np.median(residuals[rows & people], axis=0) - np.median(residuals[~rows & people], axis=0)
    size = float(np.median(shift))
    spread = MAD_SCALE * float(np.median(np.abs(shift - size)))
    error = sd * np.sqrt(1 / sizes[best] + 1 / (n_people - sizes[best]))
    z = abs(size) / np.sqrt((GROUP_SD if table.given else SITE_SD) ** 2 + error**2 + (0.5 * spread) ** 2)
    if z <= FACTOR_LIMIT + RANGE_EXTRA:
        return None
    return _Shift(float(z), table.make_rows_block(rows), size, spread, False)


def _report(table: BlockTable, measure: str, shift: _Shift) -> None:
    factor = float(np.exp(shift.size))
    adjusted = ", ".join(table.covariates)
    what = f"{name_measure(measure)} of {shift.block.phrase} are {factor:.3g} times those of the others"
    ending = f"; in all regions alike (they differ by {shift.spread:.1%})"
    ending += f" after {adjusted}" if adjusted else ""
    ending += f": usually {name_factor(factor, measure)}"
    ending += ", unless the others are wrong" if shift.is_one_of_two else ""
    table.suspect(ProblemCode.SUSPECT_FACTOR, shift.block, what, ending, shift.z * np.sign(shift.size), stops=True)

"""Values that were multiplied after they had been rounded: a table of whole numbers in
which one block is not.

If the others are multiples of 10^-d and a block is not, the largest f for which x / (f
10^-d) is whole is the factor.
"""

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import ProblemCode
from rindices.tables.checks.block_table import Block, BlockTable
from rindices.tables.checks.codes import name_factor, name_measure

_MAX_DECIMALS, _UNROUNDED = 5, 9
_N_COLUMNS = 24  # that are enough to see how values were rounded
_MIN_OFF_SHARE, _MIN_ROUNDED_SHARE = (
    0.9,
    0.5,
)  # of the people of a block, and of the others
_N_VALUES, _N_TRIED = 60, 12
_MAX_FACTOR, _MAX_STEPS, _CHUNK = 5.0, 400_000, 20_000


def check_grid(table: BlockTable) -> None:
    """Find blocks whose values were multiplied after they had been rounded, and divide
    them again.
    """
    for measure, columns in table.list_measures():
        raw = table.raw[:, columns]
        decimals = _count_decimals(raw[:, :_N_COLUMNS])
        usual = int(np.quantile(decimals, 0.3))
        if usual == _UNROUNDED:
            continue
        is_done = np.zeros(table.n_people, dtype=bool)
        for block in table.blocks:
            rows = block.rows & table.usable
            if not _is_off_grid(decimals, usual, rows, table.usable & ~block.rows):
                continue
            if (is_done & rows).sum() > 0.5 * rows.sum():
                continue
            is_done |= rows
            factor = find_factor(raw[rows], 10.0**-usual)
            if factor is not None and abs(np.log(factor)) > 1e-4:
                _report(table, block, measure, factor, 10.0**-usual)
                table.X[np.ix_(rows, columns)] -= np.log(factor)


def _report(
    table: BlockTable, block: Block, measure: str, factor: float, unit: float
) -> None:
    what = f"{name_measure(measure)} of {block.phrase} were multiplied by {factor:.5g} after rounding"
    ending = (
        f"; they are multiples of {unit * factor:.6g}, those of the others of {unit:g}"
    )
    ending += f": usually {name_factor(factor, measure)}"
    table.suspect(ProblemCode.SUSPECT_FACTOR, block, what, ending, factor, stops=True)


def _count_decimals(raw: FloatArray) -> IntArray:
    """Return the number of decimals (N,) to which the values (N, R) of each person are
    rounded.
    """
    decimals = np.full(len(raw), _UNROUNDED)
    for number in reversed(range(_MAX_DECIMALS)):
        scaled = raw * 10.0**number
        with np.errstate(invalid="ignore"):
            is_off = np.abs(scaled - np.round(scaled)) > 1e-6 * np.maximum(
                1.0, scaled * 1e-3
            )
        n_known = np.maximum(np.isfinite(raw).sum(axis=1), 1)
        decimals[is_off.sum(axis=1) / n_known < 0.02] = number
    return decimals


def _is_off_grid(
    decimals: IntArray, usual: int, rows: BoolArray, others: BoolArray
) -> bool:
    """Return whether the values of a block are not rounded as those of the
    others are.
    """
    if not rows.any() or not others.any():
        return False
    is_off = (decimals[rows] > usual).mean() >= _MIN_OFF_SHARE
    return bool(is_off and (decimals[others] <= usual).mean() >= _MIN_ROUNDED_SHARE)


def find_factor(raw: FloatArray, unit: float) -> float | None:
    """Return the largest factor f for which values (N, R) are whole multiples of f
    times a unit; None without one.
    """
    values = raw[np.isfinite(raw)] / unit
    values = np.sort(values[values > 20])[:400]
    if len(values) < 40:
        return None
    values = values[np.linspace(0, len(values) - 1, _N_VALUES).astype(int)]
    values = values[values < values[0] * 20 + 50]
    width = 2 * np.log(_MAX_FACTOR)
    n_steps = min(int(width * values.max() / 0.08), _MAX_STEPS)
    tried = np.exp(np.linspace(-width / 2, width / 2, n_steps))
    found = []
    for part in np.array_split(tried, max(1, n_steps // _CHUNK)):
        quotients = values[None, :_N_TRIED] / part[:, None]
        is_near = np.abs(quotients - np.round(quotients)).max(axis=1) < 0.17
        for factor in part[is_near]:
            for _ in range(6):  # least squares on the whole numbers
                whole = np.round(values / factor)
                factor = float((values * whole).sum() / np.square(whole).sum())
            if np.abs(values / factor - np.round(values / factor)).max() < 2e-3:
                found.append(factor)
    return max(found) if found else None

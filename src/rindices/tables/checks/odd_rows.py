"""Rows that are nobody: rows of means, and rows of one value.

A person lies about one standard deviation from the mean in each region; a row of means
lies at the mean in all of them. Shape letters: N people, R regions.
"""

import re

import numpy as np

from rindices._typing import BoolArray, FloatArray
from rindices.errors import ProblemCode, format_count
from rindices.tables.checks.block_table import Block, BlockKind, BlockTable
from rindices.tables.checks.numbers import MAD_SCALE, compute_mad

MEAN_ROW_LIMIT, MEAN_ROW_SHARE = 0.2, 0.35
"""Distance from a mean, in standard deviations and as a share of people's median
distance, below which a row is one.
"""
MEAN_ROW_CHANCE = 0.01
"""Expected number of people in a table who lie so near to the mean by chance."""
CONSTANT_SHARE, CONSTANT_RATIO = 0.3, 5.0
"""Share of regions equal to another one, and ratio to the median share, above which a
row holds no measurements.
"""
_MIN_BLOCK = 12
_SUMMARIES = {
    *[
        "mean",
        "average",
        "median",
        "sd",
        "std",
        "stdev",
        "min",
        "max",
        "minimum",
        "maximum",
        "total",
        "sum",
        "count",
        "variance",
        "sem",
    ]
}


def check_odd_rows(table: BlockTable) -> None:
    """Find rows of one value and rows of means, and leave them out."""
    _check_summaries(table)
    X = table.X
    share = (np.diff(np.sort(X, axis=1), axis=1) < 1e-9).mean(axis=1)
    is_constant = share > max(CONSTANT_SHARE, CONSTANT_RATIO * float(np.median(share)))
    if is_constant.any():
        table.usable &= ~is_constant
        worst = share[is_constant].max()
        what = f"{format_count(int(is_constant.sum()), 'row holds', 'rows hold')} no measurements"
        ending = f"; {worst:.0%} of the regions have the same value as another region"
        block = Block(kind=BlockKind.PEOPLE, label="", rows=is_constant)
        table.suspect(ProblemCode.SUSPECT_ROWS, block, what, ending, worst, stops=True)
    distance = _measure_distance_to_means(table, _estimate_spread(table))
    limit = min(
        MEAN_ROW_LIMIT, MEAN_ROW_SHARE * float(np.median(distance[table.usable]))
    )
    is_mean = (
        (distance < limit)
        & (_bound_chance(table, distance) < MEAN_ROW_CHANCE)
        & table.usable
    )
    if is_mean.any():
        table.usable &= ~is_mean
        nearest = distance[is_mean].min()
        what = f"{format_count(int(is_mean.sum()), 'row is a row', 'rows are rows')} of means and no person"
        ending = f"; {nearest:.2f} standard deviations from the mean in all regions, where people lie about 1 away"
        block = Block(kind=BlockKind.PEOPLE, label="", rows=is_mean)
        table.suspect(
            ProblemCode.SUSPECT_ROWS, block, what, ending, nearest, stops=True
        )


def _check_summaries(table: BlockTable) -> None:
    """Find rows that are named as a summary of people, and leave them out."""
    words = [re.split(r"[\s_.:-]+", name.strip().lower())[0] for name in table.ids]
    is_summary = np.array([word in _SUMMARIES for word in words])
    if is_summary.any() and not is_summary.all():
        table.usable &= ~is_summary
        what = f"{format_count(int(is_summary.sum()), 'row is', 'rows are')} named as a summary and not as a person"
        block = Block(kind=BlockKind.PEOPLE, label="", rows=is_summary)
        table.suspect(
            ProblemCode.SUSPECT_ROWS,
            block,
            what,
            "",
            float(is_summary.sum()),
            stops=True,
        )


def _bound_chance(table: BlockTable, distance: FloatArray) -> FloatArray:
    """Return a bound (N,) of the number of people who lie within a distance (N,) of the
    mean by chance.

    With k independent axes, the squared distance d^2 of a person is chi2_k / k, and by
    Chernoff's bound P(chi2_k / k <= d^2) <= (d^2 exp(1 - d^2))^(k/2). The number of
    axes is (sum l)^2 / sum l^2 of the eigenvalues l.
    """
    Z = table.X[table.usable] - table.X[table.usable].mean(axis=0)
    Z = Z / np.maximum(Z.std(axis=0), 1e-9)
    n_axes = np.square(Z).sum() ** 2 / max(float(np.square(Z.T @ Z).sum()), 1e-300)
    squared = np.minimum(np.square(distance), 1.0)
    return np.asarray(table.n_people * (squared * np.exp(1 - squared)) ** (n_axes / 2))


def _estimate_spread(table: BlockTable) -> FloatArray:
    """Return the standard deviation (R,) of people within blocks, which differences of
    blocks must not widen.
    """
    X = table.X
    spread = np.minimum(
        compute_mad(X),
        MAD_SCALE * np.median(np.abs(np.diff(X, axis=0)), axis=0) / 2**0.5,
    )
    if table.main is not None and len(table.main):
        deviations, codes = X.copy(), table.main.codes
        for block in table.main:
            deviations[block.rows] -= np.median(X[block.rows], axis=0)
        spread = np.minimum(spread, compute_mad(deviations[codes >= 0]))
    return np.asarray(np.maximum(spread, max(0.3 * float(np.median(spread)), 1e-9)))


def _measure_distance_to_means(table: BlockTable, spread: FloatArray) -> FloatArray:
    """Return the distance (N,) of each row to the nearest mean: of the table, or of a
    block.
    """
    people = table.usable
    centres = [
        table.X[people].mean(axis=0),
        np.median(table.X[people], axis=0),
        _average(table, people),
    ]
    blocks = [block.rows & people for division in table.given for block in division]
    centres += [_average(table, rows) for rows in blocks if rows.sum() > _MIN_BLOCK]
    middle = centres[0]
    Z, C = (table.X - middle) / spread, (np.array(centres) - middle) / spread
    squares = np.einsum("ij,ij->i", Z, Z)[:, None] + np.square(C).sum(axis=1)
    nearest = (squares - 2 * Z @ C.T).min(axis=1) / Z.shape[1]
    return np.asarray(np.sqrt(np.maximum(nearest, 0.0)))


def _average(table: BlockTable, rows: BoolArray) -> FloatArray:
    """Return the logarithm (R,) of the mean of some people."""
    values = table.raw[rows]
    n_known = np.maximum(np.isfinite(values).sum(axis=0), 1)
    means = np.nansum(values, axis=0) / n_known
    return np.asarray(np.log(np.where(means > 0, means, np.exp(table.X.mean(axis=0)))))

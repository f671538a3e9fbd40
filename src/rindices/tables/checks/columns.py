"""Columns of a block that are shifted against the header.

A shift k = -2 ... 2 of the median profile of a block is compared with the profile of
the others: the gain of log likelihood, column by column, with the deviations of
scanners as noise. One factor on all regions of a kind is no shift, so without a shift
that is allowed for. The best contiguous run of columns is taken. Shape letters: N
people, R regions.
"""

from dataclasses import dataclass

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import ProblemCode
from rindices.tables.checks.block_table import SMALLEST_BLOCK, Block, BlockTable
from rindices.tables.checks.numbers import compute_mad, find_best_segment

LAG_LIMIT, LAG_SLOPE = 12.0, 2.0
"""Gain of log likelihood by a shift that is too large, and more of it for each
logarithm of the number of regions.
"""
_LAGS, _MIN_RUN, _MIN_FIT = (-1, 1, -2, 2), 5, 0.5
_SCANNER_SD, _MAX_TERM, _CHI2_MEDIAN = 0.06, 30.0, 0.455
_N_CANDIDATES, _N_VOTERS, _SINGLE_RATIO = 7, 150, 0.6
_LARGE_SHARE = 0.1
_N_SAMPLE = 4_000  # people whose median profile is as good as that of more


@dataclass(frozen=True, kw_only=True)
class _Lag:
    """A run of columns whose names are shifted against their values.

    Attributes
    ----------
    gain : float
        Gain in log-likelihood if the columns are shifted back.
    lag : int
        Number of columns by which they are shifted.
    first : int
        First column of the run.
    last : int
        Last column of the run.
    fit_named : float
        Deviation from what the names say, in standard deviations.
    fit_shifted : float
        Deviation after the columns are shifted back.
    """

    gain: float
    lag: int
    first: int
    last: int
    fit_named: float
    fit_shifted: float


def check_columns(table: BlockTable) -> None:
    """Find blocks whose columns are shifted against the header, and leave them out."""
    typical, is_shifted = _find_typical_people(table)
    sd = np.maximum(compute_mad(table.X[typical]), 0.01)
    profile = np.median(table.X[typical], axis=0)
    for block in table.blocks:
        rows = block.rows & table.usable
        if rows.sum() < SMALLEST_BLOCK:
            continue
        others = typical[~block.rows[typical]]
        is_large = len(typical) - len(others) > _LARGE_SHARE * len(
            typical
        )  # smaller blocks hardly move the median
        reference = (
            np.median(table.X[others], axis=0)
            if is_large and len(others) > 5
            else profile
        )
        lag = _find_lag(table, rows, reference, sd)
        if lag is not None:
            _report(table, block, lag)
            table.usable &= ~rows
    single = is_shifted & table.usable
    if single.sum() >= 3:
        lag = _find_lag(table, single, profile, sd)
        if lag is not None:
            _report(table, table.make_rows_block(single), lag)
            table.usable &= ~single


def _measure_distance(
    X: FloatArray, profile: FloatArray, lag: int, width: float
) -> FloatArray:
    """Return the mean distance (N,) of people (N, R) from a profile (R,) whose columns
    are shifted.
    """
    stop = X.shape[1] - abs(lag)
    columns = slice(max(-lag, 0), max(-lag, 0) + stop)
    shifted = slice(max(lag, 0), max(lag, 0) + stop)
    return np.asarray(
        np.minimum(np.abs(X[:, columns] - profile[shifted]), 4 * width).mean(axis=1)
    )


def _find_typical_people(table: BlockTable) -> tuple[IntArray, BoolArray]:
    """Return people whose columns stand where most people's do, and a mask (N,) of
    those that fit one column aside.
    """
    rng, people = np.random.default_rng(0), np.flatnonzero(table.usable)
    sample = (
        people
        if len(people) <= _N_SAMPLE
        else np.sort(rng.choice(people, _N_SAMPLE, replace=False))
    )
    width = max(float(compute_mad(table.X[sample]).mean()), 0.02)

    def measure(profile: FloatArray, rows: IntArray) -> FloatArray:
        return np.stack(
            [
                _measure_distance(table.X[rows], profile, lag, width)
                for lag in (-1, 0, 1)
            ]
        )

    def agree(distances: FloatArray) -> BoolArray:
        return np.asarray(distances[1] <= distances.min(axis=0) + 1e-12)

    voters = rng.choice(people, min(_N_VOTERS, len(people)), replace=False)
    votes = [
        voters[agree(measure(table.X[person], voters))]
        for person in voters[:_N_CANDIDATES]
    ]
    profile = np.median(table.X[max(votes, key=len)], axis=0)
    distances = measure(profile, people)
    is_shifted = np.zeros(table.n_people, dtype=bool)
    is_shifted[people] = (
        np.minimum(distances[0], distances[2]) < _SINGLE_RATIO * distances[1]
    )
    is_typical = np.zeros(table.n_people, dtype=bool)
    is_typical[people[agree(distances)]] = True
    typical = sample[is_typical[sample]]
    return (typical if len(typical) else sample), is_shifted


def _find_lag(
    table: BlockTable, rows: BoolArray, reference: FloatArray, sd: FloatArray
) -> _Lag | None:
    """Return the shift of a run of columns by which the median of some rows (N,) fits a
    reference (R,) clearly better.
    """
    median, n_people = np.median(table.X[rows], axis=0), int(rows.sum())
    factor = np.zeros(len(median))
    for _, kind in table.list_measures():
        factor[kind] = np.median(median[kind] - reference[kind])
    n_regions = len(median)
    noise = _SCANNER_SD**2 + np.square(sd) / 4
    error = np.square(sd) * 1.57 / n_people
    found = []
    for lag in _LAGS:
        columns = np.arange(max(-lag, 0), n_regions - max(lag, 0))
        named, shifted = (
            median[columns] - reference[columns],
            median[columns] - reference[columns + lag],
        )
        scaled = named - factor[columns]
        named = np.where(np.abs(scaled) < np.abs(named), scaled, named)
        named_variance = noise[columns] + error[columns]
        shifted_variance = noise[columns + lag] + error[columns]
        terms = np.square(named) / named_variance, np.square(shifted) / shifted_variance
        overdispersion = max(1.0, float(np.median(np.minimum(*terms))) / _CHI2_MEDIAN)
        gains = (np.minimum(terms[0], _MAX_TERM) - np.minimum(terms[1], _MAX_TERM)) / (
            2 * overdispersion
        )
        start, stop, gain = find_best_segment(gains)
        if stop - start >= _MIN_RUN and gain > LAG_LIMIT + LAG_SLOPE * np.log(
            n_regions
        ):
            squares = [np.square(each[start:stop]) for each in (named, shifted)]
            fits = [float(np.sqrt(np.median(each))) for each in squares]
            # where left and right alternate, every other column hardly changes
            mean_fits = [float(np.sqrt(np.mean(each))) for each in squares]
            if fits[1] < _MIN_FIT * fits[0] or mean_fits[1] < _MIN_FIT * mean_fits[0]:
                found.append(
                    _Lag(
                        gain=gain,
                        lag=lag,
                        first=int(columns[start]),
                        last=int(columns[stop - 1]),
                        fit_named=fits[0],
                        fit_shifted=fits[1],
                    )
                )
    return max(found, key=lambda each: (each.gain, each.lag), default=None)


def _report(table: BlockTable, block: Block, lag: _Lag) -> None:
    where = f"{abs(lag.lag)} {'further right' if lag.lag > 0 else 'further left'}"
    names = f"{table.regions[lag.first]} to {table.regions[lag.last]}"
    what = f"columns {names} of {block.phrase} hold the values of the column {where}"
    ending = f"; {lag.fit_named:.0%} from the others as they stand, {lag.fit_shifted:.1%} when shifted back: usually"
    ending += " a header, or cells, that were moved by one column"
    table.suspect(
        ProblemCode.SUSPECT_COLUMNS, block, what, ending, lag.gain, stops=True
    )

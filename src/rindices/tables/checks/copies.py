"""People who stand twice, under two ids, also with noise.

Residuals of the regions are whitened. Two people resemble each other by the cosine r of
their residuals; atanh r of strangers is about normal, and pairs far beyond the largest
of all pairs are copies. All pairs are compared within neighbourhoods, and across the
table those who share a hash: the signs of random projections, several times. Shape
letters: N people, R regions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.errors import ProblemCode, format_count, join_names
from rindices.tables.checks.block_table import (
    AGE,
    SEX,
    AdjustedRegions,
    Block,
    BlockKind,
    BlockTable,
)
from rindices.tables.checks.numbers import MAD_SCALE, compute_mad, decompose_covariance

TWIN_FACTOR, TWIN_ALPHA = 1.25, 0.01
"""Factor of the spread of strangers, and chance of one pair of strangers in a whole
table.
"""
UNLIKE_FACTOR, UNLIKE_YEARS = 1.4, 4.0
"""Factor for pairs of different sex, or of ages that are further apart."""
COPY_LIMIT = 0.0085
"""Median relative difference of a region below which two rows are one scan."""
MAX_COPIED_SHARE, MAX_COPIED_PEOPLE = 0.02, 10
"""Share and number of people in pairs beyond which a study stops; fewer are a warning.
"""
MAX_PAIRED_PEOPLE = 3_000
"""Most people of whom all pairs are compared; beyond, those of a neighbourhood and
those with a common hash.
"""
_MIN_PEOPLE, _N_SAMPLE, _N_TABLES, _CLIP = 20, 700, 12, 5.0


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """Two rows that are alike.

    Attributes
    ----------
    first : int
        Position of the first row.
    second : int
        Position of the second row.
    cosine : float
        Cosine between the two rows, without covariates and noise.
    difference : float
        Median difference of their logarithms over regions.
    """

    first: int
    second: int
    cosine: float
    difference: float


def check_copies(table: BlockTable) -> None:
    """Find rows that are one scan, or one person, under two ids."""
    rows = np.flatnonzero(table.usable)
    if len(rows) < _MIN_PEOPLE:
        return
    everything = np.arange(table.X.shape[1])
    vectors = _whiten(
        AdjustedRegions.fit(table, everything, with_groups=False).within[rows]
    )
    sd = _estimate_spread(vectors)
    n_pairs = len(rows) * (len(rows) - 1) / 2
    limit = min(
        float(np.tanh(-TWIN_FACTOR * sd * NormalDist().inv_cdf(TWIN_ALPHA / n_pairs))),
        0.999999,
    )
    pairs = []
    for first, second, cosines in _iterate_candidates(vectors):
        is_close = cosines > limit
        for a, b, cosine in zip(
            rows[first[is_close]],
            rows[second[is_close]],
            cosines[is_close],
            strict=True,
        ):
            needed = UNLIKE_FACTOR if _are_unlike(table, int(a), int(b)) else 1.0
            if np.arctanh(min(cosine, 0.999999)) >= needed * np.arctanh(limit):
                difference = table.X[a] - table.X[b]
                size = float(np.median(np.abs(difference - np.median(difference))))
                pairs.append(
                    _Pair(
                        first=int(a),
                        second=int(b),
                        cosine=float(cosine),
                        difference=size,
                    )
                )
    pairs = list({(pair.first, pair.second): pair for pair in pairs}.values())
    _report(
        table,
        [pair for pair in pairs if pair.difference < COPY_LIMIT],
        sd,
        is_copy=True,
    )
    _report(
        table,
        [pair for pair in pairs if pair.difference >= COPY_LIMIT],
        sd,
        is_copy=False,
    )


def _whiten(residuals: FloatArray) -> FloatArray:
    """Return residuals (N, R) as whitened vectors of length 1."""
    Z = np.clip(residuals / np.maximum(compute_mad(residuals), 1e-9), -_CLIP, _CLIP)
    Z = Z - Z.mean(axis=0)
    values, axes = decompose_covariance(Z)
    whitened = Z @ axes / np.sqrt(values + 0.25 * values.mean())
    return np.asarray(
        whitened / np.maximum(np.linalg.norm(whitened, axis=1), 1e-12)[:, None]
    )


def _estimate_spread(vectors: FloatArray) -> float:
    """Return the standard deviation of atanh r of strangers, from a sample
    of people.
    """
    step = max(1, len(vectors) // _N_SAMPLE)
    sample = vectors[::step][:_N_SAMPLE]
    cosines = (sample @ sample.T)[np.triu_indices(len(sample), 1)]
    values = np.arctanh(np.clip(cosines, -0.999999, 0.999999))
    sd = float(MAD_SCALE * np.median(np.abs(values - np.median(values))))
    upper = float(np.quantile(values, 0.999)) / NormalDist().inv_cdf(0.999)
    return max(sd, min(upper, 1.5 * sd), 1e-3)


def _iterate_candidates(
    vectors: FloatArray,
) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Yield pairs of positions, the first below the second, with their cosines."""
    n_people = len(vectors)
    size = 512 if n_people <= MAX_PAIRED_PEOPLE else 1_000
    for start in range(0, n_people, size):
        stop = (
            n_people
            if n_people <= MAX_PAIRED_PEOPLE
            else min(start + 2 * size, n_people)
        )
        cosines = vectors[start : start + size] @ vectors[start:stop].T
        first, second = np.nonzero(cosines > 0.2)
        keep = second > first
        first, second = first[keep], second[keep]
        yield first + start, second + start, cosines[first, second]
    if n_people > MAX_PAIRED_PEOPLE:
        yield from _iterate_hashed(vectors)


def _iterate_hashed(
    vectors: FloatArray,
) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Yield neighbours among people with a common hash: signs of projections, so many
    that few share them.
    """
    rng, n_bits = np.random.default_rng(0), int(np.ceil(np.log2(len(vectors))))
    for _ in range(_N_TABLES):
        projections = vectors @ rng.standard_normal((vectors.shape[1], n_bits))
        hashes = (projections > 0) @ (1 << np.arange(n_bits))
        order = np.argsort(hashes, kind="stable")
        for lag in range(1, 9):  # copies of one person stand next to each other
            first, second = order[:-lag], order[lag:]
            is_same = hashes[first] == hashes[second]
            first, second = np.sort(np.stack([first[is_same], second[is_same]]), axis=0)
            yield first, second, np.einsum("ij,ij->i", vectors[first], vectors[second])


def _are_unlike(table: BlockTable, first: int, second: int) -> bool:
    """Return whether two people have another sex, or ages too far apart for
    one person.
    """
    for name, most in ((SEX, 0.5), (AGE, UNLIKE_YEARS)):
        if name in table.covariates:
            values = table.covariates[name]
            if abs(values[first] - values[second]) > most:
                return True
    return False


def _report(table: BlockTable, pairs: list[_Pair], sd: float, is_copy: bool) -> None:
    if not pairs:
        return
    pairs = sorted(pairs, key=lambda pair: -pair.cosine)
    people = np.zeros(table.n_people, dtype=bool)
    people[[row for pair in pairs for row in (pair.first, pair.second)]] = True
    count = f"{format_count(len(pairs), 'pair')} of rows ({int(people.sum())} people)"
    differences = f"{np.median([pair.difference for pair in pairs]):.2g}"
    what = (
        f"{count} hold one scan under two IDs"
        if is_copy
        else f"{count} may be one person under two IDs"
    )
    ending = (
        f"; regions differ by {float(differences):.1%}, strangers by several percent"
    )
    ending += (
        ""
        if is_copy
        else ": usually a person scanned twice, a converter in both groups, or twins"
    )
    names = join_names(
        [f"{table.ids[pair.first]} = {table.ids[pair.second]}" for pair in pairs], 4
    )
    many = people.sum() > max(MAX_COPIED_PEOPLE, MAX_COPIED_SHARE * table.n_people)
    block = Block(kind=BlockKind.PEOPLE, label=names, rows=people)
    statistic = float(np.arctanh(min(pairs[0].cosine, 0.999999))) / sd
    table.suspect(
        ProblemCode.SUSPECT_COPIES,
        block,
        what,
        ending,
        statistic,
        stops=bool(many and is_copy),
    )

"""Whether regions and covariates belong to the same people.

Age, sex and head size are predicted from the regions by a cross-fitted ridge regression
that is learnt without the block. The strength of the link in a block is the slope of
the prediction on the written value there, relative to that elsewhere: 1 if they belong
together, 0 if not, -1 for a sex that is reversed. Its information is the squared signal
to noise, so a strength has the standard error information^(-1/2). Shape letters: N
people, T covariates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import ProblemCode, join_names
from rindices.tables.checks.block_table import (
    HEAD_SIZE,
    SEX,
    SMALLEST_BLOCK,
    Block,
    BlockKind,
    BlockTable,
    CovariateMatrix,
)
from rindices.tables.checks.linear import predict_cross_fitted
from rindices.tables.checks.numbers import (
    NO_BLOCK,
    centre_blocks,
    cut_chunks,
    find_best_segment,
    find_longest_run,
)

LINK_SD, LINK_LIMIT, LEAST_INFORMATION = 0.15, 4.0, 25.0
"""Spread of the strength between blocks, standard errors below 1 that are too many, and
information that is enough.
"""
MAX_STRENGTH, MAX_SEX_STRENGTH = 0.25, -0.35
"""Strength below which a link is lost, and below which sex is reversed."""
JOIN_LIMIT, MAX_JOIN_STRENGTH = 3.0, 0.33
"""The same limits for all links of a block together, which vary less between sound
blocks than a single one.
"""
SHIFT_LIMIT, SHIFT_GAIN, MIN_SHIFT_STRENGTH = 3.5, 3.0, 0.45
"""Standard errors of the strength of a link with the neighbouring row, and of its
difference from that with the own row, from which on rows are shifted; and the least
strength.
"""
NULL_LIMITS = ((150, 3.0), (120, 2.0), (80, 1.0))
"""Standard deviations after a shuffle below which the whole table has no link, from so
many people on.
"""
MAX_SORTED_STRENGTH, MAX_EXCESS, EXCESS_ERRORS = 0.85, 1.25, 4.0
"""Strength of the link of a sorted run below which it is lost, if predictions vary more
around it than elsewhere, by this ratio of variances and so many standard errors.
"""
SORTED_LIMIT, LOST_STRENGTH, WEAK_STRENGTH, MIN_LONG_RUN = 3.3, 0.2, 0.5, 60
"""Standard errors below 1 that are too many for a sorted run, strength below which its
link is lost, and below which it is lost in a long run with any excess.
"""
RANGE_LIMIT = 16.0
"""Log likelihood ratio of a range of rows beyond which its link is lost."""
_MIN_PEOPLE, _N_AXES, _N_FOLDS, _MAX_CHUNKS, _CHUNK_SIZE = 40, 80, 5, 8, 20
_CLIP, _COVARIATE_CLIP = 4.0, 3.5
# share of the people, from which on the others are learnt from without the block
_LARGE_BLOCK = 0.12
_MAX_BAD_SHARE = 0.4
_LAGS = (-3, -2, -1, 1, 2, 3)
_NEXT_ROWS = (-1, 1)
_N_SHUFFLES, _CLEAR_Z = 20, 8.0


@dataclass(eq=False, kw_only=True)
class _Links:
    """Regions and covariates from which the links between them are learnt.

    Attributes
    ----------
    table : BlockTable
        The table.
    F : ndarray of shape (N, P)
        Strongest axes of the regions, less the mean of site and neighbourhood.
    Y : ndarray of shape (N, T)
        Covariates, less the same means, in standard deviations.
    names : list of str
        Names of the T covariates.
    raw : ndarray of shape (N, T)
        Covariates as they are.
    scales : ndarray of shape (T,)
        Standard deviations of the covariates.
    region_scales : ndarray of shape (R,)
        Standard deviations of the regions.
    axes : ndarray of shape (R, P)
        The strongest axes.
    is_known : ndarray of shape (N,)
        People with all covariates.
    is_bad : ndarray of shape (N, T)
        Covariates that were found not to belong to their row.
    folds : ndarray of shape (N,)
        Fold of each person.
    codes : ndarray of shape (N,)
        Main block of each person.
    """

    table: BlockTable
    F: FloatArray
    Y: FloatArray
    names: list[str]
    raw: FloatArray
    scales: FloatArray
    region_scales: FloatArray
    axes: FloatArray
    is_known: BoolArray
    is_bad: BoolArray
    folds: IntArray
    codes: IntArray

    @property
    def is_good(self) -> BoolArray:
        """People (N,) all of whose covariates belong to their row, as far
        as is known.
        """
        return self.is_known & ~self.is_bad.any(axis=1)

    def predict(self, train: BoolArray) -> FloatArray:
        """Return the covariates (N, T) as predicted from the regions."""
        return predict_cross_fitted(self.F, self.Y, train, self.folds)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Strength:
    """How strongly covariates and regions are linked in a block, relative to the
    others.

    Attributes
    ----------
    strength : ndarray of shape (T,)
        Strength of each link.
    information : ndarray of shape (T,)
        Information about it.
    """

    strength: FloatArray
    information: FloatArray

    @property
    def total(self) -> float:
        """Information of all covariates."""
        return float(self.information.sum())

    @property
    def overall(self) -> float:
        """Strength of all links, weighted by their information."""
        return float((self.strength * self.information).sum() / max(self.total, 1e-9))

    @property
    def z(self) -> FloatArray:
        """Standard errors (T,) by which each strength is below 1."""
        return np.asarray(
            (1 - self.strength)
            / np.sqrt(1 / np.maximum(self.information, 1e-9) + LINK_SD**2)
        )

    @property
    def overall_z(self) -> float:
        """Standard errors by which the strength of all links is below 1."""
        return (1 - self.overall) / float(
            np.sqrt(1 / max(self.total, 1e-9) + LINK_SD**2)
        )


def check_join(table: BlockTable) -> None:
    """Find blocks, ranges of rows and columns whose covariates belong to other people
    than their regions.
    """
    links = _prepare(table)
    if links is None:
        return
    _check_sorted_columns(links)
    _check_blocks(links)
    if links.is_good.sum() >= _MIN_PEOPLE:
        _check_ranges(links)
    if not links.is_bad.any() and links.is_good.sum() >= 2 * _MIN_PEOPLE:
        _check_whole_table(links)


def measure_information(table: BlockTable, rows: BoolArray) -> dict[str, float]:
    """Return how well the link of each covariate can be tested in some rows (N,): its
    squared signal to noise.
    """
    links = _prepare(table)
    if links is None:
        return {}
    here, others = rows & links.is_known, links.is_known & ~rows
    if here.sum() < SMALLEST_BLOCK or others.sum() < _MIN_PEOPLE:
        return dict.fromkeys(links.names, 0.0)
    strength = _measure_strength(links, links.predict(others), others, here)
    return dict(zip(links.names, strength.information.tolist(), strict=True))


def _prepare(table: BlockTable) -> _Links | None:
    covariates = CovariateMatrix.build(table)
    is_known = table.usable & covariates.is_complete
    if not covariates.names or is_known.sum() < _MIN_PEOPLE:
        return None
    codes = np.where(is_known, table.main_codes, NO_BLOCK)
    n_chunks = max(
        1, min(_MAX_CHUNKS, table.n_people // _CHUNK_SIZE)
    )  # unknown sites stand one after another
    chunks = np.where(is_known, cut_chunks(table.n_people, n_chunks), NO_BLOCK)

    def localise(values: FloatArray) -> FloatArray:
        return centre_blocks(centre_blocks(values, codes), chunks)

    F = localise(table.X)
    region_scales = np.maximum(F[is_known].std(axis=0), 1e-9)
    F, axes = np.clip(F / region_scales, -_CLIP, _CLIP), np.eye(F.shape[1])
    if F.shape[1] > _N_AXES:
        axes = np.linalg.eigh(F[is_known].T @ F[is_known])[1][:, -_N_AXES:]
        F = F @ axes
    Y = localise(covariates.values)
    scales = Y[is_known].std(axis=0)
    keep = scales > 1e-9
    if not keep.any():
        return None
    Y = np.clip(Y[:, keep] / scales[keep], -_COVARIATE_CLIP, _COVARIATE_CLIP)
    return _Links(
        table=table,
        F=F,
        Y=Y,
        names=[
            name
            for name, is_kept in zip(covariates.names, keep, strict=True)
            if is_kept
        ],
        raw=covariates.values[:, keep],
        scales=scales[keep],
        region_scales=region_scales,
        axes=axes,
        is_known=is_known,
        is_bad=np.zeros(Y.shape, dtype=bool),
        folds=np.random.default_rng(0).integers(0, _N_FOLDS, table.n_people),
        codes=codes,
    )


def _measure_strength(
    links: _Links, Q: FloatArray, others: BoolArray, rows: BoolArray
) -> _Strength:
    """Return the links of some rows (N,) relative to those of others (N,), from
    predictions (N, T).
    """
    n_covariates = len(links.names)
    strength, information = np.zeros(n_covariates), np.zeros(n_covariates)
    for number in range(n_covariates):
        is_bad = links.is_bad[:, number]
        here, there = rows & ~is_bad, others & ~is_bad
        if there.sum() < 25 or here.sum() < SMALLEST_BLOCK:
            continue
        (y, q), (y_others, q_others) = (
            (
                links.Y[each, number] - links.Y[each, number].mean(),
                Q[each, number] - Q[each, number].mean(),
            )
            for each in (here, there)
        )
        size, size_others = float(y @ y), float(y_others @ y_others)
        if min(size, size_others) < 1e-6:
            continue
        usual = float(q_others @ y_others) / size_others
        correlation = float(q_others @ y_others) / np.sqrt(
            size_others * max(float(q_others @ q_others), 1e-12)
        )
        if correlation * np.sqrt(there.sum()) < 3.5 or usual <= 0.01:
            continue
        slope = float(q @ y) / size
        noise = max(
            float(np.square(q_others - usual * y_others).mean()),
            float(np.square(q - slope * y).mean()),
        )
        strength[number], information[number] = slope / usual, usual**2 * size / noise
    return _Strength(strength=strength, information=information)


def _check_blocks(links: _Links) -> None:
    """Compare the links of each block with those of all others."""
    table, known = links.table, links.is_known
    good = links.is_good
    everyone = links.predict(good if links.is_bad.any() and good.sum() > 60 else known)
    current = everyone
    for block in table.blocks:
        rows = block.rows & known
        is_small = rows.sum() < SMALLEST_BLOCK or (known & ~rows).sum() < _MIN_PEOPLE
        if is_small or links.is_bad[rows].all(axis=1).mean() > _MAX_BAD_SHARE:
            if is_small:
                table.untested += [(name, block) for name in links.names]
            continue
        others = links.is_good & ~rows
        is_large = rows.sum() >= _LARGE_BLOCK * known.sum()
        predicted = links.predict(others) if is_large else current
        strength = _measure_strength(links, predicted, others, rows)
        is_weak = strength.information < LEAST_INFORMATION
        table.untested += [
            (name, block)
            for name, weak in zip(links.names, is_weak, strict=True)
            if weak
        ]
        if strength.total > 0 and (
            _is_shifted(links, block, rows, others, predicted, strength)
            or _judge_block(links, block, rows, predicted, strength)
        ):
            current = (
                links.predict(links.is_good)
                if links.is_good.sum() > _MIN_PEOPLE
                else everyone
            )


def _judge_block(
    links: _Links,
    block: Block,
    rows: BoolArray,
    predicted: FloatArray,
    links_here: _Strength,
) -> bool:
    """Report what is lost in a block, and return whether anything is."""
    strength, information, z = links_here.strength, links_here.information, links_here.z
    n_covariates = len(links.names)
    is_open = links.is_bad[rows].mean(axis=0) < _MAX_BAD_SHARE
    is_able = information > 12
    if SEX in links.names and _is_sex_reversed(links, links_here, is_able & is_open):
        number = links.names.index(SEX)
        links.is_bad[rows, number] = True
        _report_reversed_sex(
            links, block, strength[number], rows.sum() > 0.4 * links.is_known.sum()
        )
        return True
    enough = is_able & (information > 0.8 * LEAST_INFORMATION)
    lost = np.flatnonzero(
        enough & is_open & (z > LINK_LIMIT) & (strength < MAX_STRENGTH)
    )
    fine = np.flatnonzero(is_able & (strength > 0.5))
    others = np.setdiff1d(np.arange(n_covariates), lost)
    rest = float((strength * information)[others].sum())
    is_clear = len(lost) > 0 and z[lost].max() > LINK_LIMIT + 0.6
    is_one = links_here.overall >= MAX_STRENGTH or len(lost) < (information > 3).sum()
    has_rest = rest > 0.5 * float(information[others].sum()) > 1
    if len(lost) and (len(fine) or (is_clear and is_one and has_rest)):
        least = LINK_LIMIT + (0.2 if len(fine) else 0.6)
        for number in lost[z[lost] >= least]:
            links.is_bad[rows, number] = True
            names = [links.names[each] for each in (fine if len(fine) else others)]
            _report_lost_covariate(
                links, block, int(number), rows, float(strength[number]), names
            )
        return bool((z[lost] >= least).any())
    is_lost = links_here.total > LEAST_INFORMATION and links_here.overall_z > JOIN_LIMIT
    is_lost &= links_here.overall < MAX_JOIN_STRENGTH and not len(fine)
    if is_lost and links.is_bad[rows].mean() < _MAX_BAD_SHARE:
        _report_lost_join(
            links, block, rows, predicted, links_here, np.flatnonzero(is_able)
        )
        return True
    return False


def _is_sex_reversed(links: _Links, links_here: _Strength, is_able: BoolArray) -> bool:
    number = links.names.index(SEX)
    strength, information = links_here.strength[number], links_here.information[number]
    is_negative = strength < MAX_SEX_STRENGTH and -strength * np.sqrt(information) > 3.3
    return bool(is_able[number] and is_negative and links_here.z[number] > LINK_LIMIT)


def _report_reversed_sex(
    links: _Links, block: Block, strength: float, is_large: bool
) -> None:
    ending = f"; regions predict the opposite of what is written (strength {strength:.2f}; 1 elsewhere)"
    ending += ", or the others are wrong" if is_large else ""
    what = f"sex of {block.phrase} is coded the other way round"
    links.table.suspect(
        ProblemCode.SUSPECT_COVARIATE, block, what, ending, strength, False, SEX
    )


def _report_lost_covariate(
    links: _Links,
    block: Block,
    number: int,
    rows: BoolArray,
    strength: float,
    fitting: Sequence[str],
) -> None:
    name = links.names[number]
    ending = f"; regions predict it elsewhere, not here (strength {strength:.2f}; 1 elsewhere)"
    ending += f", while {' and '.join(fitting)} fit" if fitting else ""
    ending += _describe_order(links, number, rows)
    what = f"{name} of {block.phrase} does not belong to its rows"
    links.table.suspect(
        ProblemCode.SUSPECT_COVARIATE, block, what, ending, strength, False, name
    )


def _report_lost_join(
    links: _Links,
    block: Block,
    rows: BoolArray,
    predicted: FloatArray,
    links_here: _Strength,
    able: IntArray,
) -> None:
    """Report a block all of whose links are lost; of a range of rows, where exactly."""
    table, good = links.table, links.is_good & ~rows
    gamma, _ = _fit_slopes(predicted, links.Y, good)
    if block.kind is BlockKind.ROWS:
        gains = _measure_unlinked_gain(predicted, links.Y, gamma, good)
        start, stop, gain = find_best_segment(np.where(links.is_known, gains, 0.0))
        if gain > RANGE_LIMIT and 0.3 * rows.sum() < stop - start < 2.0 * rows.sum():
            rows = links.is_known & _mask(table.n_people, start, stop)
            block = table.make_rows_block(_mask(table.n_people, start, stop))
    shift = _find_shift(links, predicted, rows, good & ~rows)
    sorted_alone = [
        int(number) for number in able if _describe_order(links, int(number), rows)
    ]
    links.is_bad[rows] = True
    if len(sorted_alone) == 1 and not shift:
        _report_lost_covariate(
            links, block, sorted_alone[0], rows, links_here.overall, []
        )
        return
    names = [
        name
        for name, each in zip(links.names, links_here.information, strict=True)
        if each > 3
    ]
    what = f"regions of {block.phrase} belong to other people than {join_names(names)}"
    ending = f"; what regions tell about them elsewhere is lost here (strength {links_here.overall:.2f}; 1 elsewhere)"
    ending += shift or ": usually one table was sorted alone, or pasted beside another"
    table.suspect(
        ProblemCode.SUSPECT_JOIN, block, what, ending, links_here.overall, stops=False
    )


def _mask(n_people: int, start: int, stop: int) -> BoolArray:
    rows = np.zeros(n_people, dtype=bool)
    rows[start:stop] = True
    return rows


def _fit_slopes(
    Q: FloatArray, Y: FloatArray, rows: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the slope (T,) of predictions on covariates, and the variance (T,) around
    it.
    """
    slopes = (Q[rows] * Y[rows]).sum(axis=0) / np.maximum(
        np.square(Y[rows]).sum(axis=0), 1e-9
    )
    return slopes, np.maximum((Q[rows] - Y[rows] * slopes).var(axis=0), 1e-9)


def _measure_unlinked_gain(
    Q: FloatArray, Y: FloatArray, gamma: FloatArray, rows: BoolArray
) -> FloatArray:
    """Return the log likelihood ratio (N,) of predictions without against with a
    relation to the covariates.
    """
    residuals = Q - Y * gamma
    linked, unlinked = (np.atleast_2d(np.cov(each[rows].T)) for each in (residuals, Q))
    ridge = 1e-6 * np.eye(len(linked))
    squares = [
        np.einsum("ij,jk,ik->i", each, np.linalg.inv(covariance + ridge), each)
        for each, covariance in ((residuals, linked), (Q, unlinked))
    ]
    volumes = (
        np.linalg.slogdet(linked + ridge)[1] - np.linalg.slogdet(unlinked + ridge)[1]
    )
    return np.asarray(np.clip(0.5 * (squares[0] - squares[1]) + 0.5 * volumes, -5, 4))


@dataclass(frozen=True, kw_only=True)
class _Shift:
    """How well regions fit the covariates of another row.

    Attributes
    ----------
    lag : int
        Number of rows, negative for rows above.
    strength : float
        Strength of the link with that row.
    z : float
        The same in standard errors.
    gain : float
        Difference from the strength of the link with the own row, in standard errors.
    """

    lag: int
    strength: float
    z: float
    gain: float

    def describe(self) -> str:
        """Return the shift in words."""
        count = "" if abs(self.lag) == 1 else f"{abs(self.lag)} rows "
        where = "above" if self.lag < 0 else "below"
        cause = "usually a row was inserted or deleted"
        return f"; they fit the row {count}{where}: {cause}"


def _find_shifted_rows(
    table: BlockTable, rows: IntArray, lag: int
) -> tuple[IntArray, IntArray]:
    """Return the rows that have a row so many places below in the file, and
    those rows.
    """
    wanted = table.positions[rows] + lag
    places = np.searchsorted(table.positions, wanted)
    places = np.minimum(places, len(table.positions) - 1)
    is_there = table.positions[places] == wanted
    return rows[is_there], places[is_there]


def _measure_shifts(
    links: _Links, Q: FloatArray, rows: BoolArray, others: BoolArray
) -> list[_Shift]:
    """Return how well regions in a block fit the rows above and below them in it."""
    numbers = np.flatnonzero(rows)
    if np.any(np.diff(links.table.positions) <= 0):
        return []
    gamma, noise = _fit_slopes(Q, links.Y, others)
    gamma = np.maximum(gamma, 0.0)
    q = Q - Q[rows].mean(axis=0)
    y = links.Y - links.Y[rows].mean(axis=0)

    def measure(here: IntArray, there: IntArray) -> tuple[float, float]:
        own = np.square(q[here] - gamma * y[there]).mean(axis=0)
        weights = gamma / np.maximum(noise, own)
        fit = float(((q[here] * y[there]).sum(axis=0) * weights).sum())
        size = float((np.square(y[there]).sum(axis=0) * gamma * weights).sum())
        return fit / max(size, 1e-9), size

    shifts = []
    for lag in _LAGS:
        here, there = numbers[max(-lag, 0) :], numbers[max(lag, 0) :]
        here, there = here[: len(numbers) - abs(lag)], there[: len(here)]
        if len(here) < 6:
            continue
        (named, size), (strength, information) = (
            measure(here, here),
            measure(here, there),
        )
        variance = 1 / max(size, 1e-9) + 1 / max(information, 1e-9)
        shifts.append(
            _Shift(
                lag=lag,
                strength=strength,
                z=strength * float(np.sqrt(information)),
                gain=(strength - named) / float(np.sqrt(variance)),
            )
        )
    return shifts


def _is_shifted(
    links: _Links,
    block: Block,
    rows: BoolArray,
    others: BoolArray,
    predicted: FloatArray,
    links_here: _Strength,
) -> bool:
    """Report a block whose regions fit the row above or below, and not their own."""
    if links.is_bad[rows].mean() >= _MAX_BAD_SHARE:
        return False
    shifts = [
        each
        for each in _measure_shifts(links, predicted, rows, others)
        if each.lag in _NEXT_ROWS
        and each.strength > MIN_SHIFT_STRENGTH
        and each.z > SHIFT_LIMIT
        and each.gain > SHIFT_GAIN
    ]
    if not shifts:
        return False
    able = np.flatnonzero(links_here.information > 12)
    _report_lost_join(links, block, rows, predicted, links_here, able)
    return True


def _find_shift(
    links: _Links, Q: FloatArray, rows: BoolArray, others: BoolArray
) -> str:
    """Return by how many rows regions must be shifted to fit, in words; empty if no
    shift does.
    """
    shifts = [
        each
        for each in _measure_shifts(links, Q, rows, others)
        if each.strength > MIN_SHIFT_STRENGTH and each.z > SHIFT_LIMIT
    ]
    best = max(shifts, key=lambda each: each.z, default=None)
    return "" if best is None or best.gain < SHIFT_GAIN else best.describe()


def _describe_order(links: _Links, number: int, rows: BoolArray) -> str:
    """Return whether a covariate looks sorted or filled down in some rows (N,), in
    words.
    """
    values = links.raw[rows, number]
    if len(values) < SMALLEST_BLOCK:
        return ""
    steps = np.diff(values)
    n_levels = len(np.unique(values))
    if n_levels <= max(2, len(values) // 12) and links.names[number] != SEX:
        return ": usually one value was filled down"
    if ((steps >= 0).mean() > 0.95 or (steps <= 0).mean() > 0.95) and n_levels > 2:
        return ": usually the column was sorted alone"
    return ""


def _check_sorted_columns(links: _Links) -> None:
    """Find columns that rise or fall from row to row without the regions."""
    table = links.table
    spans = [np.arange(table.n_people)]
    spans += [
        np.flatnonzero(block.rows) for division in table.given for block in division
    ]
    for number, name in enumerate(links.names):
        if name == SEX:
            continue
        for rows in spans:
            values = links.raw[rows, number]
            runs = [
                find_longest_run(steps)
                for steps in (np.diff(values) >= 0, np.diff(values) <= 0)
            ]
            start, stop = max(runs, key=lambda run: run[1] - run[0])
            run = rows[start : stop + 1]
            if len(run) < 20 or len(np.unique(links.raw[run, number])) < 8:
                continue
            is_run = np.zeros(table.n_people, dtype=bool)
            is_run[run] = True
            is_run &= links.is_known
            if (
                is_run.sum() < 20
                or links.is_bad[is_run, number].mean() > _MAX_BAD_SHARE
            ):
                continue
            train = links.is_known & ~is_run
            if train.sum() < 60:  # the whole table is sorted
                _check_sorted_table(links, number, is_run)
                break
            _check_sorted_run(links, number, is_run, train)


def _check_sorted_table(links: _Links, number: int, rows: BoolArray) -> None:
    """Report a column that is sorted in the whole table, if the regions do
    not tell it.
    """
    known, name = links.is_known, links.names[number]
    # sites are centred, neighbourhoods are not: they hold hardly any of what rises
    # through the table
    X = np.clip(
        centre_blocks(links.table.X, links.codes) / links.region_scales, -_CLIP, _CLIP
    )
    y = centre_blocks(links.raw[:, [number]], links.codes) / links.scales[number]
    correlation = _correlate(
        predict_cross_fitted(X @ links.axes, y, known, links.folds)[known, 0],
        y[known, 0],
    )
    spread = float(links.raw[:, number].std())
    if correlation * np.sqrt(known.sum()) < 2.3 and (name == HEAD_SIZE or spread > 5):
        links.is_bad[rows, number] = True
        _report_sorted_column(
            links, number, _make_table_block(links.table), correlation
        )


def _report_sorted_column(
    links: _Links, number: int, block: Block, statistic: float
) -> None:
    what = f"{links.names[number]} of {block.phrase} rises or falls from row to row, and the regions do not follow"
    ending = "; usually the column was sorted alone"
    links.table.suspect(
        ProblemCode.SUSPECT_COVARIATE,
        block,
        what,
        ending,
        statistic,
        False,
        links.names[number],
    )


def _make_table_block(table: BlockTable) -> Block:
    return Block(kind=BlockKind.TABLE, label="the table", rows=table.usable.copy())


def _check_sorted_run(
    links: _Links, number: int, rows: BoolArray, train: BoolArray
) -> None:
    """Report a sorted part of a column, if the regions do not follow there but do
    elsewhere.
    """
    table = links.table
    # the run is centred as a whole: neighbourhoods hold hardly any of what rises
    # through it
    codes = np.where(rows, links.codes.max() + 1, links.codes)
    X = np.clip(centre_blocks(table.X, codes) / links.region_scales, -_CLIP, _CLIP)
    y = centre_blocks(links.raw[:, [number]], codes) / links.scales[number]
    q = predict_cross_fitted(X @ links.axes, y, train, links.folds)[:, 0]
    usual, noise = (float(each[0]) for each in _fit_slopes(q[:, None], y, train))
    if _correlate(q[train], y[train, 0]) * np.sqrt(train.sum()) < 4 or usual <= 0.01:
        return
    own_q, own_y = q[rows] - q[rows].mean(), y[rows, 0]
    size = float(own_y @ own_y)
    if size < 1e-6:
        return
    strength = float(own_q @ own_y) / size / usual
    own_noise = float((own_q - strength * usual * own_y).var())
    information = usual**2 * size / max(noise, own_noise)
    z = (1 - strength) / np.sqrt(1 / max(information, 1e-9) + LINK_SD**2)
    # where people were scanned in the order of their age, what is sorted alone still
    # follows a little, but around it regions vary more than elsewhere
    excess = float((own_q - usual * own_y).var()) / noise
    error = EXCESS_ERRORS * np.sqrt(2 / rows.sum())
    is_weak = rows.sum() >= MIN_LONG_RUN and strength < WEAK_STRENGTH
    is_lost = strength < LOST_STRENGTH or (is_weak and excess > 1 + error)
    is_noisy = strength < MAX_SORTED_STRENGTH and excess > MAX_EXCESS + error
    if (is_lost and z > SORTED_LIMIT) or is_noisy:
        links.is_bad[rows, number] = True
        _report_sorted_column(links, number, _find_block(table, rows), strength)


def _find_block(table: BlockTable, rows: BoolArray) -> Block:
    """Return the block that some rows (N,) nearly are, else a range of rows."""
    for block in (each for division in table.given for each in division):
        if (block.rows & rows).sum() > 0.8 * (block.rows | rows).sum():
            return block
    return table.make_rows_block(rows)


def _correlate(a: FloatArray, b: FloatArray) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / max(np.sqrt(float(a @ a) * float(b @ b)), 1e-12))


def _check_ranges(links: _Links) -> None:
    """Find any other range of rows in which all links, or one, are lost."""
    table, good = links.table, links.is_good
    Q = links.predict(good)
    gamma, _ = _fit_slopes(Q, links.Y, good)
    correlations = np.array(
        [_correlate(Q[good, k], links.Y[good, k]) for k in range(len(links.names))]
    )
    columns = np.flatnonzero((correlations > 0.15) & (gamma > 0))
    choices = [columns] if len(columns) else []
    choices += [np.array([number]) for number in columns] if len(columns) > 1 else []
    for chosen in choices:
        gains = _measure_unlinked_gain(
            Q[:, chosen], links.Y[:, chosen], gamma[chosen], good
        )
        start, stop, gain = find_best_segment(np.where(good, gains, 0.0))
        is_right_size = 15 <= stop - start <= 0.7 * table.n_people
        if gain < RANGE_LIMIT + np.log(table.n_people) or not is_right_size:
            continue
        rows = good & _mask(table.n_people, start, stop)
        fit = (Q[rows] * links.Y[rows]).sum(axis=0) / np.maximum(
            np.square(links.Y[rows]).sum(axis=0), 1e-9
        )
        strength = fit / np.maximum(gamma, 1e-9)
        block = table.make_rows_block(_mask(table.n_people, start, stop))
        if len(chosen) == 1:
            _report_lost_link(links, block, int(chosen[0]), rows, strength)
            continue
        overall = float(
            np.average(strength[chosen], weights=np.square(correlations[chosen]))
        )
        if overall < 0.3 and strength[chosen].max() < 0.6:
            shift = _find_shift(links, Q, rows, good & ~rows)
            links.is_bad[rows] = True
            good = good & ~rows
            names = join_names([links.names[each] for each in chosen])
            what = f"regions of {block.phrase} belong to other people than {names}"
            usual = ": usually one table was sorted alone, or pasted beside another"
            ending = f" (strength {overall:.2f}; 1 elsewhere){shift or usual}"
            table.suspect(
                ProblemCode.SUSPECT_JOIN, block, what, ending, gain, stops=False
            )


def _report_lost_link(
    links: _Links, block: Block, number: int, rows: BoolArray, strength: FloatArray
) -> None:
    """Report a block of rows in which one covariate is not linked to the regions."""
    own = float(strength[number])
    if own >= MAX_STRENGTH:
        return
    links.is_bad[rows, number] = True
    if links.names[number] == SEX and own < -0.4:
        _report_reversed_sex(links, block, own, is_large=False)
    else:
        _report_lost_covariate(links, block, number, rows, own, [])


def _check_whole_table(links: _Links) -> None:
    """Compare the links of the whole table with those after a shift of all rows."""
    table, good = links.table, links.is_good
    rows, n_people = np.flatnonzero(good), int(good.sum())
    Q = links.predict(good)
    z = np.array(
        [_correlate(Q[good, k], links.Y[good, k]) for k in range(len(links.names))]
    ) * np.sqrt(n_people)
    power = float(np.square(np.maximum(z, 0)).sum())
    best = (0.0, 0)
    for lag in (-1, 1, -2, 2) if not np.any(np.diff(table.positions) <= 0) else ():
        here, there = _find_shifted_rows(table, rows, lag)
        if len(here) < _MIN_PEOPLE:
            continue
        Y = centre_blocks(links.raw[there], links.codes[here])
        sd = Y.std(axis=0)
        Y = np.clip(Y / np.where(sd > 0, sd, 1.0), -_COVARIATE_CLIP, _COVARIATE_CLIP)
        shifted = predict_cross_fitted(
            links.F[here], Y, np.ones(len(here), dtype=bool), links.folds[here]
        )
        correlations = np.array(
            [_correlate(shifted[:, k], Y[:, k]) for k in range(Y.shape[1])]
        )
        lag_power = float(np.square(np.maximum(correlations, 0)).sum() * len(here))
        best = max(best, (lag_power, lag))
        if power > 150 and lag_power < 0.3 * power:
            break
    block, names = _make_table_block(table), join_names(links.names)
    if best[0] > 2.0 * power + 30:
        count = "one row" if abs(best[1]) == 1 else f"{abs(best[1])} rows"
        what = f"regions of {block.phrase} fit {names} {count} {'above' if best[1] < 0 else 'below'} better than their row"
        ending = f"; strength {best[0]:.0f} against {power:.0f}: usually a row was inserted or deleted in one table"
        table.suspect(
            ProblemCode.SUSPECT_JOIN, block, what, ending, best[0], stops=False
        )
        return
    for number, name in enumerate(links.names):
        if name != SEX and z[number] < 2.3 and _is_sorted(links.raw[:, number]):
            _check_sorted_table(links, number, good)
    if links.is_bad.any():
        return
    if _is_without_links(links, z, n_people):
        what = f"regions of {block.phrase} tell nothing about {names}"
        ending = f" (strongest z {max(z):.1f}): usually rows were joined wrongly, or one table was sorted alone"
        table.suspect(
            ProblemCode.SUSPECT_JOIN, block, what, ending, float(max(z)), stops=False
        )


def _is_without_links(links: _Links, z: FloatArray, n_people: int) -> bool:
    """Return whether no covariate (T,) is predicted better than after a shuffle.

    Cross-fitted correlations vary more than 1 / sqrt(N), since all folds share most of
    their people, so their spread is measured with shuffled people.
    """
    limit = next((each for least, each in NULL_LIMITS if n_people >= least), None)
    if limit is None or max(z) > _CLEAR_Z:
        return False
    rng, good = np.random.default_rng(0), np.flatnonzero(links.is_good)
    orders = [rng.permutation(good) for _ in range(_N_SHUFFLES)]
    Y = np.concatenate([links.Y[order] for order in orders], axis=1)
    everyone = np.ones(len(good), dtype=bool)
    Q = predict_cross_fitted(links.F[good], Y, everyone, links.folds[good])
    shuffled = [_correlate(q, y) for q, y in zip(Q.T, Y.T, strict=True)]
    sd = float(np.sqrt(np.square(shuffled).mean() * len(good)))
    return bool(max(z) < limit * sd)


def _is_sorted(values: FloatArray) -> bool:
    steps = np.diff(values)
    return bool(
        len(np.unique(values)) > 2
        and max((steps >= 0).mean(), (steps <= 0).mean()) > 0.97
    )

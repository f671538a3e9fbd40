"""Cells that do not fit a person's other regions, such as those of a failed
segmentation.

Disease moves many regions together; a failed cell stands alone. The residual of a cell
given the person's other cells follows from how regions vary together, in units of the
person's group. Large values of the other cells are set to 0 before, so that several
outlying measurements of a person do not explain each other. Cells with a large residual
are candidates. Without them, precision and residuals are estimated once more, and what
still is far out is wrong. A person is always compared with people of other folds: a
covariance of as many people as regions explains its own people. Shape letters: N
people, R regions, P columns of the design.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.blocks import apply_in_blocks
from rindices.learners.missing_cells import fill_missing_cells, iterate_missing_regions
from rindices.learners.prepared_people import N_FOLDS
from rindices.preprocess.standardise import shrink_covariance

WRONG_LIMIT = 4.4
"""Residual, in robust standard deviations of the residuals of a region, beyond which a
cell is wrong.
"""
NEW_LIMIT = 5.5
"""The same for new people, whom the covariance of the training people fits less well.
"""
FLAG_LIMIT = 5.0
"""The same for an ONNX graph, which compares cells once."""
WRAP_START, WRAP_END = 2.5, 4.0
"""Sizes at which values begin to be reduced, and are 0."""
MAX_SIZE = 50.0
"""Largest size of a value, so that squares of absurd cells stay finite."""
MAX_WRONG_SHARE = 0.3
"""Share of outlying measurements above which the row of a person has failed."""
MAX_REGIONS = 1_000
"""Most regions that are compared with each other: time and memory grow with the third
and second power of their number. Wider tables are compared in parts.
"""
MIN_PEOPLE = 20
"""Fewest people of a group whose cells are compared; smaller groups are compared
together with the others.
"""
MIN_REGIONS = 10
"""Fewest regions; with fewer, the others say too little about a cell."""
_CHANCE_SHARE, _CHANCE_NUMBER = (
    1e-4,
    3,
)  # of outlying measurements that may be found by chance
_CANDIDATE_LIMIT = 4.0
_SCREEN_MARGIN = 1e-6  # of rounding, relative to the limit
_N_ROUNDS = 4  # of the robust regression
_MAD_SCALE, _NORMAL_QUANTILE = (
    1.4826,
    1.96,
)  # of the median and the 95 % quantile of absolute normal values


class CellComparison(NamedTuple):
    """Cells that do not fit the others of their person.

    Attributes
    ----------
    is_wrong : ndarray of shape (N, R)
    expected : ndarray of shape (N, R)
        Values that the other cells let expect, on the scale of the values.
    """

    is_wrong: BoolArray
    expected: FloatArray

    def is_rare(self, n_cells: int | None = None) -> bool:
        """Return whether so few of a number of cells are wrong that it may be by
        chance; by default, of all that were compared.
        """
        number = self.is_wrong.size if n_cells is None else n_cells
        return bool(self.is_wrong.sum() <= max(_CHANCE_SHARE * number, _CHANCE_NUMBER))

    @property
    def is_failed(self) -> BoolArray:
        """People (N,) of whom so many cells are wrong that the others cannot be trusted
        either.
        """
        n_measured = np.maximum((~np.isnan(self.expected)).sum(axis=1), 1)
        return np.asarray(self.is_wrong.sum(axis=1) > MAX_WRONG_SHARE * n_measured)


def find_outlying_measurements(
    values: FloatArray, design: FloatArray, groups: IntArray, folds: IntArray
) -> CellComparison:
    """Find outlying measurements in a table of training people.

    Parameters
    ----------
    values : ndarray of shape (N, R)
        Volumes or their logarithms. Missing cells are NaN.
    design : ndarray of shape (N, P)
        Covariates and sites, complete.
    groups : ndarray of shape (N,)
        Each has medians and deviations of its own.
    folds : ndarray of shape (N,)
        Fold of each person, from 0 to `N_FOLDS` - 1.
    """
    if np.bincount(groups)[np.unique(groups)].min() < MIN_PEOPLE:
        groups = np.zeros_like(groups)
    is_measured = ~np.isnan(values)
    others = [
        is_measured[(groups == group) & (folds != fold)].sum(axis=0)
        for group in np.unique(groups)
        for fold in range(N_FOLDS)
    ]
    columns = np.flatnonzero(np.min(others, axis=0) >= MIN_PEOPLE // 2)
    is_wrong, expected = np.zeros(values.shape, dtype=bool), values.copy()
    if len(values) < MIN_PEOPLE or len(columns) < MIN_REGIONS:
        return CellComparison(is_wrong, expected)
    predicted = _predict_robustly(
        values[:, columns], np.column_stack([design, np.eye(groups.max() + 1)[groups]])
    )
    n_parts = -(-len(columns) // MAX_REGIONS)
    for part in np.array_split(np.arange(len(columns)), n_parts):
        own = columns[part]
        is_wrong[:, own], adjusted = _compare_people(
            values[:, own] - predicted[:, part], groups, folds
        )
        expected[:, own] = adjusted + predicted[:, part]
    return CellComparison(is_wrong, expected)


def compare_new_cells(
    deviations: FloatArray, sd: FloatArray, precision: FloatArray, scale: float
) -> CellComparison:
    """Find outlying measurements of new people.

    Parameters
    ----------
    deviations : ndarray of shape (N, R)
        From the mean of the training people. Missing cells are NaN.
    sd : ndarray of shape (R,)
        Of the training people.
    precision : ndarray of shape (R, R)
        Of the training people.
    scale : float
        Standard deviation of the residuals of people who were not trained on.

    Returns
    -------
    CellComparison
        The comparison on the scale of deviations.
    """
    z = np.clip(deviations / sd, -MAX_SIZE, MAX_SIZE)
    precision = precision * np.outer(sd, sd)
    residuals = apply_in_blocks(
        partial(_compute_wrapped_residuals, precision=precision), z
    )
    is_candidate = np.abs(residuals) > _CANDIDATE_LIMIT * scale
    rows = is_candidate.any(axis=1)
    is_wrong, expected = np.zeros(z.shape, dtype=bool), z
    if rows.any():
        residuals[rows], expected[rows] = _compute_residuals(
            z[rows], is_candidate[rows], precision
        )
        is_wrong[rows] = np.abs(residuals[rows]) > NEW_LIMIT * scale
    return CellComparison(is_wrong, expected * sd)


@dataclass(frozen=True, kw_only=True)
class CellScreen:
    """Clears new people of whom no cell can be wrong, without their wrapped residuals.

    Regions are deviations from the mean of the training people in conditional standard
    deviations. Without wrapping, residuals are their product with ``partial``. Wrapping
    reduces a region i by e_i, and so changes the residual of another region j by e_i
    times entry [i, j]. The sum of e_i times the largest entry of row i bounds the
    change of all residuals.

    Attributes
    ----------
    unit : ndarray of shape (R,)
        Conditional standard deviation of each region, on the scale of the values.
    partial : ndarray of shape (R, R)
        Precision of the regions in these units. Its diagonal is 1.
    slope, offset : ndarray of shape (R,)
        The bound of a region of size x is slope * x - offset, and at least 0.
    limit : float
        Residual beyond which a cell is a candidate.
    """

    unit: FloatArray
    partial: FloatArray
    slope: FloatArray
    offset: FloatArray
    limit: float

    @classmethod
    def build(cls, sd: FloatArray, precision: FloatArray, scale: float) -> Self:
        """Build the screen from the arguments of `compare_new_cells`."""
        root = np.sqrt(np.diag(precision))
        unit, partial = 1.0 / root, precision / np.outer(root, root)
        others = np.abs(partial - np.diag(np.diag(partial))).max(axis=0, initial=0.0)
        limit = _CANDIDATE_LIMIT * scale
        conditional = unit / sd
        # of the size of a value, by which it is reduced, and at MAX_SIZE a candidate
        growth = WRAP_END / (WRAP_END - WRAP_START)
        least = limit * conditional / (growth * (MAX_SIZE - WRAP_START))
        others = np.maximum(others, least)
        return cls(
            unit=unit,
            partial=partial,
            slope=growth * others,
            offset=growth * WRAP_START * others / conditional,
            limit=limit,
        )

    def compute_condition(self) -> float:
        """Return the condition number of ``partial``; NaN where it is not a number."""
        if not np.isfinite(self.partial).all():
            return float("nan")
        values = np.linalg.eigvalsh(self.partial)
        return float(values[-1] / values[0]) if values[0] > 0 else float("inf")

    def find_suspects(self, regions: FloatArray, residuals: FloatArray) -> BoolArray:
        """Return the mask (N,) of people who may have a wrong cell.

        Parameters
        ----------
        regions, residuals : ndarray of shape (R, N)
            In conditional standard deviations; ``residuals`` is partial @ regions.
        """
        bound = np.abs(regions)
        bound *= self.slope[:, None]
        bound -= self.offset[:, None]
        np.maximum(bound, 0.0, out=bound)
        largest = np.maximum(residuals.max(axis=0), -residuals.min(axis=0))
        return np.asarray(
            ~(largest + bound.sum(axis=0) < (1.0 - _SCREEN_MARGIN) * self.limit)
        )


def _compare_people(
    values: FloatArray, groups: IntArray, folds: IntArray
) -> CellComparison:
    """Compare adjusted people (N, R), each with people of other folds.

    Values and residuals are in units of the person's group. How regions vary together
    comes from everyone: a small group alone knows too little of it.
    """
    residuals, expected = np.empty(values.shape), np.empty(values.shape)
    parts = []
    for fold in range(N_FOLDS):
        is_own, (z, centre, spread) = (
            folds == fold,
            _standardise_robustly(values, groups, folds != fold),
        )
        precision = _estimate_precision(_wrap(z[~is_own]))
        residuals[is_own] = _compute_wrapped_residuals(z[is_own], precision)
        parts.append((is_own, z, centre, spread, precision))
    is_candidate = np.abs(_scale_residuals(residuals, groups)) > _CANDIDATE_LIMIT
    for is_own, z, centre, spread, precision in parts:
        others = fill_missing_cells(
            np.where(is_candidate, np.nan, z)[~is_own], precision
        )[0]
        mean = others.mean(axis=0)
        cells = _compute_residuals(
            z[is_own] - mean, is_candidate[is_own], _estimate_precision(others)
        )
        residuals[is_own], expected[is_own] = (
            cells[0],
            centre[is_own] + spread[is_own] * (mean + cells[1]),
        )
    return CellComparison(
        np.abs(_scale_residuals(residuals, groups)) > WRONG_LIMIT, expected
    )


def _predict_robustly(values: FloatArray, columns: FloatArray) -> FloatArray:
    """Return what a linear model with columns (N, P) predicts; cells (N, R) beyond
    three deviations are clipped.
    """
    predicted = np.broadcast_to(np.nanmedian(values, axis=0), values.shape)
    for _ in range(_N_ROUNDS):
        residuals = values - predicted
        limit = 3.0 * _MAD_SCALE * np.nanmedian(np.abs(residuals), axis=0)
        target = predicted + np.nan_to_num(np.clip(residuals, -limit, limit))
        predicted = columns @ np.linalg.lstsq(columns, target, rcond=None)[0]
    return predicted


def _standardise_robustly(
    values: FloatArray, groups: IntArray, rows: BoolArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return values (N, R) in robust units of some rows (N,) of their group, and centre
    and spread (N, R) of these.
    """
    centre, spread = np.empty(values.shape), np.empty(values.shape)
    for group in np.unique(groups):
        own = groups == group
        centre[own] = np.nanmedian(values[own & rows], axis=0)
        spread[own] = _MAD_SCALE * np.nanmedian(
            np.abs(values[own & rows] - centre[own][0]), axis=0
        )
    z = (values - centre) / np.where(
        spread > 0, spread, np.inf
    )  # a region that hardly varies has no outlying measurements
    return np.clip(z, -MAX_SIZE, MAX_SIZE), centre, spread


def _wrap(z: FloatArray) -> FloatArray:
    """Return values that fall to 0 again where they are large; missing cells are 0."""
    size = np.abs(np.nan_to_num(z))
    reduced = WRAP_START * np.clip(
        (WRAP_END - size) / (WRAP_END - WRAP_START), 0.0, None
    )
    return np.asarray(
        np.sign(np.nan_to_num(z)) * np.where(size < WRAP_START, size, reduced)
    )


def _estimate_precision(z: FloatArray) -> FloatArray:
    """Return the inverse (R, R) of the Ledoit-Wolf covariance of people (N, R)."""
    deviations = z - z.mean(axis=0)
    fourth_power = float(np.square(np.square(deviations).sum(axis=1)).sum())
    return np.asarray(
        np.linalg.inv(
            shrink_covariance(deviations.T @ deviations / len(z), fourth_power, len(z))
        )
    )


def _compute_wrapped_residuals(z: FloatArray, precision: FloatArray) -> FloatArray:
    """Return the residual (N, R) of each cell given the reduced values of the others,
    in conditional deviations.
    """
    wrapped, root = _wrap(z), np.sqrt(np.diag(precision))
    return np.asarray((z - wrapped) * root + wrapped @ precision / root)


def _compute_residuals(
    z: FloatArray, is_candidate: BoolArray, precision: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the residual (N, R) of each cell given the others that are no candidates,
    and its expectation (N, R).
    """
    without = np.where(is_candidate, np.nan, z)
    filled = fill_missing_cells(without, precision)[0]
    sd = np.broadcast_to(1.0 / np.sqrt(np.diag(precision)), z.shape).copy()
    for regions in iterate_missing_regions(without, precision):
        variances = np.diagonal(regions.covariance, axis1=1, axis2=2)
        regions.set_missing(sd, np.sqrt(variances)[regions.group])
    # with expected cells in place of missing ones, the product is that of the measured
    # regions alone
    residuals = np.where(
        is_candidate | np.isnan(z), (z - filled) / sd, filled @ precision * sd
    )
    return residuals, np.where(is_candidate, filled, z - residuals * sd)


def _scale_residuals(residuals: FloatArray, groups: IntArray) -> FloatArray:
    """Return residuals (N, R) less the median of their group, in robust deviations,
    which are larger for long tails.
    """
    scaled = np.empty(residuals.shape)
    for group in np.unique(groups):
        own = residuals[groups == group]
        sizes = np.abs(centred := own - np.nanmedian(own, axis=0))
        middle, tail = np.nanquantile(sizes, (0.5, 0.95), axis=0)
        scale = np.maximum(_MAD_SCALE * middle, tail / _NORMAL_QUANTILE)
        scaled[groups == group] = centred / np.where(scale > 0, scale, np.inf)
    return scaled

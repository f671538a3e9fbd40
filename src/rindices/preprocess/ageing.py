"""Whether regions change with age along a straight line or along a curve.

The curve is a restricted cubic spline: cubic between knots, and straight beyond the
first and the last one. Its knots follow from the mean and the standard deviation of
controls' ages, so that sums over people give the same ones as a table in memory.

It is used where held-out controls are more likely under it, by a clear margin. In each
fold, the controls of the other folds say in which direction of the regions ageing bends
most, with a shrunk covariance as metric. In this direction, held-out controls are
compared with the straight line. Over all regions at once, a curve in a few of them
would not outweigh what is lost by estimating it in the others.

Shape letters: N people, R regions, P columns of the straight design, K columns that the
spline adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rindices._typing import BoolArray, FloatArray
from rindices.errors import PreprocessingError
from rindices.preprocess.missing import fill_within_sites
from rindices.preprocess.residualise import (
    CovariateCoding,
    NumericCovariate,
    bend_codings,
    build_complete_design,
    derive_codings,
    find_bent_columns,
    find_first_column,
)
from rindices.row_hashes import hash_rows
from rindices.tables.cohort import SITE, Cohort
from rindices.tables.layouts.column_names import AGE_NAMES, find_column

KNOT_RANKS = (-1.28, 0.0, 1.28)
"""Knots in standard deviations of controls' ages from their mean, about the 10th, 50th
and 90th percentile. A fourth knot makes the continuation beyond the ages of controls
less certain than it is worth (``benchmarks/age``).
"""
MIN_CONTROLS = 100
"""Fewer controls do not say whether ageing bends."""
MIN_MARGIN = 3.5
"""Standard errors by which held-out controls have to be more likely under the curve."""
N_FOLDS = 5
_SHRINKAGE = 0.3  # of the covariance towards its diagonal mean, in the metric
_DIGITS = 3  # of the knots


@dataclass(frozen=True, eq=False)
class ControlSums:
    """Sums over controls.

    Attributes
    ----------
    number : int
        Number of controls.
    scatter : ndarray of shape (P + K + R, P + K + R)
        Centred products of the columns of the design and the regions; about the mean of
        each site, if sites are harmonised.
    """

    number: int
    scatter: FloatArray

    @classmethod
    def of(cls, columns: FloatArray, sites: Sequence[str]) -> "ControlSums":
        """Return the sums of columns (N, P + K + R) of people of sites (N,)."""
        names, scatter = np.asarray(sites), np.zeros((columns.shape[1],) * 2)
        for site in np.unique(names):
            own = columns[names == site]
            deviations = own - own.mean(axis=0)
            scatter += deviations.T @ deviations
        return cls(len(columns), scatter)


def place_knots(mean: float, sd: float) -> tuple[float, ...]:
    """Return the knots for controls' ages of this mean and standard deviation."""
    places = (mean + sd * rank for rank in KNOT_RANKS)
    knots = tuple(float(f"{place:.{_DIGITS}g}") for place in places)
    return knots if (np.diff(knots) > 0).all() else ()


def find_age(codings: Sequence[CovariateCoding]) -> str | None:
    """Return the name of the covariate that is the age in years, if there is one."""
    names = [each.name for each in codings if isinstance(each, NumericCovariate)]
    return find_column(names, AGE_NAMES)


def measure_bend(
    whole: ControlSums, seen: Sequence[ControlSums], is_added: BoolArray
) -> float:
    """Return by how many standard errors held-out controls are more likely under the
    curve, in the directions in which it bends most in the others.

    Parameters
    ----------
    whole : ControlSums
        Of all controls.
    seen : sequence of ControlSums
        Of all controls but those of one fold.
    is_added : ndarray of shape (P + K,)
        Columns that the spline adds.
    """
    order = np.concatenate(
        [
            np.flatnonzero(~is_added),
            np.flatnonzero(is_added),
            np.arange(len(is_added), len(whole.scatter)),
        ]
    )
    n_linear, n_added = int((~is_added).sum()), int(is_added.sum())
    scale = np.sqrt(np.maximum(np.diag(whole.scatter) / whole.number, 1e-300))[order]
    total = whole.scatter[np.ix_(order, order)] / np.outer(scale, scale)
    margins = []
    for each in seen:
        n_held_out = whole.number - each.number
        if n_held_out < 2:
            continue
        learnt = each.scatter[np.ix_(order, order)] / np.outer(scale, scale)
        line = np.linalg.lstsq(
            learnt[:n_linear, :n_linear], learnt[:n_linear, n_linear:], rcond=1e-10
        )[0]
        beyond = np.vstack([-line, np.eye(len(learnt) - n_linear)])
        learnt, held_out = (
            beyond.T @ products @ beyond for products in (learnt, total - learnt)
        )
        bend = np.linalg.lstsq(
            learnt[:n_added, :n_added], learnt[:n_added, n_added:], rcond=1e-8
        )[0]
        residual = learnt[n_added:, n_added:] - learnt[:n_added, n_added:].T @ bend
        residual /= each.number
        mean_variance = float(np.trace(residual)) / len(residual)
        metric = (1 - _SHRINKAGE) * residual
        metric += _SHRINKAGE * mean_variance * np.eye(len(residual))
        direction = np.linalg.solve(metric, bend.T)  # (R, K)
        covariance = direction.T @ held_out[n_added:, n_added:] @ direction
        variance = np.sum(held_out[:n_added, :n_added] * covariance) / (n_held_out - 1)
        agreement = np.trace(held_out[:n_added, n_added:] @ direction)
        if variance > 0:
            margins.append(float(agreement / np.sqrt(variance)))
    return sum(margins) / np.sqrt(len(margins)) if margins else 0.0


def choose_age_knots(
    cohort: Cohort,
    volumes: FloatArray,
    log: bool,
    by_site: bool,
    seen: BoolArray | None = None,
) -> tuple[float, ...]:
    """Return the knots of the curve of age, or none if it is a straight line.

    Parameters
    ----------
    cohort : Cohort
    volumes : ndarray of shape (N, R)
        Its volumes on the scale on which they are adjusted.
    log : bool
        Whether these are logarithms.
    by_site : bool
        Whether the effects of sites are removed.
    seen : ndarray of shape (S, N), optional
        Who is in all folds but one.
    """
    is_control = cohort.is_control
    controls = cohort.take(is_control)
    codings = derive_codings(controls.covariates, log)
    age = find_age(codings)
    if age is None or len(controls) < MIN_CONTROLS:
        return ()
    values = volumes[is_control]
    seen = _deal_folds(values) if seen is None else seen[:, is_control]
    straight = build_complete_design(codings, controls.covariates, controls.covariates)
    column = straight[:, find_first_column(codings, age)]
    knots = place_knots(float(column.mean()), float(column.std()))
    if not knots:
        return ()
    bent = bend_codings(codings, age, knots)
    design = build_complete_design(bent, controls.covariates, controls.covariates)
    sites = (
        [str(site) for site in controls.people[SITE]]
        if by_site
        else ["" for _ in values]
    )
    try:
        filled = fill_within_sites(values, design, sites)
    except PreprocessingError:
        return ()  # regions that hardly anybody has, which the adjustment names
    columns = np.column_stack([design, filled])
    if not np.isfinite(columns).all():
        return ()  # as well
    names = np.asarray(sites)
    whole = ControlSums.of(columns, sites)
    parts = [ControlSums.of(columns[each], names[each].tolist()) for each in seen]
    margin = measure_bend(whole, parts, find_bent_columns(bent))
    return knots if margin > MIN_MARGIN else ()


def _deal_folds(values: FloatArray) -> BoolArray:
    """Return who of the people (N, R) is in all folds but one, (S, N), whatever their
    order.
    """
    hashes = hash_rows(values, "age")
    rank = np.argsort(np.argsort(np.array(hashes, dtype=object)))
    return np.stack([rank % N_FOLDS != fold for fold in range(N_FOLDS)])

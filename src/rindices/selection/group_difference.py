"""Test whether patients differ from controls, and estimate the difference of each
region.

Measures are regressed on the covariates in everyone. Four statistics look for different
kinds of difference: one strong region, many weak regions, a weak shift along the
correlations of regions, and patients who vary more than controls in some direction. All
are computed under the same permutations of the labels (`relabel`). The p-value is that
of the smallest p of the four, which the permuted labels may choose as well (min-p).
Errors of means allow for groups of unequal spread, and variances are relative to the
mean variance of a group, so patients who only vary more in all regions alike do not
count as different. The metric is the covariance of everyone, shrunk halfway to the
identity, so the statistics stay finite with fewer people than regions.

Shape letters: N people, R regions, P columns of the design, B permutations, K
directions.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy import stats

from rindices._typing import BoolArray, FloatArray
from rindices.selection.dimensions import AdjustedGroups
from rindices.selection.relabel import (
    MAX_PERMUTATIONS,
    compute_min_p,
    draw_permuted_labels,
    is_undecided,
)

STATISTICS = ("largest_t", "mean_squared_t", "shift", "excess_variance")
N_PERMUTATIONS = 999
"""Permutations, unless the result is clear earlier or p is near the level
(`is_undecided`).
"""
MIN_POWER = 0.8
"""Power at which an effect counts as detectable."""
MAX_DIRECTIONS = 50
"""Leading directions in which variances are compared."""
_SHRINKAGE = 0.5  # of the metric towards the identity
_BATCH_SIZE = 100  # permutations that are computed at once
_CLEARLY_NOT, _CLEARLY = (
    0.3,
    0.006,
)  # p-values that end a test after the first and after the second batch
_EPSILON = 1e-12


@dataclass(frozen=True, kw_only=True)
class GroupTest:
    """Result of the test for any difference between patients and controls.

    Attributes
    ----------
    p : float
        p-value of the smallest of the four p-values.
    values : tuple of float
        The four statistics, in the order of `STATISTICS`.
    p_values : tuple of float
        The p-value of each, not corrected for having four.
    n_permutations : int
    """

    p: float
    values: tuple[float, ...]
    p_values: tuple[float, ...]
    n_permutations: int


@dataclass(frozen=True, kw_only=True)
class RegionEffects:
    """Difference of patients from controls in each region, all (R,).

    Attributes
    ----------
    d : ndarray
        Cohen's d: adjusted difference divided by the residual standard deviation.
    low, high : ndarray
        95 % confidence interval of d.
    t, p : ndarray
        T statistic of the label and its two-sided p-value.
    """

    d: FloatArray
    low: FloatArray
    high: FloatArray
    t: FloatArray
    p: FloatArray


def estimate_region_effects(
    values: FloatArray, design: FloatArray, patient: BoolArray
) -> RegionEffects:
    """Estimate the adjusted difference of each region.

    Parameters
    ----------
    values : ndarray of shape (N, R)
        Measures, for instance logarithms of volumes.
    design : ndarray of shape (N, P)
        Covariates to adjust for. The first column is 1.
    patient : ndarray of shape (N,)
        Mask of the patients.
    """
    basis = _compute_basis(design)
    residuals, label = (
        columns - basis @ (basis.T @ columns)
        for columns in (values, patient.astype(float))
    )
    square, dof = max(float(label @ label), _EPSILON), len(values) - basis.shape[1] - 1
    coefficients = label @ residuals / square
    return compute_region_effects(
        coefficients,
        ((residuals - np.outer(label, coefficients)) ** 2).sum(axis=0),
        square,
        dof,
    )


def compute_region_effects(
    coefficients: FloatArray, squares: FloatArray, square: float, dof: int
) -> RegionEffects:
    """Return the effects of a regression on the label.

    Parameters
    ----------
    coefficients : ndarray of shape (R,)
        Of the label.
    squares : ndarray of shape (R,)
        Sum of squared residuals.
    square : float
        Of the label, of which covariates predict nothing.
    dof : int
        Degrees of freedom of the residuals.
    """
    d = coefficients / np.sqrt(np.maximum(squares / dof, _EPSILON))
    error = 1.0 / np.sqrt(max(square, _EPSILON))
    half_width = stats.t.ppf(0.975, dof) * np.sqrt(error**2 + d**2 / (2.0 * dof))
    t = d / error
    return RegionEffects(
        d=d,
        low=d - half_width,
        high=d + half_width,
        t=t,
        p=2.0 * stats.t.sf(np.abs(t), dof),
    )


def smallest_detectable_effect(
    n_controls: int, n_patients: int, n_regions: int, power: float = MIN_POWER
) -> float:
    """Return the smallest Cohen's d of one region that a cohort detects with this
    power, corrected for all regions.

    The level is 0.05 divided by the number of regions (Bonferroni), so an effect of
    this size in a single region is enough. Effects that many regions share are detected
    when they are smaller.
    """
    dof = n_controls + n_patients - 2
    critical = stats.t.ppf(1.0 - 0.025 / n_regions, dof)
    return float(
        (critical + stats.norm.ppf(power))
        * np.sqrt(1.0 / n_controls + 1.0 / n_patients)
    )


def compare_groups(
    groups: AdjustedGroups,
    seed: int = 0,
    n_permutations: int = N_PERMUTATIONS,
    most: int = MAX_PERMUTATIONS,
) -> GroupTest:
    """Test whether patients differ from controls in any way.

    Parameters
    ----------
    n_permutations : int
        Permutations of a test whose p is not near the level. A test whose result is
        clear ends earlier.
    most : int
        Permutations of a test whose p stays near the level.
    """
    residuals = _ResidualGroups.build(groups.people.shifts, groups.people.design)
    rng, most = np.random.default_rng(seed), max(n_permutations, most)
    labels = draw_permuted_labels(groups.patient, groups.scheme, most, rng)
    table, n_done = residuals.compute_statistics(groups.patient[None, :]), 0
    # one of the batches ends after `n_permutations`
    while batch := list(
        islice(labels, min(_BATCH_SIZE, max(n_permutations - n_done, 0) or _BATCH_SIZE))
    ):
        table = np.concatenate([table, residuals.compute_statistics(np.array(batch))])
        n_done, p = len(table) - 1, compute_min_p(table)
        is_clear = (n_done == _BATCH_SIZE and p > _CLEARLY_NOT) or (
            n_done == 2 * _BATCH_SIZE and p < _CLEARLY
        )
        if is_clear if n_done < n_permutations else not is_undecided(p, n_done):
            break
    return summarise_permutations(table)


def summarise_permutations(table: FloatArray) -> GroupTest:
    """Return the test of statistics (B + 1, 4), the observed ones first."""
    p_values = (table >= table[0]).mean(axis=0)
    return GroupTest(
        p=compute_min_p(table),
        values=tuple(table[0].tolist()),
        p_values=tuple(p_values.tolist()),
        n_permutations=len(table) - 1,
    )


@dataclass(frozen=True, kw_only=True)
class _ResidualGroups:
    """Residuals of everyone given the design.

    Attributes
    ----------
    basis : ndarray of shape (N, P)
        Orthogonal basis of the design.
    residuals : ndarray of shape (N, R)
        Standardised residuals of the measures.
    scores : ndarray of shape (N, R)
        Residuals in the metric.
    leading : ndarray of shape (N, K)
        Leading columns of the scores.
    """

    basis: FloatArray
    residuals: FloatArray
    scores: FloatArray
    leading: FloatArray

    @classmethod
    def build(cls, values: FloatArray, design: FloatArray) -> "_ResidualGroups":
        """Remove the design (N, P) from values (N, R)."""
        basis = _compute_basis(design)
        residuals = values - basis @ (basis.T @ values)
        spread = residuals.std(axis=0)
        residuals = residuals / np.where(spread > _EPSILON, spread, 1.0)
        scores = residuals @ compute_metric(residuals.T @ residuals / len(values))
        return cls(
            basis=basis,
            residuals=residuals,
            scores=scores,
            leading=np.ascontiguousarray(scores[:, -MAX_DIRECTIONS:]),
        )

    def compute_statistics(self, labels: BoolArray) -> FloatArray:
        """Return the statistics (B, 4) under each row of labels (B, N)."""
        label = labels.astype(float)
        label -= label @ self.basis @ self.basis.T
        weights = label**2
        squared_t = (label @ self.residuals) ** 2 / np.maximum(
            weights @ self.residuals**2, _EPSILON
        )
        length = weights @ (self.scores**2).sum(axis=1)
        shift = ((label @ self.scores) ** 2).sum(axis=1) / np.maximum(length, _EPSILON)
        excess = _compute_excess_variance(self.leading, labels)
        return np.column_stack(
            [np.sqrt(squared_t.max(axis=1)), squared_t.mean(axis=1), shift, excess]
        )


def compute_metric(correlation: FloatArray) -> FloatArray:
    """Return the directions (R, R) that whiten regions of a correlation (R, R), shrunk;
    the leading ones are last.
    """
    variances, vectors = np.linalg.eigh(correlation)
    return np.asarray(
        vectors / np.sqrt((1.0 - _SHRINKAGE) * np.maximum(variances, 0.0) + _SHRINKAGE)
    )


def _compute_excess_variance(scores: FloatArray, labels: BoolArray) -> FloatArray:
    """Return the largest excess (B,) of the variance of patients over that of controls,
    each about its own mean, in any direction.

    Only the smaller group is summed under each row of labels (B, N); the other one is
    the rest of everyone (N, K).
    """
    is_smaller = labels if 2 * labels[0].sum() < labels.shape[1] else ~labels
    n_smaller, n_people = int(is_smaller[0].sum()), labels.shape[1]
    sums, products = (
        is_smaller @ scores,
        np.stack([scores[mask].T @ scores[mask] for mask in is_smaller]),
    )
    smaller = _scale_covariance(products, sums, n_smaller)
    larger = _scale_covariance(
        scores.T @ scores - products, scores.sum(axis=0) - sums, n_people - n_smaller
    )
    difference = smaller - larger if is_smaller is labels else larger - smaller
    return np.asarray(np.linalg.eigvalsh(difference)[:, -1])


def _scale_covariance(
    products: FloatArray, sums: FloatArray, number: int
) -> FloatArray:
    """Return covariances (B, K, K) relative to their mean variance, from sums over
    people (B, K) and of products.
    """
    covariance = products - sums[:, :, None] * sums[:, None, :] / number
    spread = np.trace(covariance, axis1=1, axis2=2) / covariance.shape[1]
    return np.asarray(covariance / np.maximum(spread, _EPSILON)[:, None, None])


def _compute_basis(design: FloatArray) -> FloatArray:
    """Return an orthogonal basis of the columns of the design."""
    vectors, values, _ = np.linalg.svd(design, full_matrices=False)
    return np.asarray(vectors[:, values > 1e-10 * values.max()])

"""Test in how many directions patients differ from each other beyond controls.

With M patterns, patients are D s + e where controls are e: the covariance of patients exceeds that of controls in M
directions. The mean difference of the groups is removed first, because it would be a direction of its own even if all
patients were alike. The test statistic is the largest excess of any direction. Its null distribution comes from
permuted labels (`relabel`); adjustment, scale and covariance are estimated again under each permutation, so that
controls gain no advantage from having been fitted. If the excess is significant, its direction is removed from everyone
and the test is repeated. The number of rejections estimates M.

Excess is relative to the mean over all directions, so that patients who vary more (or less) than controls in all
directions alike have none. It is finite with fewer people than regions, too.

Shape letters: N people, R regions, P columns of the design, B permutations.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import cholesky, eigh, eigvalsh, solve_triangular

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.preprocess.standardise import shrink_covariance
from rindices.selection.relabel import (
    MAX_PERMUTATIONS,
    PermutationScheme,
    draw_permuted_labels,
    estimate_overlap,
    fit_log_odds,
    is_clear,
    is_undecided,
)

SIGNIFICANCE_LEVEL = 0.05
N_PERMUTATIONS = 199
MAX_PATTERNS = 8
MIN_GROUP_OVERLAP = 0.3
"""Overlap below which groups differ so much in covariates that the test can hardly detect a disease."""
_CHECK_INTERVAL = 20  # permutations between checks whether a test is decided
_EARLY_STOP_PERMUTATIONS = 60  # labellings, the observed one included, that suffice if no other reaches its excess
_EPSILON = 1e-9


class DimensionTest(NamedTuple):
    """Test of the hypothesis that a number of patterns is enough.

    patterns: number of patterns that were removed before; excess: largest variance of patients relative to controls in
    the remaining directions; the mean direction has 1; chance: median and 95th percentile of the excess under permuted
    labels; p: p-value; the observed labels count as one permutation; relabellings: number of permutations.
    """

    patterns: int
    excess: float
    chance: tuple[float, float]
    p: float
    relabellings: int


class DimensionEstimate(NamedTuple):
    """Number of patterns that patients have beyond controls.

    number: M; 0 if patients do not differ from each other more than controls do; dimension_tests: tests of 0, 1, 2, ...
    patterns. The last is not significant, unless `MAX_PATTERNS` was reached; level: significance level of each test;
    overlap: how freely labels could be permuted given the covariates: 1 freely, 0 not at all.
    """

    number: int
    dimension_tests: tuple[DimensionTest, ...]
    level: float
    overlap: float

    @property
    def is_comparable(self) -> bool:
        """Whether the groups overlap enough in covariates for a test to mean something."""
        return self.overlap >= MIN_GROUP_OVERLAP


class GroupContrast(NamedTuple):
    """Moments of both groups, adjusted and scaled on controls.

    controls (R, R): shrunk covariance of controls (Ledoit-Wolf); patients (R, R): second moment of patients about the
    mean of controls; scale (R,): standard deviation of controls, the unit of the other two.
    """

    controls: FloatArray
    patients: FloatArray
    scale: FloatArray

    def find_top_directions(self, number: int) -> FloatArray:
        """Return the directions of largest excess (R, number), in units of the scale."""
        size = len(self.scale)
        return np.asarray(eigh(self.patients, self.controls, subset_by_index=[size - number, size - 1])[1])


@dataclass(frozen=True, eq=False)
class ParticipantData:
    """Data of all people, without labels.

    shifts (N, R): volumes on a scale on which disease is additive, for instance logarithms; design (N, P): covariates
    to adjust for; the first column is 1.
    """

    shifts: FloatArray
    design: FloatArray
    _columns: FloatArray = field(init=False, repr=False)
    _products: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        columns = np.hstack([self.design, self.shifts])
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_products", columns.T @ columns)

    def compute_contrast(self, patient: BoolArray) -> GroupContrast:
        """Adjust and scale on controls under the labels (N,), and return the moments of both groups."""
        n_columns = self.design.shape[1]
        control_sums, patient_sums = self._sum_group_products(patient)
        normal, right = control_sums[:n_columns, :n_columns], control_sums[:n_columns, n_columns:]
        effects: FloatArray = np.asarray(np.linalg.lstsq(normal, right, rcond=None)[0])
        n_controls, n_patients = int((~patient).sum()), int(patient.sum())
        controls = _adjust_products(control_sums, effects) / n_controls
        patients = _adjust_products(patient_sums, effects) / n_patients
        scale = np.sqrt(np.maximum(np.diag(controls), 0.0))
        scale = np.where(scale > _EPSILON * max(float(scale.max()), _EPSILON), scale, 1.0)
        lengths = (((self.shifts[~patient] - self.design[~patient] @ effects) / scale) ** 2).sum(axis=1)
        units = np.outer(scale, scale)
        shrunk = shrink_covariance(controls / units, float((lengths**2).sum()), n_controls)
        return GroupContrast(shrunk + _EPSILON * np.eye(len(scale)), patients / units, scale)

    def remove_mean_difference(self, patient: BoolArray) -> "ParticipantData":
        """Remove the adjusted difference between the means of patients and controls."""
        label = patient.astype(float)[:, None]
        effects = np.linalg.lstsq(np.hstack([self.design, label]), self.shifts, rcond=None)[0]
        return ParticipantData(self.shifts - label * effects[-1], self.design)

    def remove_directions(self, patient: BoolArray, n_directions: int) -> "ParticipantData":
        """Remove the directions of largest excess from everyone."""
        if not n_directions:
            return self
        contrast = self.compute_contrast(patient)
        top = contrast.find_top_directions(n_directions)
        scores = self.shifts / contrast.scale @ top
        return ParticipantData(self.shifts - scores @ (contrast.controls @ top).T * contrast.scale, self.design)

    def _sum_group_products(self, patient: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of products over controls and over patients; only the smaller group is summed."""
        smaller = patient if 2 * patient.sum() < len(patient) else ~patient
        sums = self._columns[smaller].T @ self._columns[smaller]
        rest = self._products - sums
        return (rest, sums) if smaller is patient else (sums, rest)


def _adjust_products(products: FloatArray, effects: FloatArray) -> FloatArray:
    """Return the sums of products after adjustment: (P + R, P + R), (P, R) -> (R, R)."""
    n_columns = len(effects)
    mixed = effects.T @ (products[:n_columns, n_columns:] - 0.5 * products[:n_columns, :n_columns] @ effects)
    return np.asarray(products[n_columns:, n_columns:] - mixed - mixed.T)


class CovariateColumns(NamedTuple):
    """Columns of one covariate.

    values (N, K); categorical: whether they are indicators of categories.
    """

    values: FloatArray
    categorical: bool


class AdjustedGroups(NamedTuple):
    """Data of the permutation tests.

    people: measures and design of everyone; patient (N,): mask of the patients; scheme: labels are exchanged only
    between people with similar covariates in the same stratum.
    """

    people: ParticipantData
    patient: BoolArray
    scheme: PermutationScheme

    @classmethod
    def build(
        cls, shifts: FloatArray, covariates: Sequence[CovariateColumns], strata: IntArray, patient: BoolArray
    ) -> Self:
        """Adjust for covariates and strata.

        shifts (N, R): measures on a scale on which disease is additive, for instance logarithms; strata (N,): number of
        each person's stratum, for instance of the site; patient (N,): mask of the patients.
        """
        columns = [*covariates, CovariateColumns(np.eye(strata.max(initial=0) + 1)[strata][:, 1:], True)]
        none, one = np.zeros((len(shifts), 0)), np.ones((len(shifts), 1))
        numbers, categories = (
            np.hstack([none, *(part.values for part in columns if part.categorical is kind)]) for kind in (False, True)
        )
        design = np.hstack([one, *(standardise_columns(part.values) for part in columns)])
        scheme = PermutationScheme(fit_log_odds(numbers, categories, patient), strata)
        return cls(ParticipantData(shifts, design), patient, scheme)


def standardise_columns(columns: FloatArray) -> FloatArray:
    """Return columns (N, K) with mean 0 and standard deviation 1; constant columns become 0."""
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def count_dimensions(
    groups: AdjustedGroups,
    seed: int = 0,
    level: float = SIGNIFICANCE_LEVEL,
    n_permutations: int = N_PERMUTATIONS,
    max_patterns: int = MAX_PATTERNS,
) -> DimensionEstimate:
    """Test 0, 1, 2, ... patterns until a test is not significant.

    level: significance level of each test, and so the chance to find patterns where there are none; n_permutations:
    permutations of a test whose p is not near the level; up to `MAX_PERMUTATIONS` otherwise; max_patterns: largest
    number of patterns to look for.
    """
    patient, max_patterns = groups.patient, min(max_patterns, groups.people.shifts.shape[1] - 1)
    people = groups.people.remove_mean_difference(patient)
    most = max(n_permutations, MAX_PERMUTATIONS) if max_patterns else n_permutations  # nothing depends on p otherwise

    def test(k: int) -> DimensionTest:
        rest = groups._replace(people=people.remove_directions(patient, k))
        labels = draw_permuted_labels(patient, groups.scheme, most, np.random.default_rng([seed, k]))
        return _test_dimension(rest, labels, k, n_permutations, level)

    overlap = estimate_overlap(patient, groups.scheme, np.random.default_rng([seed, max_patterns + 1]))
    return count_significant(test, max_patterns, level, overlap)


def count_significant(
    test: Callable[[int], DimensionTest], max_patterns: int, level: float, overlap: float
) -> DimensionEstimate:
    """Test 0, 1, 2, ... patterns until a test is not significant."""
    tests: list[DimensionTest] = []
    for k in range(max_patterns + 1):
        tests.append(test(k))
        if tests[-1].p > level:
            break
    n_significant = sum(each.p <= level for each in tests)
    return DimensionEstimate(min(n_significant, max_patterns), tuple(tests), level, overlap)


def compute_excess(contrast: GroupContrast) -> float:
    """Return the largest variance of patients in the metric of controls, relative to the mean over directions."""
    root = cholesky(contrast.controls, lower=True, check_finite=False)
    half = solve_triangular(root, contrast.patients, lower=True, check_finite=False)
    variances = eigvalsh(solve_triangular(root, half.T, lower=True, check_finite=False), check_finite=False)
    return float(variances[-1] / max(float(variances.mean()), _EPSILON))


def _test_dimension(
    groups: AdjustedGroups, permuted: Iterator[BoolArray], n_removed: int, n_permutations: int, level: float
) -> DimensionTest:
    """Compare the excess of the observed labels with that of permuted labels.

    A test ends early if p is clearly above the level, or if none of the first permutations reaches the
    observed excess. The second rule is applied once and adds less than 0.001 to the level. A test whose p is near the
    level after all permutations goes on until p is clearly above or below it, or the permuted labels end.
    """
    values = [compute_excess(groups.people.compute_contrast(groups.patient))]
    for labels in permuted:
        values.append(compute_excess(groups.people.compute_contrast(labels)))
        if len(values) % _CHECK_INTERVAL == 0 or len(values) == n_permutations + 1:
            p_value = float(np.mean(np.array(values) >= values[0]))
            if len(values) == _EARLY_STOP_PERMUTATIONS and p_value * len(values) < 1.5:
                break
            if p_value > level and is_clear(p_value, len(values) - 1, level):
                break
            if len(values) > n_permutations and not is_undecided(p_value, len(values) - 1, level):
                break
    return summarise_excess(values, n_removed)


def summarise_excess(values: Sequence[float], n_removed: int) -> DimensionTest:
    """Return the test of an excess, the first of the values, among those under permuted labels."""
    median, high = np.quantile(values[1:], [0.5, 0.95])
    p_value = float(np.mean(np.array(values) >= values[0]))
    return DimensionTest(n_removed, values[0], (float(median), float(high)), p_value, len(values) - 1)

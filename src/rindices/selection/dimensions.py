"""Test in how many directions patients differ from each other beyond controls.

With M patterns, patients are D s + e where controls are e: the covariance of patients
exceeds that of controls in M directions. The mean difference of the groups is removed
first, because it would be a direction of its own even if all patients were alike. Let P
be the second moment of patients, C the covariance of controls, and c the mean over all
directions of the ratio of P to C. Two statistics look for patterns of two kinds:

- ``ratio``, the largest ratio of P to C of any direction, divided by c. It finds local
  patterns, which add little variance where healthy people vary little.
- ``added_variance``, the largest eigenvalue of P / c - C. It finds diffuse patterns,
  which add much variance where healthy people vary much already, as ageing does.

The p-value is that of the smaller p of the two, which the permuted labels may choose as
well (min-p). Null distributions come from permuted labels (`relabel`); adjustment,
scale and covariance are estimated again under each permutation, so that controls gain
no advantage from having been fitted. If p is significant, the pattern of the statistic
that stands out more is removed from everyone and the test is repeated. The number of
rejections estimates M.

Because of c, patients who vary more (or less) than controls in all directions alike
have no excess. Both statistics are finite with fewer people than regions, too.

Shape letters: N people, R regions, P columns of the design, B permutations.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self, TypeVar

import numpy as np
from scipy.linalg import cholesky, eigh, eigvalsh, solve_triangular

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.preprocess.standardise import shrink_covariance
from rindices.selection.relabel import (
    MAX_PERMUTATIONS,
    PermutationScheme,
    compute_min_p,
    draw_permuted_labels,
    estimate_overlap,
    fit_log_odds,
    is_clear,
    is_undecided,
)

EXCESS_STATISTICS = ("ratio", "added_variance")
"""Statistics of the excess, see above."""
SIGNIFICANCE_LEVEL = 0.05
N_PERMUTATIONS = 199
MAX_PATTERNS = 8
MIN_GROUP_OVERLAP = 0.3
"""Overlap below which groups differ so much in covariates that the test can hardly
detect a disease.
"""
_CHECK_INTERVAL = 20  # permutations between checks whether a test is decided
# labellings, the observed one included, that suffice if no other reaches its excess
_EARLY_STOP_PERMUTATIONS = 60
_EPSILON = 1e-9


People = TypeVar("People")
"""People as a test has them: all of them, or sums over blocks."""


@dataclass(frozen=True, kw_only=True)
class DimensionTest:
    """Test of the hypothesis that a number of patterns is enough.

    Attributes
    ----------
    patterns : int
        Number of patterns that were removed before.
    statistic : str
        That of `EXCESS_STATISTICS` which stands out more from the permuted labels.
    excess : float
        Its value.
    chance : tuple of float
        Its median and 95th percentile under permuted labels.
    p : float
        p-value by both statistics. The observed labels count as one permutation.
    relabellings : int
        Number of permutations.
    """

    patterns: int
    statistic: str
    excess: float
    chance: tuple[float, float]
    p: float
    relabellings: int


@dataclass(frozen=True, kw_only=True)
class DimensionEstimate:
    """Number of patterns that patients have beyond controls.

    Attributes
    ----------
    number : int
        M. 0 if patients do not differ from each other more than controls do.
    dimension_tests : tuple of DimensionTest
        Tests of 0, 1, 2, ... patterns. The last is not significant, unless
        `MAX_PATTERNS` was reached.
    level : float
        Significance level of each test.
    overlap : float
        How freely labels could be permuted given the covariates: 1 freely, 0 not at
        all.
    """

    number: int
    dimension_tests: tuple[DimensionTest, ...]
    level: float
    overlap: float

    @property
    def is_comparable(self) -> bool:
        """Whether the groups overlap enough in covariates for a test to
        mean something.
        """
        return self.overlap >= MIN_GROUP_OVERLAP


@dataclass(frozen=True, kw_only=True)
class GroupContrast:
    """Moments of both groups, adjusted and scaled on controls.

    Attributes
    ----------
    controls : ndarray of shape (R, R)
        Shrunk covariance of controls (Ledoit-Wolf).
    sample : ndarray of shape (R, R)
        Their covariance.
    patients : ndarray of shape (R, R)
        Second moment of patients about the mean of controls.
    scale : ndarray of shape (R,)
        Standard deviation of controls, the unit of the others.
    """

    controls: FloatArray
    sample: FloatArray
    patients: FloatArray
    scale: FloatArray

    def compute_excess(self) -> FloatArray:
        """Return the statistics `EXCESS_STATISTICS` (2,)."""
        root = cholesky(self.controls, lower=True, check_finite=False)
        half = solve_triangular(root, self.patients, lower=True, check_finite=False)
        whitened = solve_triangular(root, half.T, lower=True, check_finite=False)
        mean, last = (
            max(float(np.trace(whitened)) / len(root), _EPSILON),
            [len(root) - 1] * 2,
        )
        ratio = eigvalsh(whitened, subset_by_index=last, check_finite=False)[0]
        added = eigvalsh(
            self.patients / mean - self.sample, subset_by_index=last, check_finite=False
        )[0]
        return np.array([ratio / mean, added])

    def make_projection(self, statistic: str) -> FloatArray:
        """Return the matrix (R, R) that removes from people (N, R) the pattern d of
        largest excess by a statistic.

        A person's severity of d is estimated in the metric of controls, w = C^-1 d /
        (d' C^-1 d), and x becomes x - (x w) d'. People are in units of the scale.
        """
        size = len(self.scale)
        if statistic == EXCESS_STATISTICS[0]:
            weights = eigh(
                self.patients, self.controls, subset_by_index=[size - 1, size - 1]
            )[1][:, 0]
            pattern = self.controls @ weights
        else:
            mean = max(
                float(np.trace(np.linalg.solve(self.controls, self.patients))) / size,
                _EPSILON,
            )
            pattern = eigh(
                self.patients / mean - self.sample, subset_by_index=[size - 1, size - 1]
            )[1][:, 0]
            weights = np.linalg.solve(self.controls, pattern)
        return np.asarray(
            np.eye(size) - np.outer(weights, pattern) / (pattern @ weights)
        )


@dataclass(frozen=True, eq=False)
class ParticipantData:
    """Data of all people, without labels.

    Attributes
    ----------
    shifts : ndarray of shape (N, R)
        Volumes on a scale on which disease is additive, for instance logarithms.
    design : ndarray of shape (N, P)
        Covariates to adjust for. The first column is 1.
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
        """Adjust and scale on controls under the labels (N,), and return the moments of
        both groups.
        """
        n_columns = self.design.shape[1]
        control_sums, patient_sums = self._sum_group_products(patient)
        normal, right = (
            control_sums[:n_columns, :n_columns],
            control_sums[:n_columns, n_columns:],
        )
        effects: FloatArray = np.asarray(np.linalg.lstsq(normal, right, rcond=None)[0])
        n_controls, n_patients = int((~patient).sum()), int(patient.sum())
        controls = _adjust_products(control_sums, effects) / n_controls
        patients = _adjust_products(patient_sums, effects) / n_patients
        scale = np.sqrt(np.maximum(np.diag(controls), 0.0))
        scale = np.where(
            scale > _EPSILON * max(float(scale.max()), _EPSILON), scale, 1.0
        )
        lengths = (
            ((self.shifts[~patient] - self.design[~patient] @ effects) / scale) ** 2
        ).sum(axis=1)
        units = np.outer(scale, scale)
        sample = controls / units
        shrunk = shrink_covariance(sample, float((lengths**2).sum()), n_controls)
        return GroupContrast(
            controls=shrunk + _EPSILON * np.eye(len(scale)),
            sample=sample,
            patients=patients / units,
            scale=scale,
        )

    def remove_mean_difference(self, patient: BoolArray) -> "ParticipantData":
        """Remove the adjusted difference between the means of patients and controls."""
        label = patient.astype(float)[:, None]
        effects = np.linalg.lstsq(
            np.hstack([self.design, label]), self.shifts, rcond=None
        )[0]
        return ParticipantData(self.shifts - label * effects[-1], self.design)

    def remove_pattern(self, patient: BoolArray, statistic: str) -> "ParticipantData":
        """Remove the pattern of largest excess by a statistic from everyone."""
        contrast = self.compute_contrast(patient)
        rest = self.shifts / contrast.scale @ contrast.make_projection(statistic)
        return ParticipantData(rest * contrast.scale, self.design)

    def _sum_group_products(self, patient: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of products over controls and over patients; only the smaller
        group is summed.
        """
        smaller = patient if 2 * patient.sum() < len(patient) else ~patient
        sums = self._columns[smaller].T @ self._columns[smaller]
        rest = self._products - sums
        return (rest, sums) if smaller is patient else (sums, rest)


def _adjust_products(products: FloatArray, effects: FloatArray) -> FloatArray:
    """Return the sums of products after adjustment: (P + R, P + R), (P, R)
    -> (R, R).
    """
    n_columns = len(effects)
    mixed = effects.T @ (
        products[:n_columns, n_columns:]
        - 0.5 * products[:n_columns, :n_columns] @ effects
    )
    return np.asarray(products[n_columns:, n_columns:] - mixed - mixed.T)


class CovariateColumns(NamedTuple):
    """Columns of one covariate.

    Attributes
    ----------
    values : ndarray of shape (N, K)
    categorical : bool
        Whether they are indicators of categories.
    """

    values: FloatArray
    categorical: bool


class AdjustedGroups(NamedTuple):
    """Data of the permutation tests.

    Attributes
    ----------
    people : ParticipantData
        Measures and design of everyone.
    patient : ndarray of shape (N,)
        Mask of the patients.
    scheme : PermutationScheme
        Labels are exchanged only between people with similar covariates in the same
        stratum.
    """

    people: ParticipantData
    patient: BoolArray
    scheme: PermutationScheme

    @classmethod
    def build(
        cls,
        shifts: FloatArray,
        covariates: Sequence[CovariateColumns],
        strata: IntArray,
        patient: BoolArray,
    ) -> Self:
        """Adjust for covariates and strata.

        Parameters
        ----------
        shifts : ndarray of shape (N, R)
            Measures on a scale on which disease is additive, for instance
            logarithms.
        strata : ndarray of shape (N,)
            Number of each person's stratum, for instance of the site.
        patient : ndarray of shape (N,)
            Mask of the patients.
        """
        columns = [
            *covariates,
            CovariateColumns(np.eye(strata.max(initial=0) + 1)[strata][:, 1:], True),
        ]
        none, one = np.zeros((len(shifts), 0)), np.ones((len(shifts), 1))
        numbers, categories = (
            np.hstack(
                [none, *(part.values for part in columns if part.categorical is kind)]
            )
            for kind in (False, True)
        )
        design = np.hstack(
            [one, *(standardise_columns(part.values) for part in columns)]
        )
        scheme = PermutationScheme(fit_log_odds(numbers, categories, patient), strata)
        return cls(ParticipantData(shifts, design), patient, scheme)


def standardise_columns(columns: FloatArray) -> FloatArray:
    """Return columns (N, K) with mean 0 and standard deviation 1; constant columns
    become 0.
    """
    spread = columns.std(axis=0)
    return np.asarray(
        (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    )


def count_dimensions(
    groups: AdjustedGroups,
    seed: int = 0,
    level: float = SIGNIFICANCE_LEVEL,
    n_permutations: int = N_PERMUTATIONS,
    max_patterns: int = MAX_PATTERNS,
) -> DimensionEstimate:
    """Test 0, 1, 2, ... patterns until a test is not significant.

    Parameters
    ----------
    level : float
        Significance level of each test, and so the chance to find patterns where
        there are none.
    n_permutations : int
        Permutations of a test whose p is not near the level. Up to
        `MAX_PERMUTATIONS` otherwise.
    max_patterns : int
        Largest number of patterns to look for.
    """
    patient, max_patterns = (
        groups.patient,
        min(max_patterns, groups.people.shifts.shape[1] - 1),
    )
    most = (
        max(n_permutations, MAX_PERMUTATIONS) if max_patterns else n_permutations
    )  # nothing depends on p otherwise

    def test(people: ParticipantData, k: int) -> DimensionTest:
        labels = draw_permuted_labels(
            patient, groups.scheme, most, np.random.default_rng([seed, k])
        )
        return _test_dimension(
            groups._replace(people=people), labels, k, n_permutations, level
        )

    def remove(people: ParticipantData, statistic: str) -> ParticipantData:
        return people.remove_pattern(patient, statistic)

    overlap = estimate_overlap(
        patient, groups.scheme, np.random.default_rng([seed, max_patterns + 1])
    )
    people = groups.people.remove_mean_difference(patient)
    return count_significant(people, test, remove, max_patterns, level, overlap)


def count_significant(
    people: People,
    test: Callable[[People, int], DimensionTest],
    remove: Callable[[People, str], People],
    max_patterns: int,
    level: float,
    overlap: float,
) -> DimensionEstimate:
    """Test 0, 1, 2, ... patterns until a test is not significant.

    Parameters
    ----------
    test : callable
        Tests people after a number of patterns was removed.
    remove : callable
        Removes one more, by the statistic that stands out more.
    """
    tests: list[DimensionTest] = []
    for k in range(max_patterns + 1):
        if tests:
            people = remove(people, tests[-1].statistic)
        tests.append(test(people, k))
        if tests[-1].p > level:
            break
    n_significant = sum(each.p <= level for each in tests)
    return DimensionEstimate(
        number=min(n_significant, max_patterns),
        dimension_tests=tuple(tests),
        level=level,
        overlap=overlap,
    )


def _test_dimension(
    groups: AdjustedGroups,
    permuted: Iterator[BoolArray],
    n_removed: int,
    n_permutations: int,
    level: float,
) -> DimensionTest:
    """Compare the excess of the observed labels with that of permuted labels.

    A test ends early if p is clearly above the level, or if none of the first
    permutations reaches the observed excess. The second rule is applied once and adds
    less than 0.001 to the level. A test whose p is near the level after all
    permutations goes on until p is clearly above or below it, or the permuted labels
    end.
    """
    values = [groups.people.compute_contrast(groups.patient).compute_excess()]
    for labels in permuted:
        values.append(groups.people.compute_contrast(labels).compute_excess())
        if len(values) % _CHECK_INTERVAL == 0 or len(values) == n_permutations + 1:
            p_value = compute_min_p(np.array(values))
            if len(values) == _EARLY_STOP_PERMUTATIONS and p_value * len(values) < 1.5:
                break
            if p_value > level and is_clear(p_value, len(values) - 1, level):
                break
            if len(values) > n_permutations and not is_undecided(
                p_value, len(values) - 1, level
            ):
                break
    return summarise_excess(values, n_removed)


def summarise_excess(values: Sequence[FloatArray], n_removed: int) -> DimensionTest:
    """Return the test of the statistics (2,) in the first of the values, among those
    under permuted labels.
    """
    table = np.array(values)
    medians, highs = np.quantile(table[1:], [0.5, 0.95], axis=0)
    chosen = int(
        np.argmax((table[0] - medians) / np.maximum(highs - medians, _EPSILON))
    )
    return DimensionTest(
        patterns=n_removed,
        statistic=EXCESS_STATISTICS[chosen],
        excess=float(table[0, chosen]),
        chance=(float(medians[chosen]), float(highs[chosen])),
        p=compute_min_p(table),
        relabellings=len(table) - 1,
    )

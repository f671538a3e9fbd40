"""Is there anything, and how many patterns? Patients' variation against controls', direction by direction.

With M patterns, patients are D s + e where controls are e: patients' second moment about the controls' mean exceeds the
controls' covariance in M directions and in no other. The largest excess of any direction is held against what it is
when labels are exchanged (`relabel`); everything that was learnt from the labels (adjustment, scale, covariance) is
learnt again under the new ones, so that controls gain nothing by having been learnt from. If it is larger than chance
allows, its direction is taken out of everyone and the question is asked again: the number of rejections is M.

Excess is measured against the median direction's, so that patients who vary more (or less) than controls in all
directions alike count for nothing. At the first question the mean shift is asked for as well, which sees a weak disease
that shifts all patients alike.

Shape letters: N people, R regions, P columns of the design, B relabellings.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, eigh, eigvalsh, solve_triangular

from rindices._typing import BoolArray, FloatArray
from rindices.selection.relabel import PermutationScheme, draw_permuted_labels, estimate_overlap

SIGNIFICANCE_LEVEL = 0.05
N_PERMUTATIONS = 199
MAX_PATTERNS = 8  # patterns that are looked for
_CHECK_INTERVAL = 20  # relabellings after which a question that can no longer be answered with no is dropped
_EARLY_STOP_PERMUTATIONS = (
    60  # relabellings, the observed labels counted in, that suffice where none reaches the observed excess
)
_EPSILON = 1e-9


class DimensionTest(NamedTuple):
    """The question whether this many patterns are enough, and its answer.

    Attributes
    ----------
    patterns : int
        How many were taken out before.
    excess : float
        Largest variance of patients against controls in what is left, the median direction's being 1.
    chance : tuple of float
        Median and 95th percentile of the excess under exchanged labels.
    p : float
        Share of relabellings, the observed labels counted in, that reach as much.
    relabellings : int
    """

    patterns: int
    excess: float
    chance: tuple[float, float]
    p: float
    relabellings: int


class DimensionEstimate(NamedTuple):
    """How many patterns patients have beyond controls.

    Attributes
    ----------
    number : int
        M; 0: patients cannot be told from controls.
    questions : tuple of Question
        One for every number of patterns from 0; the last one was answered with yes, unless `MAX_PATTERNS` was reached.
    level : float
    overlap : float
        How freely labels could be exchanged given the covariates, 1 freely, 0 not at all.
    """

    number: int
    dimension_tests: tuple[DimensionTest, ...]
    level: float
    overlap: float


class GroupContrast(NamedTuple):
    """What labels say: all in the controls' scale, adjusted on controls.

    Attributes
    ----------
    controls : (R, R)
        Shrunk covariance (Ledoit-Wolf).
    patients : (R, R)
        Second moment about the controls' mean.
    shift : (R,)
        Patients' mean.
    scale : (R,)
        The controls' standard deviation, in which the other three are.
    sizes : tuple of int
        Number of controls and of patients.
    """

    controls: FloatArray
    patients: FloatArray
    shift: FloatArray
    scale: FloatArray
    sizes: tuple[int, int]


@dataclass(frozen=True, eq=False)
class ParticipantData:
    """Everyone, whatever the label.

    Attributes
    ----------
    shifts : (N, R)
        Volumes such that disease adds to them, for instance logarithms.
    design : (N, P)
        What is adjusted for on controls; the first column is 1.
    """

    shifts: FloatArray
    design: FloatArray
    both: FloatArray = field(init=False, repr=False)
    products: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        both = np.hstack([self.design, self.shifts])
        object.__setattr__(self, "both", both)
        object.__setattr__(self, "products", both.T @ both)

    def contrast(self, patient: BoolArray) -> GroupContrast:
        """Adjust and scale on those who are controls under these labels, and compare."""
        width = self.design.shape[1]
        healthy, ill = self._sum_group_products(patient)
        effects: FloatArray = np.asarray(
            np.linalg.lstsq(healthy[:width, :width], healthy[:width, width:], rcond=None)[0]
        )
        n_controls, n_patients = int((~patient).sum()), int(patient.sum())
        controls, patients = (
            _adjust_products(healthy, effects) / n_controls,
            _adjust_products(ill, effects) / n_patients,
        )
        scale = np.sqrt(np.maximum(np.diag(controls), 0.0))
        scale = np.where(scale > _EPSILON * max(float(scale.max()), _EPSILON), scale, 1.0)
        lengths = (((self.shifts[~patient] - self.design[~patient] @ effects) / scale) ** 2).sum(axis=1)
        shift = (ill[0, width:] - ill[0, :width] @ effects) / n_patients / scale
        units = np.outer(scale, scale)
        return GroupContrast(
            shrink_covariance(controls / units, lengths), patients / units, shift, scale, (n_controls, n_patients)
        )

    def remove_directions(self, patient: BoolArray, number: int) -> "ParticipantData":
        """Take the directions of largest excess out of everyone; nothing else changes."""
        if not number:
            return self
        found = self.contrast(patient)
        width = len(found.scale)
        top = eigh(found.patients, found.controls, subset_by_index=[width - number, width - 1])[1]
        return ParticipantData(
            self.shifts - (self.shifts / found.scale @ top) @ (found.controls @ top).T * found.scale, self.design
        )

    def _sum_group_products(self, patient: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Sums of products over controls and over patients; only the smaller group is summed."""
        few = patient if 2 * patient.sum() < len(patient) else ~patient
        part = self.both[few].T @ self.both[few]
        rest = self.products - part
        return (rest, part) if few is patient else (part, rest)


def _adjust_products(products: FloatArray, effects: FloatArray) -> FloatArray:
    """Return sums of products of adjusted people, (P + R, P + R), (P, R) -> (R, R)."""
    width = len(effects)
    mixed = effects.T @ (products[:width, width:] - 0.5 * products[:width, :width] @ effects)
    return np.asarray(products[width:, width:] - mixed - mixed.T)


def count_dimensions(
    people: ParticipantData,
    patient: BoolArray,
    exchange: PermutationScheme,
    seed: int = 0,
    level: float = SIGNIFICANCE_LEVEL,
    number: int = N_PERMUTATIONS,
    most: int = MAX_PATTERNS,
) -> DimensionEstimate:
    """Ask for 0, 1, 2, ... patterns whether they are enough, until they are.

    Parameters
    ----------
    people : People
    patient : (N,)
    exchange : Exchange
        Who may exchange labels with whom.
    seed : int
    level : float
        Of each question, so also the chance that patterns are found where there are none.
    number : int
        Relabellings a question.
    most : int
        Patterns to look for.
    """
    most = min(most, people.shifts.shape[1] - 1)
    questions: list[DimensionTest] = []
    for k in range(most + 1):
        rng = np.random.default_rng([seed, k])
        questions.append(
            _test_dimension(people.remove_directions(patient, k), patient, exchange, k, number, level, rng)
        )
        if questions[-1].p > level:
            break
    found = sum(question.p <= level for question in questions)
    freely = estimate_overlap(patient, exchange, np.random.default_rng([seed, most + 1]))
    return DimensionEstimate(min(found, most), tuple(questions), level, freely)


def compute_excess_and_shift(contrast: GroupContrast) -> tuple[float, float]:
    """Return the largest excess and the mean shift, both as if patients' usual spread were the controls'.

    The excess is that of the strongest direction against the median one. The shift is its squared length in the
    controls' metric against its error, to which patients add by their own spread, the median direction's (Welch).
    """
    root = cholesky(contrast.controls, lower=True, check_finite=False)
    half = solve_triangular(root, contrast.patients, lower=True, check_finite=False)
    values = eigvalsh(solve_triangular(root, half.T, lower=True, check_finite=False), check_finite=False)
    shift = solve_triangular(root, contrast.shift, lower=True, check_finite=False)
    spread = max(float(np.median(values)), _EPSILON)
    error = 1.0 / contrast.sizes[0] + spread / contrast.sizes[1]
    return float(values[-1] / spread), float(shift @ shift / error)


def shrink_covariance(covariance: FloatArray, lengths: FloatArray) -> FloatArray:
    """Return the Ledoit-Wolf covariance, given the plain one and everyone's squared length.

    scikit-learn's `ledoit_wolf` wants the people and multiplies them out again; the sum of all products of squares
    that it needs is the sum of squared lengths.
    """
    width, number = len(covariance), len(lengths)
    mean, square = np.trace(covariance) / width, float((covariance**2).sum())
    spread = (square - width * mean**2) / width
    error = (float((lengths**2).sum()) / number - square) / (width * number)
    weight = min(max(error, 0.0), spread) / spread if spread > 0 else 0.0
    return np.asarray((1.0 - weight) * covariance + (weight * mean + _EPSILON) * np.eye(width))


def _test_dimension(
    people: ParticipantData,
    patient: BoolArray,
    exchange: PermutationScheme,
    removed: int,
    number: int,
    level: float,
    rng: np.random.Generator,
) -> DimensionTest:
    """Hold what is left against chance.

    A look on the way ends a question early: where too many relabellings reach the excess already, and, once, where none
    of the first ones does. The second adds less than a thousandth to the level.
    """
    columns = 2 if removed == 0 else 1  # a strong shift is never taken out to the last bit: it is asked for once
    values = [compute_excess_and_shift(people.contrast(patient))[:columns]]
    for labels in draw_permuted_labels(patient, exchange, number, rng):
        values.append(compute_excess_and_shift(people.contrast(labels))[:columns])
        if len(values) % _CHECK_INTERVAL == 0:
            reached = round(compute_joint_p_value(np.array(values)) * len(values))
            if reached > level * (number + 1) or (len(values) == _EARLY_STOP_PERMUTATIONS and reached == 1):
                break
    found = np.array(values)
    median, high = np.quantile(found[1:, 0], [0.5, 0.95])
    return DimensionTest(
        removed, float(found[0, 0]), (float(median), float(high)), compute_joint_p_value(found), len(found) - 1
    )


def compute_joint_p_value(values: FloatArray) -> float:
    """Return the p-value of the first row among all rows (B + 1, Q): by its best column, which all rows may choose."""
    reached = (values[None, :, :] >= values[:, None, :]).sum(axis=1).min(axis=1)  # rows that reach a row's value
    return float((reached <= reached[0]).mean())

"""Tests whether patients differ, by exchange of the labels of blocks of people.

The pooled tests exchange labels of people (`rindices.study.group_tests`). Across sites, each group is divided by chance
into blocks of about equal size, and the labels of whole blocks are exchanged: under the hypothesis that patients are
controls, blocks are exchangeable as people are. A site sends the sums over its part of each block once, whatever the
number of exchanges. Everyone is adjusted with the same effects of covariates, learnt without regard to the groups.

Shape letters: R regions, D directions, B blocks.
"""

from collections.abc import Iterator
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from rindices._typing import BoolArray, FloatArray
from rindices.federated import kinds
from rindices.federated.adjustment import AdjustedSums, shrink_normal_scatter
from rindices.federated.messages import unpack_symmetric
from rindices.federated.rounds import Rounds
from rindices.federated.subsets import GROUPS, SubsetPlan
from rindices.selection.dimensions import (
    MAX_PATTERNS,
    SIGNIFICANCE_LEVEL,
    DimensionEstimate,
    DimensionTest,
    GroupContrast,
    compute_excess,
)
from rindices.selection.group_difference import GroupTest, compute_min_p, smallest_detectable_effect
from rindices.selection.relabel import MAX_PERMUTATIONS, is_undecided
from rindices.study.group_tests import GroupTests

N_EXCHANGES = 199
"""Exchanges of labels, unless p is near the level (`rindices.selection.relabel.is_undecided`)."""
_N_BLOCKS = 5  # of the smaller group
_N_LEADING = 50  # directions in which means and variances are compared
_SHRINKAGE = 0.5  # of the metric towards the identity
_N_EARLY = 60  # labellings, the observed one included, after which a clear test ends
_CLEARLY_NOT = 0.3
_EPSILON = 1e-12


class BlockSums(NamedTuple):
    """Sums over blocks of people.

    numbers (B,); total, squares (B, R): of residuals; products (B, D, D): of scores; directions (R, D): scores are
    residuals times directions; D is R; leading (D, K): combinations of scores in which means and variances are
    compared; is_patient (B,).
    """

    numbers: FloatArray
    total: FloatArray
    squares: FloatArray
    products: FloatArray
    directions: FloatArray
    leading: FloatArray
    is_patient: BoolArray

    def compute_statistics(self, is_patient: BoolArray) -> FloatArray:
        """Return the four statistics of `rindices.selection.group_difference` (4,) under labels of blocks (B,)."""
        groups = [self._sum_group(mask) for mask in (is_patient, ~is_patient)]
        means = [total / number for number, total, _, _ in groups]
        errors = [(squares / n - mean**2) / n for (n, _, squares, _), mean in zip(groups, means, strict=True)]
        squared_t = (means[0] - means[1]) ** 2 / np.maximum(errors[0] + errors[1], _EPSILON)
        covariances = [
            self.leading.T @ (products / n - np.outer(mean @ self.directions, mean @ self.directions)) @ self.leading
            for (n, _, _, products), mean in zip(groups, means, strict=True)
        ]
        shift = (means[0] - means[1]) @ self.directions @ self.leading
        length = sum(np.trace(each) / n for each, (n, *_) in zip(covariances, groups, strict=True))
        spread = [max(float(np.trace(each)), _EPSILON) / len(each) for each in covariances]
        excess = np.linalg.eigvalsh(covariances[0] / spread[0] - covariances[1] / spread[1])[-1]
        return np.array([np.sqrt(squared_t.max()), squared_t.mean(), shift @ shift / max(length, _EPSILON), excess])

    def remove_mean_difference(self) -> "BlockSums":
        """Shift the patients so that both groups have the same mean."""
        groups = [self._sum_group(mask) for mask in (self.is_patient, ~self.is_patient)]
        shift = (groups[0][1] / groups[0][0] - groups[1][1] / groups[1][0]) * self.is_patient[:, None]
        return self._move(shift)

    def compute_contrast(self, is_patient: BoolArray) -> GroupContrast:
        """Return covariance of controls and second moment of patients about their mean, under labels (B,)."""
        (n_patients, total, _, patients), (n_controls, control_total, _, controls) = (
            self._sum_group(mask) for mask in (is_patient, ~is_patient)
        )
        centre, mean = control_total / n_controls @ self.directions, total / n_patients @ self.directions
        scatter = controls - n_controls * np.outer(centre, centre)
        cross = np.outer(mean, centre)
        second = patients / n_patients - cross - cross.T + np.outer(centre, centre)
        scale = np.sqrt(np.maximum(np.diag(scatter) / n_controls, 0.0))
        scale = np.where(scale > 1e-9 * scale.max(), scale, 1.0)
        units = np.outer(scale, scale)
        shrunk = shrink_normal_scatter(scatter / units, int(n_controls)) + 1e-9 * np.eye(len(scale))
        return GroupContrast(shrunk, second / units, scale)

    def remove_directions(self, n_directions: int) -> "BlockSums":
        """Remove the directions of largest excess from everyone."""
        if not n_directions:
            return self
        contrast = self.compute_contrast(self.is_patient)
        size = len(contrast.scale)
        top = eigh(contrast.patients, contrast.controls, subset_by_index=[size - n_directions, size - 1])[1]
        keep = np.eye(size) - (top / contrast.scale[:, None]) @ (contrast.controls @ top).T * contrast.scale
        products = np.einsum("ij,bik,kl->bjl", keep, self.products, keep)
        return self._replace(products=products, directions=self.directions @ keep)

    def _move(self, shift: FloatArray) -> "BlockSums":
        """Subtract a shift (B, R) from the people of each block; squares of regions are left as they are."""
        total = self.total - self.numbers[:, None] * shift
        scores, moved = self.total @ self.directions, shift @ self.directions
        cross = scores[:, :, None] * moved[:, None, :]
        square = self.numbers[:, None, None] * moved[:, :, None] * moved[:, None, :]
        return self._replace(total=total, products=self.products - cross - cross.transpose(0, 2, 1) + square)

    def _sum_group(self, mask: BoolArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Return number, sum, sum of squares and products of the blocks of a mask (B,)."""
        arrays = [array[mask].sum(axis=0) for array in (self.total, self.squares, self.products)]
        return float(self.numbers[mask].sum()), arrays[0], arrays[1], arrays[2]


def ask_for_tests(rounds: Rounds, sums: AdjustedSums, plan: SubsetPlan) -> GroupTests:
    """Ask for the sums over blocks, and test whether patients differ from controls and from each other."""
    blocks = _ask_for_blocks(rounds, sums, plan)
    labels = list(_exchange_labels(blocks.is_patient, MAX_PERMUTATIONS, np.random.default_rng([plan.seed, 12])))
    difference, labels = _test_difference(blocks, labels), labels[:N_EXCHANGES]
    max_patterns = MAX_PATTERNS if difference.p <= SIGNIFICANCE_LEVEL else 0
    return GroupTests(
        difference,
        _count_dimensions(blocks, labels, min(max_patterns, blocks.directions.shape[1] - 1)),
        sums.estimate_effects(),
        smallest_detectable_effect(sums.counts["controls"], sums.counts["patients"], len(sums.regions)),
    )


def _ask_for_blocks(rounds: Rounds, sums: AdjustedSums, plan: SubsetPlan) -> BlockSums:
    centre, coefficients, covariance = sums.regress_everyone()
    smaller = min(sums.counts.values())
    n_blocks = {group: max(2, round(_N_BLOCKS * sums.counts[group] / smaller)) for group in GROUPS}
    scale = np.sqrt(np.maximum(np.diag(covariance), _EPSILON))
    variances, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    leading = vectors / np.sqrt((1.0 - _SHRINKAGE) * np.maximum(variances, 0.0) + _SHRINKAGE)
    directions = np.diag(1.0 / scale)
    settings = {"plan": plan.to_dict(), "n_blocks": n_blocks, **sums.to_settings()}
    arrays = {"centre": centre, "coefficients": coefficients, "directions": directions, **sums.to_arrays()}
    total = rounds.ask(kinds.BLOCKS, settings, arrays)
    numbers = [total.counts[f"block-{k}/{group}"] for group in GROUPS for k in range(n_blocks[group])]
    is_patient = np.repeat([False, True], [n_blocks[group] for group in GROUPS])
    is_used = np.array(numbers) > 0
    return BlockSums(
        np.array(numbers, dtype=float)[is_used],
        total.arrays["sum"][is_used],
        total.arrays["squares"][is_used],
        unpack_symmetric(total.arrays["products"])[is_used],
        directions,
        np.ascontiguousarray(leading[:, -_N_LEADING:]),
        is_patient[is_used],
    )


def _exchange_labels(is_patient: BoolArray, number: int, rng: np.random.Generator) -> Iterator[BoolArray]:
    """Yield different labels of blocks (B,), none of them the observed ones."""
    seen = {is_patient.tobytes()}
    n_different = min(number, comb(len(is_patient), int(is_patient.sum())) - 1)
    for _ in range(20 * n_different):
        labels = rng.permutation(is_patient)
        if labels.tobytes() not in seen:
            seen.add(labels.tobytes())
            yield labels
        if len(seen) > n_different:
            return


def _test_difference(blocks: BlockSums, labels: list[BoolArray]) -> GroupTest:
    """Compare the four statistics with those under exchanged labels; a clear result ends the test early."""
    rows = [blocks.compute_statistics(blocks.is_patient)]
    for each in labels:
        rows.append(blocks.compute_statistics(each))
        is_checked = len(rows) == _N_EARLY or (len(rows) > N_EXCHANGES and (len(rows) - 1) % 100 in (0, 99))
        p = compute_min_p(np.array(rows)) if is_checked else SIGNIFICANCE_LEVEL
        if p > _CLEARLY_NOT if len(rows) == _N_EARLY else not is_undecided(p, len(rows) - 1):
            break
    table = np.array(rows)
    p_values = (table >= table[0]).mean(axis=0)
    return GroupTest(compute_min_p(table), tuple(table[0].tolist()), tuple(p_values.tolist()), len(rows) - 1)


def _test_dimension(blocks: BlockSums, labels: list[BoolArray], n_removed: int) -> DimensionTest:
    """Compare the excess with that under exchanged labels; see `rindices.selection.dimensions` for the early end."""
    values = [compute_excess(blocks.compute_contrast(blocks.is_patient))]
    for each in labels:
        values.append(compute_excess(blocks.compute_contrast(each)))
        n_reached = sum(value >= values[0] for value in values)
        if n_reached > SIGNIFICANCE_LEVEL * (len(labels) + 1) or (len(values) == _N_EARLY and n_reached == 1):
            break
    median, high = np.quantile(values[1:], [0.5, 0.95])
    p = float(np.mean(np.array(values) >= values[0]))
    return DimensionTest(n_removed, values[0], (float(median), float(high)), p, len(values) - 1)


def _count_dimensions(blocks: BlockSums, labels: list[BoolArray], max_patterns: int) -> DimensionEstimate:
    """Test 0, 1, 2, ... patterns until a test is not significant; see `rindices.selection.dimensions`."""
    blocks, tests = blocks.remove_mean_difference(), list[DimensionTest]()
    for k in range(max_patterns + 1):
        tests.append(_test_dimension(blocks.remove_directions(k), labels, k))
        if tests[-1].p > SIGNIFICANCE_LEVEL:
            break
    number = sum(test.p <= SIGNIFICANCE_LEVEL for test in tests)
    return DimensionEstimate(min(number, max_patterns), tuple(tests), SIGNIFICANCE_LEVEL, 1.0)

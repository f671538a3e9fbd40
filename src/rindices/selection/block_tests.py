"""Tests whether patients differ, by exchange of the labels of blocks of people.

Where people can be pooled, labels of people are exchanged (`group_difference`,
`dimensions`). Where they cannot, each group is divided by chance into blocks of about
equal size, and the labels of whole blocks are exchanged: under the hypothesis that
patients are controls, blocks are exchangeable as people are. Sums over each block are
needed once, whatever the number of exchanges. Everyone is adjusted with the same
effects of covariates, learnt without regard to the groups.

Shape letters: R regions, D directions, B blocks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np

from rindices._typing import BoolArray, FloatArray
from rindices.preprocess.standardise import shrink_normal_covariance
from rindices.selection.dimensions import (
    MAX_PATTERNS,
    SIGNIFICANCE_LEVEL,
    DimensionEstimate,
    DimensionTest,
    GroupContrast,
    count_significant,
    summarise_excess,
)
from rindices.selection.group_difference import GroupTest, summarise_permutations
from rindices.selection.relabel import (
    MAX_PERMUTATIONS,
    compute_min_p,
    is_clear,
    is_undecided,
)

N_EXCHANGES = 199
"""Exchanges of labels, unless p is near the level (`is_undecided`)."""
_N_EARLY = 60  # labellings, the observed one included, after which a clear test ends
_CLEARLY_NOT = 0.3
_CHECK_INTERVAL = 20  # exchanges between checks whether a test of directions is decided
_EPSILON = 1e-12


@dataclass(frozen=True, kw_only=True)
class GroupSums:
    """Sums over the blocks of a group: number of people, residuals (R,), their squares
    (R,), products of scores.

    Attributes
    ----------
    number : float
    total : ndarray
    squares : ndarray
    products : ndarray
    """

    number: float
    total: FloatArray
    squares: FloatArray
    products: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean (R,)."""
        return np.asarray(self.total / self.number)


@dataclass(frozen=True, kw_only=True)
class BlockSums:
    """Sums over blocks of people.

    Attributes
    ----------
    numbers : ndarray of shape (B,)
    total, squares : ndarray of shape (B, R)
        Of residuals.
    products : ndarray of shape (B, D, D)
        Of scores.
    directions : ndarray of shape (R, D)
        Scores are residuals times directions. D is R.
    leading : ndarray of shape (D, K)
        Combinations of scores in which means and variances are compared.
    is_patient : ndarray of shape (B,)
    """

    numbers: FloatArray
    total: FloatArray
    squares: FloatArray
    products: FloatArray
    directions: FloatArray
    leading: FloatArray
    is_patient: BoolArray

    def compute_statistics(self, is_patient: BoolArray) -> FloatArray:
        """Return the four statistics of `group_difference` (4,) under labels of blocks
        (B,).
        """
        groups = self._sum_groups(is_patient)
        patients, controls = groups
        errors = [
            (each.squares / each.number - each.mean**2) / each.number for each in groups
        ]
        squared_t = (patients.mean - controls.mean) ** 2 / np.maximum(
            errors[0] + errors[1], _EPSILON
        )
        covariances = []
        for each in groups:
            scores = each.mean @ self.directions
            covariances.append(
                self.leading.T
                @ (each.products / each.number - np.outer(scores, scores))
                @ self.leading
            )
        shift = (patients.mean - controls.mean) @ self.directions @ self.leading
        traces = [float(np.trace(covariance)) for covariance in covariances]
        length = sum(
            trace / each.number for trace, each in zip(traces, groups, strict=True)
        )
        spread = [max(trace, _EPSILON) / self.leading.shape[1] for trace in traces]
        excess = np.linalg.eigvalsh(
            covariances[0] / spread[0] - covariances[1] / spread[1]
        )[-1]
        return np.array(
            [
                np.sqrt(squared_t.max()),
                squared_t.mean(),
                shift @ shift / max(length, _EPSILON),
                excess,
            ]
        )

    def remove_mean_difference(self) -> "BlockSums":
        """Shift the patients so that both groups have the same mean; squares of regions
        are left as they are.
        """
        patients, controls = self._sum_groups(self.is_patient)
        shift = (patients.mean - controls.mean) * self.is_patient[:, None]
        scores, moved = self.total @ self.directions, shift @ self.directions
        cross = scores[:, :, None] * moved[:, None, :]
        square = self.numbers[:, None, None] * moved[:, :, None] * moved[:, None, :]
        total = self.total - self.numbers[:, None] * shift
        return replace(
            self,
            total=total,
            products=self.products - cross - cross.transpose(0, 2, 1) + square,
        )

    def compute_contrast(self, is_patient: BoolArray) -> GroupContrast:
        """Return covariance of controls and second moment of patients about their mean,
        under labels (B,).
        """
        patients, controls = self._sum_groups(is_patient)
        mean, centre = (each.mean @ self.directions for each in (patients, controls))
        scatter = controls.products - controls.number * np.outer(centre, centre)
        cross = np.outer(mean, centre)
        second = (
            patients.products / patients.number
            - cross
            - cross.T
            + np.outer(centre, centre)
        )
        scale = np.sqrt(np.maximum(np.diag(scatter) / controls.number, 0.0))
        scale = np.where(scale > 1e-9 * scale.max(), scale, 1.0)
        units = np.outer(scale, scale)
        sample = scatter / units / controls.number
        shrunk = shrink_normal_covariance(sample, int(controls.number))
        return GroupContrast(
            controls=shrunk + 1e-9 * np.eye(len(scale)),
            sample=sample,
            patients=second / units,
            scale=scale,
        )

    def remove_pattern(self, statistic: str) -> "BlockSums":
        """Remove the pattern of largest excess by a statistic from everyone."""
        contrast = self.compute_contrast(self.is_patient)
        keep = (
            contrast.make_projection(statistic)
            / contrast.scale[:, None]
            * contrast.scale
        )
        products = keep.T @ self.products @ keep
        return replace(self, products=products, directions=self.directions @ keep)

    def _sum_groups(self, is_patient: BoolArray) -> tuple[GroupSums, GroupSums]:
        """Return the sums over patients and over controls, under labels of
        blocks (B,).
        """
        patients, controls = (
            GroupSums(
                number=float(self.numbers[mask].sum()),
                total=self.total[mask].sum(axis=0),
                squares=self.squares[mask].sum(axis=0),
                products=self.products[mask].sum(axis=0),
            )
            for mask in (is_patient, ~is_patient)
        )
        return patients, controls


def compare_blocks(
    blocks: BlockSums, seed: Sequence[int]
) -> tuple[GroupTest, DimensionEstimate]:
    """Test whether patients differ from controls, and in how many directions they
    differ from each other.
    """
    labels = list(
        _exchange_labels(
            blocks.is_patient, MAX_PERMUTATIONS, np.random.default_rng(seed)
        )
    )
    difference, centred = (
        _test_difference(blocks, labels),
        blocks.remove_mean_difference(),
    )
    max_patterns = (
        min(MAX_PATTERNS, blocks.total.shape[1] - 1)
        if difference.p <= SIGNIFICANCE_LEVEL
        else 0
    )

    def test(rest: BlockSums, k: int) -> DimensionTest:
        return _test_dimension(rest, labels[:N_EXCHANGES], k)

    dimensions = count_significant(
        centred,
        test,
        BlockSums.remove_pattern,
        max_patterns,
        SIGNIFICANCE_LEVEL,
        overlap=1.0,
    )
    return difference, dimensions


def _exchange_labels(
    is_patient: BoolArray, number: int, rng: np.random.Generator
) -> Iterator[BoolArray]:
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
    """Compare the four statistics with those under exchanged labels; a clear result
    ends the test early.
    """
    rows = [blocks.compute_statistics(blocks.is_patient)]
    for each in labels:
        rows.append(blocks.compute_statistics(each))
        is_checked = len(rows) == _N_EARLY or (
            len(rows) > N_EXCHANGES and (len(rows) - 1) % 100 in (0, 99)
        )
        p = compute_min_p(np.array(rows)) if is_checked else SIGNIFICANCE_LEVEL
        if (
            p > _CLEARLY_NOT
            if len(rows) == _N_EARLY
            else not is_undecided(p, len(rows) - 1)
        ):
            break
    return summarise_permutations(np.array(rows))


def _test_dimension(
    blocks: BlockSums, labels: list[BoolArray], n_removed: int
) -> DimensionTest:
    """Compare the excess with that under exchanged labels; see `dimensions` for the
    early end.
    """
    values = [blocks.compute_contrast(blocks.is_patient).compute_excess()]
    for each in labels:
        values.append(blocks.compute_contrast(each).compute_excess())
        if len(values) % _CHECK_INTERVAL:
            continue
        p = compute_min_p(np.array(values))
        is_decided = p > SIGNIFICANCE_LEVEL and is_clear(
            p, len(values) - 1, SIGNIFICANCE_LEVEL
        )
        if is_decided or (len(values) == _N_EARLY and p * len(values) < 1.5):
            break
    return summarise_excess(values, n_removed)

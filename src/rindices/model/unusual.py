"""How unusual a person is compared with the training people, and why.

The distance is the Mahalanobis distance of prepared values with a shrunk covariance of
all training people. A person is as unusual as the share of training people who are
nearer, where the distance of each is cross-validated.

Shape letters: N people, B people of a block, R regions, T training people, G groups of
them, K flagged people.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.blocks import apply_in_blocks, shifted_matmul, take_rows
from rindices.errors import Problem, ProblemCode, Severity, join_names
from rindices.learners.outlying_measurements import (
    CellComparison,
    CellScreen,
    compare_new_cells,
)
from rindices.preprocess.residualise import (
    CovariateCoding,
    NumericCovariate,
    round_outwards,
)
from rindices.tables.layouts.muse import region_label
from rindices.wording import get_nouns

CovariateRanges = Mapping[str, Sequence[float]]

NOVEL_SHARE = (
    0.05  # largest share of novel people among people of the training distribution
)
_SHARE_STANDARD_ERRORS = (
    1.64  # by which the share is lowered, because the distances are a sample
)
_N_FOLDS = 10
_MIN_GROUP, _MAX_GROUPS = (
    5,
    200,
)  # of training people with similar distances, of which the mean is stored
# of a covariate's range, which new people of the same population may exceed a little
RANGE_TOLERANCE = 0.05
_OTHER_UNIT_RATIO = (
    5.0  # to the volumes of controls, beyond which another unit is likely
)
_OTHER_TABLE_SHARE = 0.2  # of novel people, from which on the table gets a warning
_COMMON_CAUSE_SHARE = 0.1  # of the novel people, above which the warning names a cause
# columns of the triangular root that are multiplied at a time, to skip its zeros
_STRIP_WIDTH = 48
_MAX_NAMED_REGIONS = 4
_MIN_REGION_SHARE = 0.08  # of the squared distance, above which a region is named


@dataclass(frozen=True, kw_only=True)
class TrainingDistribution:
    """Distribution of prepared values in training.

    Attributes
    ----------
    mean : ndarray of shape (R,)
        Mean of all training people.
    covariance : ndarray of shape (R, R)
        Shrunk covariance.
    distances : ndarray of shape (G + 2,)
        Cross-validated distances of training people, ascending: a bound below all,
        the mean of each of G groups of at least five similar people, and a bound
        above all. Empty if not available.
    limit : ndarray
        Value of ``outlier_score`` from which on a person is outside the training range.
    """

    mean: FloatArray
    covariance: FloatArray
    distances: FloatArray = field(default_factory=lambda: np.zeros(0))
    limit: FloatArray = field(default_factory=lambda: np.ones(()))

    @classmethod
    def fit(
        cls, values: FloatArray, people: Sequence[object]
    ) -> "TrainingDistribution":
        """Estimate the distribution from prepared values (N, R).

        Rows of the same person in ``people`` (N,) are in one fold.
        """
        distances = np.empty(len(values))
        for held_out, distribution in cls.fit_folds(values, people):
            distances[held_out] = distribution.compute_distances(values[held_out])
        distances.sort()
        starts = (
            np.arange(n_groups := count_groups(len(values))) * len(values) // n_groups
        )
        means = np.add.reduceat(distances, starts) / np.diff(starts, append=len(values))
        low, high = round_outwards(distances[0], distances[-1])
        limit = compute_limit(len(values))
        return cls(
            mean=values.mean(axis=0),
            covariance=_shrink_covariance(values),
            distances=np.array([low, *means, high]),
            limit=limit,
        )

    @classmethod
    def fit_folds(
        cls, values: FloatArray, people: Sequence[object]
    ) -> Iterator[tuple[BoolArray, "TrainingDistribution"]]:
        """Yield the mask (N,) of the people of each fold, and the distribution of the
        others, without distances.
        """
        numbers = pd.factorize(np.asarray(people))[0]
        folds = numbers % min(_N_FOLDS, numbers.max() + 1)
        for fold in range(folds.max() + 1):
            others = values[folds != fold]
            yield (
                folds == fold,
                cls(mean=others.mean(axis=0), covariance=_shrink_covariance(others)),
            )

    @cached_property
    def precision(self) -> FloatArray:
        """Inverse (R, R) of the covariance, whose eigenvalues are bounded below."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray(vectors / np.maximum(values, 1e-9 * values[-1]) @ vectors.T)

    @cached_property
    def root(self) -> FloatArray:
        """Lower triangular root (R, R) of the precision: the distance is the length of
        (value - mean) @ root.
        """
        return np.asarray(np.linalg.cholesky(self.precision))

    @cached_property
    def _strips(self) -> list[tuple[int, FloatArray, FloatArray]]:
        """Strips of columns of the root: the first column of each, its rows that are
        not zero, and mean @ strip.
        """
        firsts = range(0, len(self.root), _STRIP_WIDTH)
        strips = [self.root[first:, first : first + _STRIP_WIDTH] for first in firsts]
        return [
            (first, strip, self.mean[first:] @ strip)
            for first, strip in zip(firsts, strips, strict=True)
        ]

    def compute_block_distances(self, values: FloatArray) -> FloatArray:
        """Return the distance of a block of people: (B, R) -> (B,)."""
        squares = np.zeros(len(values))
        for first, strip, shift in self._strips:
            projected = shifted_matmul(values[:, first:], strip, shift)
            squares += np.einsum("ij,ij->i", projected, projected)
        return np.sqrt(squares)

    def compute_distances(self, values: FloatArray) -> FloatArray:
        """Return the distance of people: (N, R) -> (N,)."""
        return apply_in_blocks(self.compute_block_distances, values)

    @property
    def shares(self) -> FloatArray:
        """Share (G + 2,) of training people who are nearer than each of
        ``distances``.
        """
        return get_shares(len(self.distances) - 2)

    def compute_unusual(self, distances: FloatArray) -> FloatArray:
        """Return the share of training people who are nearer: (N,) -> (N,), 1 beyond
        all of them.
        """
        return np.asarray(np.interp(distances, self.distances, self.shares))

    @property
    def residual_scale(self) -> float:
        """By how much more new people vary than the covariance says, from the distances
        of held-out people.
        """
        return max(
            float(np.median(self.distances)) / float(np.sqrt(len(self.mean))), 1.0
        )

    def compare_cells(self, values: FloatArray) -> CellComparison:
        """Find cells of prepared people (N, R) that do not fit their others; those are
        missing in the comparison.
        """
        sd = np.sqrt(np.diag(self.covariance))
        comparison = compare_new_cells(
            values - self.mean, sd, self.precision, self.residual_scale
        )
        return comparison._replace(expected=self.mean + comparison.expected)

    def make_screen(self) -> CellScreen:
        """Return the screen of people before `compare_cells`."""
        sd = np.sqrt(np.diag(self.covariance))
        return CellScreen.build(sd, self.precision, self.residual_scale)

    def compute_contributions(self, values: FloatArray) -> FloatArray:
        """Return the contribution of each region to the squared distance, its row sum:
        (N, R) -> (N, R).
        """
        shift = self.mean @ self.precision
        return apply_in_blocks(
            lambda block: (
                (block - self.mean) * shifted_matmul(block, self.precision, shift)
            ),
            values,
        )


class UnusualReason(NamedTuple):
    """Why a person is novel: the cause, which is counted over people, and the text for
    this person.

    Attributes
    ----------
    cause : str
    text : str
    """

    cause: str
    text: str


ReasonsByRow = dict[int, list[UnusualReason]]


class UnusualPeople(NamedTuple):
    """How unusual N people are.

    Attributes
    ----------
    people : int
        N.
    unusual : ndarray of shape (N,) or None
        Share of training people who are nearer. None if the model has no distances
        of training people.
    reasons : ReasonsByRow
        Reasons of the novel people, by row.
    """

    people: int
    unusual: FloatArray | None
    reasons: ReasonsByRow

    @property
    def novel(self) -> BoolArray:
        """Mask (N,) of the novel people."""
        mask = np.zeros(self.people, dtype=bool)
        mask[list(self.reasons)] = True
        return mask

    @property
    def texts(self) -> NDArray[np.object_]:
        """Reasons (N,) as text; empty for people who are not novel."""
        texts = np.full(self.people, "", dtype=object)
        for row, reasons in self.reasons.items():
            texts[row] = "; ".join([reason.text for reason in reasons])
        return texts


@dataclass(frozen=True, kw_only=True)
class UnusualDetector:
    """Compares new people with training.

    Attributes
    ----------
    regions : tuple of str
    control_mean : ndarray of shape (R,)
        Volumes of the average control.
    codings : tuple of CovariateCoding
    ranges : CovariateRanges
        Ranges of covariates in training, by name. A covariate without an entry has
        the range of its coding.
    training : TrainingDistribution or None
    unit : str
        Unit of the model, for the words of the reasons.
    """

    regions: tuple[str, ...]
    control_mean: FloatArray
    codings: tuple[CovariateCoding, ...]
    ranges: CovariateRanges
    training: TrainingDistribution | None
    unit: str = ""

    def assess(
        self,
        volumes: FloatArray,
        covariates: pd.DataFrame,
        distances: FloatArray | None,
        prepared: Callable[[IntArray], FloatArray],
    ) -> UnusualPeople:
        """Find novel people.

        Parameters
        ----------
        volumes : ndarray of shape (N, R)
        covariates : pd.DataFrame
        distances : ndarray of shape (N,) or None
            Distances from the training people, if available.
        prepared : callable
            Maps rows (K,) to prepared values (K, R). It is called for the few
            people above the threshold.
        """
        reasons: ReasonsByRow = defaultdict(list)
        unusual, far = None, np.arange(len(volumes))
        if distances is not None and self.training is not None:
            unusual = self.training.compute_unusual(distances)
            far = np.flatnonzero(unusual >= self.training.limit)
        other_unit = self._flag_other_unit(take_rows(volumes, far), far, reasons)
        self._flag_out_of_range(covariates, reasons)
        if unusual is not None and not other_unit.all():
            self._flag_regions(prepared(far[~other_unit]), far[~other_unit], reasons)
        return UnusualPeople(len(volumes), unusual, reasons)

    def _flag_other_unit(
        self, volumes: FloatArray, rows: IntArray, reasons: ReasonsByRow
    ) -> BoolArray:
        """Flag people (K, R) whose median volume is several times that of controls, and
        return their mask (K,).
        """
        if not (self.control_mean > 0).all():  # z-scores and residuals have no unit
            return np.zeros(len(volumes), dtype=bool)
        ratios = volumes / self.control_mean
        half = (
            ratios.shape[1] // 2
            # at least so many ratios exceed a bound if the median does; counting is
            # faster
        )
        above = np.count_nonzero(ratios > _OTHER_UNIT_RATIO, axis=1) >= half
        suspects = np.flatnonzero(
            above | (np.count_nonzero(ratios < 1 / _OTHER_UNIT_RATIO, axis=1) >= half)
        )
        median = np.ones(len(volumes))
        median[suspects] = np.clip(np.nanmedian(ratios[suspects], axis=1), 1e-9, 1e9)
        other_unit = (median > _OTHER_UNIT_RATIO) | (median < 1 / _OTHER_UNIT_RATIO)
        nouns = f"all {get_nouns(self.unit).volumes} are"
        for row, ratio in zip(
            rows[other_unit].tolist(), median[other_unit], strict=True
        ):
            text = f"{nouns} about {10 ** np.round(np.log10(ratio)):g} times the usual: another unit?"
            reasons[row].append(UnusualReason("another unit", text))
        return np.asarray(other_unit)

    def _flag_out_of_range(
        self, covariates: pd.DataFrame, reasons: ReasonsByRow
    ) -> None:
        for coding in self.codings:
            if not isinstance(coding, NumericCovariate):
                continue
            low, high = self.ranges.get(coding.name, (coding.low, coding.high))
            numbers = covariates[coding.name].to_numpy(dtype=float)
            tolerance = RANGE_TOLERANCE * (high - low)
            for row in np.flatnonzero(
                (numbers < low - tolerance) | (numbers > high + tolerance)
            ).tolist():
                text = f"{coding.name} {numbers[row]:g} is outside {low:g} to {high:g}"
                reasons[row].append(UnusualReason(name_range_cause(coding.name), text))

    def _flag_regions(
        self, values: FloatArray, rows: IntArray, reasons: ReasonsByRow
    ) -> None:
        """Name the regions that contribute most to the distance of each
        person (K, R).
        """
        assert self.training is not None
        values = np.where(
            np.isnan(values), self.training.mean, values
        )  # a missing region is no reason
        contributions = self.training.compute_contributions(values)
        shares = contributions / contributions.sum(axis=1, keepdims=True)
        people, regions = np.nonzero(shares > _MIN_REGION_SHARE)
        order = np.lexsort((-shares[people, regions], people))
        people, regions = people[order], regions[order]
        rank = np.arange(len(people)) - np.searchsorted(
            people, people
        )  # of a region among those of its person
        people, regions = (
            people[rank < _MAX_NAMED_REGIONS],
            regions[rank < _MAX_NAMED_REGIONS],
        )
        sd = np.sqrt(np.diag(self.training.covariance))
        z_scores = (values[people, regions] - self.training.mean[regions]) / sd[regions]
        for row, region, z in zip(
            rows[people].tolist(), regions.tolist(), z_scores.tolist(), strict=True
        ):
            name = label_region(self.regions[region])
            reasons[row].append(
                UnusualReason(
                    f"{name} {'high' if z > 0 else 'low'}", f"{name} {z:+.1f} sd"
                )
            )
        many = f"many {get_nouns(self.unit).regions}"
        for row in np.delete(rows, people).tolist():
            reasons[row].append(UnusualReason(many, f"{many} together are unusual"))


def name_range_cause(covariate: str) -> str:
    """Return the cause of people who are novel because a covariate is far out of its
    range in training.
    """
    return f"{covariate} out of range"


def label_region(region: str) -> str:
    """Return the readable name of a region or sum of regions.

    Examples
    --------
    >>> label_region("MUSE_47+MUSE_48")
    'Hippocampus_R+Hippocampus_L'
    """
    return "+".join(region_label(part) for part in region.split("+"))


class UnusualCount(NamedTuple):
    """Number of people and of novel people, and how often each cause occurs; counts of
    chunks can be merged.

    Attributes
    ----------
    people : int
    novel : int
    causes : Counter
    """

    people: int
    novel: int
    causes: Counter[str]

    @classmethod
    def of(cls, unusual: UnusualPeople, kept: BoolArray) -> "UnusualCount":
        """Count the novel people and their causes, among the people who are
        kept (N,).
        """
        novel = [reasons for row, reasons in unusual.reasons.items() if kept[row]]
        causes = Counter([reason.cause for reasons in novel for reason in reasons])
        return cls(int(kept.sum()), len(novel), causes)

    def merged_with(self, other: "UnusualCount") -> "UnusualCount":
        """Return the sum of two counts."""
        return UnusualCount(
            self.people + other.people,
            self.novel + other.novel,
            self.causes + other.causes,
        )


def make_table_warning(
    counted: UnusualCount, unit: str = "", compared_with: str = "the training people"
) -> list[Problem]:
    """Return one warning if many people of a table with this unit are novel, otherwise
    none; ``compared_with`` says whom they are unlike.
    """
    n_people, n_novel, causes = counted
    if n_novel < 2 or n_novel < _OTHER_TABLE_SHARE * n_people:
        return []
    common = [
        f"{cause} in {n:,}"
        for cause, n in causes.most_common(5)
        if n > _COMMON_CAUSE_SHARE * n_novel
    ]
    what = (
        f"this table looks unlike {compared_with}: {n_novel:,} of {n_people:,} are outside the "
        f"training range where at most {NOVEL_SHARE:.0%} are expected ({join_names(common) or 'for many reasons'})"
    )
    cure = f"Another {get_nouns(unit).scanner}, unit, order of columns or age range? Read their R-indices with care"
    return [
        Problem(
            severity=Severity.WARNING,
            what=what,
            where="",
            cure=cure,
            code=ProblemCode.UNUSUAL_TABLE,
        )
    ]


def _shrink_covariance(values: FloatArray) -> FloatArray:
    """Return the Ledoit-Wolf covariance (R, R) of people (N, R)."""
    from sklearn.covariance import ledoit_wolf  # only training needs scikit-learn

    return np.asarray(ledoit_wolf(values)[0])


def count_groups(n_people: int) -> int:
    """Return G, the number of groups of training people of which the mean distance is
    stored.
    """
    return int(np.clip(n_people // _MIN_GROUP, 1, _MAX_GROUPS))


def get_shares(n_groups: int) -> FloatArray:
    """Return the share (G + 2,) of training people below the least distance, each
    group's mean and the largest.
    """
    return np.array([0.0, *(np.arange(n_groups) + 0.5) / n_groups, 1.0])


def compute_limit(n_people: int) -> FloatArray:
    """Return the outlier score (), from which on people are outside the training range,
    where so many were trained on.

    It is 1 - `NOVEL_SHARE`, and standard errors more; with few training people, only
    those beyond all are novel.
    """
    standard_error = np.sqrt(NOVEL_SHARE * (1 - NOVEL_SHARE) / n_people)
    share = NOVEL_SHARE - _SHARE_STANDARD_ERRORS * standard_error
    return np.array(1.0 - share if share * (n_people + 1) > 1.5 else 1.0)

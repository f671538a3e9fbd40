"""How unlike the training people someone is, and why: a model knows only its own kind of people.

The distance is Mahalanobis's in prepared space, with a shrunk covariance of all training people. It is told as a tail
probability: the share of training people, each measured by a covariance that does not know them, who are as far off.
Shape letters: N people, R regions, T training people.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.blocks import apply_in_blocks, centred_matmul
from rindices.errors import Problem, Severity, join_names
from rindices.model.summed_regions import format_region_name
from rindices.preprocess.residualise import CovariateCoding, NumericCovariate

CovariateRanges = Mapping[str, Sequence[float]]

NOVELTY_LEVEL = 0.05  # of people of the training distribution, at most, are called novel
_LEVEL_STANDARD_ERRORS = 1.64  # standard errors of the level, which is known from so many training people only
_N_FOLDS = 10
_MAX_DISTANCES = 2_000  # kept; evenly spaced ones where training had more people
_RANGE_TOLERANCE = 0.05  # of a covariate's range: new people of the same kind go a little beyond it
_OTHER_UNIT_RATIO = 5.0  # nobody has volumes so many times the usual
_OTHER_TABLE_SHARE = 0.2  # share of novel people from which on the table as a whole is unlike
_COMMON_CAUSE_SHARE = 0.1  # of the novel people, from which on a cause is told for all
_STRIP_WIDTH = 48  # columns of the precision's root that are multiplied at a time: the rest above them are zeros
_MAX_NAMED_REGIONS, _MIN_REGION_SHARE = (
    4,
    0.08,
)  # at most so many regions are named, each with such a share of the distance


@dataclass(frozen=True)
class TrainingDistribution:
    """What the model saw in training, for checks of new people.

    Attributes
    ----------
    mean : (R,)
        Of all training people, prepared.
    covariance : (R, R)
        Shrunk; in files of schema 1 as it was counted.
    distances : (T,)
        Of training people from others, ascending; empty where they were not measured.
    """

    mean: FloatArray
    covariance: FloatArray
    distances: FloatArray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def learn(cls, values: FloatArray) -> "TrainingDistribution":
        """Learn from prepared people (N, R)."""
        places = np.arange(len(values)) % min(_N_FOLDS, len(values))
        distances = np.concatenate(
            [_compute_held_out_distances(values[places == k], values[places != k]) for k in np.unique(places)]
        )
        distances.sort()
        if len(distances) > _MAX_DISTANCES:
            distances = np.quantile(distances, np.linspace(0, 1, _MAX_DISTANCES))
        return cls(values.mean(axis=0), _shrink_covariance(values), distances)

    @cached_property
    def precision(self) -> FloatArray:
        """The inverse (R, R) of the covariance."""
        return _invert_covariance(self.covariance)

    @cached_property
    def root(self) -> FloatArray:
        """The triangular root (R, R) of the precision: people less the mean, times it, are as long as they are far."""
        return np.asarray(np.linalg.cholesky(self.precision))

    @cached_property
    def _strips(self) -> list[tuple[int, FloatArray]]:
        """The root in strips of columns: where each begins, and what of it is not zero."""
        root = self.root
        return [(first, root[first:, first : first + _STRIP_WIDTH]) for first in range(0, len(root), _STRIP_WIDTH)]

    def compute_block_distances(self, values: FloatArray) -> FloatArray:
        """Return the distance of a block of people from the training people: (B, R) -> (B,)."""
        squares = np.zeros(len(values))
        for first, strip in self._strips:
            off = centred_matmul(values[:, first:], strip, self.mean[first:])
            squares += np.einsum("ij,ij->i", off, off)
        return np.sqrt(squares)

    def compute_distances(self, values: FloatArray) -> FloatArray:
        """Return the distance of people from the training people: (N, R) -> (N,)."""
        return apply_in_blocks(self.compute_block_distances, values)

    def tail(self, distances: FloatArray) -> FloatArray:
        """Return the share of training people who are at least as far off: (N,) -> (N,), never below 1 / (T + 1)."""
        nearer = np.searchsorted(self.distances, distances, side="left")
        return np.asarray((1 + len(self.distances) - nearer) / (len(self.distances) + 1))

    @property
    def bar(self) -> float:
        """The tail probability below which someone is novel: `NOVELTY_LEVEL` less its error, or beyond everyone in training."""
        number = len(self.distances)
        return float(
            max(
                NOVELTY_LEVEL - _LEVEL_STANDARD_ERRORS * np.sqrt(NOVELTY_LEVEL * (1 - NOVELTY_LEVEL) / number),
                1.5 / (number + 1),
            )
        )

    def parts(self, values: FloatArray) -> FloatArray:
        """Return what each region adds to the squared distance: (N, R) -> (N, R), rows sum to it."""
        return apply_in_blocks(
            lambda block: (block - self.mean) * centred_matmul(block, self.precision, self.mean), values
        )


class NoveltyReason(NamedTuple):
    """Why someone is novel: the cause, which many may share, and the words for this person."""

    cause: str
    text: str


ReasonsByRow = dict[int, list[NoveltyReason]]
_MANY_REGIONS = NoveltyReason("many regions", "many regions together are unusual")


class Novelty(NamedTuple):
    """Who is unlike the training people.

    Attributes
    ----------
    people : int
        N.
    tail : (N,) or None
        Tail probability; None where the model does not know its training people.
    because : dict of int to list of Reason
        Of the novel people, by row.
    """

    people: int
    tail: FloatArray | None
    reasons: ReasonsByRow

    @property
    def novel(self) -> BoolArray:
        """(N,) who is."""
        found = np.zeros(self.people, dtype=bool)
        found[list(self.reasons)] = True
        return found

    @property
    def texts(self) -> NDArray[np.object_]:
        """(N,) the reasons in words; text even where there is nobody."""
        found = np.full(self.people, "", dtype=object)
        for row, reasons in self.reasons.items():
            found[row] = "; ".join([reason.text for reason in reasons])
        return found


@dataclass(frozen=True)
class NoveltyDetector:
    """What new people are held against.

    Attributes
    ----------
    regions : tuple of str
    typical : (R,)
        The average control's volumes.
    codings : tuple of Coding
    ranges : mapping
        Of covariates in training, by name; a covariate that is not there has the range of its coding.
    training : Training or None
    """

    regions: tuple[str, ...]
    typical: FloatArray
    codings: tuple[CovariateCoding, ...]
    ranges: CovariateRanges
    training: TrainingDistribution | None

    @property
    def has_distances(self) -> bool:
        """Whether it is known how far from one another training people are."""
        return self.training is not None and len(self.training.distances) > 0

    def assess(
        self,
        volumes: FloatArray,
        covariates: pd.DataFrame,
        distances: FloatArray | None,
        prepared: Callable[[IntArray], FloatArray],
    ) -> Novelty:
        """Hold people against training.

        Parameters
        ----------
        volumes : (N, R)
        covariates : (N, C)
        distances : (N,) or None
            From the training people; None where they are not known.
        prepared : callable
            Rows (K,) to the prepared people (K, R), for the few who are far off.
        """
        reasons: ReasonsByRow = defaultdict(list)
        if distances is None or self.training is None:
            self._flag_other_unit(volumes, np.arange(len(volumes)), reasons)
            self._flag_out_of_range(covariates, reasons)
            return Novelty(len(volumes), None, reasons)
        tail = self.training.tail(distances)
        far = np.flatnonzero(tail < self.training.bar)
        other_unit = self._flag_other_unit(volumes[far], far, reasons)
        self._flag_out_of_range(covariates, reasons)
        if not other_unit.all():
            far = far[~other_unit]
            self._regions(prepared(far), far, reasons)
        return Novelty(len(volumes), tail, reasons)

    def _flag_other_unit(self, volumes: FloatArray, rows: IntArray, reasons: ReasonsByRow) -> BoolArray:
        """Name people (K, R) all of whose volumes are several times the usual, and return (K,) who they are."""
        if not (self.typical > 0).all():  # z-scores and the like have no unit
            return np.zeros(len(volumes), dtype=bool)
        ratios = volumes / self.typical
        most = ratios.shape[1] // 2  # a median beyond a bound has so many regions beyond it: few people are looked at
        above = np.count_nonzero(ratios > _OTHER_UNIT_RATIO, axis=1) >= most
        some = np.flatnonzero(above | (np.count_nonzero(ratios < 1 / _OTHER_UNIT_RATIO, axis=1) >= most))
        median = np.ones(len(volumes))
        median[some] = np.maximum(np.median(ratios[some], axis=1), 1e-9)
        other = (median > _OTHER_UNIT_RATIO) | (median < 1 / _OTHER_UNIT_RATIO)
        for row, times in zip(rows[other].tolist(), median[other], strict=True):
            text = f"all volumes are about {10 ** np.round(np.log10(times)):g} times the usual: another unit?"
            reasons[row].append(NoveltyReason("another unit", text))
        return np.asarray(other)

    def _flag_out_of_range(self, covariates: pd.DataFrame, reasons: ReasonsByRow) -> None:
        for coding in self.codings:
            if not isinstance(coding, NumericCovariate):
                continue
            low, high = self.ranges.get(coding.name, (coding.low, coding.high))
            numbers = covariates[coding.name].to_numpy(dtype=float)
            slack = _RANGE_TOLERANCE * (high - low)
            for row in np.flatnonzero((numbers < low - slack) | (numbers > high + slack)).tolist():
                text = f"{coding.name} {numbers[row]:g} is outside {low:g} to {high:g}"
                reasons[row].append(NoveltyReason(f"{coding.name} out of range", text))

    def _regions(self, values: FloatArray, rows: IntArray, reasons: ReasonsByRow) -> None:
        """Name for each of some people (K, R) the regions that make the most of the distance."""
        assert self.training is not None
        parts = self.training.parts(values)
        shares = parts / parts.sum(axis=1, keepdims=True)
        people, places = np.nonzero(shares > _MIN_REGION_SHARE)
        order = np.lexsort((-shares[people, places], people))
        people, places = people[order], places[order]
        first = np.searchsorted(people, people)  # where each person's regions begin
        kept = np.arange(len(people)) - first < _MAX_NAMED_REGIONS
        people, places = people[kept], places[kept]
        sd = np.sqrt(np.diag(self.training.covariance))
        z = (values[people, places] - self.training.mean[places]) / sd[places]
        for row, place, off in zip(rows[people].tolist(), places.tolist(), z.tolist(), strict=True):
            name = self._region_labels[place]
            reasons[row].append(NoveltyReason(f"{name} {'high' if off > 0 else 'low'}", f"{name} {off:+.1f} sd"))
        for row in np.delete(rows, people).tolist():
            reasons[row].append(_MANY_REGIONS)

    @cached_property
    def _region_labels(self) -> list[str]:
        return [format_region_name(region) for region in self.regions]


class NoveltyCount(NamedTuple):
    """How many people of a table are novel, and for what; counts of pieces add up to the table's."""

    people: int
    novel: int
    causes: Counter[str]

    @classmethod
    def of(cls, novelty: Novelty) -> "NoveltyCount":
        """Count people."""
        causes = Counter([reason.cause for reasons in novelty.reasons.values() for reason in reasons])
        return cls(novelty.people, len(novelty.reasons), causes)

    def merged_with(self, other: "NoveltyCount") -> "NoveltyCount":
        """Return the count of both."""
        return NoveltyCount(self.people + other.people, self.novel + other.novel, self.causes + other.causes)


def make_table_warning(counted: NoveltyCount) -> list[Problem]:
    """Return one warning where the table as a whole is unlike training, else nothing."""
    people, number, causes = counted
    if number < 2 or number < _OTHER_TABLE_SHARE * people:
        return []
    common = [f"{cause} in {times:,}" for cause, times in causes.most_common(5) if times > _COMMON_CAUSE_SHARE * number]
    return [
        Problem(
            Severity.WARNING,
            f"this table looks unlike the training people: {number:,} of {people:,} are novel where at most "
            f"{NOVELTY_LEVEL:.0%} are expected ({join_names(common) or 'for many reasons'})",
            "",
            "Another scanner, unit, order of columns or age range? Read their R-indices with care",
        )
    ]


def _shrink_covariance(values: FloatArray) -> FloatArray:
    """Return the shrunk covariance (R, R) of people (N, R)."""
    from sklearn.covariance import ledoit_wolf  # applying a model needs numpy alone

    return np.asarray(ledoit_wolf(values)[0])


def _compute_held_out_distances(held: FloatArray, others: FloatArray) -> FloatArray:
    """Return the distances of people (N, R) from the mean of others, in the metric of the others."""
    return TrainingDistribution(others.mean(axis=0), _shrink_covariance(others)).compute_distances(held)


def _invert_covariance(covariance: FloatArray) -> FloatArray:
    """Return the inverse (R, R), of nearly singular directions no more than can be told."""
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 1e-9 * values[-1])
    return np.asarray(vectors / values @ vectors.T)

"""How unlike the training people someone is, and why: a model knows only its own kind of people.

The distance is Mahalanobis's in prepared space, with a shrunk covariance of all training people. It is told as a tail
probability: the share of training people, each measured by a covariance that does not know them, who are as far off.
Shape letters: N people, R regions, T training people.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices.errors import Problem, Severity, named
from rindices.model.sums import readable
from rindices.preprocess.residualise import Coding, Numeric

Floats = NDArray[np.float64]
Ranges = Mapping[str, Sequence[float]]

LEVEL = 0.05  # of people of the training distribution, at most, are called novel
_SURE = 1.64  # standard errors of the level, which is known from so many training people only
_FOLDS = 10
_MOST_DISTANCES = 2_000  # kept; evenly spaced ones where training had more people
_SLACK = 0.05  # of a covariate's range: new people of the same kind go a little beyond it
_OTHER_UNIT = 5.0  # nobody has volumes so many times the usual
_OTHER_TABLE = 0.2  # share of novel people from which on the table as a whole is unlike
_COMMON = 0.1  # of the novel people, from which on a cause is told for all
_NAMED, _SHARE = 4, 0.08  # at most so many regions are named, each with such a share of the distance


@dataclass(frozen=True)
class Training:
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

    mean: Floats
    covariance: Floats
    distances: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def learn(cls, values: Floats) -> "Training":
        """Learn from prepared people (N, R)."""
        places = np.arange(len(values)) % min(_FOLDS, len(values))
        distances = np.concatenate([_distances(values[places == k], values[places != k]) for k in np.unique(places)])
        distances.sort()
        if len(distances) > _MOST_DISTANCES:
            distances = np.quantile(distances, np.linspace(0, 1, _MOST_DISTANCES))
        return cls(values.mean(axis=0), _shrunk(values), distances)

    def whitened(self, values: Floats) -> Floats:
        """Return people whose squared norm is their squared distance: (N, R) -> (N, R)."""
        return np.asarray((values - self.mean) @ _inverse_root(self.covariance))

    def tail(self, values: Floats) -> Floats:
        """Return the share of training people who are at least as far off: (N, R) -> (N,), never below 1 / (T + 1)."""
        distances = np.linalg.norm(self.whitened(values), axis=1)
        nearer = np.searchsorted(self.distances, distances, side="left")
        return np.asarray((1 + len(self.distances) - nearer) / (len(self.distances) + 1))

    @property
    def bar(self) -> float:
        """The tail probability below which someone is novel: `LEVEL` less its error, or beyond everyone in training."""
        number = len(self.distances)
        return float(max(LEVEL - _SURE * np.sqrt(LEVEL * (1 - LEVEL) / number), 1.5 / (number + 1)))

    def parts(self, values: Floats) -> Floats:
        """Return what each region adds to the squared distance: (N, R) -> (N, R), rows sum to it."""
        off = values - self.mean
        return np.asarray(off * (self.whitened(values) @ _inverse_root(self.covariance)))


class Reason(NamedTuple):
    """Why someone is novel: the cause, which many may share, and the words for this person."""

    cause: str
    text: str


class Novelty(NamedTuple):
    """Who is unlike the training people.

    Attributes
    ----------
    tail : (N,) or None
        Tail probability; None where the model does not know its training people.
    because : list of list of Reason
        Of each person; none for people who are not novel.
    """

    tail: Floats | None
    because: list[list[Reason]]

    @property
    def novel(self) -> NDArray[np.bool_]:
        """(N,) who is."""
        return np.array([bool(reasons) for reasons in self.because], dtype=bool)

    @property
    def texts(self) -> list[str]:
        """(N,) the reasons in words."""
        return ["; ".join(reason.text for reason in reasons) for reasons in self.because]


@dataclass(frozen=True)
class Reference:
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
    typical: Floats
    codings: tuple[Coding, ...]
    ranges: Ranges
    training: Training | None

    def assess(self, volumes: Floats, covariates: pd.DataFrame, values: Floats) -> Novelty:
        """Hold people against training: volumes (N, R), covariates (N, C), prepared values (N, R)."""
        training = self.training if self.training is not None and len(self.training.distances) else None
        tail = None if training is None else training.tail(values)
        reasons: list[list[Reason]] = [[] for _ in range(len(values))]
        other_unit = self._other_unit(volumes, reasons)
        self._out_of_range(covariates, reasons)
        if tail is not None and training is not None:
            far = np.flatnonzero((tail < training.bar) & ~other_unit)
            for row, found in zip(far, self._regions(values[far]), strict=True):
                reasons[row] += found
        return Novelty(tail, reasons)

    def _other_unit(self, volumes: Floats, reasons: list[list[Reason]]) -> NDArray[np.bool_]:
        """Name people all of whose volumes are several times the usual."""
        usable = self.typical > 0
        if not usable.all():  # z-scores and the like have no unit
            return np.zeros(len(volumes), dtype=bool)
        ratio = np.maximum(np.median(volumes / self.typical, axis=1), 1e-9)
        other = (ratio > _OTHER_UNIT) | (ratio < 1 / _OTHER_UNIT)
        for row in np.flatnonzero(other):
            text = f"all volumes are about {10 ** np.round(np.log10(ratio[row])):g} times the usual: another unit?"
            reasons[row].append(Reason("another unit", text))
        return np.asarray(other)

    def _out_of_range(self, covariates: pd.DataFrame, reasons: list[list[Reason]]) -> None:
        for coding in self.codings:
            if not isinstance(coding, Numeric):
                continue
            low, high = self.ranges.get(coding.name, (coding.low, coding.high))
            numbers = covariates[coding.name].to_numpy(dtype=float)
            slack = _SLACK * (high - low)
            for row in np.flatnonzero((numbers < low - slack) | (numbers > high + slack)):
                text = f"{coding.name} {numbers[row]:g} is outside {low:g} to {high:g}"
                reasons[row].append(Reason(f"{coding.name} out of range", text))

    def _regions(self, values: Floats) -> list[list[Reason]]:
        """Return for each person the regions that make the most of the distance."""
        assert self.training is not None
        if not len(values):
            return []
        parts = self.training.parts(values)
        shares = parts / parts.sum(axis=1, keepdims=True)
        z = (values - self.training.mean) / np.sqrt(np.diag(self.training.covariance))
        top = np.argsort(-shares, axis=1, kind="stable")[:, :_NAMED]
        return [
            self._names(order[share[order] > _SHARE], own) for order, share, own in zip(top, shares, z, strict=True)
        ]

    def _names(self, places: NDArray[np.intp], z: Floats) -> list[Reason]:
        if not len(places):
            return [Reason("many regions", "many regions together are unusual")]
        names = [readable(self.regions[place]) for place in places]
        return [
            Reason(f"{name} {'high' if z[place] > 0 else 'low'}", f"{name} {z[place]:+.1f} sd")
            for name, place in zip(names, places, strict=True)
        ]


def table_warning(novelty: Novelty) -> list[Problem]:
    """Return one warning where the table as a whole is unlike training, else nothing."""
    number, people = int(novelty.novel.sum()), len(novelty.because)
    if number < 2 or number < _OTHER_TABLE * people:
        return []
    causes = Counter(reason.cause for reasons in novelty.because for reason in reasons)
    common = [f"{cause} in {times:,}" for cause, times in causes.most_common(5) if times > _COMMON * number]
    return [
        Problem(
            Severity.WARNING,
            f"this table looks unlike the training people: {number:,} of {people:,} are novel where at most "
            f"{LEVEL:.0%} are expected ({named(common) or 'for many reasons'})",
            "",
            "Another scanner, unit, order of columns or age range? Read their R-indices with care",
        )
    ]


def _shrunk(values: Floats) -> Floats:
    """Return the shrunk covariance (R, R) of people (N, R)."""
    from sklearn.covariance import ledoit_wolf  # applying a model needs numpy alone

    return np.asarray(ledoit_wolf(values)[0])


def _distances(held: Floats, others: Floats) -> Floats:
    """Return the distances of people (N, R) from the mean of others, in the metric of the others."""
    off = Training(others.mean(axis=0), _shrunk(others)).whitened(held)
    return np.asarray(np.linalg.norm(off, axis=1))


def _inverse_root(covariance: Floats) -> Floats:
    """Return the symmetric inverse root (R, R)."""
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 1e-9 * values[-1])
    return np.asarray(vectors / np.sqrt(values) @ vectors.T)

"""How far an R-index is from the severity behind it, person by person.

An interval holds what the person's R-index would be if severity alone decided it: the patients' R-index that stands at
the rank of the true severity. Two things keep the two apart. The inverse errs, because people differ for other reasons
than disease: this is measured on simulated truth, the training controls changed by the model's own patterns at known
severities. And the model itself is uncertain: the members, each trained on its own people, say how much for a person.
Shape letters: S members, N people, M patterns, R regions, K knots, Q severities.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.inference import SEVERITY_LEVELS, Head

NOMINAL_COVERAGE = 0.9
NOISE_INFLATION = 1.1  # of normal variation in new people, against the controls that the inverse was fitted to
EXPRESSION_SD = 0.28  # of the severities' spread: how differently people of one severity show the pattern
_N_KNOTS = 15
_N_SIMULATED = 20_000  # simulated
_NEIGHBOUR_SHARE = 0.1  # share of the simulated people who speak for a knot


@dataclass(frozen=True)
class CalibratedIntervals:
    """What a rank is worth and how far it strays.

    Attributes
    ----------
    knots : (M, K)
        R-indices at which the rest is known, ascending.
    low, middle, high : (M, K)
        Of the severity's R-index less the inferred one: the lower end, the median and the upper end.
    error : (M,)
        Standard deviation of that difference.
    members : ()
        How often the variance among members counts.
    """

    knots: FloatArray
    low: FloatArray
    middle: FloatArray
    high: FloatArray
    error: FloatArray
    members: FloatArray

    @staticmethod
    def shapes(n_patterns: int, n_knots: int) -> dict[str, tuple[int, ...]]:
        """Return the shape that each array must have."""
        per_knot = ("knots", "low", "middle", "high")
        return dict.fromkeys(per_knot, (n_patterns, n_knots)) | {"error": (n_patterns,), "members": ()}

    def compute_bounds(self, indices: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the intervals, each (N, M), of R-indices (N, M) with a variance (N, M) among members."""
        ends = []
        wider = np.sqrt(1.0 + self.members * variance / self.error**2)
        middle = self._at(self.middle, indices)
        for offset, outer in ((self.low, np.minimum), (self.high, np.maximum)):
            end = indices + middle + (self._at(offset, indices) - middle) * wider
            ends.append(outer(end, indices))
        return ends[0], ends[1]

    def _at(self, offsets: FloatArray, indices: FloatArray) -> FloatArray:
        columns = [np.interp(indices[:, k], self.knots[k], offsets[k]) for k in range(indices.shape[1])]
        return np.stack(columns).T


def calibrate_intervals(
    infer: Callable[[FloatArray], FloatArray],
    head: Head,
    patterns: FloatArray,
    controls: FloatArray,
    patients: FloatArray,
    share: float,
    seed: int,
) -> CalibratedIntervals:
    """Measure the error of the inverse on simulated truth.

    Parameters
    ----------
    infer : callable
        Prepared people (N, R) to consensus R-indices (N, M).
    head : Head
        Of a member, which knows how a change adds to a person.
    patterns : (Q, M, R)
        Change of regions at `SEVERITY_LEVELS`, in control standard deviations.
    controls, patients : (N, R)
        Prepared.
    share : float
        Of the people that a member was trained on.
    seed : int
    """
    rng = np.random.default_rng([seed, 5])
    inferred = infer(patients)
    z = _draw_severities(inferred, _N_SIMULATED, rng)
    change = _interpolate_change(patterns, z)
    people = head.apply_change(controls[rng.integers(len(controls), size=_N_SIMULATED)], change)
    signal = infer(head.apply_change(np.broadcast_to(controls.mean(axis=0), change.shape), change))
    found = signal + NOISE_INFLATION * (infer(people) - signal)
    found = found + EXPRESSION_SD * signal.std(axis=0) * rng.standard_normal(found.shape)
    columns = [_calibrate_pattern(z[:, k], found[:, k], inferred[:, k]) for k in range(z.shape[1])]
    knots, low, middle, high, error = (np.stack(part) for part in zip(*columns, strict=True))
    return CalibratedIntervals(knots, low, middle, high, error, np.array(share / (1 - share) if share < 1 else 1.0))


def _draw_severities(inferred: FloatArray, number: int, rng: np.random.Generator) -> FloatArray:
    """Return ranks of severities (number, M), uniform, as correlated as the patients' R-indices (N, M)."""
    order = np.argsort(np.argsort(inferred, axis=0, kind="stable"), axis=0, kind="stable")
    rows = rng.integers(len(inferred), size=number)
    return np.asarray((order[rows] + rng.random((number, inferred.shape[1]))) / len(inferred))


def _interpolate_change(patterns: FloatArray, z: FloatArray) -> FloatArray:
    """Return the change (N, R) at severities z (N, M), in control standard deviations."""
    levels = np.array([0.0, *SEVERITY_LEVELS])
    curves = np.concatenate([np.zeros_like(patterns[:1]), patterns])
    change = np.zeros((len(z), patterns.shape[2]))
    for k in range(z.shape[1]):
        place = np.clip(np.searchsorted(levels, z[:, k], side="right") - 1, 0, len(levels) - 2)
        along = ((z[:, k] - levels[place]) / (levels[place + 1] - levels[place]))[:, None]
        change += (1 - along) * curves[place, k] + along * curves[place + 1, k]
    return change


def _calibrate_pattern(
    z: FloatArray, found: FloatArray, inferred: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return knots, low, middle, high (K,) and error () of one pattern.

    Parameters
    ----------
    z, found : (N,)
        Ranks of simulated severities, and the R-indices inferred for them.
    inferred : (P,)
        R-indices of the patients: they say what a rank is worth.
    """
    order = np.argsort(found, kind="stable")
    ranks = np.empty(len(found))
    ranks[order] = (np.arange(len(found)) + 0.5) / len(found)
    truth, seen = np.quantile(inferred, z), np.quantile(inferred, ranks)
    off = (truth - seen)[order]
    half = max(1, int(_NEIGHBOUR_SHARE * len(off) / 2))
    centres = np.linspace(0.0, 1.0, _N_KNOTS)
    tails = ((1 - NOMINAL_COVERAGE) / 2, 0.5, (1 + NOMINAL_COVERAGE) / 2)
    ends = []
    for centre in centres:
        middle = int(centre * (len(off) - 1))
        ends.append(np.quantile(off[max(0, middle - half) : middle + half + 1], tails))
    low, median, high = np.array(ends).T
    return np.quantile(inferred, centres), low, median, high, np.asarray(max(float(off.std()), 1e-9))

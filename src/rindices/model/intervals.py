"""Calibrated intervals of R-indices.

An interval covers the R-index that a person would have if severity alone determined it:
the patients' R-index at the rank of the true severity. It allows for two errors. The
inverse is inexact, because people differ for other reasons than disease. This error is
measured on training controls to which the model's patterns are added at known
severities. And the model is uncertain. This error is the spread of the members, each
trained on a different subsample.

Shape letters: S members, N people, M patterns, R regions, K knots, Q severities.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.learners.inference import SEVERITY_LEVELS, Head, TrajectoryHead
from rindices.learners.severity_posterior import compute_growth

NOMINAL_COVERAGE = 0.9
# normal variation of new people relative to the controls that the inverse was fitted to
NOISE_INFLATION = 1.1
# variation of the pattern between people of one severity, relative to the spread of
# severities
EXPRESSION_SD = 0.28
TRAJECTORY_EXPRESSION_SD = (
    0.1  # the same for posterior means, which allow for most of it
)
_N_KNOTS = 15
_N_SIMULATED = 8_000
_NEIGHBOUR_SHARE = (
    0.1  # of the simulated people, from whom the offsets at a knot are computed
)


@dataclass(frozen=True, kw_only=True)
class CalibratedIntervals:
    """Offsets of interval bounds from the R-index.

    Attributes
    ----------
    knots : ndarray of shape (M, K)
        R-indices at which the offsets are given, ascending.
    low, middle, high : ndarray of shape (M, K)
        Lower quantile, median and upper quantile of the true R-index minus the
        inferred one.
    error : ndarray of shape (M,)
        Standard deviation of that difference.
    members : ndarray
        Factor of the variance among members.
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
        return dict.fromkeys(per_knot, (n_patterns, n_knots)) | {
            "error": (n_patterns,),
            "members": (),
        }

    def compute_bounds(
        self, indices: FloatArray, variance: FloatArray, added: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of the intervals; each contains the R-index.

        Parameters
        ----------
        indices : ndarray of shape (N, M)
            R-indices.
        variance : ndarray of shape (N, M)
            Their variance among members.
        added : ndarray of shape (N, M) or None
            Their variance over the possible values of missing regions.

        Returns
        -------
        tuple of ndarray
            Low, high (N, M).
        """
        widening = np.sqrt(1.0 + self.members * variance / self.error**2)
        if added is not None:
            widening = widening * self.compute_widening(variance, added)
        middle = self._interpolate(self.middle, indices)
        low, high = (
            indices + middle + (self._interpolate(offsets, indices) - middle) * widening
            for offsets in (self.low, self.high)
        )
        return np.minimum(low, indices), np.maximum(high, indices)

    def compute_widening(self, variance: FloatArray, added: FloatArray) -> FloatArray:
        """Return the factor (N, M) by which missing regions widen the intervals; see
        `compute_bounds`.
        """
        return np.sqrt(1.0 + added / (self.error**2 + self.members * variance))

    def _interpolate(self, offsets: FloatArray, indices: FloatArray) -> FloatArray:
        """Return the offsets (M, K) at R-indices (N, M), by linear interpolation."""
        columns = [
            np.interp(indices[:, k], self.knots[k], offsets[k])
            for k in range(indices.shape[1])
        ]
        return np.stack(columns).T


class MemberControls(NamedTuple):
    """A member, and controls as its pipeline prepares them.

    Attributes
    ----------
    head : Head
    order : sequence of int
        (M,) column of the member that is pattern k of the consensus.
    controls : ndarray of shape (N, R)
        Without missing cells.
    """

    head: Head
    order: Sequence[int]
    controls: FloatArray

    def infer_changed(self, rows: IntArray | None, change: FloatArray) -> FloatArray:
        """Return the R-indices (K, M) of controls (K,), or of the average control,
        after a change (K, R).
        """
        average = np.broadcast_to(self.controls.mean(axis=0), change.shape)
        people = average if rows is None else self.controls[rows]
        return np.asarray(
            self.head.infer(self.head.apply_change(people, change))[:, list(self.order)]
        )


def calibrate_intervals(
    members: Sequence[MemberControls],
    patterns: FloatArray,
    inferred: FloatArray,
    share: float,
    seed: int,
    interaction: FloatArray | None = None,
) -> CalibratedIntervals:
    """Estimate the offsets from simulated people of known severity.

    Parameters
    ----------
    patterns : ndarray of shape (Q, M, R)
        Change of regions at `SEVERITY_LEVELS`, in standard deviations of controls.
    inferred : ndarray of shape (N, M)
        R-indices of patients.
    share : float
        Share of the people that each member was trained on.
    interaction : ndarray of shape (M, M) or None
        Of patterns whose change depends on the severities of the others
        (`rindices.learners.severity_posterior`).
    """
    rng = np.random.default_rng([seed, 5])
    ranks = np.argsort(
        np.argsort(inferred, axis=0, kind="stable"), axis=0, kind="stable"
    )
    drawn = ranks[rng.integers(len(inferred), size=_N_SIMULATED)]
    severities = (drawn + rng.random(drawn.shape)) / len(
        inferred
    )  # uniform, with the rank correlation of patients
    levels = np.array([0.0, *SEVERITY_LEVELS])
    curves = np.concatenate([np.zeros_like(patterns[:1]), patterns])
    change = np.sum(
        list(iterate_changes(levels, curves, severities, interaction)), axis=0
    )
    rows = rng.integers(len(members[0].controls), size=_N_SIMULATED)
    simulated, signal = (
        np.mean([each.infer_changed(k, change) for each in members], axis=0)
        for k in (rows, None)
    )
    indices = signal + NOISE_INFLATION * (simulated - signal)
    expression_sd = (
        TRAJECTORY_EXPRESSION_SD
        if isinstance(members[0].head, TrajectoryHead)
        else EXPRESSION_SD
    )
    indices = indices + expression_sd * signal.std(axis=0) * rng.standard_normal(
        indices.shape
    )
    columns = [
        _calibrate_pattern(*arrays)
        for arrays in zip(severities.T, indices.T, inferred.T, strict=True)
    ]
    knots, low, middle, high, error = (
        np.stack(arrays) for arrays in zip(*columns, strict=True)
    )
    return CalibratedIntervals(
        knots=knots,
        low=low,
        middle=middle,
        high=high,
        error=error,
        members=np.array(share / (1 - share) if share < 1 else 1.0),
    )


def iterate_changes(
    levels: FloatArray,
    curves: FloatArray,
    severities: FloatArray,
    interaction: FloatArray | None,
) -> Iterator[FloatArray]:
    """Yield the change (N, R) of people of severities (N, M) by each pattern, in
    standard deviations of controls.

    Parameters
    ----------
    levels : ndarray of shape (Q,)
        Ascending severities at which the curves (Q, M, R) are given.
    interaction : ndarray of shape (M, M) or None
        If not None, a pattern grows with the severities of the others, relative to
        others of medium severity.
    """
    growth = np.ones_like(severities)
    if interaction is not None:
        medium = np.full((1, severities.shape[1]), 0.5)
        growth = compute_growth(severities, interaction) / compute_growth(
            medium, interaction
        )
    for k, z in enumerate(severities.T):
        left = np.clip(np.searchsorted(levels, z, side="right") - 1, 0, len(levels) - 2)
        fraction = ((z - levels[left]) / (levels[left + 1] - levels[left]))[:, None]
        yield growth[:, k, None] * (
            (1 - fraction) * curves[left, k] + fraction * curves[left + 1, k]
        )


def _calibrate_pattern(
    severities: FloatArray, simulated: FloatArray, inferred: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return knots, low, middle, high (K,) and error () of one pattern.

    Parameters
    ----------
    severities, simulated : ndarray of shape (N,)
        Severities of simulated people, as ranks, and the R-indices inferred for
        them.
    inferred : ndarray of shape (P,)
        R-indices of the patients, whose quantiles convert ranks to R-indices.
    """
    order = np.argsort(simulated, kind="stable")
    ranks = np.empty(len(simulated))
    ranks[order] = (np.arange(len(simulated)) + 0.5) / len(simulated)
    errors = (np.quantile(inferred, severities) - np.quantile(inferred, ranks))[order]
    half = max(1, int(_NEIGHBOUR_SHARE * len(errors) / 2))
    knot_ranks = np.linspace(0.0, 1.0, _N_KNOTS)
    levels = ((1 - NOMINAL_COVERAGE) / 2, 0.5, (1 + NOMINAL_COVERAGE) / 2)
    quantiles = []
    for rank in knot_ranks:
        middle = int(rank * (len(errors) - 1))
        quantiles.append(
            np.quantile(errors[max(0, middle - half) : middle + half + 1], levels)
        )
    low, median, high = np.array(quantiles).T
    return (
        np.quantile(inferred, knot_ranks),
        low,
        median,
        high,
        np.asarray(max(float(errors.std()), 1e-9)),
    )

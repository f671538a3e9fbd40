"""Rank-based normal scores: a monotone map of each region to the normal distribution, learnt on controls.

Between the control quantiles of -2 and 2 standard deviations the map is the empirical one. Patients can lie far beyond
all controls, where ranks say nothing. There the map continues as the inverse of the g-distribution (Tukey), whose
skewness is that of the controls: logarithmic in a long tail, linear in a short one. Equal values, as in counts, get the
mean of their scores. Shape letters: N people, R regions, K quantiles.
"""

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import FloatArray

SCORES = np.linspace(-2.0, 2.0, 21)
"""Scores (K,) whose quantiles in controls are kept."""
_OUTER = slice(None, None, 10)  # the scores -2, 0 and 2, which tell the skewness


class _Tail(NamedTuple):
    """Skewness g of a region, and the slope of its score at the lowest and at the highest quantile."""

    g: float
    low_slope: float
    high_slope: float


@dataclass(frozen=True)
class NormalScores:
    """Quantiles (K, R) of each region in controls at `SCORES`."""

    quantiles: FloatArray

    @classmethod
    def fit(cls, values: FloatArray) -> Self:
        """Learn the quantiles of controls (N, R); missing cells are NaN."""
        probabilities = [NormalDist().cdf(score) for score in SCORES.tolist()]
        quantile = np.nanquantile if np.isnan(values).any() else np.quantile
        return cls(np.asarray(quantile(values, probabilities, axis=0)))

    def transform(self, values: FloatArray) -> FloatArray:
        """Return normal scores: (N, R) -> (N, R)."""
        scores = np.empty(values.shape)
        for region, (quantiles, levels, tail) in enumerate(self._maps):
            column = values[:, region]
            inside = np.interp(column, quantiles, levels)
            below = _extend(np.minimum(column - quantiles[0], 0.0), tail.g, tail.low_slope)
            above = _extend(np.maximum(column - quantiles[-1], 0.0), tail.g, tail.high_slope)
            scores[:, region] = inside + below + above
        return scores

    @cached_property
    def _maps(self) -> list[tuple[FloatArray, FloatArray, _Tail]]:
        maps = []
        for column in self.quantiles.T:
            distinct, positions = np.unique(column, return_inverse=True)  # tied quantiles get their mean score
            levels = np.bincount(positions, SCORES) / np.bincount(positions)
            maps.append((distinct, levels, _describe_tails(column)))
        return maps

    @property
    def medians(self) -> FloatArray:
        """Median (R,) of each region in controls."""
        return np.asarray(self.quantiles[len(SCORES) // 2])


def _describe_tails(quantiles: FloatArray) -> _Tail:
    """Return skewness and slopes of the g-distribution through the lowest, middle and highest quantile (K,)."""
    low, middle, high = quantiles[_OUTER]
    upper, lower = high - middle, middle - low
    spread = high - low
    if not spread > 0:
        return _Tail(0.0, 0.0, 0.0)
    g = 0.0 if min(upper, lower) <= 0 else float(np.log(upper / lower)) / SCORES[-1]
    if abs(g) < 1e-6:
        slope = (SCORES[-1] - SCORES[0]) / spread
        return _Tail(0.0, slope, slope)
    scale = upper * g / np.expm1(g * SCORES[-1])
    return _Tail(g, *(float(1 / (scale * np.exp(g * score))) for score in (SCORES[0], SCORES[-1])))


def _extend(distance: FloatArray, g: float, slope: float) -> FloatArray:
    """Return by how much the score changes at a distance (N,) beyond a quantile: less than linear in a long tail."""
    linear = slope * distance
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(g * linear > 0, np.log1p(np.maximum(g * linear, 0.0)) / g if g else linear, linear)

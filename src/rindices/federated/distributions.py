"""Distributions of numbers from 0 to 1, from sums of cosines: a histogram without bins that hold few people.

Shape letters: Q cosines, L levels.
"""

import numpy as np

from rindices._typing import FloatArray

_LEVELS = np.linspace(0.0, 1.0, 2001)


def compute_cumulative(cosines: FloatArray, number: int) -> FloatArray:
    """Return the cumulative distribution at 2001 levels from 0 to 1.

    cosines (Q,): sums of cos(k pi v) over people, k = 1 to Q; number: of people. Returns (2001,), the Fourier series,
    damped so that it does not oscillate, and made to increase.
    """
    k = np.arange(1, len(cosines) + 1)
    damping = np.sinc(k / (len(cosines) + 1))
    terms = 2.0 * damping * cosines / number / (k * np.pi)
    cumulative = _LEVELS + np.sin(np.pi * _LEVELS[:, None] * k) @ terms
    cumulative = np.maximum.accumulate(np.clip(cumulative, 0.0, 1.0))
    return np.asarray(cumulative / cumulative[-1])


def compute_quantiles(cumulative: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the values below which shares (L,) of the people are."""
    rising = cumulative + 1e-12 * np.arange(len(cumulative))
    return np.asarray(np.interp(shares, rising, _LEVELS))


def compute_auc(controls: FloatArray, patients: FloatArray) -> float:
    """Return the probability that a patient has the larger value, from two cumulative distributions."""
    mass = np.diff(patients)
    return float(mass @ ((controls[1:] + controls[:-1]) / 2.0))


def compute_carrier_share(controls: FloatArray, patients: FloatArray, level: float = 0.95) -> float:
    """Return the share of patients above 95 % of controls, corrected for chance."""
    threshold = compute_quantiles(controls, np.array([level]))
    above = 1.0 - float(np.interp(threshold[0], _LEVELS, patients))
    return float(np.clip((above - (1.0 - level)) / level, 0.0, 1.0))

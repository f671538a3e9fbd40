"""Noise between visits of the same person, with the size and correlations measured in healthy people."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from rindices._typing import FloatArray


@dataclass(frozen=True)
class RetestFigures:
    """Summary figures of retest noise.

    Attributes
    ----------
    noise_share_quantiles : (K,)
        Share of noise in the variance of log measures given the covariates: evenly spaced quantiles over regions.
    noise_correlation : float
        Mean correlation of the noise of two regions.
    noise_correlation_of_sides : float
        Mean correlation of the noise of the left and the right region of a structure.
    """

    noise_share_quantiles: FloatArray
    noise_correlation: float
    noise_correlation_of_sides: float


@cache
def load_retest_figures() -> RetestFigures:
    """Load the figures of the package; see ``experiments/data/README.md``."""
    record = json.loads((files("rindices.experiments") / "data" / "retest.json").read_text("utf-8"))
    return RetestFigures(
        np.array(record["noise_share_quantiles"]),
        float(record["noise_correlation"]),
        float(record["noise_correlation_of_sides"]),
    )


def draw_noise_shares(n_regions: int, rng: np.random.Generator) -> FloatArray:
    """Return the share of noise in the variance of each region (R,), with the measured distribution."""
    quantiles = load_retest_figures().noise_share_quantiles
    return np.interp(rng.uniform(size=n_regions), np.linspace(0, 1, len(quantiles)), quantiles)


def draw_retest_noise(deviations: FloatArray, pairs: FloatArray, n_scans: int, rng: np.random.Generator) -> FloatArray:
    """Draw the noise of scans.

    Parameters
    ----------
    deviations : (R,)
        Standard deviation of the noise of each region.
    pairs : (R,)
        Number of the structure of each region; the two sides of a structure share one.
    n_scans : int
    rng : Generator

    Returns
    -------
    (n_scans, R)
        Noise of log measures: a part that all regions share, a part that two sides share, and a part of its own.
    """
    figures = load_retest_figures()
    common = figures.noise_correlation
    side = max(figures.noise_correlation_of_sides - common, 0.0)
    structures, structure = np.unique(pairs, return_inverse=True)
    shared = rng.normal(size=(n_scans, 1))
    of_sides = rng.normal(size=(n_scans, len(structures)))[:, structure]
    own = rng.normal(size=(n_scans, len(deviations)))
    noise = np.sqrt(common) * shared + np.sqrt(side) * of_sides + np.sqrt(1 - common - side) * own
    return np.asarray(noise * deviations)

"""Standardise regions to controls: mean 1, standard deviation 0.1; and covariances that
can be inverted.

The loss weights and thresholds of the paper are made for this scale. Shape letters: N
people, R regions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Self

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import PreprocessingError, join_names

CONTROL_MEAN, CONTROL_SD = 1.0, 0.1


@dataclass(frozen=True)
class Standardiser:
    """Mean (R,) and standard deviation (R,) of each region in controls.

    Attributes
    ----------
    mean : ndarray
    sd : ndarray
    """

    mean: FloatArray
    sd: FloatArray

    @classmethod
    def fit(cls, volumes: FloatArray, regions: Sequence[str]) -> Self:
        """Estimate mean and standard deviation from controls.

        Parameters
        ----------
        volumes : (N, R)
            Volumes of controls, adjusted for covariates; missing cells are NaN.
        regions : sequence of str
            (R,) names of the regions, for error messages.
        """
        if len(volumes) < 2:
            raise PreprocessingError(
                f"{len(volumes)} controls are too few to standardise by: at least 2 are needed."
            )
        if np.isnan(volumes).any():
            mean, sd = np.nanmean(volumes, axis=0), np.nanstd(volumes, axis=0, ddof=1)
        else:
            mean, sd = volumes.mean(axis=0), volumes.std(axis=0, ddof=1)
        return cls.from_moments(mean, sd, regions)

    @classmethod
    def from_moments(
        cls, mean: FloatArray, sd: FloatArray, regions: Sequence[str]
    ) -> Self:
        """Return the standardiser of mean (R,) and sd (R,) of controls; constant
        regions are refused by name.
        """
        refuse_constant_regions(mean, sd, regions, "constant in the controls")
        return cls(mean, sd)

    def transform(
        self, volumes: FloatArray, out: FloatArray | None = None
    ) -> FloatArray:
        """Scale volumes (N, R) so that controls have mean 1 and standard deviation 0.1;
        ``out`` may be the input.
        """
        scale = CONTROL_SD / self.sd
        scaled = np.multiply(volumes, scale, out=out)
        scaled += CONTROL_MEAN - self.mean * scale
        return scaled


def find_constant_regions(
    mean: FloatArray, sd: FloatArray, regions: Sequence[str]
) -> list[str]:
    """Return the names of regions whose sd (R,) is 0 up to rounding of the
    mean (R,).
    """
    return list(compress(regions, sd <= 1e-12 * np.maximum(np.abs(mean), 1e-300)))


def refuse_constant_regions(
    mean: FloatArray, sd: FloatArray, regions: Sequence[str], what: str
) -> None:
    """Refuse `find_constant_regions` with words that say ``what`` is wrong."""
    constant = find_constant_regions(mean, sd, regions)
    if constant:
        raise PreprocessingError(
            f"{what}: {join_names(constant)}. Leave these regions out (--exclude)."
        )


def shrink_covariance(
    covariance: FloatArray, fourth_power: float, number: int
) -> FloatArray:
    """Return the Ledoit-Wolf covariance.

    scikit-learn's `ledoit_wolf` takes people and computes all their products again. The
    sums it needs follow from the covariance and the lengths of the people.

    Parameters
    ----------
    covariance : ndarray of shape (R, R)
        Empirical covariance.
    fourth_power : float
        Sum of the fourth power of each person's length.
    number : int
        Of people.

    Returns
    -------
    ndarray of shape (R, R)
    """
    squared_norm, mean = (
        float(np.square(covariance).sum()),
        float(np.trace(covariance)) / len(covariance),
    )
    dispersion = squared_norm - len(covariance) * mean**2
    error = (fourth_power / number - squared_norm) / number
    weight = float(np.clip(error / dispersion, 0.0, 1.0)) if dispersion > 0 else 1.0
    return np.asarray(
        (1.0 - weight) * covariance + weight * mean * np.eye(len(covariance))
    )


def shrink_normal_covariance(covariance: FloatArray, number: int) -> FloatArray:
    """Return the Ledoit-Wolf covariance (R, R) of normally distributed people, of whom
    nothing else is known.
    """
    fourth_power = number * (
        np.trace(covariance) ** 2 + 2.0 * np.square(covariance).sum()
    )
    return shrink_covariance(covariance, float(fourth_power), number)

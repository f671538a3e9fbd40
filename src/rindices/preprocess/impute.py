"""Missing covariates: what the other covariates of a person predict, by the controls who have all covariates.

Shape letters: N people, P columns of the design.
"""

from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import PreprocessingError


class DesignMoments(NamedTuple):
    """Mean (P,) and covariance (P, P) of the design in controls; a covariance of None predicts the mean."""

    mean: FloatArray
    covariance: FloatArray | None


def estimate_design_moments(design: FloatArray) -> DesignMoments:
    """Estimate mean and covariance from the controls (N, P) who have all covariates.

    Raises PreprocessingError: if covariates are missing and too few controls have all of them.
    """
    is_complete = ~np.isnan(design).any(axis=1)
    least = design.shape[1] + 2
    if not is_complete.all() and is_complete.sum() < least:
        raise PreprocessingError(
            f"covariates cannot be imputed: {is_complete.sum()} controls have all of them, and {least} are needed. "
            "Leave out the covariate that is missing most."
        )
    complete = design[is_complete]
    mean = complete.mean(axis=0)
    deviations = complete - mean
    has_columns = design.shape[1] > 0
    return DesignMoments(mean, deviations.T @ deviations / max(len(complete), 1) if has_columns else None)


def fill_design(design: FloatArray, moments: DesignMoments) -> FloatArray:
    """Fill missing cells (N, P) with their conditional mean given a person's other columns.

    A person's values depend on the moments alone, not on other people.

    Returns (N, P), the same array if nothing is missing.
    """
    is_missing = np.isnan(design)
    if not is_missing.any():
        return design
    mean, covariance = moments
    filled = np.where(is_missing, mean, design)
    if covariance is None:
        return filled
    for mask in np.unique(is_missing[is_missing.any(axis=1)], axis=0):
        rows = (is_missing == mask).all(axis=1)
        slopes = np.linalg.pinv(covariance[np.ix_(~mask, ~mask)], hermitian=True) @ covariance[np.ix_(~mask, mask)]
        # einsum keeps the sum of each person independent of how many people there are
        filled[np.ix_(rows, mask)] += np.einsum("nk,km->nm", design[np.ix_(rows, ~mask)] - mean[~mask], slopes)
    return filled

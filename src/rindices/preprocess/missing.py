"""Missing cells and covariates while the preprocessing is estimated.

A missing covariate is what the other covariates of a person predict, by the controls
who have all of them. Each region is estimated from the people in whom it was measured:
filling cells with the predictions of a regression on the measured people leaves the
coefficients of that regression as they are, so the estimators of complete tables can be
used. Shape letters: N people, R regions, P columns of the design.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import PreprocessingError, join_names


class DesignMoments(NamedTuple):
    """Mean (P,) and covariance (P, P) of the design in controls; a covariance of None
    predicts the mean.

    Attributes
    ----------
    mean : ndarray
    covariance : ndarray or None
    """

    mean: FloatArray
    covariance: FloatArray | None


def estimate_design_moments(design: FloatArray) -> DesignMoments:
    """Estimate mean and covariance from the controls (N, P) who have all covariates.

    Raises
    ------
    PreprocessingError
        If covariates are missing and too few controls have all of them.
    """
    is_complete = ~np.isnan(design).any(axis=1)
    least = design.shape[1] + 2
    if not is_complete.all() and is_complete.sum() < least:
        what = f"covariates cannot be imputed: {is_complete.sum()} controls have all of them, and {least} are needed"
        raise PreprocessingError(
            f"{what}. Leave out the covariate that is missing most."
        )
    complete = design[is_complete]
    mean = complete.mean(axis=0)
    deviations = complete - mean
    has_columns = design.shape[1] > 0
    return DesignMoments(
        mean, deviations.T @ deviations / max(len(complete), 1) if has_columns else None
    )


def fill_design(design: FloatArray, moments: DesignMoments) -> FloatArray:
    """Fill missing cells (N, P) with their conditional mean given a person's other
    columns.

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
        slopes = (
            np.linalg.pinv(covariance[np.ix_(~mask, ~mask)], hermitian=True)
            @ covariance[np.ix_(~mask, mask)]
        )
        # einsum keeps the sum of each person independent of how many people there are
        filled[np.ix_(rows, mask)] += np.einsum(
            "nk,km->nm", design[np.ix_(rows, ~mask)] - mean[~mask], slopes
        )
    return filled


def fill_by_regression(
    volumes: FloatArray, design: FloatArray, regions: Sequence[str] = ()
) -> FloatArray:
    """Fill missing cells with what a linear model of the people in whom the region was
    measured predicts.

    Parameters
    ----------
    volumes : ndarray of shape (N, R)
        Missing cells are NaN.
    design : ndarray of shape (N, P)
        Without a constant.
    regions : sequence of str
        (R,) names for messages.

    Returns
    -------
    ndarray of shape (N, R)
        , the same array if nothing is missing.

    Raises
    ------
    PreprocessingError
        If a region was measured in too few people.
    """
    is_missing = np.isnan(volumes)
    if not is_missing.any():
        return volumes
    least = design.shape[1] + 2
    short = np.flatnonzero((~is_missing).sum(axis=0) < least).tolist()
    if short:
        names = [str(regions[k]) if len(regions) else f"column {k + 1}" for k in short]
        what = f"measured in fewer than {least} of the people that the adjustment is estimated from"
        cure = f"Leave them out: --exclude {','.join(names[:5])}"
        raise PreprocessingError(f"{what}: {join_names(names)}. {cure}.")
    columns = np.column_stack([np.ones(len(design)), design - design.mean(axis=0)])
    filled = volumes.copy()
    masks, labels = np.unique(is_missing, axis=1, return_inverse=True)
    for label, mask in enumerate(masks.T):
        if not mask.any():
            continue
        alike = np.flatnonzero(labels.ravel() == label)
        coefficients = np.linalg.lstsq(
            columns[~mask], volumes[np.ix_(~mask, alike)], rcond=None
        )[0]
        filled[np.ix_(mask, alike)] = columns[mask] @ coefficients
    return filled


def fill_within_sites(
    volumes: FloatArray, design: FloatArray, sites: Sequence[str]
) -> FloatArray:
    """Fill missing cells so that mean and standard deviation of each region at each
    site stay as they were measured.

    Cells are the predictions of the covariates and the site, plus residuals of the
    people of the same site in whom the region was measured, centred and on their scale.

    Parameters
    ----------
    volumes : ndarray of shape (N, R)
        Missing cells are NaN.
    design : ndarray of shape (N, P)
    sites : sequence of str
        (N,) site of each person.

    Returns
    -------
    ndarray of shape (N, R)
        , the same array if nothing is missing.
    """
    is_missing = np.isnan(volumes)
    if not is_missing.any():
        return volumes
    names, site_index = np.unique(np.asarray(sites, dtype=str), return_inverse=True)
    indicators = np.eye(len(names))[site_index][:, 1:]
    filled = fill_by_regression(volumes, np.column_stack([design, indicators]))
    columns = np.column_stack([np.ones(len(design)), design, indicators])
    residuals = filled - columns @ np.linalg.lstsq(columns, filled, rcond=None)[0]
    for site in range(len(names)):
        at_site = site_index == site
        for region in np.flatnonzero(is_missing[at_site].any(axis=0)):
            missing = at_site & is_missing[:, region]
            measured = residuals[at_site & ~is_missing[:, region], region]
            filled[missing, region] += _draw_alike(measured, int(missing.sum()))
    return filled


def _draw_alike(residuals: FloatArray, n: int) -> FloatArray:
    """Return n of the residuals (N,), repeated if they are fewer, with mean 0 and their
    standard deviation.
    """
    if len(residuals) < 2 or n < 2:
        return np.zeros(n)
    drawn = np.resize(residuals, n)
    drawn = drawn - drawn.mean()
    spread = drawn.std()
    return np.asarray(drawn * (residuals.std() / spread) if spread > 0 else drawn)

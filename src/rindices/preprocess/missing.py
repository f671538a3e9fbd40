"""Missing cells while the preprocessing is estimated: each region is estimated from the people in whom it was measured.

Filling cells with the predictions of a regression on the measured people leaves the coefficients of that regression as
they are, so the estimators of complete tables can be used. Shape letters: N people, R regions, P columns of the design.
"""

from collections.abc import Sequence

import numpy as np

from rindices._typing import BoolArray, FloatArray
from rindices.errors import PreprocessingError, join_names


def fill_by_regression(volumes: FloatArray, design: FloatArray, regions: Sequence[str] = ()) -> FloatArray:
    """Fill missing cells with what a linear model of the people in whom the region was measured predicts.

    volumes (N, R): missing cells are NaN; design (N, P): without a constant; regions: (R,) names for messages. Returns
    (N, R), the same array if nothing is missing. Raises PreprocessingError: if a region was measured in too few people.
    """
    is_missing = np.isnan(volumes)
    if not is_missing.any():
        return volumes
    _require_measured(is_missing, design.shape[1] + 2, regions)
    columns = np.column_stack([np.ones(len(design)), design - design.mean(axis=0)])
    filled = volumes.copy()
    masks, labels = np.unique(is_missing, axis=1, return_inverse=True)
    for label, mask in enumerate(masks.T):
        if not mask.any():
            continue
        alike = np.flatnonzero(labels.ravel() == label)
        coefficients = np.linalg.lstsq(columns[~mask], volumes[np.ix_(~mask, alike)], rcond=None)[0]
        filled[np.ix_(mask, alike)] = columns[mask] @ coefficients
    return filled


def fill_within_sites(volumes: FloatArray, design: FloatArray, sites: Sequence[str]) -> FloatArray:
    """Fill missing cells so that mean and standard deviation of each region at each site stay as they were measured.

    Cells are the predictions of the covariates and the site, plus residuals of the people of the same site in whom the
    region was measured, centred and on their scale.

    volumes (N, R): missing cells are NaN; design (N, P); sites: (N,) site of each person. Returns (N, R), the same
    array if nothing is missing.
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
    """Return n of the residuals (N,), repeated if they are fewer, with mean 0 and their standard deviation."""
    if len(residuals) < 2 or n < 2:
        return np.zeros(n)
    drawn = np.resize(residuals, n)
    drawn = drawn - drawn.mean()
    spread = drawn.std()
    return np.asarray(drawn * (residuals.std() / spread) if spread > 0 else drawn)


def _require_measured(is_missing: BoolArray, least: int, regions: Sequence[str]) -> None:
    """Refuse regions that were measured in fewer people than needed."""
    short = np.flatnonzero((~is_missing).sum(axis=0) < least)
    if len(short):
        names = [str(regions[k]) if len(regions) else f"column {k + 1}" for k in short.tolist()]
        raise PreprocessingError(
            f"measured in fewer than {least} of the people that the adjustment is estimated from: {join_names(names)}. "
            f"Leave them out: --exclude {','.join(names[:5])}."
        )

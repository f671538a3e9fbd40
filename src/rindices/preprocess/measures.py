"""Kinds of measures in a cohort, and the scale on which they are adjusted.

Cortical thickness hardly depends on the size of the head, volumes and areas do.

Shape letters: R regions.
"""

import numpy as np

from rindices._typing import BoolArray, IntArray
from rindices.errors import PreprocessingError, did_you_mean, join_names
from rindices.tables.cohort import Cohort
from rindices.tables.layouts.freesurfer import infer_measure
from rindices.wording import FEATURE_UNIT

ICV_FOR = ("volume", "all")
"""Regions that are adjusted for head size in a cohort with thickness and other
measures.
"""
DEFAULT_ICV_FOR = "volume"
ADJUSTMENTS = ("log", "linear", "none")
"""Scales on which measures are adjusted for covariates."""


def encode_measures(cohort: Cohort) -> IntArray | None:
    """Return a code (R,) for what each region measures; None if all regions measure the
    same.
    """
    if cohort.unit == FEATURE_UNIT:
        return None
    codes = np.unique(
        [infer_measure(region) for region in cohort.regions], return_inverse=True
    )[1]
    return codes.astype(np.intp) if codes.any() else None


def find_thickness(cohort: Cohort, icv_for: str = DEFAULT_ICV_FOR) -> BoolArray | None:
    """Return the regions (R,) that are not adjusted for head size, because they measure
    thickness.

    Parameters
    ----------
    icv_for : str
        With ``all``, all regions are adjusted for it.

    Returns
    -------
    ndarray of shape (R,) or None
        , none if all regions are treated alike. That is so in a cohort of thickness
        alone: there, naming head size as a covariate can only mean that thickness
        is adjusted for it.
    """
    if icv_for not in ICV_FOR:
        raise PreprocessingError(
            f"icv_for = '{icv_for}' is not known: {did_you_mean(icv_for, ICV_FOR)}"
        )
    if icv_for == "all" or encode_measures(cohort) is None:
        return None
    is_thickness = np.array(
        [infer_measure(region) == "thickness" for region in cohort.regions]
    )
    return is_thickness if is_thickness.any() else None


def resolve_adjustment(cohort: Cohort, requested: str | None = None) -> str:
    """Return the scale on which measures are adjusted: as requested, or ``log`` if all
    values are positive.
    """
    if requested not in (None, *ADJUSTMENTS):
        raise PreprocessingError(
            f"adjust = '{requested}' is not known: {did_you_mean(str(requested), ADJUSTMENTS)}"
        )
    if requested in ("linear", "none"):
        return requested
    smallest = cohort.volumes.min()
    negative = [
        str(name) for name in cohort.volumes.columns[(smallest <= 0).to_numpy()]
    ]
    if negative and requested == "log":
        what = f'adjust = "log" needs positive values; these regions have others: {join_names(negative)}'
        raise PreprocessingError(
            f'{what}. Leave them out (--exclude), or set adjust = "linear".'
        )
    return "linear" if negative else "log"

"""Estimate the steps of the preprocessing from a cohort, in which cells and covariates may be missing.

Shape letters: N people, R regions, P columns of the design.
"""

from collections import Counter

import numpy as np

from rindices._typing import BoolArray, FloatArray
from rindices.errors import PreprocessingError, format_count, join_names
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.missing import fill_by_regression, fill_within_sites
from rindices.preprocess.residualise import (
    CovariateCoding,
    Residualiser,
    build_complete_design,
    find_head_size_columns,
)
from rindices.tables.cohort import SITE, Cohort


def fit_harmoniser(cohort: Cohort, mode: str, is_log: bool, codings: tuple[CovariateCoding, ...]) -> Harmoniser:
    """Estimate the effects of sites from controls or, with the mode ``all``, from everyone.

    Raises PreprocessingError: if a site has nobody to estimate its effect from.
    """
    controls = cohort.take(cohort.is_control)
    sample = controls if mode == "controls" else cohort.take(cohort.is_control | cohort.is_patient)
    without_controls = set(get_sites(cohort)) - set(get_sites(sample))
    if without_controls:
        n_people = sum(site in without_controls for site in get_sites(cohort))
        counts = Counter(get_sites(sample))
        small = sorted(site for site in set(get_sites(cohort)) if counts[site] < 2)
        raise PreprocessingError(
            f"no control was measured at {join_names(sorted(without_controls))} "
            f"({format_count(n_people, 'person', 'people')}): leave sites with fewer than two out "
            f"(--leave-out-site {','.join(small)}), or estimate site effects from everyone (--harmonise all)."
        )
    design = build_complete_design(codings, controls.covariates, sample.covariates)
    patient = None if mode == "controls" else sample.is_patient
    preserved = design if patient is None else np.column_stack([design, patient])
    volumes = fill_within_sites(get_volumes(sample, is_log), preserved, get_sites(sample))
    return Harmoniser.fit(volumes, design, get_sites(sample), cohort.regions, patient)


def fit_residualiser(
    volumes: FloatArray,
    controls: Cohort,
    codings: tuple[CovariateCoding, ...],
    thickness: BoolArray | None = None,
) -> Residualiser:
    """Estimate the effects of covariates from the controls in whom each region was measured.

    volumes (N, R): of controls, on the scale on which they are adjusted; thickness (R,): regions that are not adjusted
    for head size.
    """
    covariates = controls.covariates
    design = build_complete_design(codings, covariates, covariates)
    filled = fill_by_regression(volumes, design, controls.regions)
    if thickness is not None and filled is not volumes:
        filled = filled.copy()
        others = ~find_head_size_columns(codings)
        filled[:, thickness] = fill_by_regression(volumes[:, thickness], design[:, others])
    return Residualiser.fit(filled, covariates, thickness=thickness, codings=codings)


def get_sites(cohort: Cohort) -> list[str]:
    """Return the site of each person as text (N,)."""
    return [str(site) for site in cohort.people[SITE]]


def get_volumes(cohort: Cohort, is_log: bool) -> FloatArray:
    """Return the volumes (N, R), or their logarithms."""
    volumes = cohort.volumes.to_numpy(dtype=float)
    return np.asarray(np.log(volumes)) if is_log else volumes

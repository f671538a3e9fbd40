"""What a cohort says about the number of patterns, before anything is trained."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rindices.learners.shares import to_shifts
from rindices.preprocess.residualise import Categorical, Coding, Residualiser
from rindices.selection.dimensions import LEVEL, RELABELLINGS, Dimensions, People, count_dimensions
from rindices.selection.relabel import log_odds
from rindices.tables.cohort import SITE, Cohort

Floats = NDArray[np.float64]

OVERLAP = 0.3  # below this, groups differ so much in covariates that the test can hardly see a disease


def cohort_dimensions(
    cohort: Cohort, seed: int = 0, level: float = LEVEL, relabellings: int = RELABELLINGS
) -> Dimensions:
    """Ask whether patients differ from controls, and in how many patterns.

    Volumes enter as logarithms, in which a share of a region is a shift, and are adjusted for the covariates on
    controls. Labels are exchanged only between people of alike covariates, and of the same site where sites are known,
    adjusted for or not.
    """
    codings = _codings(cohort)
    columns = [coding.columns(cohort.covariates[coding.name]) for coding in codings]
    design = np.concatenate([np.ones((len(cohort), 1)), *map(_standard, columns)], axis=1)
    numbers = [part for coding, part in zip(codings, columns, strict=True) if not isinstance(coding, Categorical)]
    kinds = [part for coding, part in zip(codings, columns, strict=True) if isinstance(coding, Categorical)]
    if SITE in cohort.people:
        kinds.append(_indicators(cohort.people[SITE].astype(str).to_numpy()))
    with threadpool_limits(1, user_api="blas"):  # small matrices, and the same sums on any number of cores
        odds = log_odds(_joined(numbers, len(cohort)), _joined(kinds, len(cohort)), cohort.is_patient)
        people = People(shifts_of(cohort.volumes.to_numpy(dtype=float)), design)
        return count_dimensions(people, cohort.is_patient, odds, seed, level, relabellings)


def shifts_of(volumes: Floats) -> Floats:
    """Return logarithms of volumes (N, R) against each region's mean, by the tangent below a tenth of it.

    A table with negative values holds no volumes and is taken as it is, in standard deviations.
    """
    if (volumes >= 0).all() and (volumes.mean(axis=0) > 0).all():
        return to_shifts(volumes / volumes.mean(axis=0) - 1.0, 1.0)
    return _standard(volumes)


def dimensions_record(found: Dimensions) -> dict[str, Any]:
    """Return the test as plain values for ``selection.json``."""
    curve = [
        {
            "patterns": question.patterns,
            "excess": question.excess,
            "chance_median": question.chance[0],
            "chance_95": question.chance[1],
            "p": question.p,
            "relabellings": question.relabellings,
        }
        for question in found.questions
    ]
    return {"n_patterns": found.number, "level": found.level, "overlap": found.overlap, "curve": curve}


def _codings(cohort: Cohort) -> tuple[Coding, ...]:
    """Return how the covariates are coded, learnt on everyone so that labels do not matter."""
    return Residualiser.fit(np.zeros((len(cohort), 1)), cohort.covariates).codings


def _standard(columns: Floats) -> Floats:
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _indicators(names: NDArray[np.object_]) -> Floats:
    levels = np.unique(names)
    return np.asarray(names[:, None] == levels[None, 1:], dtype=np.float64)


def _joined(parts: list[Floats], number: int) -> Floats:
    return np.concatenate([np.zeros((number, 0)), *parts], axis=1)

"""Checks of a table and of its R-indices when a model is applied."""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import ModelError, Problem, ProblemCode, Severity, did_you_mean, format_count, join_names
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.tables.cohort import ID, Cohort
from rindices.tables.validation.values import is_model_unit
from rindices.wording import get_wording

_MAX_MEDIAN_SHIFT = 30.0  # control standard deviations; beyond it, a region has another unit than in training


def check_regions(cohort: Cohort, regions: Sequence[str], unit: str) -> None:
    """Refuse a table whose regions or unit are not those of a model.

    regions: regions of the model; unit: unit that the model was trained on. Raises ModelError.
    """
    nouns = get_wording(unit)("regions")
    missing = [name for name in regions if name not in cohort.volumes]
    extra = [name for name in cohort.regions if name not in set(regions)]
    if missing:
        hint = did_you_mean(missing[0], extra) if extra else f"the model needs {len(regions)} {nouns}"
        raise ModelError(f"{len(missing)} {nouns} are missing: {join_names(missing)} ({hint}).")
    if extra:
        raise ModelError(
            f"{len(extra)} columns are not {nouns} of this model: {join_names(extra)}. Leave them out: --exclude "
            f"{','.join(extra)}."
        )
    if not is_model_unit(cohort.unit, unit):
        raise ModelError(f"the table is in {cohort.unit}, the model was trained on {unit}: convert it.")


def check_scale(values: FloatArray, regions: Sequence[str], unit: str = "") -> None:
    """Refuse prepared people (N, R) of whom a region's median is far from that of the controls.

    values (N, R); unit: unit that the model was trained on. Raises ModelError.
    """
    is_complete = not np.isnan(values).any()
    median = np.median(values, axis=0) if is_complete else _compute_measured_medians(values)
    shift = np.abs(median - CONTROL_MEAN) / CONTROL_SD
    shifted = np.flatnonzero(shift > _MAX_MEDIAN_SHIFT)
    if shifted.size:
        one, many = (get_wording(unit)(text) for text in ("region is", "regions are"))
        names = [f"{regions[int(index)]} ({shift[index]:.0f} sd)" for index in shifted]
        number = f"{format_count(shifted.size, one, many)} scaled differently than in training"
        raise ModelError(f"{number}: {join_names(names)}. Check their unit.")


def check_results(cohort: Cohort, columns: Sequence[FloatArray]) -> None:
    """Refuse results that are not finite, by the people who have them.

    columns (N,). Raises ModelError.
    """
    is_finite = reduce(np.logical_and, (np.isfinite(column) for column in columns))
    if is_finite.all():
        return
    people = tuple(str(person) for person in cohort.people[ID].array[~is_finite])
    what = f"the R-indices of {format_count(len(people), 'person is not a number', 'people are not numbers')}"
    cure = "Check the values of these people; if it is everyone, the model file is damaged: get it again"
    raise ModelError(Problem(Severity.ERROR, what, "", cure, ProblemCode.INFINITE_VALUES, offenders=people))


def _compute_measured_medians(values: FloatArray) -> FloatArray:
    """Return the median (R,) of each region, without missing cells; that of controls where all are missing."""
    columns = [column[~np.isnan(column)] for column in values.T]
    return np.array([np.median(column) if len(column) else CONTROL_MEAN for column in columns])

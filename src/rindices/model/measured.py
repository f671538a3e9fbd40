"""R-indices of people who lack regions, from the regions that they have.

Members with patterns as curves have a posterior given the measured regions (`TrajectoryHead.leave_out`). For all other
members, missing regions are what the measured ones predict in the training people.
Shape letters: N people, R regions, M patterns, S members, Q missing regions.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import ModelError, Problem, ProblemCode, Severity, format_count, join_names
from rindices.learners.inference import MemberHead, TrajectoryHead, make_inference_function
from rindices.model.unusual import TrainingDistribution
from rindices.tables.cohort import ID, Cohort
from rindices.wording import get_wording

MIN_INFORMATION = 0.5
"""Least share of the variance of an R-index that the measured regions must determine."""
BLOCK_SIZE = 128
"""People in a block; many groups of people who lack the same regions are small."""
_N_DRAWS = 512


def add_missing_regions(cohort: Cohort, regions: Sequence[str], on_missing: str) -> tuple[Cohort, list[str]]:
    """Add empty columns for regions that a table lacks.

    regions: regions of the model; on_missing: nothing is added unless it is ``model``. Returns cohort: the same if
    nothing is missing, if more than half is, or if it has other columns, which may be the regions under other names;
    absent: the regions that were added.
    """
    absent = [name for name in regions if name not in cohort.volumes]
    has_others = len(cohort.regions) + len(absent) > len(regions)
    if not absent or on_missing != "model" or has_others or 2 * len(absent) > len(regions):
        return cohort, []
    empty = pd.DataFrame(np.nan, index=cohort.volumes.index, columns=absent)
    return replace(cohort, volumes=pd.concat([cohort.volumes, empty], axis=1)), absent


class MeasuredInference(NamedTuple):
    """Inference for people who all lack the same regions.

    infer: maps people, prepared for each member (N, R) or once for all, to the R-indices of all members (N, S * M);
    added_variance (M,): mean variance that the R-indices of the first member would have over the possible values of
    missing regions.
    """

    infer: Callable[[Sequence[FloatArray]], FloatArray]
    added_variance: FloatArray


def make_measured_inference(
    heads: Sequence[MemberHead], missing: IntArray, training: TrainingDistribution | None
) -> MeasuredInference:
    """Return the inference for people who lack some regions.

    missing (Q,): positions of the missing regions; training: needed for members without patterns as curves.
    """
    curved = [head for head in heads if isinstance(head, TrajectoryHead)]
    if len(curved) == len(heads):
        reduced = [head.leave_out(missing) for head in curved]
        infer = make_inference_function(reduced)
        added = reduced[0].expected_variance - curved[0].expected_variance

        def infer_without(values: Sequence[FloatArray]) -> FloatArray:
            filled = [each.copy() for each in values]
            for each, head in zip(filled, curved, strict=False):
                each[:, missing] = head.control_mean[missing]
            return infer(filled)

        return MeasuredInference(infer_without, np.maximum(added, 0.0))
    if training is None:
        raise ModelError(
            "this model does not know how regions vary together, so it needs all of them: leave out people who lack "
            "a region (--on-missing drop), or give all regions."
        )
    noise = draw_training_noise(len(training.mean))
    people = training.mean + noise @ np.linalg.inv(training.root)
    drawn = fill_regions(people, missing, training)
    drawn[:, missing] += noise[:, missing] @ _compute_root(missing, training)
    difference = heads[0].infer(drawn) - heads[0].infer(fill_regions(people, missing, training))

    infer_complete = make_inference_function(heads)

    def infer_filled(values: Sequence[FloatArray]) -> FloatArray:
        return infer_complete([fill_regions(each, missing, training) for each in values])

    return MeasuredInference(infer_filled, np.square(difference).mean(axis=0))


def draw_training_noise(n_regions: int) -> FloatArray:
    """Return the standard normal noise (N, R) of the drawn people."""
    return np.random.default_rng(0).standard_normal((_N_DRAWS, n_regions))


def fill_regions(values: FloatArray, missing: IntArray, training: TrainingDistribution) -> FloatArray:
    """Return people (N, R) whose missing regions are what the others predict in the training people."""
    deviations = values - training.mean
    deviations[:, missing] = 0.0
    root = _compute_root(missing, training)
    deviations[:, missing] = -(deviations @ training.precision[:, missing] @ root.T) @ root
    return np.asarray(training.mean + deviations)


def _compute_root(missing: IntArray, training: TrainingDistribution) -> FloatArray:
    """Return L^-1 (Q, Q), with L the Cholesky factor of P_mm: the missing regions vary as L^-T L^-1."""
    return np.asarray(np.linalg.inv(np.linalg.cholesky(training.precision[np.ix_(missing, missing)])))


def compute_measured_distances(values: FloatArray, missing: IntArray, training: TrainingDistribution) -> FloatArray:
    """Return the distances (N,) of people (N, R) by their measured regions, on the scale of all regions.

    The squared distance of R regions has the expectation R, so that of fewer regions is scaled up.
    """
    filled = fill_regions(values, missing, training)
    n_regions = values.shape[1]
    scale = np.sqrt(n_regions / max(n_regions - len(missing), 1))
    return np.asarray(training.compute_block_distances(filled) * scale)


def find_people_without_index(added: FloatArray, spread: FloatArray, least: float) -> BoolArray:
    """Return who (N,) lacks so many regions that the others tell too little.

    added (N, M): variance of R-indices over the possible values of missing regions; spread (M,): variance of R-indices
    among the patients of the training; least: share of that variance which the measured regions must determine.
    """
    return np.asarray((added / np.maximum(spread, 1e-12)).max(axis=1, initial=0.0) > 1.0 - least)


def report_people_without_index(cohort: Cohort, is_short: BoolArray, least: float) -> list[Problem]:
    """Return a warning that names the people (N,) who lack too many regions; none if there are none."""
    if not is_short.any():
        return []
    people = tuple(dict.fromkeys(cohort.people[ID].astype(str).array[is_short]))
    number = format_count(len(people), "person lacks", "people lack")
    what = f"{number} too many regions: the others determine less than {least:.0%} of an R-index"
    cure = "They are left out of the results"
    code = ProblemCode.PEOPLE_WITHOUT_INDEX
    return [Problem(Severity.WARNING, get_wording(cohort.unit)(what), "", cure, code, offenders=people)]


def note_missing(absent: Sequence[str], volumes: FloatArray, widening: FloatArray, unit: str) -> list[Problem]:
    """Return what to say about missing regions and cells.

    absent: regions that the table lacks; volumes (N, R): with NaN where cells are missing; widening (N,): factor by
    which the intervals are wider than with all regions, a mean over patterns; unit: of the table, for the words.
    """
    is_short = np.isnan(volumes).any(axis=1)
    if not is_short.any():
        return []
    wider = f"their intervals are {widening[is_short].mean() - 1:.0%} wider on average"
    if absent:
        what = f"the table lacks {format_count(len(absent), 'region')}: R-indices come from the others, and {wider}"
        return [
            Problem(
                Severity.WARNING,
                get_wording(unit)(what),
                "",
                "",
                ProblemCode.MISSING_VALUES,
                offenders=tuple(absent),
                listing=join_names(absent),
            )
        ]
    people = format_count(int(is_short.sum()), "person lacks", "people lack")
    what = f"{people} regions: R-indices come from the others, and {wider}"
    return [Problem(Severity.NOTE, get_wording(unit)(what), code=ProblemCode.MISSING_VALUES)]

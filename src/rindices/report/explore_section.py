"""Section "Explore": data for the page's script, which lets readers look at people and severities.

A page that may be passed on holds the group, the R-indices and the intervals of people, in a random order. Only a page
with ids, which stays at home, holds ids, covariates and regions of people as well. Its people are in the order of their
ids, which are then compressed well.
Shape letters: N people, R regions, M patterns, Q severities, H x W pixels.
"""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import FloatArray, IntArray
from rindices.learners.severity_points import compute_growth
from rindices.model.interactions import average_interaction
from rindices.model.trajectories import TRAJECTORY_LEVELS, make_trajectory_table
from rindices.packing import ArrayPacker, PackedArrays
from rindices.report.brain import AtlasMatch, effects_to_rgb
from rindices.report.geometry import BrainView
from rindices.report.person_data import PersonDetails, find_speaking_regions
from rindices.report.study_results import StudyResults
from rindices.tables.cohort import GROUP
from rindices.tables.validation.groups import PATIENT
from rindices.wording import get_wording

MAX_EXPLORED_PEOPLE = 50_000
"""People up to which the page holds everyone's R-indices."""
_MANY_PEOPLE = 10_000  # people above which their numbers are rounded more, to keep the page small
_N_LEVELS, _N_LEVELS_OF_MANY = 65_535, (2_048, 250)  # of R-indices, and of intervals and covariates
_N_COLOURS = 255  # of the table of colours of effects
_MAX_LEVELS = 12  # categories of a covariate that have colours of their own


@dataclass(frozen=True)
class ExploreSection:
    """Data of the section.

    Attributes
    ----------
    data : dict
        For the script, as JSON: names, colours and packed arrays.
    people : PackedArrays
        Packed arrays of the people.
    has_people, has_ids, has_regions : bool
        Whether the page holds people, their ids, and their regions.
    largest_error : float
        Of an R-index on the page, by rounding.
    """

    data: dict[str, Any]
    people: PackedArrays
    has_people: bool
    has_ids: bool
    has_regions: bool
    largest_error: float


def build_explore_section(
    results: StudyResults, match: AtlasMatch, limit: float, details: PersonDetails | None = None
) -> ExploreSection:
    """Return the data of the section.

    Parameters
    ----------
    results : StudyResults
    match : AtlasMatch
        What can be drawn.
    limit : float
        Effect at which colours end.
    details : PersonDetails, optional
        Only for a page that stays at home.
    """
    labels = match.label_regions(results.model.regions)
    arrays = ArrayPacker()
    data = {
        "indices": results.names,
        "regions": [labels[region] for region in results.model.regions],
        "limit": limit,
        "noun": get_wording(results.cohort.unit)("regions"),
        **_pack_curves(results, arrays),
        **_pack_brain(match, results.model.regions, arrays),
    }
    people = ArrayPacker()
    has_people = len(results.indices) <= MAX_EXPLORED_PEOPLE
    error = 0.0
    if has_people:
        order = _order_people(len(results.indices), details)
        error = _pack_indices(results, order, people)
        if details is not None:
            data |= _pack_details(results, details, order, people)
    data["arrays"] = arrays.pack()
    has_regions = "listed" in data
    return ExploreSection(data, people.pack(), has_people, details is not None, has_regions, error)


def _order_people(n_people: int, details: PersonDetails | None) -> IntArray:
    """Return the rows of people in a random order, or, on a page with ids, in the order of the ids."""
    if details is None:
        return np.array(random.SystemRandom().sample(range(n_people), n_people))
    return np.array(sorted(range(n_people), key=details.ids.__getitem__))


def _pack_curves(results: StudyResults, arrays: ArrayPacker) -> dict[str, Any]:
    """Add the change of each region along severity, (Q, M, R)."""
    arrays.add("curves", _get_curves(results).astype(np.float32))
    interaction = average_interaction(results.model)
    medium = np.full((1, len(results.names)), 0.5)
    return {
        "levels": list(TRAJECTORY_LEVELS),
        "interaction": None if interaction is None else interaction.tolist(),
        "medium_growth": None if interaction is None else compute_growth(medium, interaction)[0].tolist(),
    }


def _get_curves(results: StudyResults) -> FloatArray:
    """Return the change of each region along severity, (Q, M, R)."""
    table = make_trajectory_table(results.model)
    shape = (len(results.names), len(results.model.regions), len(TRAJECTORY_LEVELS))
    return np.asarray(table["change"], dtype=float).reshape(shape).transpose(2, 0, 1)


def _pack_brain(match: AtlasMatch, regions: tuple[str, ...], arrays: ArrayPacker) -> dict[str, Any]:
    """Add the views of the brain at half their size, and the colours of effects."""
    colours = effects_to_rgb(np.linspace(-1, 1, _N_COLOURS), 1.0)
    arrays.add("colours", np.round(255 * colours).astype(np.uint8))
    if match.atlas is None:
        return {"views": []}
    structures = {structure: index for index, structure in enumerate(match.atlas.structures)}
    region_of = np.full(len(structures), len(regions), dtype=np.uint16)
    for region, structure in match.drawn.items():
        region_of[structures[structure]] = regions.index(region)
    views = []
    for number, view in enumerate((*match.atlas.cortex, *match.atlas.slices)):
        labels, shade = halve_view(view)
        arrays.add(f"labels{number}", (labels + 2).astype(np.uint16))
        arrays.add(f"shade{number}", np.round(63 * shade).astype(np.uint8) * 4)
        height, width = labels.shape
        views.append({"name": view.name, "width": width, "height": height, "is_slice": view.is_slice})
    arrays.add("region_of", region_of)
    return {"views": views}


def halve_view(view: BrainView) -> tuple[IntArray, FloatArray]:
    """Return labels and shade of a view at half its size, (H / 2, W / 2)."""
    return view.labels[::2, ::2], view.shade[::2, ::2]


def get_levels(n_people: int) -> tuple[int, int]:
    """Return the number of levels to which R-indices, and intervals and covariates, are rounded."""
    return _N_LEVELS_OF_MANY if n_people > _MANY_PEOPLE else (_N_LEVELS, _N_LEVELS)


def _pack_indices(results: StudyResults, order: IntArray, people: ArrayPacker) -> float:
    """Add groups, R-indices, intervals and novelty of people, and return the largest error of an R-index."""
    rows = results.indices.iloc[order]
    n_levels, n_end_levels = get_levels(len(order))
    people.add("patient", (rows[GROUP] == PATIENT).to_numpy().astype(np.uint8))
    if results.is_novel is not None:
        people.add("novel", results.is_novel[order].astype(np.uint8))
    errors = [people.add_quantised(name, rows[name].to_numpy(dtype=float), n_levels) for name in results.names]
    for name in results.interval_ends:
        people.add_quantised(name, results.interval_ends[name].to_numpy(dtype=float)[order], n_end_levels)
    return max(errors)


def _pack_details(
    results: StudyResults, details: PersonDetails, order: IntArray, people: ArrayPacker
) -> dict[str, Any]:
    """Add ids, covariates and the regions that speak for each R-index."""
    covariates = [_pack_covariate(name, column, order, people) for name, column in details.covariates.items()]
    people.add_sorted_texts("ids", [details.ids[row] for row in order.tolist()])
    data: dict[str, Any] = {"covariates": covariates}
    if details.regions is None:
        return data
    changes = compute_person_changes(results, details.regions.shape[1])
    positions, values = find_speaking_regions(details.regions, changes)
    if not positions.shape[2]:
        return data  # too many people
    people.add("region_positions", positions[order].astype(np.uint16 if len(results.model.regions) > 256 else np.uint8))
    people.add_quantised("region_values", np.clip(values, -12.7, 12.7)[order], 255)
    return data | {"listed": positions.shape[2]}


def compute_person_changes(results: StudyResults, n_regions: int) -> FloatArray:
    """Return the change (N, M, R) of each person by each pattern at the person's R-indices, as on the page."""
    severities = np.clip(results.indices[results.names].to_numpy(dtype=float), 0.0, 1.0)
    curves = _get_curves(results).reshape(len(TRAJECTORY_LEVELS), len(results.names), n_regions)
    interaction = average_interaction(results.model)
    growth = np.ones_like(severities)
    if interaction is not None:
        medium = np.full((1, len(results.names)), 0.5)
        growth = compute_growth(severities, interaction) / compute_growth(medium, interaction)
    position = severities * (len(TRAJECTORY_LEVELS) - 1)
    level = np.minimum(position.astype(int), len(TRAJECTORY_LEVELS) - 2)
    changes = np.empty((*severities.shape, n_regions), dtype=np.float32)
    for k in range(len(results.names)):
        share = (position[:, k] - level[:, k])[:, None]
        below, above = curves[level[:, k], k], curves[level[:, k] + 1, k]
        changes[:, k] = growth[:, k, None] * ((1 - share) * below + share * above)
    return changes


def _pack_covariate(name: object, column: pd.Series, order: IntArray, people: ArrayPacker) -> dict[str, Any]:
    """Add a covariate as numbers, or as the position among its categories."""
    key = f"covariate.{name}"
    ordered = column.iloc[order]
    if pd.api.types.is_numeric_dtype(ordered) and ordered.nunique() > 2:
        people.add_quantised(key, ordered.to_numpy(dtype=float), get_levels(len(order))[1])
        return {"name": str(name), "levels": None}
    texts = ordered.map(lambda value: f"{value:g}" if isinstance(value, float) else str(value))
    common = sorted(texts.value_counts().index[:_MAX_LEVELS])
    levels = {level: code for code, level in enumerate(common)}
    people.add(key, texts.map(lambda text: levels.get(text, len(levels))).to_numpy().astype(np.uint8))
    return {"name": str(name), "levels": [*common, *(["other"] if texts.nunique() > len(common) else [])]}

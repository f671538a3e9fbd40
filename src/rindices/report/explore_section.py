"""Section "Explore": data for the page's script, which lets readers look at people and severities.

A page that may be passed on holds the group, the R-indices and the intervals of people, in a random order. Only a page
with ids, which stays at home, holds ids, covariates and regions of people as well. Its people are in the order of their
ids, which are then compressed well.
Shape letters: N people, R regions, M patterns, Q severities, H x W pixels.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import FloatArray, IntArray
from rindices.errors import StudyError
from rindices.learners.severity_posterior import compute_growth
from rindices.model.fitted import FittedModel
from rindices.model.intervals import iterate_changes
from rindices.model.pattern_tables import TRAJECTORY_LEVELS, average_interaction, make_trajectory_table
from rindices.packing import ArrayPacker
from rindices.report.figures import AtlasMatch, effects_to_rgb
from rindices.report.sections import Context
from rindices.report.study_results import StudyResults
from rindices.tables.cohort import GROUP, ID, SESSION
from rindices.tables.validation.groups import PATIENT
from rindices.wording import get_wording

MAX_EXPLORED_PEOPLE = 50_000
"""People up to which the page holds everyone's R-indices."""
_MANY_PEOPLE = 10_000  # people above which their numbers are rounded more, to keep the page small
_N_LEVELS, _N_LEVELS_OF_MANY = 65_535, (2_048, 250)  # of R-indices, and of intervals and covariates
_N_COLOURS = 255  # of the table of colours of effects
_MAX_LEVELS = 12  # categories of a covariate that have colours of their own
_PEOPLE_FILE = "people.npz"
_MAX_REGION_CELLS = 240_000  # regions of people that a page lists, which bounds its size
_MAX_LISTED_REGIONS = 8  # for each person and R-index


@dataclass(frozen=True, eq=False)
class PersonDetails:
    """Ids, covariates and regions of people, in the order of ``r_indices.tsv``.

    ids: (N,), with the session where there are sessions; covariates: (N, C); regions (N, R): in standard deviations of
    controls.
    """

    ids: list[str]
    covariates: pd.DataFrame
    regions: FloatArray


def build_explore_section(
    results: StudyResults, match: AtlasMatch, limit: float, details: PersonDetails | None = None
) -> Context:
    """Return the data of the section; details of people only for a page that stays at home.

    ``data`` is for the script, ``people`` holds the packed arrays of the people, and ``largest_error`` is that of an
    R-index on the page by rounding.
    """
    arrays, people = ArrayPacker(), ArrayPacker()
    data = describe_patterns(results.model, match, limit, arrays)
    number, error = len(results.indices), 0.0
    has_people = number <= MAX_EXPLORED_PEOPLE
    if has_people:
        order = np.array(random.SystemRandom().sample(range(number), number))
        if details is not None:
            order = np.array(sorted(range(number), key=details.ids.__getitem__))
        error = _pack_indices(results, order, people)
        if details is not None:
            data |= _pack_details(results, details, order, people)
    data["arrays"] = arrays.pack()
    return Context(
        data=data,
        people=people.pack(),
        has_people=has_people,
        has_ids=details is not None,
        has_regions="listed" in data,
        largest_error=error,
    )


def describe_patterns(model: FittedModel, match: AtlasMatch, limit: float, arrays: ArrayPacker) -> dict[str, Any]:
    """Return what scripts need to show people and severities on the brain; their arrays are added to those of the page.

    limit: effect at which the colours end, on both sides.
    """
    labels, interaction = match.label_regions(model.regions), average_interaction(model)
    arrays.add("curves", _get_curves(model).astype(np.float32))
    medium = np.full((1, model.n_patterns), 0.5)
    return {
        "indices": model.index_names,
        "regions": [labels[region] for region in model.regions],
        "limit": limit,
        "noun": get_wording(model.card.unit)("regions"),
        "levels": list(TRAJECTORY_LEVELS),
        "interaction": None if interaction is None else interaction.tolist(),
        "medium_growth": None if interaction is None else compute_growth(medium, interaction)[0].tolist(),
        **_pack_brain(match, model.regions, arrays),
    }


def _get_curves(model: FittedModel) -> FloatArray:
    """Return the change of each region along severity, (Q, M, R)."""
    changes = make_trajectory_table(model)["change"].to_numpy(dtype=float)
    shape = (model.n_patterns, len(model.regions), len(TRAJECTORY_LEVELS))
    return np.asarray(changes.reshape(shape).transpose(2, 0, 1))


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
        labels, shade = view.labels[::2, ::2], view.shade[::2, ::2]
        arrays.add(f"labels{number}", (labels + 2).astype(np.uint16))
        arrays.add(f"shade{number}", np.round(63 * shade).astype(np.uint8) * 4)
        height, width = labels.shape
        views.append({"name": view.name, "width": width, "height": height, "is_slice": view.is_slice})
    arrays.add("region_of", region_of)
    return {"views": views}


def _get_levels(n_people: int) -> tuple[int, int]:
    """Return the number of levels to which R-indices, and intervals and covariates, are rounded."""
    return _N_LEVELS_OF_MANY if n_people > _MANY_PEOPLE else (_N_LEVELS, _N_LEVELS)


def _pack_indices(results: StudyResults, order: IntArray, people: ArrayPacker) -> float:
    """Add groups, R-indices, intervals and flags of people, and return the largest error of an R-index."""
    rows = results.indices.iloc[order]
    n_levels, n_end_levels = _get_levels(len(order))
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
    changes = compute_person_changes(results.model, results.indices[results.names].to_numpy(dtype=float))
    positions, values = find_speaking_regions(details.regions, changes)
    if not positions.shape[2]:
        return data  # too many people
    people.add("region_positions", positions[order].astype(np.uint16 if len(results.model.regions) > 256 else np.uint8))
    people.add_quantised("region_values", np.clip(values, -12.7, 12.7)[order], 255)
    return data | {"listed": positions.shape[2]}


def compute_person_changes(model: FittedModel, indices: FloatArray) -> FloatArray:
    """Return the change (N, M, R) of each person by each pattern at the person's R-indices (N, M), as on the page."""
    severities, interaction = np.clip(indices, 0.0, 1.0), average_interaction(model)
    changes = iterate_changes(np.array(TRAJECTORY_LEVELS), _get_curves(model), severities, interaction)
    return np.stack([change.astype(np.float32) for change in changes], axis=1)


def _pack_covariate(name: object, column: pd.Series, order: IntArray, people: ArrayPacker) -> dict[str, Any]:
    """Add a covariate as numbers, or as the position among its categories."""
    key = f"covariate.{name}"
    ordered = column.iloc[order]
    if pd.api.types.is_numeric_dtype(ordered) and ordered.nunique() > 2:
        people.add_quantised(key, ordered.to_numpy(dtype=float), _get_levels(len(order))[1])
        return {"name": str(name), "levels": None}
    texts = ordered.map(lambda value: f"{value:g}" if isinstance(value, float) else str(value))
    common = sorted(texts.value_counts().index[:_MAX_LEVELS])
    levels = {level: code for code, level in enumerate(common)}
    people.add(key, texts.map(lambda text: levels.get(text, len(levels))).to_numpy().astype(np.uint8))
    return {"name": str(name), "levels": [*common, *(["other"] if texts.nunique() > len(common) else [])]}


def read_person_details(folder: Path, indices: pd.DataFrame) -> PersonDetails:
    """Read ids, covariates and regions of the people of a study, from its folder and its table of R-indices."""
    columns = [indices[name].astype(str) for name in (ID, SESSION) if name in indices]
    ids = [" ".join(texts) for texts in zip(*columns, strict=True)]
    path = folder / _PEOPLE_FILE
    if not path.is_file():
        raise StudyError(f"{path} is not there: run the same rindices fit again, with --with-ids.")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError, EOFError) as error:
        raise StudyError(f"{path} cannot be read ({error}): run rindices fit again.") from error
    regions = arrays.pop("regions").astype(float)
    if len(regions) != len(indices):
        raise StudyError(f"{path} and r_indices.tsv have different people: run rindices fit again.")
    rows = np.flatnonzero(indices["r1"].notna())  # as the report shows them
    covariates = {name.removeprefix("covariate."): column[rows] for name, column in arrays.items()}
    return PersonDetails([ids[row] for row in rows], pd.DataFrame(covariates), regions[rows])


def find_speaking_regions(regions: FloatArray, changes: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the regions that look most as the pattern of each R-index says: positions and values, both (N, M, K).

    The evidence of a region is its log-likelihood ratio, taken alone: with all patterns at the person's severities,
    against all but this one. It is half the difference of two squared distances, in standard deviations of controls.

    regions (N, R): in standard deviations of controls; missing cells are NaN; changes (N, M, R): change by each pattern
    at the person's severities.
    """
    number = min(_MAX_REGION_CELLS // max(changes.shape[0] * changes.shape[1], 1), _MAX_LISTED_REGIONS)
    expected = changes.sum(axis=1)
    evidence = np.empty(changes.shape, dtype=np.float32)
    for k in range(changes.shape[1]):
        without = expected - changes[:, k]
        evidence[:, k] = np.nan_to_num((np.square(regions - without) - np.square(regions - expected)) / 2)
    positions = np.argsort(-evidence, axis=2, kind="stable")[:, :, :number]
    return positions, np.take_along_axis(regions[:, None], positions, axis=2)

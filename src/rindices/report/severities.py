"""Data with which the scripts of a page show severities, and the regions of a person,
on the brain.

Shape letters: R regions, M patterns, Q severities, H x W pixels.
"""

from typing import Any

import numpy as np

from rindices.learners.severity_posterior import compute_growth
from rindices.model.fitted import FittedModel
from rindices.model.pattern_tables import TRAJECTORY_LEVELS, average_interaction
from rindices.packing import ArrayPacker
from rindices.plot.brain import AtlasMatch, effects_to_rgb
from rindices.wording import get_nouns

_N_COLOURS = 255  # of the table of colours of effects


def describe_severities(
    model: FittedModel, match: AtlasMatch, limit: float, arrays: ArrayPacker
) -> dict[str, Any]:
    """Return what scripts need to show severities on the brain; their arrays are added
    to those of the page.

    limit: effect at which the colours end, on both sides.
    """
    labels, interaction = match.label_regions(model.regions), average_interaction(model)
    changes = model.trajectories()["change"].to_numpy(dtype=np.float32)
    shape = (model.n_patterns, len(TRAJECTORY_LEVELS), len(model.regions))
    arrays.add("curves", changes.reshape(shape).transpose(1, 0, 2))
    medium = np.full((1, model.n_patterns), 0.5)
    return {
        "indices": model.index_names,
        "regions": [labels[region] for region in model.regions],
        "limit": limit,
        "noun": get_nouns(model.card.unit).regions,
        "levels": list(TRAJECTORY_LEVELS),
        "interaction": None if interaction is None else interaction.tolist(),
        "medium_growth": None
        if interaction is None
        else compute_growth(medium, interaction)[0].tolist(),
        "views": _pack_views(match, model, arrays),
    }


def list_parts(model: FittedModel) -> tuple[str, ...]:
    """Return the regions that can be drawn: those of the model, and the parts of those
    that are sums.
    """
    sums = (model.sums.get(region, (region,)) for region in model.regions)
    return tuple(part for parts in sums for part in parts)


def _pack_views(
    match: AtlasMatch, model: FittedModel, arrays: ArrayPacker
) -> list[dict[str, Any]]:
    """Add the views of the brain at half their size, and the colours of effects."""
    colours = effects_to_rgb(np.linspace(-1, 1, _N_COLOURS), 1.0)
    arrays.add("colours", np.round(255 * colours).astype(np.uint8))
    if match.atlas is None:
        return []
    structures = {
        structure: index for index, structure in enumerate(match.atlas.structures)
    }
    region_of = np.full(len(structures), len(model.regions), dtype=np.uint16)
    positions = {
        part: position
        for position, region in enumerate(model.regions)
        for part in model.sums.get(region, (region,))
    }
    for part, structure in match.drawn.items():
        region_of[structures[structure]] = positions[part]
    arrays.add("region_of", region_of)
    views = []
    for number, view in enumerate((*match.atlas.cortex, *match.atlas.slices)):
        labels, shade = view.labels[::2, ::2], view.shade[::2, ::2]
        arrays.add(f"labels{number}", (labels + 2).astype(np.uint16))
        arrays.add(f"shade{number}", np.round(63 * shade).astype(np.uint8) * 4)
        height, width = labels.shape
        views.append(
            {
                "name": view.name,
                "width": width,
                "height": height,
                "is_slice": view.is_slice,
            }
        )
    return views

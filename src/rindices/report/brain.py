"""Brain pictures coloured by the effect on each region.

One colour map, red for loss and blue for gain, symmetric about zero and safe for colour-blind readers.
Shape letters: H x W pixels.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from PIL import Image

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import Problem
from rindices.report.geometry import OUTSIDE_BRAIN, UNLABELLED, Atlas, BrainView, select_atlas
from rindices.report.geometry_files import GeometryError
from rindices.report.region_names import BrainStructure, label_regions, locate_regions
from rindices.wording import FEATURE_UNIT

COLOUR_MAP = "RdBu"
_NEUTRAL_GREY = np.array([0.82, 0.82, 0.82])
_N_PALETTE_COLOURS = 192
_OUTLINE_BRIGHTNESS = 0.62  # of the line between two regions


@dataclass(frozen=True)
class BrainImage:
    """One coloured view: its name, and the image as a data URI with its size on the page."""

    name: str
    uri: str
    width: int
    height: int


@dataclass(frozen=True)
class AtlasMatch:
    """What can be drawn for the regions of a model.

    atlas: none where nothing can be drawn; drawn: structure of each region that a picture shows; undrawn_regions: the
    other regions, in their order; problem: why nothing can be drawn; holds_features: whether the regions are features
    of any kind, whose names are shown as they are.
    """

    atlas: Atlas | None
    drawn: Mapping[str, BrainStructure]
    undrawn_regions: tuple[str, ...]
    problem: Problem | None = None
    holds_features: bool = False

    def label_regions(self, regions: Sequence[str]) -> dict[str, str]:
        """Return a name for readers of each region."""
        return {region: region for region in regions} if self.holds_features else label_regions(regions)

    def name_columns(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table for readers, in which features are not called regions."""
        return table.rename(columns={"region": "feature"}) if self.holds_features else table


def match_atlas(regions: tuple[str, ...], unit: str = "") -> AtlasMatch:
    """Return what can be drawn for these regions of a table with this unit; nothing for features."""
    if unit == FEATURE_UNIT:
        return AtlasMatch(None, {}, regions, holds_features=True)
    structures = locate_regions(regions)
    try:
        atlas = select_atlas(structures.values())
    except GeometryError as error:
        return AtlasMatch(None, {}, regions, error.problems[0])
    visible = atlas.list_visible()
    drawn = {region: structure for region, structure in structures.items() if structure in visible}
    return AtlasMatch(atlas, drawn, tuple(region for region in regions if region not in drawn))


def render_views(
    match: AtlasMatch, effects: Mapping[str, float], limit: float, which: str = "all", shrink: int = 1
) -> list[BrainImage]:
    """Return views of the brain, coloured by effect; empty where there is no atlas.

    match: what can be drawn; effects: effect by region; limit: effect at which the colours end, on both sides; which:
    ``outside``: both hemispheres from outside; shrink: further factor by which the images are made smaller.
    """
    atlas = match.atlas
    if atlas is None:
        return []
    values = np.full(len(atlas.structures), np.nan)
    position = {structure: index for index, structure in enumerate(atlas.structures)}
    for region, structure in match.drawn.items():
        values[position[structure]] = effects[region]
    views = {
        "all": (*atlas.cortex, *atlas.slices),
        "cortex": atlas.cortex,
        "slices": atlas.slices,
        "outside": (atlas.cortex[0], atlas.cortex[-1]),
    }[which]
    return [_render_view(view, values, limit, shrink) for view in views]


def effect_to_hex(effect: float, limit: float) -> str:
    """Return the colour of an effect as ``#rrggbb``."""
    from matplotlib.colors import to_hex

    return str(to_hex(effects_to_rgb(np.array([effect]), limit)[0]))


def effects_to_rgb(effects: FloatArray, limit: float) -> FloatArray:
    """Return the colours (N, 3) of effects (N,); grey for NaN."""
    from matplotlib import colormaps

    scaled = np.clip(0.5 + effects / (2 * limit), 0, 1)
    colours = np.asarray(colormaps[COLOUR_MAP](np.nan_to_num(scaled, nan=0.5)))[:, :3]
    return np.where(np.isnan(effects)[:, None], _NEUTRAL_GREY, colours)


def paint_view(view: BrainView, values: FloatArray, limit: float) -> FloatArray:
    """Return a view as colours with opacity (H, W, 4).

    values (P,): effect on each structure of the atlas; NaN where the table has no such region; limit: effect at which
    the colours end.
    """
    table = np.vstack([effects_to_rgb(values, limit), _NEUTRAL_GREY, np.zeros(3)])
    index = np.where(view.labels == OUTSIDE_BRAIN, len(table) - 1, view.labels)
    index = np.where(view.labels == UNLABELLED, len(table) - 2, index)
    has_effect = (view.labels >= 0) & ~np.isnan(np.append(values, np.nan)[view.labels])
    # on slices coloured regions are only slightly shaded, so that they keep their colour
    light = np.where(has_effect, 0.75 + 0.25 * view.shade, view.shade) if view.is_slice else view.shade
    light = np.where(_find_region_edges(view.labels) & has_effect, light * _OUTLINE_BRIGHTNESS, light)
    opacity = (view.labels != OUTSIDE_BRAIN).astype(float)
    return np.dstack([table[index] * light[..., None], opacity])


def _find_region_edges(labels: IntArray) -> BoolArray:
    """Return the pixels whose right or lower neighbour belongs to another region, (H, W)."""
    edge = np.zeros(labels.shape, dtype=bool)
    edge[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    edge[:-1] |= labels[:-1] != labels[1:]
    return edge


def _render_view(view: BrainView, values: FloatArray, limit: float, shrink: int) -> BrainImage:
    painted = paint_view(view, values, limit)
    image = Image.fromarray(np.round(255 * painted).astype(np.uint8))
    size = (max(1, view.labels.shape[1] // shrink), max(1, view.labels.shape[0] // shrink))
    image = image.resize(size, Image.Resampling.BOX) if shrink > 1 else image
    return BrainImage(view.name, encode_image_uri(image), size[0] // 2, size[1] // 2)


def encode_image_uri(image: Image.Image) -> str:
    """Return an image with few colours as a lossless WebP, in a data URI."""
    file = io.BytesIO()
    palette_image = image.quantize(_N_PALETTE_COLOURS, method=Image.Quantize.FASTOCTREE)
    palette_image.convert("RGBA").save(file, "WEBP", lossless=True, quality=50, method=2)  # effort, not loss
    return f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"


@cache
def list_colour_stops(number: int = 11) -> tuple[str, ...]:
    """Return the colours of the bar, from full loss to full gain."""
    return tuple(effect_to_hex(value, 1.0) for value in np.linspace(-1, 1, number))

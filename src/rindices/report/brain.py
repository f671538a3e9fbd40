"""Region effects on the brain: coloured views, and the regions that cannot be drawn.

One colour map for all, red for loss and blue for gain, which colour-blind readers can tell apart, symmetric about zero.
Shape letters: H x W pixels.
"""

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.report.geometry import OUTSIDE_BRAIN, UNLABELLED, Atlas, BrainView, select_atlas
from rindices.report.region_names import BrainStructure, locate_regions

COLOUR_MAP = "RdBu"
_NEUTRAL_GREY = np.array([0.82, 0.82, 0.82])
_N_PALETTE_COLOURS = 192
_OUTLINE_BRIGHTNESS = 0.62  # brightness of the line between two regions


@dataclass(frozen=True)
class BrainImage:
    """One coloured view: what is seen, and the image as a data URI with its size on the page."""

    name: str
    uri: str
    width: int
    height: int


@dataclass(frozen=True)
class AtlasMatch:
    """What can be drawn for the regions of a model.

    Attributes
    ----------
    atlas : Atlas or None
        None where the extra ``brain`` is not installed or no atlas knows the regions.
    drawn : dict
        Place of each region that is seen in a picture.
    undrawn : tuple of str
        The other regions, in their order.
    """

    atlas: Atlas | None
    drawn: Mapping[str, BrainStructure]
    undrawn_regions: tuple[str, ...]


def match_atlas(regions: tuple[str, ...]) -> AtlasMatch:
    """Return what can be drawn for these regions."""
    places = locate_regions(regions)
    atlas = select_atlas(places.values())
    if atlas is None:
        return AtlasMatch(None, {}, regions)
    seen = atlas.seen()
    shown = {region: where for region, where in places.items() if where in seen}
    return AtlasMatch(atlas, shown, tuple(region for region in regions if region not in shown))


def render_views(
    board: AtlasMatch, effects: Mapping[str, float], limit: float, which: str = "all", shrink: int = 1
) -> list[BrainImage]:
    """Return the views of a canvas, coloured by effect.

    Parameters
    ----------
    effects : mapping
        Effect by region.
    limit : float
        Effect at which the colours end, on both sides.
    which : {'all', 'cortex', 'slices', 'outside'}
        ``outside``: both hemispheres from outside.
    shrink : int
        Further factor by which the images are made smaller.
    """
    if board.atlas is None:
        return []
    values = np.full(len(board.atlas.places), np.nan)
    number = {where: position for position, where in enumerate(board.atlas.places)}
    for region, where in board.drawn.items():
        values[number[where]] = effects[region]
    views = {
        "all": (*board.atlas.cortex, *board.atlas.slices),
        "cortex": board.atlas.cortex,
        "slices": board.atlas.slices,
        "outside": (board.atlas.cortex[0], board.atlas.cortex[-1]),
    }[which]
    return [_render_view(view, values, limit, shrink) for view in views]


def effect_to_hex(effect: float, limit: float) -> str:
    """Return the colour of an effect as ``#rrggbb``."""
    from matplotlib.colors import to_hex

    return str(to_hex(effects_to_rgb(np.array([effect]), limit)[0]))


def effects_to_rgb(effects: FloatArray, limit: float) -> FloatArray:
    """Return the colours (N, 3) of effects (N,); grey where there is none."""
    from matplotlib import colormaps

    scaled = np.clip(0.5 + effects / (2 * limit), 0, 1)
    found = np.asarray(colormaps[COLOUR_MAP](np.nan_to_num(scaled, nan=0.5)))[:, :3]
    return np.where(np.isnan(effects)[:, None], _NEUTRAL_GREY, found)


def paint_view(view: BrainView, values: FloatArray, limit: float) -> FloatArray:
    """Return a view as colours with opacity, (H, W, 4), values (P,) being the effect at each place of the atlas."""
    table = np.vstack([effects_to_rgb(values, limit), _NEUTRAL_GREY, np.zeros(3)])
    index = np.where(view.places == OUTSIDE_BRAIN, len(table) - 1, view.places)
    index = np.where(view.places == UNLABELLED, len(table) - 2, index)
    known = (view.places >= 0) & ~np.isnan(np.append(values, np.nan)[view.places])
    # on slices regions keep their full colour and the rest is anatomy; on the cortex all is lit
    light = np.where(known, 0.75 + 0.25 * view.shade, view.shade) if view.is_slice else view.shade
    light = np.where(_find_region_edges(view.places) & known, light * _OUTLINE_BRIGHTNESS, light)
    opacity = (view.places != OUTSIDE_BRAIN).astype(float)
    return np.dstack([table[index] * light[..., None], opacity])


def _find_region_edges(places: IntArray) -> BoolArray:
    """Return the pixels whose right or lower neighbour is of another region, (H, W)."""
    edge = np.zeros(places.shape, dtype=bool)
    edge[:, :-1] |= places[:, :-1] != places[:, 1:]
    edge[:-1] |= places[:-1] != places[1:]
    return edge


def _render_view(view: BrainView, values: FloatArray, limit: float, shrink: int) -> BrainImage:
    painted = paint_view(view, values, limit)
    image = Image.fromarray(np.round(255 * painted).astype(np.uint8))
    size = (max(1, view.places.shape[1] // shrink), max(1, view.places.shape[0] // shrink))
    image = image.resize(size, Image.Resampling.BOX) if shrink > 1 else image
    return BrainImage(view.name, encode_png_uri(image), size[0] // 2, size[1] // 2)


def encode_png_uri(image: Image.Image) -> str:
    """Return a Pillow image as PNG of few colours in a data URI."""
    file = io.BytesIO()
    image.quantize(_N_PALETTE_COLOURS, method=Image.Quantize.FASTOCTREE).save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


@cache
def list_colour_stops(number: int = 11) -> tuple[str, ...]:
    """Return the colours of the bar, from full loss to full gain."""
    return tuple(effect_to_hex(value, 1.0) for value in np.linspace(-1, 1, number))

"""Views of the brain as small images for pages.

Shape letters: H x W pixels.
"""

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image

from rindices._typing import FloatArray
from rindices.plot.brain import AtlasMatch, paint_view
from rindices.plot.geometry import BrainView

_N_PALETTE_COLOURS = 192


@dataclass(frozen=True, kw_only=True)
class BrainImage:
    """One coloured view.

    Attributes
    ----------
    name : str
        Name of the view.
    uri : str
        Image as a data URI.
    width : int
        Width on the page.
    height : int
        Height on the page.
    """

    name: str
    uri: str
    width: int
    height: int


def render_views(
    match: AtlasMatch,
    effects: Mapping[str, float],
    limit: float,
    only_outside: bool = False,
    shrink: int = 1,
) -> list[BrainImage]:
    """Return views of the brain, coloured by effect, or none where there is no atlas.

    Parameters
    ----------
    match : AtlasMatch
        What can be drawn.
    effects : mapping
        Effect by region.
    limit : float
        Effect at which the colours end, on both sides.
    only_outside : bool
        Show both hemispheres from outside only.
    shrink : int
        Further factor by which the images are made smaller.
    """
    atlas = match.atlas
    if atlas is None:
        return []
    values = np.full(len(atlas.structures), np.nan)
    position = {structure: index for index, structure in enumerate(atlas.structures)}
    for region, structure in match.drawn.items():
        values[position[structure]] = effects[region]
    cortex = (atlas.cortex[0], atlas.cortex[-1]) if only_outside else atlas.cortex
    views = cortex if only_outside else (*cortex, *atlas.slices)
    return [_render_view(view, values, limit, shrink) for view in views]


def _render_view(
    view: BrainView, values: FloatArray, limit: float, shrink: int
) -> BrainImage:
    """Return a coloured view as a lossless WebP of few colours."""
    image = Image.fromarray(
        np.round(255 * paint_view(view, values, limit)).astype(np.uint8)
    )
    size = (
        max(1, view.labels.shape[1] // shrink),
        max(1, view.labels.shape[0] // shrink),
    )
    image = image.resize(size, Image.Resampling.BOX) if shrink > 1 else image
    palette_image = image.quantize(_N_PALETTE_COLOURS, method=Image.Quantize.FASTOCTREE)
    file = io.BytesIO()
    palette_image.convert("RGBA").save(
        file, "WEBP", lossless=True, quality=20, method=1
    )  # effort, not loss
    uri = f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"
    return BrainImage(name=view.name, uri=uri, width=size[0] // 2, height=size[1] // 2)

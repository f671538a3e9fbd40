"""Colours of effects, and brains painted with them.

Red stands for loss and blue for gain, symmetric about zero and safe for colour-blind
readers. Shape letters: H x W pixels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray
from rindices.errors import Problem
from rindices.plot.geometry import (
    OUTSIDE_BRAIN,
    UNLABELLED,
    Atlas,
    BrainView,
    GeometryError,
    select_atlas,
)
from rindices.tables.layouts.region_names import (
    BrainStructure,
    label_regions,
    locate_regions,
)
from rindices.wording import FEATURE_UNIT

COLOUR_MAP = "RdBu"
_NEUTRAL_GREY = np.array([0.82, 0.82, 0.82])
_OUTLINE_BRIGHTNESS = 0.62  # of the line between two regions
_NARROW_INCHES = 5.0  # figures below have a colour bar of most of their width
_VISIBLE_SHARE = 0.1  # of the largest effect, below which a colour is nearly white


@dataclass(frozen=True, kw_only=True)
class AtlasMatch:
    """What can be drawn for the regions of a model.

    Attributes
    ----------
    atlas : Atlas or None
        None where nothing can be drawn.
    drawn : mapping
        Structure of each region that a picture shows.
    undrawn_regions : tuple of str
        The other regions, in their order.
    problem : Problem or None
        Why nothing can be drawn.
    holds_features : bool
        Whether the regions are features of any kind, whose names are shown as they are.
    """

    atlas: Atlas | None
    drawn: Mapping[str, BrainStructure]
    undrawn_regions: tuple[str, ...]
    problem: Problem | None = None
    holds_features: bool = False

    def label_regions(self, regions: Sequence[str]) -> dict[str, str]:
        """Return a name for readers of each region."""
        return (
            {region: region for region in regions}
            if self.holds_features
            else label_regions(regions)
        )

    def name_columns(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table for readers, in which features are not called regions."""
        return (
            table.rename(columns={"region": "feature"})
            if self.holds_features
            else table
        )


def match_atlas(regions: tuple[str, ...], unit: str = "") -> AtlasMatch:
    """Return what can be drawn for these regions of a table with this unit; nothing for
    features.
    """
    if unit == FEATURE_UNIT:
        return AtlasMatch(
            atlas=None, drawn={}, undrawn_regions=regions, holds_features=True
        )
    structures = locate_regions(regions)
    try:
        atlas = select_atlas(structures.values())
    except GeometryError as error:
        return AtlasMatch(
            atlas=None, drawn={}, undrawn_regions=regions, problem=error.problems[0]
        )
    visible = atlas.list_visible()
    drawn = {
        region: structure
        for region, structure in structures.items()
        if structure in visible
    }
    return AtlasMatch(
        atlas=atlas,
        drawn=drawn,
        undrawn_regions=tuple(region for region in regions if region not in drawn),
    )


def compute_colour_limit(effects: FloatArray) -> float:
    """Return the effect at which colours end: a round number that is not below the
    largest effect.
    """
    largest = float(np.nanmax(np.abs(effects)))
    step = 10.0 ** np.floor(np.log10(max(largest, 1e-6))) / 2
    return float(np.ceil(largest / step) * step)


def is_visible(effects: FloatArray, limit: float) -> BoolArray:
    """Return which effects are strong enough to be seen as a colour."""
    return np.asarray(np.abs(np.nan_to_num(effects)) > _VISIBLE_SHARE * limit)


def add_colour_bar(
    panels: Any, limit: float, label: str, marks_gain: str = "", pad: float = 0.02
) -> Any:
    """Draw the colour bar below panels, and return it.

    marks_gain: how the figure marks gains: ``+``, ``stripes``, or not at all; pad: room
    above it, as a share of the panel.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    first = panels[0] if isinstance(panels, list) else panels
    is_narrow = first.figure.bbox.width / first.figure.dpi < _NARROW_INCHES
    bar = first.figure.colorbar(
        ScalarMappable(Normalize(-limit, limit), COLOUR_MAP),
        ax=panels,
        location="bottom",
        shrink=0.6 if is_narrow else 0.3,
        aspect=28,
        pad=pad,
        ticks=[-limit, -limit / 2, 0, limit / 2, limit],
        format=lambda value, _: (
            f"{value:+g}".replace("-", "\N{MINUS SIGN}") if value else "0"
        ),
    )
    bar.outline.set_visible(False)
    if marks_gain == "stripes":
        bar.ax.axvspan(
            _VISIBLE_SHARE * limit, limit, fill=False, hatch="//////", ec="white", lw=0
        )
    note = {"stripes": "; stripes: gain", "+": "; +: gain"}.get(marks_gain, "")
    bar.set_label(label + note, labelpad=2)
    bar.ax.tick_params(length=2, pad=1.5)
    return bar


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

    Parameters
    ----------
    view : BrainView
    values : ndarray of shape (P,)
        Effect on each structure of the atlas. NaN where the table has no such region.
    limit : float
        Effect at which the colours end.
    """
    table = np.vstack([effects_to_rgb(values, limit), _NEUTRAL_GREY, np.zeros(3)])
    index = np.where(view.labels == OUTSIDE_BRAIN, len(table) - 1, view.labels)
    index = np.where(view.labels == UNLABELLED, len(table) - 2, index)
    has_effect = (view.labels >= 0) & ~np.isnan(np.append(values, np.nan)[view.labels])
    # on slices coloured regions are only slightly shaded, so that they keep their
    # colour
    light = (
        np.where(has_effect, 0.75 + 0.25 * view.shade, view.shade)
        if view.is_slice
        else view.shade
    )
    edge = np.zeros(
        view.labels.shape, dtype=bool
    )  # pixels whose right or lower neighbour is of another region
    edge[:, :-1] |= view.labels[:, :-1] != view.labels[:, 1:]
    edge[:-1] |= view.labels[:-1] != view.labels[1:]
    light = np.where(edge & has_effect, light * _OUTLINE_BRIGHTNESS, light)
    opacity = (view.labels != OUTSIDE_BRAIN).astype(float)
    return np.dstack([table[index] * light[..., None], opacity])


@cache
def list_colour_stops(number: int = 11) -> tuple[str, ...]:
    """Return the colours of the bar, from full loss to full gain."""
    return tuple(effect_to_hex(value, 1.0) for value in np.linspace(-1, 1, number))

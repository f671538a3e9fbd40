"""Patterns on the brain.

Surfaces and slices are rendered once for each atlas, and coloured by looking up the
region of each pixel. The meshes and the template are those of nilearn.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from rindices._typing import FloatArray
from rindices.errors import InputError
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.plot import geometry, style
from rindices.plot.brain import (
    AtlasMatch,
    add_colour_bar,
    compute_colour_limit,
    is_visible,
    match_atlas,
    paint_view,
)
from rindices.plot.docs import fill_docstring
from rindices.plot.geometry import BrainView
from rindices.plot.source import Study, StudySource

_PIXELS_PER_VIEW = 560
_GAP = 14  # pixels between two views
_APART_MM = 8  # at least, of two slices
_SHOWN_WEIGHT = 0.9  # by which a structure that is shown counts less
_FIRST_MM, _LAST_MM = {"y": -90, "z": -40}, {"y": 60, "z": 60}
_STRIPE, _PERIOD = 4, 12  # pixels of a stripe, and from one to the next
_WIDE_MM = 120.0  # panels from this width on have all views in one row


@fill_docstring
def patterns(
    study: Study,
    pattern: str | None = None,
    severity: float = SEVERITY_LEVELS[-1],
    ax: Axes | Sequence[Axes] | None = None,
    colorbar: bool = True,
) -> Any:
    """Draw patterns on the brain: the cortex from outside and inside, and four slices
    through the regions that change most.

    Red is loss, blue is gain; gains are striped, so that a grey print shows them. All
    patterns have one colour scale. Left is on the left.

    Parameters
    ----------
    %(pattern_study)s
    pattern : str, optional
        ``r1`` to ``rM``. Default: all, one panel each.
    severity : float
        Severity at which changes are drawn.
    %(axes)s
    %(colorbar)s

    Returns
    -------
    Axes or ndarray of Axes
        One for each pattern.

    Raises
    ------
    InputError
        If no atlas has the regions, or the extra ``brain`` is not installed.

    Examples
    --------
    >>> import rindices as ri
    >>> axes = ri.plot.patterns("results", "r1")
    >>> axes.get_title(loc="left")
    'r1'
    """
    source = StudySource.of(study)
    names = source.choose_patterns(pattern)
    match = match_atlas(source.regions, source.unit)
    if match.atlas is None:
        reason = (
            "regions that are features have no place in the brain"
            if match.problem is None
            else str(match.problem.what)
        )
        cure = "" if match.problem is None else match.problem.cure
        raise InputError(
            f"patterns cannot be drawn on the brain: {reason}. {cure or 'Draw plot.forest'}"
        )
    effects = {
        name: dict(source.select_changes(name, severity)[["region", "change"]].values)
        for name in source.index_names
    }
    limit = compute_colour_limit(
        np.array([list(each.values()) for each in effects.values()], dtype=float)
    )
    height = 33.0 if style.get_width() < _WIDE_MM else 24.0
    height += 9.0 * colorbar / len(names)
    with style.open_panels(ax, len(names), height) as panels:
        is_wide = _measure_width(panels[0]) >= _WIDE_MM
        has_gain = False
        for panel, name in zip(panels, names, strict=True):
            has_gain |= _draw_brain(panel, match, effects[name], limit, is_wide)
            panel.set_title(name, pad=1)
        if colorbar:
            add_colour_bar(
                panels,
                limit,
                f"change at severity {severity:g} (control SD)",
                "stripes" if has_gain else "",
            )
    return style.join_panels(panels)


def _measure_width(panel: Axes) -> float:
    """Return the width of the figure of a panel in millimetres, by its columns."""
    spec = panel.get_subplotspec()
    columns = 1 if spec is None else spec.get_gridspec().ncols
    inches = panel.figure.bbox.width / panel.figure.dpi
    return float(inches * style.MM_PER_INCH / columns)


def choose_slices(name: str, weights: FloatArray) -> list[tuple[str, float]]:
    """Return two coronal and two axial slices, in order, that show the structures with
    the largest weights (P,).

    The second of each kind is the one that shows most of what the first does not.
    """
    full = (weights / max(weights.max(), 1e-12)) ** 2  # large effects count more
    chosen: list[tuple[str, float]] = []
    for axis in ("y", "z"):
        shown, positions = geometry.count_voxels(name, axis)
        allowed = (positions >= _FIRST_MM[axis]) & (positions <= _LAST_MM[axis])
        left = full
        for _ in range(2):
            best = int(np.argmax(np.where(allowed, left @ shown, -1.0)))
            chosen.append((axis, float(np.round(positions[best]))))
            left = left * (1 - _SHOWN_WEIGHT * shown[:, best])
            allowed = allowed & (np.abs(positions - positions[best]) >= _APART_MM)
    return sorted(chosen, key=lambda each: ("yz".index(each[0]), each[1]))


def _draw_brain(
    panel: Axes,
    match: AtlasMatch,
    effects: Mapping[str, float],
    limit: float,
    is_wide: bool,
) -> bool:
    """Draw all views of a pattern, and return whether a gain can be seen."""
    atlas = match.atlas
    assert atlas is not None
    values = np.full(len(atlas.structures), np.nan)
    for region, structure in match.drawn.items():
        values[atlas.structures.index(structure)] = effects[region]
    slices = choose_slices(atlas.name, np.abs(np.nan_to_num(values)))
    views = [*atlas.cortex]
    titles = ["left", "", "", "right"]
    for axis, at in slices:
        views.append(geometry.render_slice(atlas.name, axis, at))
        titles.append(style.format_minus(f"{axis} = {at:g} mm"))
    titles[4] = f"L   {titles[4]}   R"
    rows = [range(8)] if is_wide else [range(4), range(4, 8)]
    pictures = [_paint_striped(view, values, limit) for view in views]
    image, centres = _compose(pictures, rows)
    panel.imshow(image, interpolation="antialiased", aspect="equal")
    for (x, y), title in zip(centres, titles, strict=True):
        panel.text(x, y, title, ha="center", va="top", fontsize=5.5)
    panel.set_axis_off()
    return bool((is_visible(values, limit) & (values > 0)).any())


def _paint_striped(view: BrainView, values: FloatArray, limit: float) -> FloatArray:
    """Return a view in colours (H, W, 4), with stripes on visible gains."""
    picture = paint_view(view, values, limit)
    shown = np.append(is_visible(values, limit) & (values > 0), False)
    is_gain = (view.labels >= 0) & shown[view.labels]
    rows, columns = np.indices(view.labels.shape)
    period = _PERIOD if not view.is_slice else _PERIOD * 2 // 3
    stripe = is_gain & ((rows + columns) % period < _STRIPE * period / _PERIOD)
    picture[stripe, :3] = 0.35 * picture[stripe, :3] + 0.65
    return np.asarray(picture)


def _compose(
    pictures: Sequence[FloatArray], rows: Sequence[range]
) -> tuple[FloatArray, list[tuple[float, float]]]:
    """Return one image of all views, those of a row at one width on a common middle,
    and the places of their titles.
    """
    blocks, centres, top = [], [], 0
    for row in rows:
        cells = [_fit(pictures[index]) for index in row]
        height = max(len(cell) for cell in cells)
        block = np.zeros((height + _GAP * 5, len(cells) * (_PIXELS_PER_VIEW + _GAP), 4))
        for position, cell in enumerate(cells):
            x = position * (_PIXELS_PER_VIEW + _GAP)
            x += (_PIXELS_PER_VIEW - cell.shape[1]) // 2
            y = (height - len(cell)) // 2
            block[y : y + len(cell), x : x + cell.shape[1]] = cell
            centres.append((x + cell.shape[1] / 2, top + height + 2.0))
        blocks.append(block)
        top += len(block)
    return np.concatenate(blocks), centres


def _fit(picture: FloatArray) -> FloatArray:
    """Return a picture enlarged by a whole or half number, if it is much smaller than
    its place.
    """
    height, width = picture.shape[:2]
    scale = min(_PIXELS_PER_VIEW / width, 430 / height)
    rows, columns = (
        (np.arange(int(length * scale)) / scale).astype(int)
        for length in (height, width)
    )
    return np.asarray(picture[np.ix_(rows, columns)])

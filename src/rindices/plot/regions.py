"""Regions of patterns: a heat map of all, the largest with intervals, and their course
along severity.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rindices._typing import FloatArray
from rindices.errors import InputError
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model import pattern_tables
from rindices.plot import style
from rindices.plot.brain import (
    COLOUR_MAP,
    add_colour_bar,
    compute_colour_limit,
    is_visible,
)
from rindices.plot.docs import fill_docstring
from rindices.plot.lobes import find_lobe, rank_lobe
from rindices.plot.source import Study, StudySource
from rindices.plot.style import MUTED_COLOUR, TEXT_COLOUR, shorten_label
from rindices.tables.layouts.region_names import split_region_label

_ROW_MM = 3.4
_LEAST_MM = 58.0  # of a panel beside another
_SIDES = ("left", "right")
_LEVELS = np.linspace(0.0, 1.0, 101)


@fill_docstring
def forest(
    study: Study,
    pattern: str | None = None,
    n_regions: int = 12,
    ax: Axes | Sequence[Axes] | None = None,
) -> Any:
    """Draw the largest changes of regions at severity 1, with their 95 % intervals.

    Losses are red discs, gains blue squares with a white centre, so that a grey print
    shows both. Regions whose interval includes 0 are left out.

    Parameters
    ----------
    %(pattern_study)s
    pattern : str, optional
        ``r1`` to ``rM``. Default: all, one panel each.
    n_regions : int
        How many regions to draw at most.
    %(axes)s

    Returns
    -------
    Axes or ndarray of Axes
        One for each pattern.

    Examples
    --------
    >>> import rindices as ri
    >>> axes = ri.plot.forest("results", "r1", n_regions=8)
    >>> axes.get_xlabel()
    'change (control SD)'
    """
    source = StudySource.of(study)
    names = source.choose_patterns(pattern)
    tables = [_list_largest(source, name, n_regions) for name in names]
    height = 9.0 + _ROW_MM * max(map(len, tables))
    with style.open_panels(ax, len(names), height, _LEAST_MM) as panels:
        for panel, name, table in zip(panels, names, tables, strict=True):
            _draw_forest(panel, name, table, source)
        _share_limits(panels)
        if ax is None and style.get_width() < 2 * _LEAST_MM:
            for panel in panels[:-1]:
                panel.set_xlabel("")
    return style.join_panels(panels)


def _list_largest(source: StudySource, pattern: str, number: int) -> pd.DataFrame:
    """Return the largest changes whose interval excludes 0, the largest first."""
    table = source.select_changes(pattern)
    if not table["low"].isna().any():
        table = table[(table["low"] > 0) | (table["high"] < 0)]
    order = table["change"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].head(number)


def _draw_forest(
    panel: Axes, pattern: str, table: pd.DataFrame, source: StudySource
) -> None:
    rows = np.arange(len(table))
    is_gain = (table["change"] > 0).to_numpy()
    for side, colour, marker, fill in (
        (~is_gain, style.LOSS_COLOUR, "o", style.LOSS_COLOUR),
        (is_gain, style.GAIN_COLOUR, "s", "white"),
    ):
        part = table[side]
        if part["low"].notna().all():
            panel.hlines(rows[side], part["low"], part["high"], colour, lw=1.3)
        panel.plot(
            part["change"], rows[side], marker, ms=4, color=colour, mfc=fill, mew=1.1
        )
    panel.axvline(0, color=MUTED_COLOUR, lw=0.6)
    labels = [shorten_label(source.labels[region]) for region in table["region"]]
    panel.set_yticks(rows, labels)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")
    panel.set(
        ylim=(len(table) - 0.4, -0.6),
        title=pattern,
        xlabel="change (control SD)",
    )
    panel.spines["left"].set_visible(False)


def _share_limits(panels: Sequence[Axes]) -> None:
    """Give all panels one scale, so that patterns can be compared."""
    ends = [panel.get_xlim() for panel in panels]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    for panel in panels:
        panel.set_xlim(low, high)


@fill_docstring
def region_heatmap(
    study: Study,
    severity: float = SEVERITY_LEVELS[-1],
    n_regions: int | None = 36,
    ax: Axes | None = None,
    colorbar: bool = True,
) -> Axes:
    """Draw the change of regions under all patterns, grouped by lobe.

    A row is a structure; the columns of a pattern are its left and right side. Gains
    have a plus sign, so that a grey print shows them.

    Parameters
    ----------
    %(pattern_study)s
    severity : float
        Severity at which changes are drawn.
    n_regions : int, optional
        How many structures to draw at most: those that change most in any pattern, if
        the change can be seen. None for all.
    %(ax)s
    %(colorbar)s

    %(drawn)s

    Examples
    --------
    >>> import rindices as ri
    >>> axes = ri.plot.region_heatmap("results", n_regions=20)
    >>> len(axes.images)
    1
    """
    source = StudySource.of(study)
    values, columns, structures = _arrange_structures(source, severity)
    limit = compute_colour_limit(values)
    chosen = np.argsort(-np.nanmax(np.abs(values), axis=1), kind="stable")[:n_regions]
    if n_regions is not None:
        chosen = chosen[is_visible(values[chosen], limit).any(axis=1)]
    lobes = [find_lobe(name) for name in structures]
    order = sorted(chosen, key=lambda row: (rank_lobe(lobes[row]), row))
    labels: list[str] = []
    rows: list[int] = []
    for row in order:
        if not labels or lobes[row] != lobes[rows[-1]]:
            labels.append(lobes[row])
            rows.append(-1)
        labels.append(shorten_label(structures[row], 30))
        rows.append(row)
    table = np.array([values[row] if row >= 0 else np.nan * values[0] for row in rows])
    height = 14.0 + 2.65 * len(rows) + 9.0 * colorbar
    with style.open_panels(ax, 1, height) as (panel,):
        panel.imshow(
            table,
            COLOUR_MAP,
            vmin=-limit,
            vmax=limit,
            aspect="auto",
            interpolation="nearest",
        )
        _write_heat_axes(panel, columns, labels, [row < 0 for row in rows])
        visible = is_visible(table, limit) & (table > 0)
        for row, column in np.argwhere(visible):
            panel.text(column, row, "+", ha="center", va="center", fontsize=5.5)
        if colorbar:
            text = f"change at severity {severity:g} (control SD)"
            add_colour_bar(panel, limit, text, marks_gain="+" if visible.any() else "")
    return panel


def _arrange_structures(
    source: StudySource, severity: float
) -> tuple[FloatArray, list[tuple[str, str]], list[str]]:
    """Return changes (structures, columns), the pattern and the side of each column,
    and the structures.
    """
    names = source.index_names
    places: dict[str, dict[str, str]] = {}
    for region, label in source.labels.items():
        structure, side = split_region_label(label)
        side, _, measure = side.partition(" ")
        places.setdefault(f"{structure} {measure}".strip(), {})[side] = region
    has_sides = any(side in place for place in places.values() for side in _SIDES)
    sides = _SIDES if has_sides else ("",)
    columns = [(name, side) for name in names for side in sides]
    changes = {
        name: source.select_changes(name, severity).set_index("region")["change"]
        for name in names
    }
    values = np.full((len(places), len(columns)), np.nan)
    for row, place in enumerate(places.values()):
        for column, (name, side) in enumerate(columns):
            found = place.get(side) or place.get("")
            if found is not None:
                values[row, column] = changes[name][found]
    return values, columns, list(places)


def _write_heat_axes(
    panel: Axes,
    columns: Sequence[tuple[str, str]],
    labels: Sequence[str],
    is_lobe: Sequence[bool],
) -> None:
    width = sum(name == columns[0][0] for name, _ in columns)
    if width > 1:
        sides = [side[0].upper() for _, side in columns]
        panel.set_xticks(range(len(columns)), sides, fontsize=6.5)
    else:
        panel.set_xticks([])
    panel.xaxis.tick_top()
    names = list(dict.fromkeys(name for name, _ in columns))
    centres = [width * k + (width - 1) / 2 for k in range(len(names))]
    top = panel.secondary_xaxis(1.0)
    top.set_xticks(centres, names, fontsize=7, fontweight="bold")
    top.tick_params(length=0, pad=10 if width > 1 else 3)
    top.spines[:].set_visible(False)
    panel.set_yticks(range(len(labels)), labels)
    for text, is_head in zip(panel.get_yticklabels(), is_lobe, strict=True):
        text.set_fontsize(6)
        text.set_fontweight("bold" if is_head else "normal")
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    for edge in range(1, len(names)):
        panel.axvline(width * edge - 0.5, color="white", lw=2.5)
    for edge in range(len(labels) + 1):
        panel.axhline(edge - 0.5, color="white", lw=0.4)


@fill_docstring
def course(
    study: Study,
    pattern: str | None = None,
    n_regions: int = 12,
    ax: Axes | Sequence[Axes] | None = None,
    colorbar: bool = True,
) -> Any:
    """Draw the change of regions along the severity of a staged pattern.

    Rows are the strongest regions of the pattern, the earliest at the top. The colour
    is the change at each severity, the dot the onset (a quarter of the full change)
    with its 95 % interval.

    Parameters
    ----------
    study : FittedModel or path
        A fitted model, or the folder of a study, whose patterns are staged.
    pattern : str, optional
        ``r1`` to ``rM``. Default: all, one panel each.
    n_regions : int
        How many regions to draw at most.
    %(axes)s
    %(colorbar)s

    Returns
    -------
    Axes or ndarray of Axes
        One for each pattern.

    Raises
    ------
    InputError
        If all regions of a pattern change together, so that there is no order.
    """
    source = StudySource.of(study)
    names = source.choose_patterns(pattern)
    if pattern_tables.get_shape(source.fitted) != "staged":
        raise InputError(
            "the regions of these patterns change together, so they have no course: draw plot.forest."
        )
    order = pattern_tables.make_region_order(source.fitted)
    tables = [_list_earliest(order, name, n_regions) for name in names]
    long = pattern_tables.make_change_table(source.fitted, list(_LEVELS))
    limit = compute_colour_limit(long["change"].to_numpy())
    height = 9.0 + _ROW_MM * max(map(len, tables)) + 9.0 * colorbar / len(names)
    with style.open_panels(ax, len(names), height, _LEAST_MM) as panels:
        for panel, name, table in zip(panels, names, tables, strict=True):
            rows = long[long["pattern"] == name].pivot_table(
                index="region", columns="severity", values="change"
            )
            labels = [source.labels[region] for region in table["region"]]
            _draw_course(panel, table, rows.loc[table["region"]], labels, limit)
            panel.set(title=name, xlabel=f"severity {name}")
        if colorbar:
            add_colour_bar(panels, limit, "change (control SD)")
    return style.join_panels(panels)


def _list_earliest(order: pd.DataFrame, pattern: str, number: int) -> pd.DataFrame:
    """Return the strongest regions of a pattern, the earliest first."""
    rows = order[order["pattern"] == pattern]
    strongest = rows["change"].abs().sort_values(ascending=False, kind="stable").index
    return rows[rows.index.isin(strongest[:number])].sort_values("onset", kind="stable")


def _draw_course(
    panel: Axes,
    table: pd.DataFrame,
    changes: pd.DataFrame,
    labels: Sequence[str],
    limit: float,
) -> None:
    number = len(table)
    panel.imshow(
        changes.to_numpy(dtype=float),
        COLOUR_MAP,
        vmin=-limit,
        vmax=limit,
        aspect="auto",
        extent=(0, 1, number - 0.5, -0.5),
        interpolation="nearest",
    )
    for edge in range(1, number):
        panel.axhline(edge - 0.5, color="white", lw=1.2)
    rows = np.arange(number)
    known = (table["onset_low"].notna() & table["onset_high"].notna()).to_numpy()
    panel.hlines(
        rows[known],
        table.loc[known, "onset_low"],
        table.loc[known, "onset_high"],
        TEXT_COLOUR,
        lw=0.9,
    )
    panel.plot(table["onset"], rows, "o", ms=3.4, color=TEXT_COLOUR, mfc="white")
    panel.set_yticks(rows, [shorten_label(label) for label in labels])
    panel.tick_params(axis="y", length=0)
    panel.set(xlim=(0, 1), ylim=(number - 0.5, -0.5))
    panel.spines[:].set_visible(False)

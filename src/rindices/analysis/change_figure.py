"""Figure of the change per year: visits over time, and each person's change with its interval."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rindices.analysis.change import NOMINAL_COVERAGE, YearlyChange, convert_to_years
from rindices.atomic import atomic_path
from rindices.tables.cohort import ID

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rindices._typing import IntArray

_MAX_LINES = 60  # people whose visits are drawn
_MAX_PEOPLE = 400  # people whose change is drawn; of more people, evenly spaced ones
_UP_COLOUR, _DOWN_COLOUR, _UNSURE_COLOUR = "#D55E00", "#0072B2", "#9AA3AD"


def plot_change(change: YearlyChange, visits: pd.DataFrame, time: str, path: Path) -> None:
    """Draw one row per R-index into a PNG file: visits on the left, change per year on the right."""
    from matplotlib.figure import Figure

    number = len(change.names)
    figure = Figure(figsize=(9.0, 2.6 * number + 0.5), layout="constrained")
    axes = figure.subplots(number, 2, width_ratios=[1, 1.5], squeeze=False)
    years = pd.Series(convert_to_years(visits, time), index=visits.index)
    for row, name in enumerate(change.names):
        _plot_visits(axes[row, 0], change.table, visits, years, name)
        _plot_slopes(axes[row, 1], change.table, name)
    axes[-1, 0].set_xlabel("years since the first visit")
    axes[-1, 1].set_xlabel("people, by their change")
    axes[0, 0].set_title(f"Visits of {min(_MAX_LINES, len(change.table)):,} people", loc="left", fontsize="medium")
    axes[0, 1].set_title(f"Change per year and its {NOMINAL_COVERAGE:.0%} interval", loc="left", fontsize="medium")
    with atomic_path(path) as temporary_path:
        figure.savefig(temporary_path, dpi=150)


def _assign_colours(table: pd.DataFrame, name: str) -> Any:
    """Return one colour per person: up or down if the interval excludes 0."""
    up, down = table[f"{name}_per_year_low"] > 0, table[f"{name}_per_year_high"] < 0
    return np.select([up, down], [_UP_COLOUR, _DOWN_COLOUR], _UNSURE_COLOUR)


def _space_evenly(number: int, limit: int) -> "IntArray":
    """Return at most ``limit`` positions, evenly spaced over ``number`` rows."""
    return np.unique(np.linspace(0, number - 1, min(number, limit)).astype(int))


def _plot_visits(axes: "Axes", table: pd.DataFrame, visits: pd.DataFrame, years: pd.Series, name: str) -> None:
    shown = table.iloc[_space_evenly(len(table), _MAX_LINES)]
    colours = dict(zip(shown[ID], _assign_colours(shown, name), strict=True))
    drawn = visits[visits[ID].astype(str).isin(set(colours))]
    for person, rows in drawn.groupby(drawn[ID].astype(str)):
        t = years[rows.index].sort_values()
        axes.plot(t - t.iloc[0], rows.loc[t.index, name], color=colours[person], lw=0.8, marker=".", ms=3, alpha=0.7)
    axes.set_ylabel(name)
    _style_axes(axes)


def _plot_slopes(axes: "Axes", table: pd.DataFrame, name: str) -> None:
    rows = _space_evenly(len(table), _MAX_PEOPLE)
    shown = table.sort_values(f"{name}_per_year").iloc[rows]
    colours = _assign_colours(shown, name)
    axes.vlines(rows + 1, shown[f"{name}_per_year_low"], shown[f"{name}_per_year_high"], colours, lw=0.8, alpha=0.6)
    axes.scatter(rows + 1, shown[f"{name}_per_year"], c=colours, s=5, zorder=3)
    axes.axhline(0, color="#444444", lw=0.8)
    up, down = (int((_assign_colours(table, name) == colour).sum()) for colour in (_UP_COLOUR, _DOWN_COLOUR))
    label = f"interval above 0: {up:,}, below 0: {down:,}, of {len(table):,} people"
    axes.text(0.02, 0.96, label, transform=axes.transAxes, va="top")
    axes.set_ylabel(f"{name} per year")
    axes.margins(y=0.18)
    _style_axes(axes)


def _style_axes(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)

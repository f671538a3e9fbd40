"""Change per year as a figure: visits joined by lines, and everyone's change with its interval."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rindices.analysis.change import NOMINAL, Change, years_of
from rindices.tables.cohort import ID

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_LINES = 60
_MOST_PEOPLE = 400  # drawn one by one; of more, evenly spaced ones
_UP, _DOWN, _UNSURE = "#D55E00", "#0072B2", "#9AA3AD"


def draw_change(change: Change, visits: pd.DataFrame, time: str, path: Path) -> None:
    """Draw into a PNG file: a row an R-index; left people's visits, right their change per year with its interval."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    number = len(change.names)
    figure = Figure(figsize=(9.0, 2.6 * number + 0.5), layout="constrained")
    axes = figure.subplots(number, 2, width_ratios=[1, 1.5], squeeze=False)
    years = pd.Series(years_of(visits, time), index=visits.index)
    for row, name in enumerate(change.names):
        _draw_visits(axes[row, 0], change.table, visits, years, name)
        _draw_slopes(axes[row, 1], change.table, name)
    axes[-1, 0].set_xlabel("years since the first visit")
    axes[-1, 1].set_xlabel("people, by their change")
    axes[0, 0].set_title(f"Visits of {min(_MOST_LINES, len(change.table)):,} people", loc="left", fontsize="medium")
    axes[0, 1].set_title(f"Change per year and its {NOMINAL:.0%} interval", loc="left", fontsize="medium")
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=150)


def _colours(table: pd.DataFrame, name: str) -> Any:
    """Return a colour a person: up or down where the interval leaves out 0."""
    up, down = table[f"{name}_per_year_low"] > 0, table[f"{name}_per_year_high"] < 0
    return np.select([up, down], [_UP, _DOWN], _UNSURE)


def _draw_visits(axes: "Axes", table: pd.DataFrame, visits: pd.DataFrame, years: pd.Series, name: str) -> None:
    rows = np.unique(np.linspace(0, len(table) - 1, min(len(table), _MOST_LINES)).astype(int))
    colours = dict(zip(table[ID].iloc[rows], _colours(table.iloc[rows], name), strict=True))
    some = visits[visits[ID].astype(str).isin(set(colours))]
    for who, own in some.groupby(some[ID].astype(str)):
        t = years[own.index].sort_values()
        axes.plot(t - t.iloc[0], own.loc[t.index, name], color=colours[who], lw=0.8, marker=".", ms=3, alpha=0.7)
    axes.set_ylabel(name)
    _plain(axes)


def _draw_slopes(axes: "Axes", table: pd.DataFrame, name: str) -> None:
    ordered = table.sort_values(f"{name}_per_year").reset_index(drop=True)
    rows = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), _MOST_PEOPLE)).astype(int))
    some, colours = ordered.iloc[rows], _colours(ordered.iloc[rows], name)
    axes.vlines(rows + 1, some[f"{name}_per_year_low"], some[f"{name}_per_year_high"], colours, lw=0.8, alpha=0.6)
    axes.scatter(rows + 1, some[f"{name}_per_year"], c=colours, s=5, zorder=3)
    axes.axhline(0, color="#444444", lw=0.8)
    up, down = (int((_colours(table, name) == colour).sum()) for colour in (_UP, _DOWN))
    axes.text(
        0.02,
        0.96,
        f"interval above 0: {up:,}, below 0: {down:,}, of {len(table):,} people",
        transform=axes.transAxes,
        va="top",
    )
    axes.set_ylabel(f"{name} per year")
    axes.margins(y=0.18)
    _plain(axes)


def _plain(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)

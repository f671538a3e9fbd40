"""Figures of a suspect block of a table beside the rest, for the page of
``rindices check``.

Its owner reads the page, so some figures draw single people.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rindices._typing import FloatArray
from rindices.plot import style
from rindices.plot.style import CONTROL_COLOUR, PATIENT_COLOUR

_FLAT_MM, _SQUARE_MM = 50.0, 62.0
_MIN_LINE = 3  # people through whom a line is drawn
_COLOURS = {"others": CONTROL_COLOUR, "block": PATIENT_COLOUR}
_MARKERS = {"others": "o", "block": "s"}


def _add_legend(panel: Axes) -> None:
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def ratios(values: FloatArray, ax: Axes | None = None) -> Axes:
    """Draw the ratio of each region of a block to that of the others (R,), in order."""
    with style.open_panels(ax, 1, _FLAT_MM) as (panel,):
        panel.axhline(1.0, color=CONTROL_COLOUR, lw=1)
        panel.plot(np.arange(len(values)), values, "o", color=PATIENT_COLOUR, ms=2.5)
        panel.set(
            xlabel="regions in the order of the ratio",
            ylabel="median of the block\nover that of the others",
        )
    return panel


def profiles(table: pd.DataFrame, first: int, ax: Axes | None = None) -> Axes:
    """Draw the medians of neighbouring regions of a block and of the others.

    table: ``block`` and ``others``; first: number of the first region in the table.
    """
    places = np.arange(first, first + len(table))
    with style.open_panels(ax, 1, _FLAT_MM) as (panel,):
        for name, colour in _COLOURS.items():
            line = f"{_MARKERS[name]}-"
            panel.plot(places, table[name], line, color=colour, ms=2.5, label=name)
        panel.set(
            yscale="log", xlabel="number of the region in the table", ylabel="median"
        )
        _add_legend(panel)
    return panel


def sides(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the difference between left and right of each pair, in the block against the
    others.

    table: ``block`` and ``others``, one row for each pair.
    """
    limit = float(table["others"].abs().max()) * 1.1
    ends = np.array([-limit, limit])
    with style.open_panels(ax, 1, _SQUARE_MM) as (panel,):
        panel.plot(ends, ends, color=CONTROL_COLOUR, lw=1, label="if alike")
        panel.plot(ends, -ends, ":", color=CONTROL_COLOUR, lw=1, label="if exchanged")
        panel.plot(table["others"], table["block"], "o", color=PATIENT_COLOUR, ms=2.5)
        panel.set(
            xlabel="others: log left - log right", ylabel="block: log left - log right"
        )
        _add_legend(panel)
    return panel


def codes(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the shares of people with each code of sex, in the block and in the others.

    table: ``code``, ``block`` and ``others``.
    """
    places = np.arange(len(table))
    with style.open_panels(ax, 1, _FLAT_MM) as (panel,):
        for (name, colour), offset in zip(_COLOURS.items(), (-0.2, 0.2), strict=True):
            panel.bar(places + offset, table[name], 0.4, color=colour, label=name)
        panel.set_xticks(places, table["code"].astype(str).tolist())
        panel.set(xlabel="sex as it is written", ylabel="share of people")
        _add_legend(panel)
    return panel


def units(table: pd.DataFrame, covariate: str, ax: Axes | None = None) -> Axes:
    """Draw how many people of the block and of the others have each value.

    table: ``from``, ``to``, ``block`` and ``others``, one row for each bin.
    """
    edges = np.append(table["from"], table["to"].iloc[-1])
    with style.open_panels(ax, 1, _FLAT_MM) as (panel,):
        for name, colour in _COLOURS.items():
            panel.stairs(
                table[name], edges, color=colour, fill=True, alpha=0.6, label=name
            )
        panel.set(xscale="log", xlabel=covariate, ylabel="people")
        _add_legend(panel)
    return panel


def link(
    table: pd.DataFrame, spread: float, label: str, ax: Axes | None = None
) -> Axes:
    """Draw a covariate against a region, a point for each person.

    table: both columns, then ``block``; spread: half width by which points of few
    values are moved; label: of the covariate.
    """
    name, region, _ = table.columns
    rng = np.random.default_rng(0)
    with style.open_panels(ax, 1, _SQUARE_MM) as (panel,):
        for group, mask in (("others", ~table["block"]), ("block", table["block"])):
            shown = table[mask]
            panel.plot(
                shown[name] + rng.uniform(-spread, spread, len(shown)),
                shown[region],
                _MARKERS[group],
                color=_COLOURS[group],
                ms=2.5,
                mew=0,
                alpha=0.7,
                label=group,
            )
            _draw_line(panel, shown[name], shown[region], _COLOURS[group])
        panel.xaxis.set_major_formatter("{x:,.10g}")
        panel.yaxis.set_major_formatter("{x:,.10g}")
        panel.set(xlabel=label, ylabel=region)
        _add_legend(panel)
    return panel


def _draw_line(panel: Axes, x: pd.Series, y: pd.Series, colour: str) -> None:
    """Draw the line of least squares through some people."""
    known = x.notna() & y.notna()
    if known.sum() < _MIN_LINE or x[known].std() == 0:
        return
    slope, intercept = np.polyfit(x[known], y[known], 1)
    ends = np.array([x[known].min(), x[known].max()])
    panel.plot(ends, intercept + slope * ends, color=colour, lw=1.2)


def copies(table: pd.DataFrame, label: str, ax: Axes | None = None) -> Axes:
    """Draw the regions of two rows that may be copies, and those of a stranger.

    table: ``first``, ``second`` and ``stranger``; label: of the first row.
    """
    with style.open_panels(ax, 1, _SQUARE_MM) as (panel,):
        for name, text, group in (
            ("stranger", "a stranger", "others"),
            ("second", "the other row", "block"),
        ):
            panel.plot(
                table["first"],
                table[name],
                _MARKERS[group],
                color=_COLOURS[group],
                ms=2.5,
                mew=0,
                label=text,
            )
        panel.set(xlabel=f"log ratio to the median: {label}", ylabel="the other person")
        _add_legend(panel)
    return panel

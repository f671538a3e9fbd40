"""Horizontal bars with intervals, and numbers on coloured cells."""

from dataclasses import dataclass

import numpy as np

from rindices.report.brain import effect_to_hex, effects_to_rgb


@dataclass(frozen=True)
class Bar:
    """A bar with an interval; positions are in percent of the width.

    Attributes
    ----------
    colour : str
    zero, value : float
        Where the bar begins and ends.
    low, high : float
        Ends of the interval.
    """

    colour: str
    zero: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ColourCell:
    """A number on its colour, with black or white letters, whichever is easier to read."""

    value: float
    colour: str
    ink: str


def make_bar(
    value: float, interval: tuple[float, float] | None, span: tuple[float, float], colour: str, zero: float = 0.0
) -> Bar:
    """Return a bar on a scale.

    Parameters
    ----------
    value : float
    interval : tuple of float or None
    span : tuple of float
        Both ends of the scale; positions beyond are moved to the ends.
    colour : str
    zero : float
        Where the bar begins.
    """
    low, high = (value, value) if interval is None else interval
    width = max(span[1] - span[0], 1e-12)
    positions = (100 * min(max((number - span[0]) / width, 0.0), 1.0) for number in (zero, value, low, high))
    return Bar(colour, *positions)


def make_colour_cell(value: float, limit: float) -> ColourCell:
    """Return a cell in the colour of an effect; colours end at the limit."""
    colour = effects_to_rgb(np.array([value]), limit)[0]
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    is_dark = (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05)
    return ColourCell(value, effect_to_hex(value, limit), "#000" if is_dark else "#fff")

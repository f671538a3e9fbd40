"""Style of all figures: sizes that journals print, colours that colour-blind readers
and grey printers can tell apart, and panels.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes

from rindices.errors import InputError, format_count

COLUMN_MM, PAGE_MM = 85.0, 180.0
"""Widths of one and of two columns of a journal."""
MM_PER_INCH = 25.4
TEXT_COLOUR, MUTED_COLOUR, GRID_COLOUR = "#101820", "#5a6472", "#d3d8de"
CONTROL_COLOUR, PATIENT_COLOUR = "#8797a8", "#a8330a"
LOSS_COLOUR, GAIN_COLOUR = "#b2182b", "#4393c3"
GROUP_COLOURS = (CONTROL_COLOUR, PATIENT_COLOUR, "#e3b03f", "#1f3b63", "#a9d8c3")
"""Colours of groups; each differs from the others in lightness, too."""
SERIES_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"),
    *("#56b4e9", "#000000", "#6a3df0", "#8b5a2b"),
)
"""Colours of lines, of Okabe and Ito; violet and brown for grey and yellow."""
MARKERS = ("o", "s", "^", "D", "v")
_JOURNAL_FONTS = ("Arial", "Helvetica", "Liberation Sans")
_SHORT_WORDS = {
    "gyrus": "g.",
    "sulcus": "s.",
    "cortex": "ctx",
    "superior": "sup.",
    "inferior": "inf.",
    "anterior": "ant.",
    "posterior": "post.",
    "middle": "mid.",
    "medial": "med.",
    "lateral": "lat.",
    "segment": "seg.",
    "lobule": "lob.",
    "lobules": "lob.",
    "triangular": "triang.",
    "opercular": "operc.",
    "orbital": "orb.",
    "internal": "int.",
    "transverse": "transv.",
    "supplementary": "suppl.",
    "cerebellar": "cereb.",
    "volume": "vol.",
    "thickness": "thick.",
}
_LONGEST_LABEL = 26


@cache
def get_style() -> dict[str, Any]:
    """Return the parameters of matplotlib of a printed figure."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    fonts = [name for name in _JOURNAL_FONTS if name in installed]
    return {
        "font.family": "sans-serif",
        "font.sans-serif": [*fonts, "DejaVu Sans"],
        **dict.fromkeys(
            ("font.size", "axes.labelsize", "legend.title_fontsize"),
            7.0,
        ),
        **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 6.5),
        "axes.titlesize": 7.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.linewidth": 0.6,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": MUTED_COLOUR,
        "grid.color": GRID_COLOUR,
        "grid.linewidth": 0.5,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "hatch.linewidth": 0.6,
        "legend.frameon": False,
        "legend.handlelength": 1.4,
        "legend.borderaxespad": 0.2,
        **dict.fromkeys(
            ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), TEXT_COLOUR
        ),
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
        "svg.fonttype": "none",
        "savefig.dpi": 300,
        "figure.constrained_layout.h_pad": 0.03,
        "figure.constrained_layout.w_pad": 0.03,
    }


_width = ContextVar("width of a new figure in millimetres", default=COLUMN_MM)
_shows = ContextVar("whether pyplot shows a new figure", default=True)


@contextmanager
def make_hidden_figures(width: float) -> Iterator[None]:
    """Make new figures so many millimetres wide, and without pyplot, so that no
    notebook and no window shows them.
    """
    tokens = _width.set(width), _shows.set(False)
    try:
        with rc_context(get_style()):
            yield
    finally:
        _width.reset(tokens[0])
        _shows.reset(tokens[1])


def get_width() -> float:
    """Return the width of a new figure in millimetres."""
    return _width.get()


@contextmanager
def open_panels(
    ax: Axes | Sequence[Axes] | None,
    number: int,
    height: float,
    least_width: float | None = None,
) -> Iterator[list[Axes]]:
    """Yield the axes that were given, or those of a new figure in the style of the
    package.

    Parameters
    ----------
    ax : Axes or sequence of Axes or None
        Axes of the caller, if any.
    number : int
        Number of panels.
    height : float
        Height of one panel in millimetres.
    least_width : float or None
        Least width of one panel in millimetres, where several may stand side by side.
    """
    if ax is not None:
        given = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(given) != number:
            what = (
                f"ax holds {format_count(len(given), 'panel')}, and {number} are needed"
            )
            raise InputError(f"{what}: name one of them, such as 'r1', or give more.")
        yield given
        return
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    width = get_width()
    columns = (
        1 if least_width is None else max(1, min(number, int(width // least_width)))
    )
    rows = -(-number // columns)
    with rc_context(get_style()):
        figure = (plt.figure if _shows.get() else Figure)(
            figsize=(width / MM_PER_INCH, rows * height / MM_PER_INCH),
            layout="constrained",
        )
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for unused in panels[number:]:
            unused.remove()
        yield list(panels[:number])


def join_panels(panels: Sequence[Axes]) -> Any:
    """Return one panel as it is, and several as an array, as matplotlib does."""
    return panels[0] if len(panels) == 1 else np.array(panels, dtype=object)


def shorten_label(label: str, longest: int = _LONGEST_LABEL) -> str:
    """Return the name of a region with an initial for its side, its words shortened
    where it is long.
    """
    name = label.replace(", left", " L").replace(", right", " R")
    if len(name) <= longest:
        return name
    short = " ".join(_SHORT_WORDS.get(word, word) for word in name.split(" "))
    if len(short) <= longest + 4:
        return short
    return short[: longest - 8].rstrip(" .") + "\N{HORIZONTAL ELLIPSIS}" + short[-9:]


def format_minus(text: str) -> str:
    """Return a number with a true minus."""
    return text.replace("-", "\N{MINUS SIGN}")

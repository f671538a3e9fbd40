"""Figures as files: PDF, SVG and PNG, the same bytes for the same figure."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from rindices.atomic import atomic_path
from rindices.plot import style

_UNDATED: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
_PNG_DPI = 200


def get_figure(axes: Any) -> Figure:
    """Return the figure of one or several axes."""
    figure = np.ravel(np.asarray(axes, dtype=object))[0].figure
    assert isinstance(figure, Figure)
    return figure


def save_figure(figure: Figure, path: Path, dpi: int) -> None:
    """Write a figure into a file, whose ending says the format."""
    suffix = path.suffix.removeprefix(".")
    with rc_context({"svg.hashsalt": path.stem}), atomic_path(path) as temporary_path:
        figure.savefig(temporary_path, dpi=dpi, metadata=_UNDATED[suffix])


def render_figure(
    draw: Callable[[], Any], width: float, suffix: str, name: str = "", **options: Any
) -> bytes:
    """Return what a function of `rindices.plot` draws as the content of a file.

    Parameters
    ----------
    draw : callable
        Returns axes.
    width : float
        Of a new figure, in millimetres.
    suffix : {"pdf", "svg", "png"}
        Format of the file.
    name : str
        From which the ids of an SVG file are made.
    **options
        Of ``savefig``.
    """
    file = io.BytesIO()
    with style.make_hidden_figures(width), rc_context({"svg.hashsalt": name}):
        get_figure(draw()).savefig(
            file, format=suffix, metadata=_UNDATED[suffix], **options
        )
    return file.getvalue()


def write_png(
    path: Path, draw: Callable[[], Any], width: float = style.PAGE_MM
) -> None:
    """Write what a function of `rindices.plot` draws into a PNG file."""
    content = render_figure(draw, width, "png", dpi=_PNG_DPI)
    with atomic_path(path) as temporary_path:
        temporary_path.write_bytes(content)

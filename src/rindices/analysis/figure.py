"""The one style of figures that commands write as PNG files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rindices.atomic import atomic_path

UP_COLOUR, DOWN_COLOUR, UNSURE_COLOUR, LINE_COLOUR = "#D55E00", "#0072B2", "#9AA3AD", "#444444"


@contextmanager
def draw_panels(
    path: Path, size: tuple[float, float], n_rows: int, n_columns: int, width_ratios: list[float] | None = None
) -> Iterator[Any]:
    """Yield the axes (rows, columns) of a figure with a size in inches, and write it in the end."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(n_rows, n_columns, width_ratios=width_ratios, squeeze=False)
    for axes in panels.flat:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    yield panels
    with atomic_path(path) as temporary_path:
        figure.savefig(temporary_path, dpi=150)

"""Boxes of the texts that a figure shows."""

from itertools import combinations
from unittest import mock

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text


def list_faults(figure: Figure) -> list[str]:
    """Return texts of a figure that overlap or that its edge cuts."""
    drawn: dict[int, Text] = {}
    draw = Text.draw

    def record(text: Text, *arguments: object) -> None:
        if text.get_visible() and text.get_text().strip():
            drawn[id(text)] = text
        draw(text, *arguments)

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    with mock.patch.object(Text, "draw", record):
        canvas.draw()
    boxes = [
        (text.get_text(), text.get_window_extent(canvas.get_renderer()))
        for text in drawn.values()
    ]
    faults = [
        f"{text!r} is cut"
        for text, box in boxes
        if box.x0 < -0.5
        or box.y0 < -0.5
        or box.x1 > figure.bbox.x1 + 0.5
        or box.y1 > figure.bbox.y1 + 0.5
    ]
    for (first, one), (second, other) in combinations(boxes, 2):
        width = min(one.x1, other.x1) - max(one.x0, other.x0)
        height = min(one.y1, other.y1) - max(one.y0, other.y0)
        if width > 0.5 and height > 1.5:  # a box has room for letters that hang
            faults.append(f"{first!r} and {second!r} overlap")
    return faults

"""Texts that docstrings of figures have in common; ``%(ax)s`` stands for the first."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

COMMON_TEXTS = {
    "ax": """ax : Axes, optional
    Where to draw. Default: a new figure, 85 mm wide.""",
    "axes": """ax : Axes or sequence of Axes, optional
    Where to draw. Default: a new figure, 85 mm wide.""",
    "colorbar": """colorbar : bool
    Whether to draw the colour bar.""",
    "drawn": """Returns
-------
Axes
    Where it was drawn.""",
    "people": """people : bool
    Whether to draw a point for each person.""",
    "pattern_study": """study : FittedModel or path or DataFrame
    A fitted model, the folder of a study, or a table as ``patterns.tsv``: ``pattern``,
    ``region``, ``change``, and where they are known ``low``, ``high``, ``severity``.""",
    "people_study": """study : FittedModel or path or DataFrame
    A fitted model as ``ri.fit`` returns it, the folder of a study, or R-indices as
    ``apply`` returns them, with a column ``group`` where groups are drawn.""",
    "study": """study : FittedModel or path
    A fitted model as ``ri.fit`` returns it, or the folder of a study.""",
}
Drawn = TypeVar("Drawn", bound=Callable[..., Any])


def fill_docstring(function: Drawn) -> Drawn:
    """Put common texts into the docstring of a function, and return it."""
    text = inspect.cleandoc(function.__doc__ or "")
    for name, common in COMMON_TEXTS.items():
        text = text.replace(f"%({name})s", common)
    function.__doc__ = text
    return function

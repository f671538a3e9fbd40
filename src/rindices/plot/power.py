"""The figure of a power study: what to expect of a number of people."""

from typing import Any

import pandas as pd

from rindices.plot import style

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_SHOWN: dict[str, tuple[str, tuple[float, float | None]]] = {
    "accuracy": ("accuracy (pattern-c-index)", (0.5, 1.0)),
    "right": ("chance of the right number", (-0.03, 1.03)),
    "width": ("width of a person's 95 % interval", (0.0, None)),
}


def power(table: pd.DataFrame, ax: Any = None) -> Any:
    """Draw accuracy, chance of the right number and width of intervals by the number of
    people.

    Parameters
    ----------
    table : DataFrame
        ``effect``, ``controls``, ``patients``, ``accuracy``, ``right`` and ``width``,
        the latter three with standard errors (``accuracy_se``, ...).
    ax : sequence of three Axes, optional
        Where to draw. Default: a new figure, 85 mm wide.

    Returns
    -------
    ndarray of Axes
        Where it was drawn.
    """
    sizes = sorted(set(zip(table["controls"], table["patients"], strict=True)))
    with style.open_panels(ax, len(_SHOWN), 62.0, 58.0) as panels:
        for panel, (name, (label, limits)) in zip(panels, _SHOWN.items(), strict=True):
            for (effect, rows), colour, marker in zip(
                table.groupby("effect"), style.SERIES_COLOURS, _MARKERS, strict=False
            ):
                panel.errorbar(
                    rows["controls"] + rows["patients"],
                    rows[name],
                    rows[f"{name}_se"].astype(float).fillna(0.0),
                    color=colour,
                    marker=marker,
                    ms=3,
                    lw=1,
                    label=effect,
                )
            labels = [f"{controls}\n+ {patients}" for controls, patients in sizes]
            panel.set_xscale("log")
            panel.set_xticks([sum(size) for size in sizes], labels)
            panel.set_xticks([], minor=True)
            panel.set_title(label)
            panel.set_ylim(*limits)
            panel.grid()
        panels[0].set_xlabel("controls + patients")
        panels[0].legend()
    return style.join_panels(panels)

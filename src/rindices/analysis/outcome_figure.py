"""Figure of a predicted outcome: survival by thirds of each R-index, or ratios with intervals."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices.analysis.figure import DOWN_COLOUR, LINE_COLOUR, UNSURE_COLOUR, UP_COLOUR, draw_panels
from rindices.analysis.predict import THIRDS, OutcomePrediction

_COLOURS = dict(zip(THIRDS, (DOWN_COLOUR, UNSURE_COLOUR, UP_COLOUR), strict=True))


def plot_outcome(prediction: OutcomePrediction, path: Path) -> None:
    """Draw survival by thirds (if there are times) and ratios per standard deviation into a PNG file."""
    curves = {} if prediction.survival is None else dict(list(prediction.survival.groupby("index", sort=False)))
    with draw_panels(path, (3.6 * (len(curves) + 1) + 0.6, 3.6), 1, len(curves) + 1) as panels:
        for (name, curve), axes in zip(curves.items(), panels[0], strict=False):
            _plot_survival(axes, curve, name)
        _plot_ratios(panels[0, -1], prediction.effects)


def _plot_survival(axes: Any, curves: pd.DataFrame, name: str) -> None:
    for third, colour in _COLOURS.items():
        curve = curves[curves["third"] == third]
        axes.step(curve["time"], curve["survival"], where="post", color=colour, label=f"{third} third")
        axes.fill_between(curve["time"], curve["low"], curve["high"], step="post", color=colour, alpha=0.15, lw=0)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("time")
    axes.set_ylabel("share without the event")
    p = float(curves["log_rank_p"].iloc[0])
    axes.set_title(f"{name}, log-rank p = {p:.2g}", loc="left", fontsize="medium")
    axes.legend(loc="lower left", frameon=False, fontsize="small")


def _plot_ratios(axes: Any, effects: pd.DataFrame) -> None:
    """Draw ratios of single and joint models, the first R-index at the top."""
    names = list(dict.fromkeys(effects["index"]))
    for model, offset, marker in (("single", -0.12, "o"), ("joint", 0.12, "s")):
        rows = effects[effects["model"] == model].set_index("index").reindex(names)
        y = np.arange(len(names)) + offset
        errors = [rows["ratio"] - rows["low"], rows["high"] - rows["ratio"]]
        axes.errorbar(rows["ratio"], y, xerr=errors, fmt=marker, ms=5, capsize=3, label=model)
    axes.axvline(1, color=LINE_COLOUR, lw=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    kind = "hazard" if effects["regression"].iloc[0] == "cox" else "odds"
    axes.set_xlabel(f"{kind} ratio per standard deviation")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="both", labelsize="small", rotation=45)
    axes.legend(frameon=False, fontsize="small")
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", alpha=0.3)

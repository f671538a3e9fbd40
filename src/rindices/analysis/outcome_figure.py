"""Figure of a predicted outcome: survival by thirds of each R-index, or ratios with intervals."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from rindices.analysis.predict import THIRDS, OutcomePrediction
from rindices.atomic import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = dict(zip(THIRDS, ("#0072B2", "#9AA3AD", "#D55E00"), strict=True))


def plot_outcome(prediction: OutcomePrediction, path: Path) -> None:
    """Draw survival by thirds (if there are times) and ratios per standard deviation into a PNG file."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(prediction.effects["index"]))
    n_curves = 0 if prediction.survival is None else len(names)
    figure = Figure(figsize=(3.6 * (n_curves + 1) + 0.6, 3.6), layout="constrained")
    axes = figure.subplots(1, n_curves + 1, squeeze=False)[0]
    for name, panel in zip(names, axes[:n_curves], strict=False):
        assert prediction.survival is not None
        _plot_survival(panel, prediction.survival[prediction.survival["index"] == name], name)
    _plot_ratios(axes[-1], prediction.effects)
    with atomic_path(path) as temporary_path:
        figure.savefig(temporary_path, dpi=150)


def _plot_survival(axes: "Axes", curves: pd.DataFrame, name: str) -> None:
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
    _style_axes(axes, "y")


def _plot_ratios(axes: "Axes", effects: pd.DataFrame) -> None:
    """Draw ratios of single and joint models, the first R-index at the top."""
    names = list(dict.fromkeys(effects["index"]))
    for model, offset, marker in (("single", -0.12, "o"), ("joint", 0.12, "s")):
        rows = effects[effects["model"] == model].set_index("index").reindex(names)
        y = np.arange(len(names)) + offset
        errors = [rows["ratio"] - rows["low"], rows["high"] - rows["ratio"]]
        axes.errorbar(rows["ratio"], y, xerr=errors, fmt=marker, ms=5, capsize=3, label=model)
    axes.axvline(1, color="#444444", lw=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    kind = "hazard" if effects["regression"].iloc[0] == "cox" else "odds"
    axes.set_xlabel(f"{kind} ratio per standard deviation")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="both", labelsize="small", rotation=45)
    axes.legend(frameon=False, fontsize="small")
    _style_axes(axes, "x")


def _style_axes(axes: "Axes", grid: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x" if grid == "x" else "y", alpha=0.3)

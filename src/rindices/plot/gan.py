"""Figures of a Surreal-GAN: its training, its synthetic patients, its transformation f,
and its choice by agreement.

Shape letters: N participants, R regions, M patterns, L severities.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib import rcParams
from matplotlib.axes import Axes

from rindices._typing import FloatArray
from rindices.errors import InputError
from rindices.plot.source import Study, StudySource
from rindices.plot.style import open_panels

LOSSES = {
    "discrimination": "D against f",
    "adversarial": "f against D",
    "change": "size of the change",
    "decomposition": "decomposition",
    "reconstruction": "reconstruction",
    "orthogonality": "orthogonality",
    "monotonicity": "monotonicity",
    "near_zero": "no change near zero",
}
"""Columns of a history, and the names of the losses in figures."""
_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#6a3df0",
    "#7f7f7f",
)
"""Readable on white and on black, and for colour-blind readers."""
_LINES = ("-", "--", "-.", ":")


def training(
    study: Study | pd.DataFrame,
    losses: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the losses of a training by step: the mean of the members, and their range.

    Parameters
    ----------
    study : FittedModel or path or DataFrame
        A study with Surreal-GAN, or ``SurrealGAN.history_``: ``member``, ``step`` and a
        column for each loss.
    losses : sequence of str, optional
        Columns to draw. Default: all.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With a logarithmic y axis.
    """
    history = (
        study
        if isinstance(study, pd.DataFrame)
        else StudySource.of(study).get(
            "history",
            "training of networks",
            "fit it with method surreal-gan, and give its folder",
        )
    )
    chosen = (
        [name for name in LOSSES if name in history] if losses is None else list(losses)
    )
    with open_panels(ax, 1, 62.0) as (ax,):
        for k, name in enumerate(chosen):
            colour = _COLOURS[k % len(_COLOURS)]
            by_step = history.groupby("step")[name]
            mean = by_step.mean()
            ax.plot(
                mean.index,
                mean,
                color=colour,
                lw=1.2,
                ls=_LINES[k % len(_LINES)],
                label=LOSSES.get(name, name),
            )
            ax.fill_between(
                mean.index, by_step.min(), by_step.max(), color=colour, alpha=0.15, lw=0
            )
        ax.set(
            xlabel="step", ylabel="loss (mean and range of the members)", yscale="log"
        )
        ax.legend(
            fontsize="small",
            ncols=2,
            frameon=False,
            loc="lower left",
            bbox_to_anchor=(0, 1),
        )
    return ax


def synthetic(
    real: FloatArray,
    generated: FloatArray,
    statistic: str = "mean",
    ax: Axes | None = None,
) -> Axes:
    """Draw a moment of each region in synthetic patients against the same moment in
    real ones.

    Parameters
    ----------
    real : ndarray of shape (R,)
        Mean or standard deviation of each region in real patients, in standard
        deviations of controls: ``mean_real`` or ``sd_real`` of ``synthetic.tsv``.
    generated : ndarray of shape (R,)
        The same of synthetic patients: ``mean_synthetic`` or ``sd_synthetic``.
    statistic : {"mean", "sd"}
        Which moment it is.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        With one point for each region, and the line on which both are equal.
    """
    if statistic not in ("mean", "sd"):
        raise InputError(f"statistic is {statistic!r}; give 'mean' or 'sd'.")
    with open_panels(ax, 1, 80.0) as (ax,):
        x, y = np.asarray(real), np.asarray(generated)
        if x.ndim != 1 or x.shape != y.shape:
            cure = f"give one {statistic} for each region, such as real.{'mean' if statistic == 'mean' else 'std'}(axis=0)"
            raise InputError(
                f"real and generated have shapes {x.shape} and {y.shape}: {cure}."
            )
        ends = min(x.min(), y.min()), max(x.max(), y.max())
        ax.axline(
            (ends[0], ends[0]),
            (ends[1], ends[1]),
            color=rcParams["axes.edgecolor"],
            lw=0.8,
        )
        ax.plot(x, y, "o", color=_COLOURS[0], ms=3.5, alpha=0.7, mew=0)
        noun = "mean" if statistic == "mean" else "standard deviation"
        ax.set(
            xlabel=f"{noun} of real patients (control sd)",
            ylabel=f"{noun} of synthetic patients (control sd)",
        )
    return ax


def transformation(
    changes: FloatArray,
    regions: Sequence[str],
    severities: Sequence[float] = (1 / 3, 2 / 3, 1.0),
    n_regions: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draw f: the mean change of controls under one pattern at some severities, for the
    regions that change most.

    Parameters
    ----------
    changes : ndarray of shape (L, R)
        Mean of f(x, z) - x over controls, in control standard deviations, at each
        severity.
    regions : sequence of str
        Names of the R regions.
    severities : sequence of float
        The L severities of ``changes``.
    n_regions : int
        How many regions to draw.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        One row for each region, one marker for each severity, the darkest at the
        largest.
    """
    changes = np.asarray(changes)
    chosen = np.argsort(-np.abs(changes[-1]), kind="stable")[:n_regions]
    with open_panels(ax, 1, 16.0 + 4.0 * len(chosen)) as (ax,):
        rows = np.arange(len(chosen))
        ax.hlines(rows, 0, changes[-1, chosen], color=rcParams["grid.color"], lw=1)
        for severity, change in zip(severities, changes, strict=True):
            shade = 0.25 + 0.75 * float(severity) / max(severities)
            ax.plot(
                change[chosen],
                rows,
                "o",
                color=_COLOURS[0],
                alpha=shade,
                ms=5,
                mew=0,
                label=f"z = {severity:.2g}",
            )
        ax.axvline(0, color=rcParams["axes.edgecolor"], lw=0.8)
        ax.set_yticks(rows, [regions[index] for index in chosen])
        ax.invert_yaxis()
        ax.set_xlabel("change of controls under f (control sd)")
        ax.legend(
            fontsize="small",
            ncols=3,
            frameon=False,
            loc="lower right",
            bbox_to_anchor=(1, 1),
        )
    return ax


def agreement(grid: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the agreement of the members by number of patterns and weight lambda, as
    Figure 2 of the paper does.

    Parameters
    ----------
    grid : DataFrame
        ``n_patterns``, ``orthogonality`` (lambda) and ``agreement``, with optional
        ``low`` and ``high``, and ``chosen``, true for one setting.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    Axes
        One line for each number of patterns; a ring at the chosen setting, or at the
        best one.
    """
    with open_panels(ax, 1, 60.0) as (ax,):
        for (number, rows), colour in zip(
            grid.groupby("n_patterns"), _COLOURS, strict=False
        ):
            rows = rows.sort_values("orthogonality")
            noun = "pattern" if number == 1 else "patterns"
            ax.plot(
                rows["orthogonality"],
                rows["agreement"],
                "o-",
                color=colour,
                ms=4,
                label=f"{number} {noun}",
            )
            if {"low", "high"} <= set(rows):
                ax.fill_between(
                    rows["orthogonality"],
                    rows["low"],
                    rows["high"],
                    color=colour,
                    alpha=0.12,
                    lw=0,
                )
        best = grid.loc[
            (grid["chosen"] if "chosen" in grid else grid["agreement"]).idxmax()
        ]
        ax.plot(
            best["orthogonality"],
            best["agreement"],
            "o",
            mfc="none",
            mec=rcParams["text.color"],
            ms=11,
        )
        ax.set(
            xlabel="weight of the orthogonality loss (lambda)",
            ylabel="agreement of the members (c-index)",
        )
        ax.legend(fontsize="small", frameon=False)
    return ax

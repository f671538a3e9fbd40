"""Figures of simulated people, whose true severities are known.

Shape letters: N patients, M patterns.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rindices._typing import FloatArray
from rindices.errors import InputError
from rindices.plot import style
from rindices.plot.docs import fill_docstring
from rindices.plot.people import MIN_PEOPLE
from rindices.plot.style import MUTED_COLOUR, PATIENT_COLOUR
from rindices.selection.agreement import pattern_c_index

_MAX_BINS = 10
_PANEL_MM, _LEAST_MM = 56.0, 55.0


@fill_docstring
def recovery(
    truth: FloatArray,
    indices: FloatArray | pd.DataFrame,
    people: bool = False,
    ax: Axes | Sequence[Axes] | None = None,
) -> Any:
    """Draw R-indices against the true severities of simulated patients.

    Each pattern is drawn with the R-index that ranks people most like it. Points are
    medians of bins of as many people each, bars span their quartiles, and on the dashed
    line both are equal. The c-index is the share of pairs of people that are ranked
    alike: 0.5 is chance, 1 is perfect.

    Parameters
    ----------
    truth : ndarray of shape (N, M)
        True severities.
    indices : ndarray or DataFrame of shape (N, M)
        R-indices of the same people.
    %(people)s
    %(axes)s

    Returns
    -------
    Axes or ndarray of Axes
        One for each pattern.

    Examples
    --------
    >>> import numpy as np
    >>> import rindices as ri
    >>> truth = np.random.default_rng(0).uniform(size=(200, 2))
    >>> axes = ri.plot.recovery(truth, truth[:, ::-1] ** 2)
    >>> axes[0].get_title(loc="left")
    'pattern 1: c-index 1.00'
    """
    truth, indices = np.asarray(truth, dtype=float), np.asarray(indices, dtype=float)
    if truth.ndim != 2 or truth.shape != indices.shape:
        raise InputError(
            f"truth and indices have shapes {truth.shape} and {indices.shape}: give one row for each patient and one column for each pattern."
        )
    if len(truth) < 3 * MIN_PEOPLE:
        raise InputError(f"{len(truth)} people: {3 * MIN_PEOPLE} are needed.")
    score = pattern_c_index(truth, indices)
    with style.open_panels(ax, truth.shape[1], _PANEL_MM, _LEAST_MM) as panels:
        for k, panel in enumerate(panels):
            _draw_bins(panel, truth[:, k], indices[:, score.matching[k]], people)
            panel.set_title(f"pattern {k + 1}: c-index {score.per_pattern[k]:.2f}")
            panel.set(xlabel="true severity", ylabel="R-index")
            panel.set_xticks((0.0, 0.5, 1.0))
            panel.set_yticks((0.0, 0.5, 1.0))
    return style.join_panels(panels)


def _draw_bins(panel: Axes, x: FloatArray, y: FloatArray, people: bool) -> None:
    number = int(np.clip(len(x) // (2 * MIN_PEOPLE), 3, _MAX_BINS))
    parts = np.array_split(np.argsort(x, kind="stable"), number)
    centres = np.array([x[part].mean() for part in parts])
    low, median, high = np.array(
        [np.quantile(y[part], (0.25, 0.5, 0.75)) for part in parts]
    ).T
    panel.axline((0, 0), slope=1, color=MUTED_COLOUR, lw=0.8, ls="--")
    if people:
        panel.scatter(x, y, s=3, color=PATIENT_COLOUR, alpha=0.35, lw=0)
    panel.vlines(centres, low, high, PATIENT_COLOUR, lw=1.4)
    panel.plot(centres, median, "o", ms=4.5, color=PATIENT_COLOUR, mfc="white", mew=1.1)
    panel.grid()

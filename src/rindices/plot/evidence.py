"""Evidence: why so many patterns, how well they are reproduced, and with what they are
correlated.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rindices.errors import InputError
from rindices.model.records import MIN_SPLIT_HALF
from rindices.plot import style
from rindices.plot.brain import COLOUR_MAP, add_colour_bar
from rindices.plot.docs import fill_docstring
from rindices.plot.source import Study, StudySource
from rindices.plot.style import (
    CONTROL_COLOUR,
    GRID_COLOUR,
    MARKERS,
    MUTED_COLOUR,
    PATIENT_COLOUR,
    TEXT_COLOUR,
)
from rindices.selection.choose import MIN_STABLE_CONCORDANCE
from rindices.study.checks import MIN_CARRIER_FRACTION

_ROW_MM = 4.2
_MAX_Q = 0.05
_MAX_VARIABLES = 25
_MEASURES = {
    "reproducibility": ("split-half rank correlation", MIN_SPLIT_HALF),
    "auc": ("AUC", 0.5),
    "prevalence": ("prevalence above controls", MIN_CARRIER_FRACTION),
}
_CORRELATION_MAP = f"{COLOUR_MAP}_r"
"""Red for positive correlations: a larger severity goes with more of the variable."""


@fill_docstring
def number(study: Study, by: str = "test", ax: Axes | None = None) -> Axes:
    """Draw why a study has so many patterns.

    Parameters
    ----------
    %(study)s
    by : {"test", "agreement"}
        ``test``: how much more patients vary than controls, relative to permuted
        labels, as directions are removed one by one. ``agreement``: how well ensemble
        members, or fits on disjoint halves, agree for each number that was tried.
    %(ax)s

    %(drawn)s

    Examples
    --------
    >>> import rindices as ri
    >>> axes = ri.plot.number("results")
    >>> axes.get_yticklabels()[0].get_text()
    'none removed'
    """
    source = StudySource.of(study)
    selection = source.get(
        "selection", "record of its tests", "give the folder of the study"
    )
    if by == "test":
        return _draw_test(selection.number_of_patterns.test, ax)
    if by == "agreement":
        return _draw_agreement(selection, ax)
    raise InputError(f"by is {by!r}; give 'test' or 'agreement'.")


def _draw_test(test: Any, ax: Axes | None) -> Axes:
    table = pd.DataFrame([step.to_dict() for step in test.curve])
    # rows may be of different statistics, so that all are drawn relative to chance
    chance = table["chance_95"].clip(lower=1e-9)
    relative, median = table["excess"] / chance, table["chance_median"] / chance
    left = 0.9 * max(0.1, min(1.0, relative.min(), median.min()))
    right = 1.4 * max(1.0, relative.max())
    with style.open_panels(ax, 1, 12.0 + _ROW_MM * len(table)) as (panel,):
        panel.barh(table.index, 1.0 - left, 0.62, left, color=GRID_COLOUR)
        panel.plot(median, table.index, "|", color=MUTED_COLOUR, ms=7, mew=1)
        panel.plot(relative, table.index, color=TEXT_COLOUR, lw=0.8)
        exceeds = (table["p"] <= test.level).to_numpy()
        for shown, fill in ((exceeds, PATIENT_COLOUR), (~exceeds, "white")):
            panel.plot(
                relative[shown],
                table.index[shown],
                "o",
                ms=4.5,
                mfc=fill,
                mec=PATIENT_COLOUR if fill != "white" else TEXT_COLOUR,
            )
        panel.set(xscale="log", xlim=(left, right), ylim=(len(table) - 0.45, -0.55))
        panel.set_xlabel("excess variance of patients (1: 95th percentile of chance)")
        marks = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
        ticks = [tick for tick in marks if left < tick < right]
        ticks = ticks[:: 1 + len(ticks) // 7]
        panel.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
        panel.minorticks_off()
        labels = [f"{count or 'none'} removed" for count in table["patterns"]]
        panel.set_yticks(table.index, labels)
        beside = panel.secondary_yaxis("right")
        beside.set_yticks(table.index, [_format_p(p) for p in table["p"]])
        beside.tick_params(length=0)
        beside.spines[:].set_visible(False)
    return panel


def _format_p(p: float) -> str:
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def _draw_agreement(selection: Any, ax: Axes | None) -> Axes:
    grid = [each for each in selection.grid if each.agreement.concordance is not None]
    if not grid:
        raise InputError("no setting of the study was trained twice: draw by='test'.")
    chosen = None if selection.chosen is None else selection.chosen.setting
    weights = {each.setting.orthogonality for each in grid}
    labels = []
    with style.open_panels(ax, 1, 12.0 + _ROW_MM * len(grid)) as (panel,):
        for row, each in enumerate(grid):
            colour = PATIENT_COLOUR if each.setting == chosen else TEXT_COLOUR
            members = [value for value in each.by_member if value is not None]
            panel.plot(
                members, [row] * len(members), "|", color=MUTED_COLOUR, ms=5, mew=0.6
            )
            low, high = each.concordance_interval
            if low is not None:
                panel.hlines(row, low, high, colour, lw=1.6)
            panel.plot(
                [each.agreement.concordance],
                [row],
                "o",
                ms=4.5,
                mfc=colour if each.setting == chosen else "white",
                mec=colour,
            )
            count = each.setting.n_patterns
            label = f"{count} pattern{'s' if count != 1 else ''}"
            if len(weights) > 1:
                label += (
                    f", \N{GREEK SMALL LETTER LAMDA} {each.setting.orthogonality:g}"
                )
            labels.append(label)
        lowest = min(each.agreement.concordance for each in grid)
        panel.axvline(MIN_STABLE_CONCORDANCE, color=MUTED_COLOUR, lw=0.8, ls="--")
        look: dict[str, Any] = {
            "ha": "right",
            "va": "bottom",
            "fontsize": 6,
            "color": MUTED_COLOUR,
        }
        panel.text(MIN_STABLE_CONCORDANCE, -0.62, "needed ", **look)
        panel.set_yticks(range(len(grid)), labels)
        panel.set(
            ylim=(len(grid) - 0.4, -0.6),
            xlim=(min(0.5, lowest - 0.02), 1.005),
            xlabel="agreement (0.5 is chance, 1 is perfect)",
        )
        panel.grid(axis="x")
    return panel


@fill_docstring
def reproducibility(study: Study, ax: Axes | None = None) -> Axes:
    """Draw how well each pattern is reproduced and separates the groups.

    Reproducibility is the rank correlation of R-indices between two halves of the
    people, with the middle 95 % of pairs of halves; AUC and prevalence are of held-out
    people, with 95 % intervals. Dashed: below it, a figure is called weak.

    Parameters
    ----------
    %(study)s
    %(ax)s

    %(drawn)s

    Examples
    --------
    >>> import rindices as ri
    >>> axes = ri.plot.reproducibility("results")
    >>> axes.get_yticklabels()[0].get_text()
    'split-half rank correlation'
    """
    source = StudySource.of(study)
    findings = source.get(
        "findings", "findings", "give the folder of the study, not its model file"
    )
    labels: list[str] = []
    marks: list[tuple[int, int, Any]] = []
    blocks: list[tuple[int, int, float]] = []
    for name, (title, threshold) in _MEASURES.items():
        known = [
            (k, estimate)
            for k, pattern in enumerate(findings.patterns)
            if (estimate := getattr(pattern, name)) is not None
        ]
        if not known:
            continue
        labels.append(title)
        blocks.append((len(labels), len(labels) + len(known) - 1, threshold))
        for k, estimate in known:
            marks.append((len(labels), k, estimate))
            labels.append(findings.patterns[k].name)
    with style.open_panels(ax, 1, 10.0 + 3.8 * len(labels)) as (panel,):
        for row, k, estimate in marks:
            if estimate.low is not None and estimate.high is not None:
                panel.hlines(row, estimate.low, estimate.high, TEXT_COLOUR, lw=1.2)
            panel.plot(
                [estimate.value],
                [row],
                MARKERS[k % len(MARKERS)],
                ms=4.5,
                mfc=CONTROL_COLOUR,
                mec=TEXT_COLOUR,
                mew=0.7,
                clip_on=False,
            )
        for first, last, threshold in blocks:
            panel.vlines(
                threshold, first - 0.4, last + 0.4, MUTED_COLOUR, lw=0.8, ls="--"
            )
        panel.set_yticks(range(len(labels)), labels)
        heads = {first - 1 for first, _, _ in blocks}
        for row, text in enumerate(panel.get_yticklabels()):
            text.set_fontweight("bold" if row in heads else "normal")
        panel.tick_params(axis="y", length=0)
        panel.grid(axis="x")
        panel.spines["left"].set_visible(False)
        panel.set(xlim=(0, 1), ylim=(len(labels) - 0.4, -0.6))
    return panel


@fill_docstring
def associations(
    study: Study | pd.DataFrame,
    variables: list[str] | None = None,
    ax: Axes | None = None,
    colorbar: bool = True,
) -> Axes:
    """Draw the correlations of R-indices with clinical variables.

    A number stands in each cell. It is bold and framed where the false discovery rate
    is at most 5 %.

    Parameters
    ----------
    study : FittedModel or path or DataFrame
        The folder of a study into which ``rindices associate`` has written, or the
        table of `rindices.analysis.associate_indices`.
    variables : list of str, optional
        Which variables to draw, in this order. Default: the 25 most strongly
        correlated, the strongest at the top.
    %(ax)s
    %(colorbar)s

    %(drawn)s

    Examples
    --------
    >>> import pandas as pd
    >>> import rindices as ri
    >>> indices = pd.read_table("results/r_indices.tsv")
    >>> scores = indices[["participant_id"]].assign(score=indices["r1"] ** 2)
    >>> table = ri.analysis.associate_indices(indices, scores)
    >>> axes = ri.plot.associations(table)
    >>> axes.get_yticklabels()[0].get_text()
    'score'
    """
    if isinstance(study, pd.DataFrame):
        table = study
    else:
        table = StudySource.of(study).get(
            "associations",
            "associations",
            "write them: rindices associate results/r_indices.tsv clinical.tsv --out results",
        )
    table = table[table["correlation"].notna()]
    if table.empty:
        raise InputError("no correlation of the table is known: look at its notes.")
    values = table.pivot_table(index="variable", columns="index", values="correlation")
    strength = values.abs().max(axis=1).sort_values(ascending=False, kind="stable")
    wanted = list(strength.index[:_MAX_VARIABLES]) if variables is None else variables
    if missing := [name for name in wanted if name not in values.index]:
        raise InputError(f"the associations have no variable {missing[0]!r}.")
    values = values.loc[wanted]
    q = table.pivot_table(index="variable", columns="index", values="q")
    q = q.reindex(index=values.index, columns=values.columns)
    height = 8.0 + 4.4 * len(values) + 9.0 * colorbar
    with style.open_panels(ax, 1, height) as (panel,):
        limit = 1.0 if strength.max() > 0.5 else 0.5
        panel.imshow(values, _CORRELATION_MAP, vmin=-limit, vmax=limit, aspect="auto")
        _write_cells(panel, values, q, limit)
        panel.set_xticks(range(values.shape[1]), list(values.columns))
        panel.xaxis.tick_top()
        panel.set_yticks(range(len(values)), [str(name) for name in values.index])
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
        if colorbar:
            bar = add_colour_bar(
                panel,
                limit,
                "correlation (bold, framed: q \N{LESS-THAN OR EQUAL TO} 0.05)",
                pad=max(0.02, 0.3 / len(values)),
            )
            bar.mappable.set_cmap(_CORRELATION_MAP)
    return panel


def _write_cells(
    panel: Axes, values: pd.DataFrame, q: pd.DataFrame, limit: float
) -> None:
    from matplotlib.patches import Rectangle

    for row, column in np.ndindex(values.shape):
        value = float(values.iloc[row, column])
        if np.isnan(value):
            continue
        is_sure = bool(q.iloc[row, column] <= _MAX_Q)
        panel.text(
            column,
            row,
            style.format_minus(f"{value:+.2f}"),
            ha="center",
            va="center",
            fontsize=6,
            fontweight="bold" if is_sure else "normal",
            color="white" if abs(value) > 0.7 * limit else TEXT_COLOUR,
        )
        if is_sure:
            panel.add_patch(
                Rectangle(
                    (column - 0.46, row - 0.42),
                    0.92,
                    0.84,
                    fill=False,
                    ec=TEXT_COLOUR,
                    lw=0.8,
                )
            )

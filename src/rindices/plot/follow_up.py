"""What follows: change between visits, outcomes, and a second cohort.

Single people are drawn only where ``people=True`` asks for them.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rindices.analysis.change import YearlyChange
from rindices.analysis.predict import THIRDS, OutcomePrediction
from rindices.analysis.replicate import Replication, format_p
from rindices.errors import InputError
from rindices.plot import style
from rindices.plot.people import MIN_PEOPLE
from rindices.plot.style import (
    CONTROL_COLOUR,
    GRID_COLOUR,
    GROUP_COLOURS,
    MUTED_COLOUR,
    PATIENT_COLOUR,
    TEXT_COLOUR,
)
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.cohort import GROUP, ID

_MAX_COURSES = 60  # people of a group whose visits are drawn
_COLOURS = {CONTROL: CONTROL_COLOUR, PATIENT: PATIENT_COLOUR}
_MARKERS = {CONTROL: "o", PATIENT: "s"}
_ROW_MM, _PANEL_MM = 9.0, 52.0
_THIRD_COLOURS = dict(
    zip(THIRDS, (GROUP_COLOURS[0], GROUP_COLOURS[2], PATIENT_COLOUR), strict=True)
)


def change(result: YearlyChange | pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the mean change per year of controls and patients, with 95 % intervals.

    Parameters
    ----------
    result : YearlyChange or DataFrame
        What ``change_per_year`` has returned, or the content of
        ``change_groups.tsv``.
    ax : Axes, optional
        Where to draw. Default: a new figure, 85 mm wide.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> import pandas as pd
    >>> import rindices as ri
    >>> row = {"index": "r1", "p": 0.01}
    >>> row |= {"controls_per_year": 0.01, "patients_per_year": 0.06}
    >>> row |= {"controls_per_year_low": 0.0, "controls_per_year_high": 0.02}
    >>> row |= {"patients_per_year_low": 0.04, "patients_per_year_high": 0.08}
    >>> axes = ri.plot.change(pd.DataFrame([row]))
    >>> axes.get_xlabel()
    'change per year (95 % interval)'
    """
    groups = result.groups if isinstance(result, YearlyChange) else result
    if groups is None:
        raise InputError(
            "no groups were compared: give change_per_year visits with the column 'group'."
        )
    with style.open_panels(ax, 1, 14.0 + _ROW_MM * len(groups)) as (panel,):
        for (label, colour), offset in zip(
            _COLOURS.items(), (-0.16, 0.16), strict=True
        ):
            mean, low, high = (
                groups[f"{label}s_per_year{end}"].to_numpy(dtype=float)
                for end in ("", "_low", "_high")
            )
            panel.errorbar(
                mean,
                np.arange(len(groups)) + offset,
                xerr=[mean - low, high - mean],
                fmt=_MARKERS[label],
                color=colour,
                ms=4,
                lw=1.2,
                label=f"{label}s",
            )
        panel.axvline(0, color=MUTED_COLOUR, lw=0.6, zorder=0)
        panel.set_yticks(range(len(groups)), groups["index"])
        panel.set(
            ylim=(len(groups) - 0.5, -0.5), xlabel="change per year (95 % interval)"
        )
        for row, p in enumerate(groups["p"]):
            panel.annotate(
                format_p(p),
                (1.0, row),
                xytext=(3, 0),
                xycoords=panel.get_yaxis_transform(),
                textcoords="offset points",
                va="center",
                fontsize=6.5,
            )
        panel.tick_params(axis="y", length=0)
        panel.grid(axis="x")
        panel.spines["left"].set_visible(False)
        panel.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return panel


def visits(
    result: YearlyChange, people: bool = False, ax: Axes | None = None
) -> Axes | Any:
    """Draw the mean change since the first visit, with its 95 % interval.

    Parameters
    ----------
    result : YearlyChange
        What ``change_per_year`` has returned. Where it compared no groups, the mean of
        everyone is drawn.
    people : bool
        Whether to draw the visits of single people, too (at most 60 of a group).
    ax : Axes or sequence of Axes, optional
        One for each R-index. Default: a new figure, 85 mm wide.

    Returns
    -------
    Axes or array of Axes
        Where it was drawn.

    Examples
    --------
    >>> import pandas as pd
    >>> import rindices as ri
    >>> from rindices.analysis.change import change_per_year
    >>> rows = [
    ...     (f"p{k}", f"ses-{t}", 60 + k + t, 0.1 + 0.01 * k * t)
    ...     for k in range(20)
    ...     for t in range(3)
    ... ]
    >>> columns = ["participant_id", "session_id", "age", "r1"]
    >>> result = change_per_year(pd.DataFrame(rows, columns=columns), "age")
    >>> axes = ri.plot.visits(result)
    >>> axes.get_ylabel()
    'change of r1'
    """
    longest = float(result.visits["years"].max())
    times = np.linspace(0, longest, 2)
    has_groups = result.groups is not None
    with style.open_panels(ax, len(result.names), _PANEL_MM, 60.0) as panels:
        for number, (panel, name) in enumerate(zip(panels, result.names, strict=True)):
            for label in (CONTROL, PATIENT) if has_groups else ("",):
                colour = _COLOURS.get(label, TEXT_COLOUR)
                if people:
                    _draw_courses(panel, result, name, label, colour)
                mean, low, high = _get_slope(result, name, label)
                panel.fill_between(
                    times, low * times, high * times, color=colour, alpha=0.25, lw=0
                )
                panel.plot(
                    times,
                    mean * times,
                    color=colour,
                    lw=1.6,
                    ls="-" if label != CONTROL else (0, (4, 1.5)),
                    label=f"{label}s" if label else "everyone",
                )
            if result.retest is not None:
                limit = float(result.retest["smallest_change"].iloc[number])
                for sign in (-1, 1):
                    panel.axhline(
                        sign * limit,
                        color=MUTED_COLOUR,
                        ls=":",
                        lw=1,
                        label="smallest change of a person" if sign > 0 else None,
                    )
            panel.set(xlabel="years since the first visit", ylabel=f"change of {name}")
            panel.grid(axis="y")
        panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return style.join_panels(panels)


def _draw_courses(
    panel: Axes, result: YearlyChange, name: str, label: str, colour: str
) -> None:
    """Draw the visits of some people of a group, or of everyone."""
    ids = result.table[ID]
    if label:
        ids = ids[result.table[GROUP] == label]
    shown = np.linspace(0, len(ids) - 1, min(len(ids), _MAX_COURSES)).astype(int)
    kept = result.visits[result.visits[ID].isin(ids.iloc[np.unique(shown)])]
    for _, course in kept.groupby(ID):
        panel.plot(
            course["years"],
            course[name] - course[name].iloc[0],
            color=colour,
            lw=0.5,
            alpha=0.35,
        )


def _get_slope(
    result: YearlyChange, name: str, label: str
) -> tuple[float, float, float]:
    """Return the mean change per year of a group, or of everyone, with its interval."""
    if result.groups is not None:
        row = result.groups.set_index("index").loc[name]
        mean, low, high = (
            float(row[f"{label}s_per_year{end}"]) for end in ("", "_low", "_high")
        )
        return mean, low, high
    values = result.table[f"{name}_per_year"].to_numpy(dtype=float)
    error = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    return values.mean(), values.mean() - error, values.mean() + error


def outcome(
    prediction: OutcomePrediction, people: bool = False, ax: Axes | None = None
) -> Axes | Any:
    """Draw survival by thirds of each R-index, where there are times, and the ratios.

    Parameters
    ----------
    prediction : OutcomePrediction
        What ``predict_outcome`` has returned.
    people : bool
        Whether a curve steps at each event. Otherwise it is drawn through the times at
        which five more people have had the event, and the end of observation.
    ax : Axes or sequence of Axes, optional
        One for each R-index with a curve, and one for the ratios. Default: a new
        figure, 85 mm wide.

    Returns
    -------
    Axes or array of Axes
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import rindices as ri
    >>> from rindices.analysis.predict import predict_outcome
    >>> rng = np.random.default_rng(0)
    >>> ids = [f"p{k}" for k in range(200)]
    >>> indices = pd.DataFrame({"participant_id": ids, "r1": rng.uniform(size=200)})
    >>> years = rng.exponential(2 - indices["r1"])
    >>> outcomes = pd.DataFrame({"event": 1, "years": years})
    >>> prediction = predict_outcome(indices, outcomes, event="event", time="years")
    >>> curves, ratios = ri.plot.outcome(prediction)
    >>> curves.get_xlabel(), ratios.get_xlabel()
    ('time', 'hazard ratio per standard deviation')
    """
    curves = (
        {}
        if prediction.survival is None
        else dict(list(prediction.survival.groupby("index", sort=False)))
    )
    with style.open_panels(ax, len(curves) + 1, _PANEL_MM, 55.0) as panels:
        for panel, (name, curve) in zip(panels, curves.items(), strict=False):
            _draw_survival(panel, curve, str(name), people)
        _draw_ratios(panels[-1], prediction.effects)
    return style.join_panels(panels)


def merge_steps(
    curve: pd.DataFrame, end: float, least: int = MIN_PEOPLE
) -> pd.DataFrame:
    """Return the points of a survival curve at which so many more people have had the
    event, and its end.
    """
    kept, events = [], 0.0
    for row, number in enumerate(curve["events"]):
        events += float(number)
        if events >= least:
            kept.append(row)
            events = 0.0
    last = curve.iloc[[-1]].assign(time=end)
    return pd.concat([curve.iloc[kept], last], ignore_index=True)


def _draw_survival(panel: Axes, curves: pd.DataFrame, name: str, people: bool) -> None:
    for (third, colour), line in zip(
        _THIRD_COLOURS.items(), ("-", (0, (4, 1.5)), (0, (1, 1))), strict=True
    ):
        curve = curves[curves["third"] == third]
        if not len(curve):
            continue
        if not people:
            curve = merge_steps(curve, float(curves["time"].max()))
        start = {"time": 0.0, "survival": 1.0, "low": 1.0, "high": 1.0}
        curve = pd.concat([pd.DataFrame([start]), curve], ignore_index=True)
        time, low, high = curve["time"], curve["low"], curve["high"]
        panel.plot(
            time,
            curve["survival"],
            drawstyle="steps-post" if people else "default",
            color=colour,
            ls=line,
            lw=1.4,
            label=f"{third} third",
        )
        step: Any = "post" if people else None
        panel.fill_between(time, low, high, step=step, color=colour, alpha=0.15, lw=0)
    p = float(curves["log_rank_p"].iloc[0])
    title = name if np.isnan(p) else f"{name}, log-rank {format_p(p)}"
    panel.set(
        ylim=(0, 1.02), xlabel="time", ylabel="share without the event", title=title
    )
    panel.grid(axis="y")
    panel.legend(loc="lower left")


def _draw_ratios(panel: Axes, effects: pd.DataFrame) -> None:
    """Draw ratios of single and joint models, the first R-index at the top."""
    names = list(dict.fromkeys(effects["index"]))
    labels = {"single": "alone", "joint": "all together"}
    for (model, label), offset, marker, colour in zip(
        labels.items(), (-0.14, 0.14), "os", (TEXT_COLOUR, MUTED_COLOUR), strict=True
    ):
        rows = effects[effects["model"] == model].set_index("index").reindex(names)
        panel.errorbar(
            rows["ratio"],
            np.arange(len(names)) + offset,
            xerr=[rows["ratio"] - rows["low"], rows["high"] - rows["ratio"]],
            fmt=marker,
            color=colour,
            ms=4,
            lw=1.2,
            label=label,
        )
    panel.axvline(1, color=MUTED_COLOUR, lw=0.6, zorder=0)
    panel.set_yticks(range(len(names)), names)
    kind = "hazard" if effects["regression"].iloc[0] == "cox" else "odds"
    panel.set(
        xscale="log",
        ylim=(len(names) - 0.4, -0.6),
        xlabel=f"{kind} ratio per standard deviation",
    )
    _label_ratios(panel)
    panel.grid(axis="x")
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def _label_ratios(panel: Axes) -> None:
    """Set a few ticks of a logarithmic axis that have short labels."""
    low, high = panel.get_xlim()
    steps = np.array([0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50])
    inside = steps[(steps >= low) & (steps <= high)]
    panel.set_xticks(inside[:: 1 + len(inside) // 6])
    panel.set_xticks([], minor=True)
    panel.xaxis.set_major_formatter("{x:g}")


def replication(
    result: Replication, names: tuple[str, str], ax: Axes | None = None
) -> Axes | Any:
    """Draw the regions of each pair of patterns of two studies, and their correlations
    beside those of random maps.

    Parameters
    ----------
    result : Replication
        What ``replicate_patterns`` has returned.
    names : tuple of str
        Names of both studies.
    ax : sequence of Axes, optional
        One for each pair, and one for the random maps. Default: a new figure, 85 mm
        wide.

    Returns
    -------
    Axes or array of Axes
        Where it was drawn.
    """
    with style.open_panels(ax, len(result.maps) + 1, _PANEL_MM, 55.0) as panels:
        rows = result.table.itertuples()
        for panel, (x, y), row in zip(panels, result.maps, rows, strict=False):
            panel.axhline(0, color=GRID_COLOUR, lw=0.6)
            panel.axvline(0, color=GRID_COLOUR, lw=0.6)
            colour = PATIENT_COLOUR if row.matched else CONTROL_COLOUR
            panel.scatter(x, y, s=7, color=colour, lw=0)
            panel.set(
                xlabel=f"{row.first} of {names[0]}",
                ylabel=f"{row.second} of {names[1]}",
                title=f"r = {style.format_minus(f'{row.correlation:.2f}')}, {format_p(row.p)}",
            )
        panel = panels[-1]
        panel.hist(result.largest, bins=40, color=CONTROL_COLOUR)
        panel.axvline(result.chance, color=TEXT_COLOUR, ls="--", lw=1)
        for row in result.table.dropna(subset="p").itertuples():
            panel.axvline(
                row.correlation, color=PATIENT_COLOUR if row.matched else MUTED_COLOUR
            )
        panel.set(
            xlabel="correlation over regions",
            ylabel="random maps",
            xlim=(None, 1),
            title="random maps (dashed: 95 %)",
        )
    return style.join_panels(panels)

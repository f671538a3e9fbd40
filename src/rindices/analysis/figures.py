"""One style of figures that commands write as PNG files: predicted outcomes, and change of persons and groups."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices.analysis.change import NOMINAL_COVERAGE, YearlyChange
from rindices.analysis.predict import THIRDS, OutcomePrediction
from rindices.atomic import atomic_path
from rindices.tables.cohort import GROUP, ID
from rindices.tables.validation.groups import CONTROL, PATIENT

UP_COLOUR, DOWN_COLOUR, UNSURE_COLOUR, LINE_COLOUR = "#D55E00", "#0072B2", "#9AA3AD", "#444444"
_STYLE: Any = {"axes.titlelocation": "left", "axes.titlesize": "medium"}
_STYLE |= {"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}


@contextmanager
def draw_panels(
    path: Path, size: tuple[float, float], n_rows: int, n_columns: int, width_ratios: list[float] | None = None
) -> Iterator[Any]:
    """Yield the axes (rows, columns) of a figure with a size in inches, and write it in the end."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(n_rows, n_columns, width_ratios=width_ratios, squeeze=False)
        for axes in panels.flat:
            axes.grid(axis="y", alpha=0.3)
        yield panels
        with atomic_path(path) as temporary_path:
            figure.savefig(temporary_path, dpi=150)


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
    title = f"{name}, log-rank p = {curves['log_rank_p'].iloc[0]:.2g}"
    axes.set(ylim=(0, 1.02), xlabel="time", ylabel="share without the event", title=title)
    axes.legend(loc="lower left", fontsize="small")


def _plot_ratios(axes: Any, effects: pd.DataFrame) -> None:
    """Draw ratios of single and joint models, the first R-index at the top."""
    names = list(dict.fromkeys(effects["index"]))
    for model, offset, marker in (("single", -0.12, "o"), ("joint", 0.12, "s")):
        rows = effects[effects["model"] == model].set_index("index").reindex(names)
        y = np.arange(len(names)) + offset
        errors = [rows["ratio"] - rows["low"], rows["high"] - rows["ratio"]]
        axes.errorbar(rows["ratio"], y, xerr=errors, fmt=marker, ms=5, capsize=3, label=model)
    axes.axvline(1, color=LINE_COLOUR, lw=0.8)
    axes.set_yticks(range(len(names)), names)
    kind = "hazard" if effects["regression"].iloc[0] == "cox" else "odds"
    axes.set(xscale="log", ylim=(len(names) - 0.4, -0.6), xlabel=f"{kind} ratio per standard deviation")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="both", labelsize="small", rotation=45)
    axes.legend(fontsize="small")
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", alpha=0.3)


_MAX_LINES = 60  # people (of a group) whose visits are drawn
_MAX_PEOPLE = 400  # people whose change is drawn; of more people, evenly spaced ones
_GROUP_COLOURS = {CONTROL: DOWN_COLOUR, PATIENT: UP_COLOUR}


def plot_change(change: YearlyChange, path: Path) -> None:
    """Draw one row per R-index into a PNG file: visits on the left, change per year on the right."""
    number, table = len(change.names), change.table
    lines = table.iloc[_space_evenly(len(table), _MAX_LINES)]
    with draw_panels(path, (9.0, 2.6 * number + 0.5), number, 2, [1, 1.5]) as panels:
        for (left, right), name in zip(panels, change.names, strict=True):
            colours = dict(zip(lines[ID], _assign_colours(lines, name), strict=True))
            for person, course in _list_courses(change.visits, lines[ID]):
                style = {"color": colours[person], "lw": 0.8, "marker": ".", "ms": 3, "alpha": 0.7}
                left.plot(course["years"], course[name], **style)
            left.set_ylabel(name)
            _plot_person_slopes(right, table, name)
        panels[-1, 0].set_xlabel("years since the first visit")
        panels[-1, 1].set_xlabel("people, by their change")
        panels[0, 0].set_title(f"Visits of {len(lines):,} people")
        panels[0, 1].set_title(f"Change per year and its {NOMINAL_COVERAGE:.0%} interval")


def plot_group_change(change: YearlyChange, path: Path) -> None:
    """Draw one row per R-index into a PNG file: change since the first visit, and slopes by group."""
    assert change.groups is not None
    assert change.retest is not None
    number = len(change.groups)
    with draw_panels(path, (9.0, 2.9 * number + 0.6), number, 2, [1.4, 1]) as panels:
        records, limits = change.groups.to_dict("records"), change.retest["smallest_change"]
        for (left, right), record, limit in zip(panels, records, limits, strict=True):
            _plot_visits(left, change, record)
            left.axhline(limit, color=LINE_COLOUR, ls="--", lw=1, label="smallest change that is more than noise")
            left.axhline(-limit, color=LINE_COLOUR, ls="--", lw=1)
            _plot_group_slopes(right, change.table, record)
        panels[-1, 0].set_xlabel("years since the first visit")
        low, high = panels[0, 0].get_ylim()
        panels[0, 0].set_ylim(low, high + 0.35 * (high - low))  # room for the legend
        panels[0, 0].legend(loc="upper left", fontsize="small")


def _assign_colours(table: pd.DataFrame, name: str) -> Any:
    """Return one colour per person: up or down if the interval excludes 0."""
    up, down = table[f"{name}_per_year_low"] > 0, table[f"{name}_per_year_high"] < 0
    return np.select([up, down], [UP_COLOUR, DOWN_COLOUR], UNSURE_COLOUR)


def _space_evenly(number: int, limit: int) -> Any:
    """Return at most ``limit`` positions, evenly spaced over ``number`` rows."""
    return np.unique(np.linspace(0, number - 1, min(number, limit)).astype(int))


def _list_courses(visits: pd.DataFrame, people: pd.Series) -> Any:
    """Return the visits of each of some people."""
    return visits[visits[ID].isin(people)].groupby(ID)


def _plot_person_slopes(axes: Any, table: pd.DataFrame, name: str) -> None:
    rows = _space_evenly(len(table), _MAX_PEOPLE)
    shown = table.sort_values(f"{name}_per_year").iloc[rows]
    colours = _assign_colours(shown, name)
    axes.vlines(rows + 1, shown[f"{name}_per_year_low"], shown[f"{name}_per_year_high"], colours, lw=0.8, alpha=0.6)
    axes.scatter(rows + 1, shown[f"{name}_per_year"], c=colours, s=5, zorder=3)
    axes.axhline(0, color=LINE_COLOUR, lw=0.8)
    up, down = (int((_assign_colours(table, name) == colour).sum()) for colour in (UP_COLOUR, DOWN_COLOUR))
    label = f"interval above 0: {up:,}, below 0: {down:,}, of {len(table):,} people"
    axes.text(0.02, 0.96, label, transform=axes.transAxes, va="top")
    axes.set_ylabel(f"{name} per year")
    axes.margins(y=0.18)


def _plot_visits(axes: Any, change: YearlyChange, record: dict[str, float]) -> None:
    """Draw the change of persons since their first visit, and the mean slopes."""
    name, longest = str(record["index"]), 0.0
    for label, colour in _GROUP_COLOURS.items():
        ids = change.table.loc[change.table[GROUP] == label, ID]
        for _, course in _list_courses(change.visits, ids.iloc[_space_evenly(len(ids), _MAX_LINES)]):
            axes.plot(course["years"], course[name] - course[name].iloc[0], color=colour, lw=0.6, alpha=0.3)
            longest = max(longest, float(course["years"].iloc[-1]))
    times = np.linspace(0, longest, 2)
    for label, colour in _GROUP_COLOURS.items():
        mean, low, high = (record[f"{label}s_per_year{end}"] for end in ("", "_low", "_high"))
        axes.fill_between(times, low * times, high * times, color=colour, alpha=0.3, lw=0)
        axes.plot(times, mean * times, color=colour, lw=2, label=f"{label}s: mean and 95 % interval")
    axes.set_ylabel(f"change of {name}")


def _plot_group_slopes(axes: Any, people: pd.DataFrame, record: dict[str, float]) -> None:
    """Draw the slopes of persons by group with the mean; their change where no slope could be shrunken."""
    name = str(record["index"])
    shrunken = bool(people[f"{name}_shrunken"].notna().any())
    for position, (label, colour) in enumerate(_GROUP_COLOURS.items()):
        column = f"{name}_shrunken" if shrunken else f"{name}_change"
        values = people.loc[people[GROUP] == label, column].to_numpy(dtype=float)
        jitter = np.random.default_rng(0).uniform(-0.25, 0.25, len(values))
        axes.scatter(position + jitter, values, s=6, color=colour, alpha=0.5, lw=0)
        if shrunken:
            mean, low, high = (record[f"{label}s_per_year{end}"] for end in ("", "_low", "_high"))
            axes.errorbar(position, mean, [[mean - low], [high - mean]], fmt="o", color="black", capsize=4, ms=5)
    axes.axhline(0, color=LINE_COLOUR, lw=0.8)
    axes.set_xticks([0, 1], ["controls", "patients"])
    ylabel = f"{name} per year, shrunken" if shrunken else f"change of {name}"
    title = f"difference {record['difference']:.3f} per year, p = {record['p']:.2g}"
    axes.set(xlim=(-0.6, 1.6), ylabel=ylabel, title=title)

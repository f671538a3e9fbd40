"""Figure of change in controls and patients: visits against the retest error, and shrunken slopes of persons."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from rindices.analysis.change import convert_to_years
from rindices.analysis.change_models import ChangeModels
from rindices.atomic import atomic_path
from rindices.tables.cohort import GROUP, ID
from rindices.tables.validation.groups import CONTROL, PATIENT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {CONTROL: "#0072B2", PATIENT: "#D55E00"}
_MAX_LINES = 60  # people of a group whose visits are drawn


def plot_group_change(models: ChangeModels, visits: pd.DataFrame, time: str, path: Path) -> None:
    """Draw one row per R-index into a PNG file: change since the first visit, and slopes by group.

    Parameters
    ----------
    models : ChangeModels
        With groups.
    visits : DataFrame
        One row per visit: ``participant_id``, r1, r2, ... and the time.
    time : str
    path : Path
    """
    from matplotlib.figure import Figure

    if models.groups is None:
        raise ValueError("the figure needs groups")
    number = len(models.groups)
    figure = Figure(figsize=(9.0, 2.9 * number + 0.6), layout="constrained")
    axes = figure.subplots(number, 2, width_ratios=[1.4, 1], squeeze=False)
    frame = visits.assign(years=convert_to_years(visits, time), person=visits[ID].astype(str)).dropna(subset=["years"])
    for row, record in enumerate(models.groups.to_dict("records")):
        limits = None if models.retest is None else models.retest.set_index("index")["smallest_change"]
        limit = None if limits is None or record["index"] not in limits else float(limits[record["index"]])
        _plot_visits(axes[row, 0], models.people, frame, record, limit)
        _plot_slopes(axes[row, 1], models.people, record)
    axes[-1, 0].set_xlabel("years since the first visit")
    low, high = axes[0, 0].get_ylim()
    axes[0, 0].set_ylim(low, high + 0.35 * (high - low))  # room for the legend
    axes[0, 0].legend(loc="upper left", frameon=False, fontsize="small")
    with atomic_path(path) as temporary_path:
        figure.savefig(temporary_path, dpi=150)


def _plot_visits(
    axes: "Axes", people: pd.DataFrame, visits: pd.DataFrame, record: dict[str, float], limit: float | None
) -> None:
    """Draw the change of persons since their first visit, the mean slopes, and the limits of noise."""
    name, longest = str(record["index"]), 0.0
    for label, colour in _COLOURS.items():
        ids = people.loc[people[GROUP] == label, ID]
        shown = set(ids.iloc[np.unique(np.linspace(0, len(ids) - 1, min(len(ids), _MAX_LINES)).astype(int))])
        for _, rows in visits[visits["person"].isin(shown)].groupby("person"):
            ordered = rows.sort_values("years")
            years = (ordered["years"] - ordered["years"].iloc[0]).to_numpy(dtype=float)
            values = ordered[name].to_numpy(dtype=float)
            axes.plot(years, values - values[0], color=colour, lw=0.6, alpha=0.3)
            longest = max(longest, float(years[-1]))
    times = np.linspace(0, longest, 2)
    for label, colour in _COLOURS.items():
        mean, low, high = (record[f"{label}s_per_year{end}"] for end in ("", "_low", "_high"))
        axes.fill_between(times, low * times, high * times, color=colour, alpha=0.3, lw=0)
        axes.plot(times, mean * times, color=colour, lw=2, label=f"{label}s: mean and 95 % interval")
    if limit is not None:
        for sign in (-1, 1):
            label_text = "smallest change that is more than noise" if sign > 0 else None
            axes.axhline(sign * limit, color="#444444", ls="--", lw=1, label=label_text)
    axes.set_ylabel(f"change of {name}")
    _style_axes(axes)


def _plot_slopes(axes: "Axes", people: pd.DataFrame, record: dict[str, float]) -> None:
    """Draw the slopes of persons by group with the mean; least-squares slopes where none could be shrunken."""
    name = str(record["index"])
    shrunken = bool(people[f"{name}_shrunken"].notna().any())
    column = f"{name}_shrunken" if shrunken else f"{name}_change"
    for position, (label, colour) in enumerate(_COLOURS.items()):
        values = people.loc[people[GROUP] == label, column].to_numpy(dtype=float)
        jitter = np.random.default_rng(0).uniform(-0.25, 0.25, len(values))
        axes.scatter(position + jitter, values, s=6, color=colour, alpha=0.5, lw=0)
        if shrunken:
            mean, low, high = (record[f"{label}s_per_year{end}"] for end in ("", "_low", "_high"))
            axes.errorbar(position, mean, [[mean - low], [high - mean]], fmt="o", color="black", capsize=4, ms=5)
    axes.axhline(0, color="#444444", lw=0.8)
    axes.set_xticks([0, 1], ["controls", "patients"])
    axes.set_xlim(-0.6, 1.6)
    axes.set_ylabel(f"{name} per year, shrunken" if shrunken else f"change of {name}")
    title = f"difference {record['difference']:.3f} per year, p = {record['p']:.2g}"
    axes.set_title(title, loc="left", fontsize="medium")
    _style_axes(axes)


def _style_axes(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)

"""Charts of a report as SVG that follows the page's colours, each with the table behind it."""

import io
import re
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from rindices.errors import format_count
from rindices.model.records import CandidateRecord, PermutationTestRecord, SettingRecord
from rindices.report.study_results import StudyResults
from rindices.selection.choose import MIN_STABLE_CONCORDANCE
from rindices.tables.cohort import GROUP
from rindices.tables.validation.groups import CONTROL, PATIENT

TEXT_COLOUR, MUTED_COLOUR, GRID_COLOUR, CONTROL_COLOUR, PATIENT_COLOUR = (
    "#101820",
    "#5a6472",
    "#d3d8de",
    "#6b7b8c",
    "#c2410c",
)
_CSS_VARIABLES = {
    TEXT_COLOUR: "ink",
    MUTED_COLOUR: "muted",
    GRID_COLOUR: "rule",
    CONTROL_COLOUR: "control",
    PATIENT_COLOUR: "patient",
}
_WIDTH_INCHES = 4.4  # inches; the page shows a chart at about this width, so letters keep their size on a phone
_MAX_DOTS_PER_GROUP = 1_200  # people of each group that a cloud of dots shows
_MAX_NUMBERED_MEMBERS = 12  # members up to which a matrix bears numbers
_MATPLOTLIB_STYLE: Any = {
    "svg.fonttype": "none",
    "font.size": 9,
    "text.color": TEXT_COLOUR,
    "axes.labelcolor": TEXT_COLOUR,
    "axes.edgecolor": MUTED_COLOUR,
    "xtick.color": TEXT_COLOUR,
    "ytick.color": TEXT_COLOUR,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "grid.color": GRID_COLOUR,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
}


@dataclass(frozen=True)
class Chart:
    """A chart, what it shows in words, and the table behind it."""

    name: str
    svg: str
    alt: str
    data: pd.DataFrame


def plot_agreement(contents: StudyResults) -> Chart:
    """Agreement of every setting, with its interval and its members."""
    rows = [_build_agreement_row(record) for record in contents.selection.grid]
    table = pd.DataFrame(rows)
    height = 0.75 + 0.34 * len(table)
    with _StyledFigure(height) as (figure, axes):
        for place, record in enumerate(contents.selection.grid):
            chosen = record.setting == contents.chosen.setting
            own = [value for value in record.by_member if value is not None]
            axes.plot(own, np.full(len(own), place), "|", color=MUTED_COLOUR, ms=7, mew=0.8)
            low, high = record.concordance_interval
            if low is not None:
                axes.hlines(place, low, high, PATIENT_COLOUR if chosen else TEXT_COLOUR, lw=2.2)
            middle = record.agreement.concordance
            if middle is not None:
                fill = PATIENT_COLOUR if chosen else "none"
                axes.plot(
                    [middle], [place], "o", ms=7, mfc=fill, mec=PATIENT_COLOUR if chosen else TEXT_COLOUR, mew=1.4
                )
        axes.axvline(MIN_STABLE_CONCORDANCE, color=MUTED_COLOUR, lw=1, ls="--")
        axes.annotate("needed", (MIN_STABLE_CONCORDANCE, 1), (3, -1), textcoords="offset points", color=MUTED_COLOUR,
                      xycoords=("data", "axes fraction"), va="top", fontsize=8)  # fmt: skip
        axes.set_yticks(range(len(table)), list(table["setting"]))
        axes.set_ylim(len(table) - 0.4, -0.75)
        axes.set_xlim(min(0.5, table["concordance"].min() - 0.02), 1.005)
        axes.set_xlabel("agreement (0.5 is chance, 1 is perfect)")
        axes.grid(axis="x")
        best = contents.chosen.agreement.concordance
        said = "unknown" if best is None else f"{best:.3f}"
        alt = (
            f"Agreement of {len(table)} settings; the chosen one, {describe_setting(contents.chosen.setting)}: {said}."
        )
        return Chart("agreement", _export_svg(figure, "agreement"), alt, table)


def _build_agreement_row(record: CandidateRecord) -> dict[str, object]:
    low, high = record.concordance_interval
    return {
        "setting": describe_setting(record.setting),
        **record.agreement,
        "low": low,
        "high": high,
        **record.members,
        "stable": record.stable,
    }


def plot_excess(test: PermutationTestRecord) -> Chart:
    """How much more patients vary than controls, against chance, as patterns are taken out one by one.

    Parameters
    ----------
    test : PermutationTestRecord
        ``number_of_patterns.test`` of ``selection.json``.
    """
    table = pd.DataFrame([point.to_dict() for point in test.curve])
    beyond = table["p"] <= test.level
    with _StyledFigure(0.85 + 0.36 * len(table)) as (figure, axes):
        left = 0.9 * min(1.0, table["excess"].min())
        axes.barh(table.index, table["chance_95"] - left, 0.62, left, color=GRID_COLOUR)
        axes.plot(table["chance_median"], table.index, "|", color=MUTED_COLOUR, ms=11, mew=1.2)
        axes.plot(table["excess"], table.index, color=TEXT_COLOUR, lw=1)
        for place, (excess, p) in enumerate(zip(table["excess"], table["p"], strict=True)):
            colour, fill = (PATIENT_COLOUR, PATIENT_COLOUR) if beyond[place] else (TEXT_COLOUR, "none")
            axes.plot([excess], [place], "o", ms=7, mfc=fill, mec=colour, mew=1.4)
            axes.annotate(
                f"p {format_p_value(p)}", (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=8
            )
        axes.set_xscale("log")
        right = 1.4 * table[["excess", "chance_95"]].to_numpy().max()
        axes.set_xlim(left, right)
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if left < tick < right]
        axes.set_xticks(ticks[:: 1 + len(ticks) // 7], [f"{tick:,}" for tick in ticks[:: 1 + len(ticks) // 7]])
        axes.minorticks_off()
        axes.set_yticks(table.index, [_label_removed_patterns(number) for number in table["patterns"]])
        axes.set_ylim(len(table) - 0.45, -0.55)
        axes.set_xlabel("patients' largest variation (1: as controls)")
        said = f"{int(beyond.sum())} of {format_count(len(table), 'row')} lie beyond chance"
        alt = f"Excess of patients over controls against chance as patterns are taken out one by one; {said}."
        return Chart("excess", _export_svg(figure, "excess"), alt, table)


def format_p_value(p: float) -> str:
    """Return a p-value with as many digits as are worth reading."""
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def _label_removed_patterns(number: int) -> str:
    return f"{number} taken out" if number else "nothing taken out"


def describe_setting(setting: SettingRecord) -> str:
    """Return a setting in words."""
    number, weight = setting.n_patterns, setting.orthogonality
    said = f"{number} pattern{'s' if number != 1 else ''}"
    return said if weight is None else f"{said}, λ {weight:g}"


def plot_distributions(contents: StudyResults) -> list[Chart]:
    """How each R-index is spread in controls and in patients."""
    charts = []
    values = contents.indices[contents.names].to_numpy(dtype=float)
    low, high = np.quantile(values, (0.001, 0.999))
    room = 0.2 * (high - low)  # beyond which the few that are farther away are drawn at the edge
    edges = np.linspace(max(values.min(), low - room), min(values.max(), high + room), 41)
    for name in contents.names:
        table = pd.DataFrame({"from": edges[:-1], "to": edges[1:]})
        with _StyledFigure(2.0, 3.3) as (figure, axes):
            for group, colour in ((CONTROL, CONTROL_COLOUR), (PATIENT, PATIENT_COLOUR)):
                own = np.clip(contents.select_group(group)[name].to_numpy(dtype=float), edges[0], edges[-1])
                table[f"{group}s"] = np.histogram(own, edges)[0]
                share = 100 * table[f"{group}s"] / max(len(own), 1)
                axes.stairs(share, edges, color=colour, fill=True, alpha=0.25)
                axes.stairs(share, edges, color=colour, lw=1.4, label=f"{group}s")
            axes.set_xlabel(f"R-index {name}")
            axes.set_ylabel("% of group")
            axes.legend(frameon=False, fontsize=8.5, handlelength=1.2, borderaxespad=0)
            middle = [contents.select_group(group)[name].median() for group in (CONTROL, PATIENT)]
            alt = f"Histogram of {name}: median {middle[0]:.2f} in controls and {middle[1]:.2f} in patients."
            charts.append(Chart(f"distribution_{name}", _export_svg(figure, f"distribution_{name}"), alt, table))
    return charts


def plot_index_pairs(contents: StudyResults, most: int = 10) -> list[Chart]:
    """Every two R-indices against each other; as many pairs as fit a page."""
    charts = []
    rng = np.random.default_rng(0)
    frame = pd.concat(
        [g.sample(min(len(g), _MAX_DOTS_PER_GROUP), random_state=rng) for _, g in contents.indices.groupby(GROUP)]
    )
    low, high = np.quantile(frame[contents.names].to_numpy(dtype=float), (0.0005, 0.9995))
    for first, second in list(combinations(contents.names, 2))[:most]:
        with _StyledFigure(3.0, 3.3) as (figure, axes):
            for group, colour, size in ((CONTROL, CONTROL_COLOUR, 5), (PATIENT, PATIENT_COLOUR, 6)):
                own = frame.loc[frame[GROUP] == group, [first, second]].clip(low, high)
                axes.plot(
                    own[first], own[second], "o", ms=size**0.5, mew=0, color=colour, alpha=0.55, label=f"{group}s"
                )
            axes.set_xlim(low - 0.02, high + 0.02)
            axes.set_ylim(low - 0.02, high + 0.02)
            axes.set_xlabel(first)
            axes.set_ylabel(second)
            axes.grid()
            axes.legend(frameon=False, fontsize=8.5, handletextpad=0.2, markerscale=2, loc="lower left",
                        bbox_to_anchor=(-0.03, 1.0), ncols=2, borderaxespad=0)  # fmt: skip
            rho = contents.select_group(PATIENT)[[first, second]].corr().to_numpy()[0, 1]
            alt = f"Scatter of {first} and {second}; correlation among patients {rho:.2f}."
            name = f"pair_{first}_{second}"
            charts.append(Chart(name, _export_svg(figure, name), alt, frame[[GROUP, first, second]].round(4)))
    return charts


def plot_member_agreement(contents: StudyResults) -> Chart | None:
    """How well every two members of the chosen setting agree; None where there are no two."""
    pairs = contents.chosen.pairwise
    if len(pairs) < 2:
        return None
    matrix = np.array([[np.nan if value is None else value for value in row] for row in pairs])
    labels = [str(k + 1) for k in range(len(matrix))]
    with _StyledFigure(3.6) as (figure, axes):
        low = 0.5  # chance
        image = axes.imshow(matrix, cmap="cividis", vmin=low, vmax=1, interpolation="nearest")
        if len(matrix) <= _MAX_NUMBERED_MEMBERS:
            for (row, column), value in np.ndenumerate(matrix):
                if np.isfinite(value):
                    colour = "#ffffff" if value < (1 + low) / 2 else "#000000"
                    axes.text(
                        column,
                        row,
                        f"{value:.2f}".removeprefix("0"),
                        ha="center",
                        va="center",
                        fontsize=7,
                        color=colour,
                    )
            axes.set_xticks(range(len(matrix)), labels)
            axes.set_yticks(range(len(matrix)), labels)
        axes.set_xlabel("member")
        axes.set_ylabel("member")
        figure.colorbar(image, ax=axes, label="agreement", fraction=0.046, pad=0.03)
        mean = float(np.nanmean(matrix))
        alt = f"Matrix of the agreement of every two of {len(matrix)} members; mean {mean:.3f}."
        table = pd.DataFrame(matrix, columns=labels).rename_axis("member").reset_index()
        table["member"] += 1
        return Chart("members", _export_svg(figure, "members"), alt, table)


class _StyledFigure:
    """A figure and its axes in the report's style."""

    def __init__(self, height: float, width: float = _WIDTH_INCHES) -> None:
        self.size = (width, height)

    def __enter__(self) -> tuple[Any, Any]:
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        self.style = rc_context(_MATPLOTLIB_STYLE)
        self.style.__enter__()
        figure = Figure(figsize=self.size, layout="constrained")
        return figure, figure.add_subplot()

    def __exit__(self, *_: object) -> None:
        self.style.__exit__(None, None, None)


def _export_svg(figure: Any, name: str) -> str:
    """Return a figure as inline SVG: text as text, colours as the page's own, no id that another chart may have."""
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.hashsalt": name}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", text)
    text = re.sub(r'font: ([\d.]+px) [^;"]+', r"font-size: \1", text)
    for colour, variable in _CSS_VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    return re.sub(r"\n\s*", "\n", text)

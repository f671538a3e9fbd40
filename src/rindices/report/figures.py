"""Pictures of the report: charts as SVG in the colours of the page, and brains coloured by the effect on each region.

Brains have one colour map, red for loss and blue for gain, symmetric about zero and safe for colour-blind readers.
Shape letters: H x W pixels.
"""

import base64
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from rindices import plot
from rindices._typing import FloatArray
from rindices.errors import Problem, format_count
from rindices.model.pattern_tables import ONSET_SHARE
from rindices.model.records import PermutationTestRecord, SelectionRecord
from rindices.report.formatting import describe_setting, format_decimal, format_p_value
from rindices.report.geometry import OUTSIDE_BRAIN, UNLABELLED, Atlas, BrainView, GeometryError, select_atlas
from rindices.report.study_results import StudyResults
from rindices.selection.choose import MIN_STABLE_CONCORDANCE
from rindices.tables.cohort import GROUP
from rindices.tables.layout.region_names import BrainStructure, label_regions, locate_regions
from rindices.tables.validation.groups import CONTROL, PATIENT
from rindices.wording import FEATURE_UNIT

COLOUR_MAP = "RdBu"
_NEUTRAL_GREY = np.array([0.82, 0.82, 0.82])
_N_PALETTE_COLOURS = 192
_OUTLINE_BRIGHTNESS = 0.62  # of the line between two regions

TEXT_COLOUR, MUTED_COLOUR, GRID_COLOUR = "#101820", "#5a6472", "#d3d8de"
CONTROL_COLOUR, PATIENT_COLOUR = "#6b7b8c", "#c2410c"
_CSS_VARIABLES = {TEXT_COLOUR: "ink", MUTED_COLOUR: "muted", GRID_COLOUR: "rule"}
_CSS_VARIABLES |= {CONTROL_COLOUR: "control", PATIENT_COLOUR: "patient"}
_WIDTH_INCHES = 4.4  # about the width on the page, so that letters keep their size on a phone
_MAX_DOTS_PER_GROUP = 500  # people of each group in a scatter plot
_MATPLOTLIB_STYLE: Any = {
    **{"svg.fonttype": "none", "font.size": 9, "axes.linewidth": 0.7, "grid.linewidth": 0.6, "axes.axisbelow": True},
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), TEXT_COLOUR),
    **{"axes.edgecolor": MUTED_COLOUR, "grid.color": GRID_COLOUR},
    **{"axes.spines.top": False, "axes.spines.right": False},
}


@dataclass(frozen=True)
class Chart:
    """A chart, what it shows in words, the table behind it, and a caption where the chart has its own."""

    name: str
    svg: str
    alt: str
    data: pd.DataFrame
    caption: str = ""


def plot_agreement(results: StudyResults) -> Chart:
    """Plot the agreement of every setting, with its interval and its members."""
    grid, chosen = results.selection.grid, results.chosen
    rows = [
        {"setting": describe_setting(record.setting), **record.agreement}
        | dict(zip(("low", "high"), record.concordance_interval, strict=True))
        | {**record.members, "stable": record.stable}
        for record in grid
    ]
    table = pd.DataFrame(rows)
    with styled_figure(0.75 + 0.34 * len(table)) as (figure, axes):
        for row, record in enumerate(grid):
            is_chosen = record.setting == chosen.setting
            colour = PATIENT_COLOUR if is_chosen else TEXT_COLOUR
            members = [value for value in record.by_member if value is not None]
            axes.plot(members, np.full(len(members), row), "|", color=MUTED_COLOUR, ms=7, mew=0.8)
            low, high = record.concordance_interval
            if low is not None:
                axes.hlines(row, low, high, colour, lw=2.2)
            if record.agreement.concordance is not None:
                fill = PATIENT_COLOUR if is_chosen else "none"
                axes.plot([record.agreement.concordance], [row], "o", ms=7, mfc=fill, mec=colour, mew=1.4)
        axes.axvline(MIN_STABLE_CONCORDANCE, color=MUTED_COLOUR, lw=1, ls="--")
        axes.annotate("needed", (MIN_STABLE_CONCORDANCE, 1), (3, -1), textcoords="offset points", color=MUTED_COLOUR,
                      xycoords=("data", "axes fraction"), va="top", fontsize=8)  # fmt: skip
        axes.set_yticks(range(len(table)), list(table["setting"]))
        xlim = min(0.5, table["concordance"].min() - 0.02), 1.005
        axes.set(ylim=(len(table) - 0.4, -0.75), xlim=xlim, xlabel="agreement (0.5 is chance, 1 is perfect)")
        axes.grid(axis="x")
        best = chosen.agreement.concordance
        number = "unknown" if best is None else f"{best:.3f}"
        alt = f"Agreement of {len(table)} settings; the chosen one, {describe_setting(chosen.setting)}: {number}."
        return make_chart(figure, "agreement", alt, table)


def plot_excess(test: PermutationTestRecord) -> Chart:
    """Plot how much more patients vary than controls, against chance, as patterns are removed one by one."""
    table = pd.DataFrame([step.to_dict() for step in test.curve])
    exceeds = table["p"] <= test.level
    with styled_figure(0.85 + 0.36 * len(table)) as (figure, axes):
        # rows may be of different statistics, so that all are drawn relative to what chance gives
        chance = table["chance_95"].clip(lower=1e-9)
        relative, median = table["excess"] / chance, table["chance_median"] / chance
        left, right = 0.9 * max(0.1, min(1.0, relative.min(), median.min())), 1.4 * max(1.0, relative.max())
        axes.barh(table.index, 1.0 - left, 0.62, left, color=GRID_COLOUR)
        axes.plot(median, table.index, "|", color=MUTED_COLOUR, ms=11, mew=1.2)
        axes.plot(relative, table.index, color=TEXT_COLOUR, lw=1)
        for row, (excess, p) in enumerate(zip(relative, table["p"], strict=True)):
            colour, fill = (PATIENT_COLOUR, PATIENT_COLOUR) if exceeds[row] else (TEXT_COLOUR, "none")
            axes.plot([excess], [row], "o", ms=7, mfc=fill, mec=colour, mew=1.4)
            position = {"xycoords": ("axes fraction", "data"), "va": "center"}
            axes.annotate(f"p {format_p_value(p)}", (1.01, row), fontsize=8, **position)
        xlabel = "excess variance of patients (1: 95th percentile of chance)"
        axes.set(xscale="log", xlim=(left, right), ylim=(len(table) - 0.45, -0.55), xlabel=xlabel)
        ticks = [
            tick for tick in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if left < tick < right
        ]
        axes.set_xticks(ticks[:: 1 + len(ticks) // 7], [f"{tick:,g}" for tick in ticks[:: 1 + len(ticks) // 7]])
        axes.minorticks_off()
        axes.set_yticks(table.index, [f"{number or 'none'} removed" for number in table["patterns"]])
        rows = f"{int(exceeds.sum())} of {format_count(len(table), 'row')} exceed chance"
        alt = f"Excess of patients over controls against chance as patterns are removed one by one; {rows}."
        return make_chart(figure, "excess", alt, table)


def plot_distributions(results: StudyResults) -> list[Chart]:
    """Plot the distribution of each R-index in controls and in patients."""
    charts = []
    values = results.indices[results.names].to_numpy(dtype=float)
    low, high = np.quantile(values, (0.001, 0.999))
    margin = 0.2 * (high - low)  # values beyond it are drawn at the edge
    edges = np.linspace(max(values.min(), low - margin), min(values.max(), high + margin), 41)
    for name in results.names:
        table = pd.DataFrame({"from": edges[:-1], "to": edges[1:]})
        with styled_figure(2.0, 3.3) as (figure, axes):
            for group, colour in ((CONTROL, CONTROL_COLOUR), (PATIENT, PATIENT_COLOUR)):
                indices = np.clip(results.select_group(group)[name].to_numpy(dtype=float), edges[0], edges[-1])
                table[f"{group}s"] = np.histogram(indices, edges)[0]
                share = 100 * table[f"{group}s"] / max(len(indices), 1)
                axes.stairs(share, edges, color=colour, fill=True, alpha=0.25)
                axes.stairs(share, edges, color=colour, lw=1.4, label=f"{group}s")
            axes.set(xlabel=f"R-index {name}", ylabel="% of group")
            axes.legend(frameon=False, fontsize=8.5, handlelength=1.2, borderaxespad=0)
            medians = [results.select_group(group)[name].median() for group in (CONTROL, PATIENT)]
            alt = f"Histogram of {name}: median {medians[0]:.2f} in controls and {medians[1]:.2f} in patients."
            charts.append(make_chart(figure, f"distribution_{name}", alt, table))
    return charts


def plot_index_pairs(results: StudyResults, max_pairs: int = 3) -> list[Chart]:
    """Plot the first pairs of R-indices against each other."""
    charts = []
    rng = np.random.default_rng(0)
    groups = [group for _, group in results.indices.groupby(GROUP)]
    dots = pd.concat([group.sample(min(len(group), _MAX_DOTS_PER_GROUP), random_state=rng) for group in groups])
    # anyone can draw this sample again, but not who is where in it: sorted rows lose the order of ids
    frame = dots.sort_values(list(dots.columns)).reset_index(drop=True)
    low, high = np.quantile(frame[results.names].to_numpy(dtype=float), (0.0005, 0.9995))
    for first, second in list(combinations(results.names, 2))[:max_pairs]:
        with styled_figure(3.0, 3.3) as (figure, axes):
            for group, colour, size in ((CONTROL, CONTROL_COLOUR, 5), (PATIENT, PATIENT_COLOUR, 6)):
                x, y = frame.loc[frame[GROUP] == group, [first, second]].clip(low, high).to_numpy().T
                axes.plot(x, y, "o", ms=size**0.5, mew=0, color=colour, alpha=0.55, label=f"{group}s")
            span = low - 0.02, high + 0.02
            axes.set(xlim=span, ylim=span, xlabel=first, ylabel=second)
            axes.grid()
            axes.legend(frameon=False, fontsize=8.5, handletextpad=0.2, markerscale=2, loc="lower left",
                        bbox_to_anchor=(-0.03, 1.0), ncols=2, borderaxespad=0)  # fmt: skip
            rho = results.select_group(PATIENT)[[first, second]].corr().to_numpy()[0, 1]
            caption = f"Correlation among patients {format_decimal(rho)}."
            alt = f"Scatter of {first} and {second}. {caption}"
            data = frame[[GROUP, first, second]].round(4)
            charts.append(make_chart(figure, f"pair_{first}_{second}", alt, data, caption))
    return charts


def plot_progress(
    pattern: str, levels: FloatArray, progress: FloatArray, names: Sequence[str], holds_features: bool = False
) -> Chart:
    """Plot the share of its full change that each region has along the severity of a pattern.

    pattern: ``r1`` to ``rM``; levels (Q,): severities; progress (Q, R): share of the full change, of regions from the
    earliest to the latest; names: of the regions.
    """
    last = len(names) - 1
    marked = dict.fromkeys([0, last // 2, last])  # without repetition
    styles = dict(zip(marked, ((PATIENT_COLOUR, "-"), (TEXT_COLOUR, "--"), (CONTROL_COLOUR, "-")), strict=False))
    with styled_figure(3.4) as (figure, axes):
        axes.axhline(100 * ONSET_SHARE, color=MUTED_COLOUR, lw=1, ls=":")
        axes.annotate("onset", (1, 100 * ONSET_SHARE), (-2, 2), textcoords="offset points", color=MUTED_COLOUR,
                      ha="right", fontsize=8)  # fmt: skip
        for position, curve in enumerate(100 * progress.T):
            if position not in styles:
                axes.plot(levels, curve, color=MUTED_COLOUR, lw=0.8, alpha=0.6)
        for position, (colour, line) in styles.items():
            axes.plot(levels, 100 * progress[:, position], line, color=colour, lw=2.2, label=names[position])
        axes.set(xlim=(0, 1), xlabel=f"severity of pattern {pattern}", ylabel="% of full change")
        axes.grid()
        axes.legend(frameon=False, fontsize=8, handlelength=1.8, borderaxespad=0, loc="lower left",
                    bbox_to_anchor=(0, 1.02))  # fmt: skip
        noun = "feature" if holds_features else "region"
        alt = f"Curves of {format_count(len(names), noun)} along severity; first {names[0]}, last {names[last]}."
        table = pd.DataFrame({"severity": levels, **dict(zip(names, progress.T, strict=True))})
        return make_chart(figure, f"curves_{pattern}", alt, table.round(4))


def plot_losses(history: pd.DataFrame) -> Chart:
    """Plot the losses of members with networks by step, from the content of ``training.tsv``."""
    with styled_figure(3.6) as (figure, axes):
        plot.training(history, ax=axes)
        axes.legend(frameon=False, fontsize=8, handlelength=1.4, borderaxespad=0, ncols=2, loc="lower left",
                    bbox_to_anchor=(-0.1, 1.02))  # fmt: skip
        steps, number = int(history["step"].max()), history["member"].nunique()
        alt = f"Losses of {format_count(number, 'member')} by step, up to step {steps:,}."
        return make_chart(figure, "training", alt, history)


def plot_moments(moments: pd.DataFrame) -> list[Chart]:
    """Plot means and standard deviations of synthetic patients against real ones, from ``synthetic.tsv``."""
    charts = []
    for statistic, noun in (("mean", "Mean"), ("sd", "Standard deviation")):
        real, generated = (moments[f"{statistic}_{kind}"].to_numpy(dtype=float) for kind in ("real", "synthetic"))
        with styled_figure(3.1, 3.3) as (figure, axes):
            plot.synthetic(real, generated, statistic, ax=axes)
            axes.set(xlabel="real patients", ylabel="synthetic patients")
            axes.grid()
            error = format_decimal(float(np.abs(generated - real).mean()))
            caption = f"{noun} of each region (control sd). They differ by {error} on average."
            data = moments[["region", f"{statistic}_real", f"{statistic}_synthetic"]]
            charts.append(make_chart(figure, f"synthetic_{statistic}", caption, data, caption))
    return charts


def plot_transformation(pattern: str, changes: pd.DataFrame, labels: Mapping[str, str]) -> Chart:
    """Plot the change of controls under f in the regions that change most, from the rows of a pattern.

    changes: ``severity``, ``region`` and ``change``; labels: name for readers of each region.
    """
    table = changes.pivot_table(index="severity", columns="region", values="change")
    with styled_figure(3.4) as (figure, axes):
        names = [labels[str(region)] for region in table]
        plot.transformation(table.to_numpy(dtype=float), names, [float(each) for each in table.index], ax=axes)
        axes.set_xlabel("change of controls (sd)")
        alt = f"Change of controls under f at {format_count(len(table), 'severity', 'severities')} of {pattern}."
        return make_chart(figure, f"transformation_{pattern}", alt, changes)


def plot_agreement_by_weight(selection: SelectionRecord) -> Chart | None:
    """Plot the agreement by number of patterns and weight lambda; None unless several weights were tried."""
    known = [each for each in selection.grid if each.agreement.concordance is not None]
    chosen = None if selection.chosen is None else selection.chosen.setting
    table = pd.DataFrame(
        [
            {
                "n_patterns": each.setting.n_patterns,
                "orthogonality": each.setting.orthogonality,
                "agreement": each.agreement.concordance,
                **dict(zip(("low", "high"), each.concordance_interval, strict=True)),
                "chosen": each.setting == chosen,
            }
            for each in known
        ]
    )
    if len(table) < 2 or table["orthogonality"].nunique() < 2 or not table["chosen"].any():
        return None
    table[["low", "high"]] = table[["low", "high"]].astype(float)
    with styled_figure(2.9) as (figure, axes):
        plot.agreement(table, ax=axes)
        axes.set(xlabel="weight lambda", ylabel="agreement (0.5 is chance)")
        axes.grid()
        axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=4, borderaxespad=0)
        alt = f"Agreement of {len(table)} settings by number of patterns and weight lambda."
        return make_chart(figure, "agreement_by_weight", alt, table)


@contextmanager
def styled_figure(height: float, width: float = _WIDTH_INCHES) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes in the style of the report."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_MATPLOTLIB_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def make_chart(figure: Any, name: str, alt: str, data: pd.DataFrame, caption: str = "") -> Chart:
    """Return a figure as inline SVG with text as text, colours of the page, and only the ids that it refers to."""
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.hashsalt": name}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in used else "", text)
    text = re.sub(r'font: ([\d.]+px) [^;"]+', r"font-size: \1", text)
    for colour, variable in _CSS_VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    return Chart(name, re.sub(r"\n\s*", "\n", text), alt, data, caption)


@dataclass(frozen=True)
class BrainImage:
    """One coloured view: its name, and the image as a data URI with its size on the page."""

    name: str
    uri: str
    width: int
    height: int


@dataclass(frozen=True)
class AtlasMatch:
    """What can be drawn for the regions of a model.

    atlas: none where nothing can be drawn; drawn: structure of each region that a picture shows; undrawn_regions: the
    other regions, in their order; problem: why nothing can be drawn; holds_features: whether the regions are features
    of any kind, whose names are shown as they are.
    """

    atlas: Atlas | None
    drawn: Mapping[str, BrainStructure]
    undrawn_regions: tuple[str, ...]
    problem: Problem | None = None
    holds_features: bool = False

    def label_regions(self, regions: Sequence[str]) -> dict[str, str]:
        """Return a name for readers of each region."""
        return {region: region for region in regions} if self.holds_features else label_regions(regions)

    def name_columns(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table for readers, in which features are not called regions."""
        return table.rename(columns={"region": "feature"}) if self.holds_features else table


def match_atlas(regions: tuple[str, ...], unit: str = "") -> AtlasMatch:
    """Return what can be drawn for these regions of a table with this unit; nothing for features."""
    if unit == FEATURE_UNIT:
        return AtlasMatch(None, {}, regions, holds_features=True)
    structures = locate_regions(regions)
    try:
        atlas = select_atlas(structures.values())
    except GeometryError as error:
        return AtlasMatch(None, {}, regions, error.problems[0])
    visible = atlas.list_visible()
    drawn = {region: structure for region, structure in structures.items() if structure in visible}
    return AtlasMatch(atlas, drawn, tuple(region for region in regions if region not in drawn))


def render_views(
    match: AtlasMatch, effects: Mapping[str, float], limit: float, only_outside: bool = False, shrink: int = 1
) -> list[BrainImage]:
    """Return views of the brain, coloured by effect; empty where there is no atlas.

    match: what can be drawn; effects: effect by region; limit: effect at which the colours end, on both sides;
    only_outside: both hemispheres from outside; shrink: further factor by which the images are made smaller.
    """
    atlas = match.atlas
    if atlas is None:
        return []
    values = np.full(len(atlas.structures), np.nan)
    position = {structure: index for index, structure in enumerate(atlas.structures)}
    for region, structure in match.drawn.items():
        values[position[structure]] = effects[region]
    cortex = (atlas.cortex[0], atlas.cortex[-1]) if only_outside else atlas.cortex
    views = cortex if only_outside else (*cortex, *atlas.slices)
    return [_render_view(view, values, limit, shrink) for view in views]


def effect_to_hex(effect: float, limit: float) -> str:
    """Return the colour of an effect as ``#rrggbb``."""
    from matplotlib.colors import to_hex

    return str(to_hex(effects_to_rgb(np.array([effect]), limit)[0]))


def effects_to_rgb(effects: FloatArray, limit: float) -> FloatArray:
    """Return the colours (N, 3) of effects (N,); grey for NaN."""
    from matplotlib import colormaps

    scaled = np.clip(0.5 + effects / (2 * limit), 0, 1)
    colours = np.asarray(colormaps[COLOUR_MAP](np.nan_to_num(scaled, nan=0.5)))[:, :3]
    return np.where(np.isnan(effects)[:, None], _NEUTRAL_GREY, colours)


def paint_view(view: BrainView, values: FloatArray, limit: float) -> FloatArray:
    """Return a view as colours with opacity (H, W, 4).

    values (P,): effect on each structure of the atlas; NaN where the table has no such region; limit: effect at which
    the colours end.
    """
    table = np.vstack([effects_to_rgb(values, limit), _NEUTRAL_GREY, np.zeros(3)])
    index = np.where(view.labels == OUTSIDE_BRAIN, len(table) - 1, view.labels)
    index = np.where(view.labels == UNLABELLED, len(table) - 2, index)
    has_effect = (view.labels >= 0) & ~np.isnan(np.append(values, np.nan)[view.labels])
    # on slices coloured regions are only slightly shaded, so that they keep their colour
    light = np.where(has_effect, 0.75 + 0.25 * view.shade, view.shade) if view.is_slice else view.shade
    edge = np.zeros(view.labels.shape, dtype=bool)  # pixels whose right or lower neighbour is of another region
    edge[:, :-1] |= view.labels[:, :-1] != view.labels[:, 1:]
    edge[:-1] |= view.labels[:-1] != view.labels[1:]
    light = np.where(edge & has_effect, light * _OUTLINE_BRIGHTNESS, light)
    opacity = (view.labels != OUTSIDE_BRAIN).astype(float)
    return np.dstack([table[index] * light[..., None], opacity])


def _render_view(view: BrainView, values: FloatArray, limit: float, shrink: int) -> BrainImage:
    """Return a coloured view as a lossless WebP of few colours."""
    image = Image.fromarray(np.round(255 * paint_view(view, values, limit)).astype(np.uint8))
    size = (max(1, view.labels.shape[1] // shrink), max(1, view.labels.shape[0] // shrink))
    image = image.resize(size, Image.Resampling.BOX) if shrink > 1 else image
    palette_image = image.quantize(_N_PALETTE_COLOURS, method=Image.Quantize.FASTOCTREE)
    file = io.BytesIO()
    palette_image.convert("RGBA").save(file, "WEBP", lossless=True, quality=20, method=1)  # effort, not loss
    uri = f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"
    return BrainImage(view.name, uri, size[0] // 2, size[1] // 2)


@cache
def list_colour_stops(number: int = 11) -> tuple[str, ...]:
    """Return the colours of the bar, from full loss to full gain."""
    return tuple(effect_to_hex(value, 1.0) for value in np.linspace(-1, 1, number))

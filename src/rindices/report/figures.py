"""Pictures of the report: charts as SVG in the colours of the page, and brains coloured
by the effect on each region.

Brains have one colour map, red for loss and blue for gain, symmetric about zero and
safe for colour-blind readers. Shape letters: H x W pixels.
"""

import base64
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from rindices import plot
from rindices._typing import FloatArray
from rindices.errors import format_count
from rindices.model.pattern_tables import make_change_table
from rindices.model.records import SelectionRecord
from rindices.plot import style
from rindices.plot.brain import AtlasMatch, paint_view
from rindices.plot.geometry import BrainView
from rindices.plot.people import average_neighbours, summarise_severities
from rindices.plot.source import Study, StudySource
from rindices.plot.style import (
    CONTROL_COLOUR,
    GRID_COLOUR,
    MUTED_COLOUR,
    PATIENT_COLOUR,
    TEXT_COLOUR,
)
from rindices.report.formatting import describe_setting, format_decimal
from rindices.tables.checks.groups import PATIENT
from rindices.tables.cohort import GROUP
from rindices.wording import FEATURE_UNIT

_N_PALETTE_COLOURS = 192

_CSS_VARIABLES = {TEXT_COLOUR: "ink", MUTED_COLOUR: "muted", GRID_COLOUR: "rule"}
_CSS_VARIABLES |= {CONTROL_COLOUR: "control", PATIENT_COLOUR: "patient"}
_CSS_VARIABLES |= {"#ffffff": "paper"}
_PAIR_MM = 66.0  # three stand side by side
_COURSE_LEVELS = np.linspace(0.0, 1.0, 51)
_WIDTH_INCHES = (
    4.4  # about the width on the page, so that letters keep their size on a phone
)
_MAX_DOTS_PER_GROUP = 500  # people of each group in a scatter plot
_MATPLOTLIB_STYLE: Any = {
    **{
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.linewidth": 0.7,
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
    },
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), TEXT_COLOUR
    ),
    **{"axes.edgecolor": MUTED_COLOUR, "grid.color": GRID_COLOUR},
    **{"axes.spines.top": False, "axes.spines.right": False},
}


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart with its text and its numbers.

    Attributes
    ----------
    name : str
        Name of the chart.
    svg : str
        The picture.
    alt : str
        What it shows, in words.
    data : DataFrame
        Table behind the picture.
    caption : str
        Caption, where the chart has its own.
    """

    name: str
    svg: str
    alt: str
    data: pd.DataFrame
    caption: str = ""


def plot_agreement(study: Study) -> Chart | None:
    """Plot the agreement of every setting, with its interval and its members; None
    where none was trained twice.
    """
    source = StudySource.of(study)
    assert source.selection is not None
    grid, chosen = source.selection.grid, source.selection.chosen
    if all(record.agreement.concordance is None for record in grid):
        return None
    rows = [
        {"setting": describe_setting(record.setting), **record.agreement}
        | dict(zip(("low", "high"), record.concordance_interval, strict=True))
        | {**record.members, "stable": record.stable}
        for record in grid
    ]
    alt = f"Agreement of {format_count(len(rows), 'setting')}"
    if chosen is not None:
        best = chosen.agreement.concordance
        number = "unknown" if best is None else f"{best:.3f}"
        alt += f"; the chosen one, {describe_setting(chosen.setting)}: {number}"
    return _draw_chart(
        lambda: plot.number(source, by="agreement"),
        "agreement",
        f"{alt}.",
        pd.DataFrame(rows),
    )


def plot_excess(study: Study) -> Chart:
    """Plot how much more patients vary than controls, against chance, as patterns are
    removed one by one.
    """
    source = StudySource.of(study)
    assert source.selection is not None
    test = source.selection.number_of_patterns.test
    table = pd.DataFrame([step.to_dict() for step in test.curve])
    exceeding = int((table["p"] <= test.level).sum())
    rows = f"{exceeding} of {format_count(len(table), 'row')} exceed chance"
    alt = f"Excess of patients over controls against chance as patterns are removed one by one; {rows}."
    return _draw_chart(lambda: plot.number(source), "excess", alt, table)


def plot_severities(study: Study, show_people: bool = False) -> Chart | None:
    """Plot the distribution of each R-index by group; None where no group is large
    enough.
    """
    source = StudySource.of(study)
    table = summarise_severities(source.people, source.fitted.index_names)
    dots = _select_dots(source)
    shows_dots = show_people and len(dots.people) == len(source.people)
    if table.empty and not shows_dots:
        return None
    medians = [
        f"median {row['index']} {format_decimal(row['median'])} in {row[GROUP]}s"
        for row in table.to_dict("records")
    ]
    return _draw_chart(
        lambda: plot.severities(dots if shows_dots else source, people=shows_dots),
        "severities",
        f"R-indices by group{': ' if medians else ''}{', '.join(medians)}.",
        table.round(4),
    )


def plot_site_effects(study: Study) -> Chart | None:
    """Plot what sites explain before and after; None for a single site."""
    source = StudySource.of(study)
    table = source.site_effects
    if table is None:
        return None
    medians = table.loc[table["what"] == "region", ["before", "after"]].median()
    return _draw_chart(
        lambda: plot.site_effects(table),
        "site_effects",
        f"Variance of regions that sites explain: median {medians['before']:.1%} as measured, {medians['after']:.1%} as used.",
        table,
    )


def plot_index_pairs(
    study: Study, show_people: bool = False, max_pairs: int = 3
) -> list[Chart]:
    """Plot the first pairs of R-indices against each other."""
    charts, source = [], StudySource.of(study)
    drawn = _select_dots(source) if show_people else source
    for first, second in list(combinations(source.fitted.index_names, 2))[:max_pairs]:
        data = (
            drawn.people[[GROUP, first, second]]
            if show_people
            else average_neighbours(source.people, first, second)
        )
        if data.empty:
            continue
        patients = source.people.loc[source.people[GROUP] == PATIENT, [first, second]]
        caption = f"Correlation among patients {format_decimal(patients.corr().to_numpy()[0, 1])}."
        charts.append(
            _draw_chart(
                partial(plot.pairs, drawn, (first, second), people=show_people),
                f"pair_{first}_{second}",
                f"{first} against {second}. {caption}",
                data.round(4),
                caption,
                width=_PAIR_MM,
            )
        )
    return charts


def _select_dots(source: StudySource) -> StudySource:
    """Return a source with at most 500 people of each group, by value: anyone can draw
    this sample again, but rows do not have the order of IDs.
    """
    columns = [GROUP, *source.fitted.index_names]
    rng = np.random.default_rng(0)
    dots = pd.concat(
        [
            group.sample(min(len(group), _MAX_DOTS_PER_GROUP), random_state=rng)
            for _, group in source.people[columns].groupby(GROUP)
        ]
    )
    return replace(source, indices=dots.sort_values(columns).reset_index(drop=True))


def plot_course(study: Study, pattern: str, regions: Sequence[str]) -> Chart:
    """Plot the change of regions along the severity of a staged pattern.

    regions: the strongest of the pattern, the earliest first.
    """
    source = StudySource.of(study)
    names = [source.labels[region] for region in regions]
    changes = make_change_table(source.fitted, list(_COURSE_LEVELS))
    table = changes[changes["pattern"] == pattern].pivot_table(
        index="severity", columns="region", values="change"
    )
    noun = "feature" if source.fitted.card.unit == FEATURE_UNIT else "region"
    alt = f"Change of {format_count(len(names), noun)} along severity; first {names[0]}, last {names[-1]}."
    return _draw_chart(
        lambda: plot.course(source, pattern, n_regions=len(names)),
        f"curves_{pattern}",
        alt,
        table[list(regions)].set_axis(names, axis=1).round(4).reset_index(),
        has_own_colours=True,
    )


def plot_change(groups: pd.DataFrame) -> Chart:
    """Plot the mean change per year of controls and patients, from the content of
    ``change_groups.tsv``.
    """
    rows = [
        f"{row.index}: controls {format_decimal(row.controls_per_year, 3)}, patients {format_decimal(row.patients_per_year, 3)}"
        for row in groups.itertuples(index=False)
    ]
    alt = f"Mean change per year, {'; '.join(rows)}."
    return _draw_chart(lambda: plot.change(groups), "change_per_year", alt, groups)


def plot_losses(history: pd.DataFrame) -> Chart:
    """Plot the losses of members with networks by step, from the content of
    ``training.tsv``.
    """
    with styled_figure(3.6) as (figure, axes):
        plot.training(history, ax=axes)
        axes.legend(frameon=False, fontsize=8, handlelength=1.4, borderaxespad=0, ncols=2, loc="lower left",
                    bbox_to_anchor=(-0.1, 1.02))  # fmt: skip
        steps, number = int(history["step"].max()), history["member"].nunique()
        alt = (
            f"Losses of {format_count(number, 'member')} by step, up to step {steps:,}."
        )
        return make_chart(figure, "training", alt, history)


def plot_moments(moments: pd.DataFrame) -> list[Chart]:
    """Plot means and standard deviations of synthetic patients against real ones, from
    ``synthetic.tsv``.
    """
    charts = []
    for statistic, noun in (("mean", "Mean"), ("sd", "Standard deviation")):
        real, generated = (
            moments[f"{statistic}_{kind}"].to_numpy(dtype=float)
            for kind in ("real", "synthetic")
        )
        with styled_figure(3.1, 3.3) as (figure, axes):
            plot.synthetic(real, generated, statistic, ax=axes)
            axes.set(xlabel="real patients", ylabel="synthetic patients")
            axes.grid()
            error = format_decimal(float(np.abs(generated - real).mean()))
            caption = f"{noun} of each region (control sd). They differ by {error} on average."
            data = moments[["region", f"{statistic}_real", f"{statistic}_synthetic"]]
            charts.append(
                make_chart(figure, f"synthetic_{statistic}", caption, data, caption)
            )
    return charts


def plot_transformation(
    pattern: str, changes: pd.DataFrame, labels: Mapping[str, str]
) -> Chart:
    """Plot the change of controls under f in the regions that change most, from the
    rows of a pattern.

    changes: ``severity``, ``region`` and ``change``; labels: name for readers of each
    region.
    """
    table = changes.pivot_table(index="severity", columns="region", values="change")
    with styled_figure(3.4) as (figure, axes):
        names = [labels[str(region)] for region in table]
        plot.transformation(
            table.to_numpy(dtype=float),
            names,
            [float(each) for each in table.index],
            ax=axes,
        )
        axes.set_xlabel("change of controls (sd)")
        alt = f"Change of controls under f at {format_count(len(table), 'severity', 'severities')} of {pattern}."
        return make_chart(figure, f"transformation_{pattern}", alt, changes)


def plot_agreement_by_weight(selection: SelectionRecord) -> Chart | None:
    """Plot the agreement by number of patterns and weight lambda; None unless several
    weights were tried.
    """
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
    if (
        len(table) < 2
        or table["orthogonality"].nunique() < 2
        or not table["chosen"].any()
    ):
        return None
    table[["low", "high"]] = table[["low", "high"]].astype(float)
    with styled_figure(2.9) as (figure, axes):
        plot.agreement(table, ax=axes)
        axes.set(xlabel="weight lambda", ylabel="agreement (0.5 is chance)")
        axes.grid()
        axes.legend(
            frameon=False,
            fontsize=8,
            loc="lower left",
            bbox_to_anchor=(-0.1, 1.0),
            ncols=4,
            borderaxespad=0,
        )
        alt = f"Agreement of {len(table)} settings by number of patterns and weight lambda."
        return make_chart(figure, "agreement_by_weight", alt, table)


def _draw_chart(
    draw: Callable[[], Any],
    name: str,
    alt: str,
    data: pd.DataFrame,
    caption: str = "",
    has_own_colours: bool = False,
    width: float = style.COLUMN_MM,
) -> Chart:
    """Return a figure of `rindices.plot` as a chart of the page."""
    with style.make_hidden_figures(width):
        axes = np.ravel(np.asarray(draw(), dtype=object))[0]
        return make_chart(axes.figure, name, alt, data, caption, has_own_colours)


@contextmanager
def styled_figure(
    height: float, width: float = _WIDTH_INCHES
) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes in the style of the report."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_MATPLOTLIB_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def make_chart(
    figure: Any,
    name: str,
    alt: str,
    data: pd.DataFrame,
    caption: str = "",
    has_own_colours: bool = False,
) -> Chart:
    """Return a figure as inline SVG with text as text, and only the ids that it refers
    to.

    has_own_colours: on white, in both themes; otherwise in the colours of the page.
    """
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.hashsalt": name}):
        figure.savefig(
            file,
            format="svg",
            transparent=not has_own_colours,
            metadata={"Date": None, "Creator": None},
        )
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", text))
    text = re.sub(
        r' id="([^"]+)"', lambda match: match[0] if match[1] in used else "", text
    )
    text = re.sub(
        r'font: (?:(bold|700) )?([\d.]+px) [^;"]+',
        lambda match: (
            f"font-size: {match[2]}" + ("; font-weight: bold" if match[1] else "")
        ),
        text,
    )
    for colour, variable in () if has_own_colours else _CSS_VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    return Chart(
        name=name, svg=re.sub(r"\n\s*", "\n", text), alt=alt, data=data, caption=caption
    )


@dataclass(frozen=True, kw_only=True)
class BrainImage:
    """One coloured view.

    Attributes
    ----------
    name : str
        Name of the view.
    uri : str
        Image as a data URI.
    width : int
        Width on the page.
    height : int
        Height on the page.
    """

    name: str
    uri: str
    width: int
    height: int


def render_views(
    match: AtlasMatch,
    effects: Mapping[str, float],
    limit: float,
    only_outside: bool = False,
    shrink: int = 1,
) -> list[BrainImage]:
    """Return views of the brain, coloured by effect, or none where there is no atlas.

    Parameters
    ----------
    match : AtlasMatch
        What can be drawn.
    effects : mapping
        Effect by region.
    limit : float
        Effect at which the colours end, on both sides.
    only_outside : bool
        Show both hemispheres from outside only.
    shrink : int
        Further factor by which the images are made smaller.
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


def _render_view(
    view: BrainView, values: FloatArray, limit: float, shrink: int
) -> BrainImage:
    """Return a coloured view as a lossless WebP of few colours."""
    image = Image.fromarray(
        np.round(255 * paint_view(view, values, limit)).astype(np.uint8)
    )
    size = (
        max(1, view.labels.shape[1] // shrink),
        max(1, view.labels.shape[0] // shrink),
    )
    image = image.resize(size, Image.Resampling.BOX) if shrink > 1 else image
    palette_image = image.quantize(_N_PALETTE_COLOURS, method=Image.Quantize.FASTOCTREE)
    file = io.BytesIO()
    palette_image.convert("RGBA").save(
        file, "WEBP", lossless=True, quality=20, method=1
    )  # effort, not loss
    uri = f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"
    return BrainImage(name=view.name, uri=uri, width=size[0] // 2, height=size[1] // 2)

"""Charts of the report: figures of `rindices.plot` as SVG in the colours of the page,
with their text and their numbers.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from rindices import plot
from rindices.errors import format_count
from rindices.model.pattern_tables import make_change_table
from rindices.model.records import SelectionRecord
from rindices.plot import style
from rindices.plot.files import render_figure
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

_CSS_VARIABLES = {TEXT_COLOUR: "ink", MUTED_COLOUR: "muted", GRID_COLOUR: "rule"}
_CSS_VARIABLES |= {CONTROL_COLOUR: "control", PATIENT_COLOUR: "patient"}
_CSS_VARIABLES |= {"#ffffff": "paper"}
_PAIR_MM = 66.0  # three stand side by side
_COURSE_LEVELS = np.linspace(0.0, 1.0, 51)
_MAX_DOTS_PER_GROUP = 500  # people of each group in a scatter plot


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart with its text and its numbers.

    Attributes
    ----------
    name : str
        Name of the chart, and of its file.
    svg : str
        The picture, in the colours of the page.
    file : bytes
        The picture as a file of its own.
    alt : str
        What it shows, in words.
    data : DataFrame
        Table behind the picture.
    caption : str
        Caption, where the chart has its own.
    """

    name: str
    svg: str
    file: bytes
    alt: str
    data: pd.DataFrame
    caption: str = ""


_recorded: ContextVar[list[Chart] | None] = ContextVar("charts drawn", default=None)


@contextmanager
def record_charts() -> Iterator[list[Chart]]:
    """Yield a list to which each chart is added that is drawn meanwhile."""
    charts: list[Chart] = []
    token = _recorded.set(charts)
    try:
        yield charts
    finally:
        _recorded.reset(token)


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
        {"setting": describe_setting(record.setting), **record.agreement.to_dict()}
        | dict(zip(("low", "high"), record.concordance_interval, strict=True))
        | {**record.members.to_dict(), "stable": record.stable}
        for record in grid
    ]
    alt = f"Agreement of {format_count(len(rows), 'setting')}"
    if chosen is not None:
        best = chosen.agreement.concordance
        number = "unknown" if best is None else f"{best:.3f}"
        alt += f"; the chosen one, {describe_setting(chosen.setting)}: {number}"
    return draw_chart(
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
    return draw_chart(lambda: plot.number(source), "number", alt, table)


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
    return draw_chart(
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
    return draw_chart(
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
            draw_chart(
                partial(plot.pairs, drawn, (first, second), people=show_people),
                f"pairs_{first}_{second}",
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
    return draw_chart(
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
    return draw_chart(lambda: plot.change(groups), "change", alt, groups)


def plot_losses(history: pd.DataFrame) -> Chart:
    """Plot the losses of members with networks by step, from the content of
    ``training.tsv``.
    """
    steps, number = int(history["step"].max()), history["member"].nunique()
    alt = f"Losses of {format_count(number, 'member')} by step, up to step {steps:,}."
    return draw_chart(lambda: plot.training(history), "training", alt, history)


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
        error = format_decimal(float(np.abs(generated - real).mean()))
        caption = (
            f"{noun} of each region (control sd). They differ by {error} on average."
        )
        charts.append(
            draw_chart(
                partial(plot.synthetic, real, generated, statistic),
                f"synthetic_{statistic}",
                caption,
                moments[["region", f"{statistic}_real", f"{statistic}_synthetic"]],
                caption,
                width=_PAIR_MM,
            )
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
    names = [labels[str(region)] for region in table]
    severities = [float(each) for each in table.index]
    alt = f"Change of controls under f at {format_count(len(table), 'severity', 'severities')} of {pattern}."
    return draw_chart(
        lambda: plot.transformation(table.to_numpy(dtype=float), names, severities),
        f"transformation_{pattern}",
        alt,
        changes,
    )


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
    alt = f"Agreement of {len(table)} settings by number of patterns and weight lambda."
    return draw_chart(lambda: plot.agreement(table), "agreement_by_weight", alt, table)


def draw_chart(
    draw: Callable[[], Any],
    name: str,
    alt: str,
    data: pd.DataFrame,
    caption: str = "",
    has_own_colours: bool = False,
    width: float = style.COLUMN_MM,
) -> Chart:
    """Return a figure of `rindices.plot` as a chart of the page.

    has_own_colours: on white, in both themes; otherwise in the colours of the page.
    """
    file = render_figure(draw, width, "svg", name)
    chart = Chart(
        name=name,
        svg=_fit_into_page(file.decode(), has_own_colours),
        file=file,
        alt=alt,
        data=data,
        caption=caption,
    )
    if (recorded := _recorded.get()) is not None:
        recorded.append(chart)
    return chart


def _fit_into_page(text: str, has_own_colours: bool) -> str:
    """Return an SVG file as part of a page: text as text in the page's font, and only
    the ids that it refers to.
    """
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
    return re.sub(r"\n\s*", "\n", text)

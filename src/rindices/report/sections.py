"""What the sections on regions, patterns and associations show: bars, coloured cells and pictures for the templates."""

from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import FloatArray
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.records import MIN_SPLIT_HALF, HeldOutLikelihoodRecord, Reproduction
from rindices.model.trajectories import (
    COURSE_LEVELS,
    ONSET_SHARE,
    compute_progress,
    has_curved_patterns,
    list_trajectory_heads,
    make_course_table,
    make_region_order,
)
from rindices.report import brain
from rindices.report.brain import AtlasMatch, effect_to_hex, effects_to_rgb
from rindices.report.figures import plot_excess, plot_progress
from rindices.report.study_results import N_LISTED_REGIONS, StudyResults
from rindices.report.summary import Context, locate_pattern, summarise_test
from rindices.study.checks import MIN_CARRIER_SHARE

MAX_ORDERED_REGIONS = 20
"""Regions of a pattern whose order the page shows; the data hold all."""
MIN_ORDER_ERRORS = 1.5
"""Standard errors by which curved patterns must be ahead before the order of the regions is interpreted. In simulated
cohorts of 180 and 350 people of seeds 400 to 402, it was at most 1.3 where all regions change together and at least 1.8
where they change one after another. R-indices of curved patterns are as accurate or more accurate either way."""
_PROGRESS_LEVELS = np.linspace(0.0, 1.0, 51)
_N_CURVES = 8  # regions whose change along severity is listed
_MAX_Q = 0.05
_MEASURES = {"split_half": MIN_SPLIT_HALF, "auc": 0.5, "carriers": MIN_CARRIER_SHARE}
"""Figures of a pattern, and the values below which they are called weak."""


def make_bar(value: float, interval: tuple[float, float] | None, span: tuple[float, float], colour: str) -> Context:
    """Return a bar from zero to a value with an interval, in percent of a span; positions beyond are at its ends."""
    low, high = (value, value) if interval is None else interval
    width = max(span[1] - span[0], 1e-12)
    positions = {"zero": 0.0, "value": value, "low": low, "high": high}
    scaled = {name: 100 * min(max((number - span[0]) / width, 0.0), 1.0) for name, number in positions.items()}
    return Context(colour=colour, **scaled)


def make_colour_cell(value: float, limit: float) -> Context:
    """Return a number on the colour of an effect, with black or white letters, whichever is easier to read."""
    colour = effects_to_rgb(np.array([value]), limit)[0]
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    is_dark = (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05)
    return Context(value=value, colour=effect_to_hex(value, limit), ink="#000" if is_dark else "#fff")


def round_colour_limit(largest: float) -> float:
    """Return a round number that is not below the largest effect."""
    step = 10.0 ** np.floor(np.log10(max(largest, 1e-6))) / 2
    return float(np.ceil(largest / step) * step)


def compute_colour_limit(results: StudyResults) -> float:
    """Return the effect at which colours end, a round number; one for all patterns, so that they can be compared."""
    return round_colour_limit(float(np.abs(results.model.patterns[-1]).max()))


def build_trust_section(results: StudyResults) -> Context:
    """Return the permutation test, and how each pattern is reproduced in other people."""
    number, adjust = results.selection.number_of_patterns, results.model.preprocessing.adjust
    patterns, table = [], []
    for pattern in results.selection.patterns:
        measures, row = [], {"pattern": pattern.name}
        for name, threshold in _MEASURES.items():
            value, interval = getattr(pattern, name), getattr(pattern, f"{name}_interval")
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), (value, *(interval or (None, None))), strict=True))
            if value is not None:
                # weak unless the interval excludes it; for carriers, the figure decides
                is_weak = (value if interval is None or name == "carriers" else interval[0]) < threshold
                bar = make_bar(value, interval, (0.0, 1.0), "var(--patient)" if is_weak else "var(--control)")
                measures.append(Context(name=name, value=value, interval=interval, is_weak=is_weak, bar=bar))
        patterns.append(Context(record=pattern, measures=measures))
        table.append(row)
    return Context(
        number=number,
        test=summarise_test(number.test, results.selection.difference, results.cohort, adjust),
        chart=plot_excess(number.test),
        patterns=patterns,
        data=pd.DataFrame(table),
    )


def build_effect_section(effects: pd.DataFrame, smallest_effect: float, match: AtlasMatch) -> Context:
    """Return the difference between patients and controls in each region, from the content of ``effects.tsv``."""
    strongest = effects.reindex(effects["d"].abs().sort_values(ascending=False, kind="stable").index)
    limit, listed = round_colour_limit(float(effects["d"].abs().max())), strongest.head(N_LISTED_REGIONS)
    span = min(0.0, float(listed["low"].min())), max(0.0, float(listed["high"].max()))
    labels = match.label_regions(tuple(effects["region"]))
    top = []
    for region, *numbers in listed[["region", "d", "low", "high", "q"]].itertuples(index=False, name=None):
        d, low, high, q = map(float, numbers)
        bar = make_bar(d, (low, high), span, effect_to_hex(d, limit))
        top.append(Context(region=labels[region], d=d, low=low, high=high, q=q, bar=bar))
    return Context(
        smallest_effect=smallest_effect,
        n_significant=int((effects["q"] <= _MAX_Q).sum()),
        n_regions=len(effects),
        limit=limit,
        images=brain.render_views(match, dict(zip(effects["region"], effects["d"], strict=True)), limit),
        top=top,
        data=match.name_columns(effects),
    )


def build_pattern_sections(results: StudyResults, match: AtlasMatch, limit: float) -> list[Context]:
    """Return pictures, bars and coloured cells of each pattern; colours end at the limit."""
    labels = match.label_regions(results.model.regions)
    changes = pd.concat([results.list_top_regions(name) for name in results.names])[["change", "low", "high"]]
    span = min(0.0, float(np.nanmin(changes))), max(0.0, float(np.nanmax(changes)))  # one scale for all patterns
    is_curved = has_curved_patterns(results.model)

    def build_section(name: str) -> Context:
        effects, top, rows = results.get_effects(name), results.list_top_regions(name), results.select_pattern(name)
        steps = {severity: results.get_effects(name, severity) for severity in SEVERITY_LEVELS}
        record = next((each for each in results.selection.patterns if each.name == name), None)
        is_reproduced = record is None or record.reproduction is not Reproduction.NOT_REPRODUCED
        undrawn = [] if match.atlas is None else sorted(match.undrawn_regions, key=lambda region: -abs(effects[region]))
        bars = []
        for region, change, low, high in top[["region", "change", "low", "high"]].itertuples(index=False, name=None):
            interval = None if pd.isna(low) or pd.isna(high) else (low, high)
            bar = make_bar(change, interval, span, effect_to_hex(change, limit))
            bars.append(Context(region=labels[region], change=change, interval=interval, bar=bar))
        return Context(
            name=name,
            location=locate_pattern(results, name),
            largest=max(effects.values(), key=abs),
            n_certain=None if rows["low"].isna().any() else int(((rows["low"] > 0) | (rows["high"] < 0)).sum()),
            n_regions=len(effects),
            images=brain.render_views(match, effects, limit),
            undrawn=[
                Context(region=labels[region], cell=make_colour_cell(effects[region], limit)) for region in undrawn
            ],
            top=bars,
            curves=[
                Context(region=labels[region], cells=[make_colour_cell(step[region], limit) for step in steps.values()])
                for region in top["region"].head(_N_CURVES)
            ],
            steps=[] if is_curved else _draw_steps(match, steps, limit),  # another section shows curved patterns
            data=match.name_columns(results.patterns[results.patterns["pattern"] == name]),
            is_curved=is_curved,
            record=record,
            is_faded=not (results.selection.is_difference_detected and is_reproduced),
        )

    return [build_section(name) for name in results.names]


def _draw_steps(match: AtlasMatch, effects: dict[float, dict[str, float]], limit: float) -> list[Context]:
    """Return small pictures of a pattern at each severity."""
    return [
        Context(severity=severity, images=brain.render_views(match, step, limit, "outside", shrink=2))
        for severity, step in effects.items()
    ]


def build_trajectory_section(results: StudyResults, match: AtlasMatch, limit: float) -> Context | None:
    """Return how each pattern unfolds; None for a model whose learner has no curves.

    Courses of patterns are empty where patterns are straight, and interactions where their changes add up.
    """
    model, held_out = results.model, results.chosen.held_out
    if not list_trajectory_heads(model):
        return None
    is_curved = has_curved_patterns(model)
    patterns = []
    if is_curved:
        courses, order = make_course_table(model), make_region_order(model)
        progress = compute_progress(model, _PROGRESS_LEVELS)
        for position, name in enumerate(results.names):
            of_pattern = courses[courses["pattern"] == name].reset_index(drop=True)
            course = _build_course(
                name, of_pattern, order[order["pattern"] == name], progress[:, position], match, limit
            )
            patterns.append(Context(name=name, location=locate_pattern(results, name), **course))
    return Context(
        is_curved=is_curved,
        held_out=held_out,
        is_order_uncertain=is_order_uncertain(held_out),
        patterns=patterns,
        interactions=list(model.interactions().itertuples(index=False)),
        levels=COURSE_LEVELS,
        onset_share=ONSET_SHARE,
    )


def is_order_uncertain(held_out: HeldOutLikelihoodRecord | None) -> bool:
    """Return whether curved patterns are ahead of straight ones by no more than chance would give."""
    if held_out is None or held_out.curved is None or held_out.straight is None or held_out.curved_gain_se is None:
        return False
    return held_out.curved - held_out.straight < MIN_ORDER_ERRORS * held_out.curved_gain_se


def _build_course(
    name: str, courses: pd.DataFrame, order: pd.DataFrame, progress: FloatArray, match: AtlasMatch, limit: float
) -> dict[str, Any]:
    """Return the course of a pattern, from its rows of both tables and the progress (Q, R) of its regions.

    Of the regions that clearly belong to the pattern, the strongest are listed, the earliest first.
    """
    labels = match.label_regions(tuple(courses["region"]))
    strongest = order["change"].abs().sort_values(ascending=False, kind="stable").index[:MAX_ORDERED_REGIONS]
    listed = order.loc[order.index.isin(strongest)]
    by_level = {
        level: dict(zip(courses["region"], courses[f"c{100 * level:.0f}"], strict=True)) for level in COURSE_LEVELS
    }
    regions, chart = [], None
    for row in listed.itertuples():
        interval = None if np.isnan(row.onset_low) or np.isnan(row.onset_high) else (row.onset_low, row.onset_high)
        bar = make_bar(row.onset, interval, (0.0, 1.0), "var(--patient)")
        cells = [make_colour_cell(step[row.region], limit) for step in by_level.values()]
        regions.append(Context(region=labels[row.region], onset=row.onset, interval=interval, bar=bar, cells=cells))
    if regions:
        positions = [courses.index[courses["region"] == region][0] for region in listed["region"]]
        names = [row.region for row in regions]
        chart = plot_progress(name, _PROGRESS_LEVELS, progress[:, positions], names, match.holds_features)
    steps, data = _draw_steps(match, by_level, limit), match.name_columns(courses)
    return {"regions": regions, "n_regions": len(order), "chart": chart, "steps": steps, "data": data}


def build_association_rows(table: pd.DataFrame | None) -> list[Context]:
    """Return the rows of the associations, strongest variable first; those without a correlation are left out."""
    if table is None:
        return []
    rows = table[table["correlation"].notna()]
    strength = rows["correlation"].abs().groupby(rows["variable"]).transform("max")
    rows = rows.assign(strength=strength).sort_values(["strength", "variable", "index"], ascending=[False, True, True])
    contexts = []
    for row in rows.to_dict("records"):
        texts = {name: _format_cell(row.get(name)) for name in ("level", "note")}
        interval, colour = (row["low"], row["high"]), effect_to_hex(-row["correlation"], 1.0)
        contexts.append(Context(**row | texts, bar=make_bar(row["correlation"], interval, (-1.0, 1.0), colour)))
    return contexts


def _format_cell(value: object) -> str:
    """Return a cell of a table as text; '' where it is empty."""
    return "" if value is None or value != value else f"{value:g}" if isinstance(value, float) else str(value)

"""Contexts of the templates: the numbers, flags, bars, cells and pictures that a report shows.

The sentences are in the templates; those that terminal, model card and report share are in ``statements.txt``.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import FloatArray
from rindices.errors import Severity
from rindices.learners.ensemble import N_SPLITS
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.learners.wrong_cells import MAX_WRONG_SHARE
from rindices.model import pattern_tables, records
from rindices.model.fitted import FittedModel
from rindices.model.unusual import label_region
from rindices.report.figures import AtlasMatch, effect_to_hex, effects_to_rgb, plot_excess, plot_progress, render_views
from rindices.report.formatting import format_summary, make_environment
from rindices.tables.layout.region_names import format_region_name
from rindices.report.study_results import N_LISTED_REGIONS, StudyResults
from rindices.study.checks import MIN_CARRIER_SHARE, collect_study_warnings, list_needed_people, list_weak_patterns
from rindices.study.recipes import RECIPES, get_study_recipe
from rindices.tables.layout import freesurfer
from rindices.tables.validation.groups import PATIENT
from rindices.wording import FEATURE_UNIT, get_wording

Context = SimpleNamespace
"""Values by name, as a template reads them."""
MAX_ORDERED_REGIONS = 20
"""Regions of a pattern whose order the page shows; the data hold all."""
MIN_ORDER_ERRORS = 1.5
"""Standard errors by which curved patterns must be ahead before the order of the regions is interpreted. In simulated
cohorts of 180 and 350 people of seeds 400 to 402, it was at most 1.3 where all regions change together and at least 1.8
where they change one after another. R-indices of curved patterns are as accurate or more accurate either way."""
_PROGRESS_LEVELS = np.linspace(0.0, 1.0, 51)
_N_CURVES = 8  # regions whose change along severity is listed
_MAX_Q = 0.05
_MEASURES = {"split_half": records.MIN_SPLIT_HALF, "auc": 0.5, "carriers": MIN_CARRIER_SHARE}
"""Figures of a pattern, and the values below which they are called weak."""
_MAX_PATTERN_SIMILARITY, _MAX_INDEX_CORRELATION = 0.7, 0.6
_MIN_CONTROLS_PER_LEVEL = 5
_MAX_GROUP_DIFFERENCE = 0.5  # standard deviations of controls
_MAX_LEVELS = 12  # categories of a covariate that the table lists


@dataclass(frozen=True, eq=False)
class StudyFacts:
    """What was done and found.

    controls, patients: none for an imported model; scans: scans that the model was learnt from, or that a study without
    a model has, if people have several; adjustment: what was removed before learning; patterns: figures of each pattern
    in held-out people; empty where they are not known; is_refitted: whether these figures are of indices that were
    learnt again. Otherwise the patterns were projected onto the disease space that was learnt again.
    """

    controls: int | None
    patients: int | None
    scans: int | None
    adjustment: records.AdjustmentRecord
    patterns: Sequence[records.PatternRecord] = ()
    is_refitted: bool = False

    @classmethod
    def of_model(cls, model: FittedModel) -> "StudyFacts":
        """Return the facts in a model file."""
        card = model.card
        recipe = None if card.recipe is None else RECIPES.get(card.recipe.name)
        return cls(
            controls=card.trained_on.get("controls"),
            patients=card.trained_on.get("patients"),
            scans=card.trained_on.get("scans"),
            adjustment=records.describe_adjustment(model.preprocessing, card.unit),
            patterns=card.pattern_evidence,
            is_refitted=recipe is not None and recipe.is_refitted,
        )


def load_statements(unit: str = "") -> Any:
    """Return the macros of ``statements.txt`` as functions that return plain text.

    unit: unit of the table, for its wording.
    """
    return make_environment(unit, is_html=False).get_template("statements.txt").module


def summarise_findings(results: StudyResults) -> Context:
    """Return the result in numbers: whether it is in doubt, what the indices are, and where each pattern is."""
    return Context(
        is_doubtful=not results.selection.is_difference_detected,
        locations=[locate_pattern(results, name) for name in results.names],
        needed=list_needed_people(),
        are_posterior_means=bool(pattern_tables.list_trajectory_heads(results.model)),
    )


def locate_pattern(results: StudyResults, name: str, max_structures: int = 3) -> Context:
    """Return where a pattern is strongest, and whether regions mostly lose there; structures are without their side."""
    top = results.list_top_regions(name)
    plain = list(top["region"])
    if results.model.card.unit != FEATURE_UNIT:
        plain = [format_region_name(region).removesuffix(", left").removesuffix(", right") for region in plain]
    is_loss = bool((top["change"] < 0).mean() > 0.5)
    return Context(name=name, is_loss=is_loss, structures=list(dict.fromkeys(plain))[:max_structures])


def summarise_test(selection: records.SelectionRecord, cohort: records.CohortRecord, scale: str = "") -> Context:
    """Return the permutation test as the page tells it, with the covariates that it adjusts all regions for.

    ``n_reached`` permutations differ at least as much as the groups really do. The test is open-ended if its last step
    still detected a difference, so that there may be more patterns.
    """
    record, difference = selection.number_of_patterns.test, selection.difference
    return Context(
        record=record,
        difference=difference,
        n_reached=round(difference.p * (difference.permutations + 1)) - 1,
        is_significant=difference.p <= record.level,
        is_open_ended=record.n_patterns > 0 and record.curve[-1].p <= record.level,
        covariates=[] if scale == "none" else cohort.covariate_names,
        n_sites=len(cohort.sites),
        is_too_near=difference.is_too_near(record.level),
    )


def collect_warnings(results: StudyResults) -> Context:
    """Return what a reader should know before relying on the result."""
    card, members = results.model.card, results.chosen.members
    doubts = collect_study_warnings(results.selection)
    effects = np.abs(results.model.patterns[-1])
    directions = effects / np.maximum(np.linalg.norm(effects, axis=1, keepdims=True), 1e-12)
    similarity = directions @ directions.T
    rho = np.atleast_2d(np.corrcoef(results.select_group(PATIENT).to_numpy(dtype=float), rowvar=False))
    pairs = [((i, j), results.names[i], results.names[j]) for i, j in combinations(range(len(effects)), 2)]
    return Context(
        cohort=collect_cohort_warnings(results.cohort, {str(problem.code) for problem in doubts}),
        doubts=doubts,
        weak_patterns=list_weak_patterns(card.pattern_scale),
        n_not_converged=members.trained - members.converged,
        n_left_out=members.converged - len(results.model.heads),
        intervals_over_trainings=card.interval_over == "trainings",
        similar_pairs=[names for at, *names in pairs if similarity[at] > _MAX_PATTERN_SIMILARITY],
        correlated_pairs=[(*names, float(rho[at])) for at, *names in pairs if abs(rho[at]) > _MAX_INDEX_CORRELATION],
        is_unadjusted=not results.model.covariates and results.model.preprocessing.harmoniser is None,
    )


def collect_cohort_warnings(cohort: records.CohortRecord, skipped_codes: Collection[str] = ()) -> Context:
    """Return what a reader should know about the people.

    Problems are warnings about the table, one for each code that no other section explains. Their summaries name no
    participant, since a report may be passed on.
    """
    problems: dict[str, records.ProblemRecord] = {}
    for problem in cohort.problems:
        if problem.severity == Severity.WARNING and problem.code not in skipped_codes:
            first = problems.get(problem.code)
            text = problem.summary if first is None else f"{first.summary}; {problem.summary}"
            problems[problem.code] = replace(problem, summary=text)
    rare, differences = [], []
    for covariate in cohort.covariates:
        control, patient = covariate.groups.control, covariate.groups.patient
        if control.counts is not None and patient.counts is not None:
            counts = control.counts
            levels = [level for level in {**counts, **patient.counts} if counts.get(level, 0) < _MIN_CONTROLS_PER_LEVEL]
            if levels:
                rare.append(Context(covariate=covariate.name, levels=levels, min_controls=_MIN_CONTROLS_PER_LEVEL))
        if control.mean is None or control.sd is None or patient.mean is None:
            continue
        means = {"control_mean": control.mean, "patient_mean": patient.mean}
        if abs(patient.mean - control.mean) > _MAX_GROUP_DIFFERENCE * max(control.sd, 1e-12):
            differences.append(Context(covariate=covariate.name, **means))
    return Context(rare_levels=rare, group_differences=differences, problems=list(problems.values()))


def build_covariate_rows(cohort: records.CohortRecord) -> list[Context]:
    """Return the rows of the table of covariates."""
    rows = []
    for covariate in cohort.covariates:
        control, patient = covariate.groups.control, covariate.groups.patient
        if control.mean is not None:
            rows.append((f"{covariate.name}, mean ± sd (range)", format_summary(control), format_summary(patient)))
            continue
        counts = (control.counts or {}, patient.counts or {})
        levels = list(dict.fromkeys([*counts[0], *counts[1]]))
        for level in levels[:_MAX_LEVELS]:
            shares = _format_share(counts[0], level), _format_share(counts[1], level)
            rows.append((f"{covariate.name}: {level}", *shares))
        if len(levels) > _MAX_LEVELS:
            rows.append((f"{covariate.name}: {len(levels) - _MAX_LEVELS} more categories", "", ""))
    return [Context(name=name, control=control, patient=patient) for name, control, patient in rows]


def _format_share(counts: Mapping[str, int], level: str) -> str:
    number, total = counts.get(level, 0), sum(counts.values())
    return f"{number:,} ({100 * number / total:.0f} %)" if total else "0"


def list_measures(results: StudyResults) -> list[str]:
    """Return what is measured in the regions beside volume."""
    if results.model.card.unit == FEATURE_UNIT:
        return []
    return sorted({freesurfer.infer_measure(region) for region in results.model.regions} - {"volume"})


def summarise_methods(results: StudyResults) -> Context:
    """Return what the methods paragraph says beyond the other sections."""
    card, grid = results.model.card, results.selection.grid
    name, values = ("default", {}) if card.recipe is None else (card.recipe.name, card.recipe.settings)
    recipe = get_study_recipe(name)
    return Context(
        recipe=name,
        recipe_description=get_wording(card.unit)(recipe.description),
        share=recipe.get_subsample_share(values),  # of the people that each member is trained on
        n_patterns_tried=sorted({record.setting.n_patterns for record in grid}),
        weights_tried=sorted({record.setting.orthogonality or 0 for record in grid}),
        ends_at_patients=results.model.heads[0].kind == "contrastive",  # 1 is then the 98th percentile of patients
        n_splits=N_SPLITS,
    )


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


def compute_colour_limit(effects: FloatArray) -> float:
    """Return the effect at which colours end: a round number that is not below the largest effect."""
    largest = float(np.abs(effects).max())
    step = 10.0 ** np.floor(np.log10(max(largest, 1e-6))) / 2
    return float(np.ceil(largest / step) * step)


def build_trust_section(results: StudyResults) -> Context:
    """Return the permutation test, and how each pattern is reproduced in other people."""
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
        test=summarise_test(results.selection, results.cohort, results.model.preprocessing.adjust),
        chart=plot_excess(results.selection.number_of_patterns.test),
        patterns=patterns,
        data=pd.DataFrame(table),
    )


def build_effect_section(effects: pd.DataFrame, smallest_effect: float, match: AtlasMatch) -> Context:
    """Return the difference between patients and controls in each region, from the content of ``effects.tsv``."""
    strongest = effects.reindex(effects["d"].abs().sort_values(ascending=False, kind="stable").index)
    limit, listed = compute_colour_limit(effects["d"].to_numpy()), strongest.head(N_LISTED_REGIONS)
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
        images=render_views(match, dict(zip(effects["region"], effects["d"], strict=True)), limit),
        top=top,
        data=match.name_columns(effects),
    )


def build_pattern_sections(results: StudyResults, match: AtlasMatch, limit: float) -> list[Context]:
    """Return pictures, bars and coloured cells of each pattern; colours end at the limit."""
    labels = match.label_regions(results.model.regions)
    changes = pd.concat([results.list_top_regions(name) for name in results.names])[["change", "low", "high"]]
    span = min(0.0, float(np.nanmin(changes))), max(0.0, float(np.nanmax(changes)))  # one scale for all patterns
    is_curved = pattern_tables.has_curved_patterns(results.model)

    def build_section(name: str) -> Context:
        effects, top, rows = results.get_effects(name), results.list_top_regions(name), results.select_pattern(name)
        steps = {severity: results.get_effects(name, severity) for severity in SEVERITY_LEVELS}
        record = next((each for each in results.selection.patterns if each.name == name), None)
        is_reproduced = record is None or record.reproduction is not records.Reproduction.NOT_REPRODUCED
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
            images=render_views(match, effects, limit),
            undrawn=[Context(region=labels[each], cell=make_colour_cell(effects[each], limit)) for each in undrawn],
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
        Context(severity=severity, images=render_views(match, step, limit, only_outside=True, shrink=2))
        for severity, step in effects.items()
    ]


def build_trajectory_section(results: StudyResults, match: AtlasMatch, limit: float) -> Context | None:
    """Return how each pattern unfolds; None for a model whose learner has no curves.

    Courses of patterns are empty where patterns are straight, and interactions where their changes add up.
    """
    model, held_out = results.model, results.chosen.held_out
    if not pattern_tables.list_trajectory_heads(model):
        return None
    is_curved = pattern_tables.has_curved_patterns(model)
    patterns = []
    if is_curved:
        courses, order = pattern_tables.make_course_table(model), pattern_tables.make_region_order(model)
        progress = pattern_tables.compute_progress(model, _PROGRESS_LEVELS)
        for k, name in enumerate(results.names):
            of_pattern = courses[courses["pattern"] == name].reset_index(drop=True)
            course = _build_course(name, of_pattern, order[order["pattern"] == name], progress[:, k], match, limit)
            patterns.append(Context(name=name, location=locate_pattern(results, name), **course))
    return Context(
        is_curved=is_curved,
        held_out=held_out,
        is_order_uncertain=is_order_uncertain(held_out),
        patterns=patterns,
        interactions=list(model.interactions().itertuples(index=False)),
        levels=pattern_tables.COURSE_LEVELS,
        onset_share=pattern_tables.ONSET_SHARE,
    )


def is_order_uncertain(held_out: records.HeldOutLikelihoodRecord | None) -> bool:
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
        level: dict(zip(courses["region"], courses[f"c{100 * level:.0f}"], strict=True))
        for level in pattern_tables.COURSE_LEVELS
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


def build_wrong_cells(table: pd.DataFrame | None) -> Context | None:
    """Return numbers of wrong cells, people and regions, and the regions with most: the range of value / expected."""
    if table is None:
        return None
    ratios = (table["value"] / table["expected"]).groupby(table["region"]).agg(["size", "min", "max"])
    ratios = ratios.sort_values("size", ascending=False, kind="stable")
    rows = [
        Context(region=label_region(str(region)), number=int(row["size"]), low=row["min"], high=row["max"])
        for region, row in ratios.head(N_LISTED_REGIONS).iterrows()
    ]
    numbers = {"cells": len(table), "people": table["person"].nunique(), "regions": len(ratios)}
    return Context(rows=rows, **numbers, limit=MAX_WRONG_SHARE)


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

"""Contexts of the templates: the numbers, flags, bars, cells and pictures that a report
shows.

The sentences are in the templates; those that terminal, model card and report share are
in ``statements.txt``.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from rindices.analysis.study_results import (
    N_LISTED_REGIONS,
    StudyResults,
    TrainingResults,
)
from rindices.errors import ProblemCode, Severity
from rindices.learners.ensemble import N_SPLITS
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.learners.outlying_measurements import MAX_WRONG_SHARE
from rindices.model import pattern_tables, records
from rindices.model.findings import (
    GroupCounts,
    OutlyingFinding,
    PatternFinding,
    StudyFindings,
    describe_patterns,
)
from rindices.model.fitted import FittedModel
from rindices.model.unusual import label_region
from rindices.plot.brain import (
    AtlasMatch,
    compute_colour_limit,
    effect_to_hex,
    effects_to_rgb,
)
from rindices.plot.people import MIN_PEOPLE
from rindices.plot.views import render_views
from rindices.report.figures import (
    plot_agreement_by_weight,
    plot_course,
    plot_excess,
    plot_losses,
    plot_moments,
    plot_transformation,
)
from rindices.report.formatting import format_summary, make_environment
from rindices.study.checks import (
    MIN_CARRIER_FRACTION,
    collect_study_warnings,
    list_weak_patterns,
)
from rindices.study.methods import DEFAULT_METHOD, METHODS, get_study_method
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.layouts import freesurfer
from rindices.wording import FEATURE_UNIT, get_wording

Context = SimpleNamespace
"""Values by name, as a template reads them."""
MAX_ORDERED_REGIONS = 20
"""Regions of a pattern whose order the page shows; the data hold all."""
_N_CURVES = 8  # regions whose change along severity is listed
_MAX_Q = 0.05
_MIN_SITE_SHARE, _MAX_SITE_P = 0.05, 0.01  # of a region or of head size, to be named
_MEASURES = {
    "reproducibility": records.MIN_SPLIT_HALF,
    "auc": 0.5,
    "prevalence": MIN_CARRIER_FRACTION,
}
"""Figures of a pattern, and the values below which they are called weak."""
_MAX_PATTERN_SIMILARITY, _MAX_INDEX_CORRELATION = 0.7, 0.6
_MIN_CONTROLS_PER_LEVEL = 5
_MAX_GROUP_DIFFERENCE = 0.5  # standard deviations of controls
_MAX_LEVELS = 12  # categories of a covariate that the table lists


@dataclass(frozen=True, eq=False, kw_only=True)
class StudyFacts:
    """What was done and found, as far as a model file or a study says.

    Attributes
    ----------
    participants : GroupCounts or None
        Participants of each group. None for an imported model.
    adjustment : AdjustmentRecord
        What was removed before learning.
    scans : GroupCounts or None
        Scans of each group that were used, if people have several.
    n_scans : int or None
        Scans of both groups together, where the groups are not known.
    patterns : sequence of PatternFinding
        Findings of each pattern. Empty where they are not known.
    is_refitted : bool
        Whether reproducibility is that of indices that were learnt again. Otherwise the
        patterns were projected onto the disease space that was learnt again.
    """

    participants: GroupCounts | None
    adjustment: records.AdjustmentRecord
    scans: GroupCounts | None = None
    n_scans: int | None = None
    patterns: Sequence[PatternFinding] = ()
    is_refitted: bool = False

    @classmethod
    def of_model(
        cls, model: FittedModel, findings: StudyFindings | None = None
    ) -> "StudyFacts":
        """Return the facts in a model file, and those that only the findings of its
        study have.
        """
        card, counts = model.card, model.card.trained_on
        method = None if card.method is None else METHODS.get(card.method.name)
        participants = None
        if "controls" in counts and "patients" in counts:
            participants = GroupCounts(
                controls=counts["controls"], patients=counts["patients"]
            )
        patterns = (
            describe_patterns(model, card.pattern_evidence)
            if findings is None
            else findings.patterns
        )
        return cls(
            participants=participants,
            adjustment=records.describe_adjustment(model.preprocessing, card.unit),
            scans=None if findings is None or "scans" not in counts else findings.scans,
            n_scans=counts.get("scans"),
            patterns=patterns,
            is_refitted=method is not None and method.is_refitted,
        )


def load_statements(unit: str = "") -> Any:
    """Return the macros of ``statements.txt`` as functions that return plain text.

    unit: unit of the table, for its wording.
    """
    return make_environment(unit, is_html=False).get_template("statements.txt").module


def summarise_test(
    selection: records.SelectionRecord, cohort: records.CohortRecord, scale: str = ""
) -> Context:
    """Return the permutation test as the page tells it, with the covariates that it
    adjusts all regions for.

    ``n_reached`` permutations differ at least as much as the groups really do. The test
    is open-ended if its last step still detected a difference, so that there may be
    more patterns.
    """
    record, difference = selection.number_of_patterns.test, selection.difference
    return Context(
        record=record,
        difference=difference,
        is_significant=difference.p <= record.level,
        is_open_ended=record.n_patterns > 0 and record.curve[-1].p <= record.level,
        covariates=[] if scale == "none" else cohort.covariate_names,
        n_sites=len(cohort.sites),
    )


def collect_warnings(results: StudyResults) -> Context:
    """Return what a reader should know before relying on the result."""
    card, members = results.model.card, results.chosen.members
    method = get_study_method(
        DEFAULT_METHOD if card.method is None else card.method.name
    )
    doubts = collect_study_warnings(results.selection)
    effects = np.abs(results.model.patterns[-1])
    directions = effects / np.maximum(
        np.linalg.norm(effects, axis=1, keepdims=True), 1e-12
    )
    similarity = directions @ directions.T
    rho = np.atleast_2d(
        np.corrcoef(results.select_group(PATIENT).to_numpy(dtype=float), rowvar=False)
    )
    pairs = [
        ((i, j), results.names[i], results.names[j])
        for i, j in combinations(range(len(effects)), 2)
    ]
    return Context(
        cohort=collect_cohort_warnings(
            results.cohort,
            {*(str(problem.code) for problem in doubts), ProblemCode.ARTEFACT},
        ),
        doubts=doubts,
        weak_patterns=list_weak_patterns(card.pattern_scale),
        n_not_converged=members.trained - members.converged,
        n_left_out=0
        if method.uses_one_member
        else members.converged - len(results.model.heads),
        intervals_over_trainings=card.interval_over == "trainings",
        similar_pairs=[
            names for at, *names in pairs if similarity[at] > _MAX_PATTERN_SIMILARITY
        ],
        correlated_pairs=[
            (*names, float(rho[at]))
            for at, *names in pairs
            if abs(rho[at]) > _MAX_INDEX_CORRELATION
        ],
        is_unadjusted=not results.model.covariates
        and results.model.preprocessing.harmoniser is None,
    )


def collect_cohort_warnings(
    cohort: records.CohortRecord, skipped_codes: Collection[str] = ()
) -> Context:
    """Return what a reader should know about the people.

    Problems are warnings about the table, one for each code that no other section
    explains. Their summaries name no participant, since a report may be passed on.
    """
    problems: dict[str, records.ProblemRecord] = {}
    for problem in cohort.problems:
        if problem.severity == Severity.WARNING and problem.code not in skipped_codes:
            first = problems.get(problem.code)
            text = (
                problem.summary
                if first is None
                else f"{first.summary}; {problem.summary}"
            )
            problems[problem.code] = problem.model_copy(update={"summary": text})
    rare, differences = [], []
    for covariate in cohort.covariates:
        control, patient = covariate.groups.control, covariate.groups.patient
        if control.counts is not None and patient.counts is not None:
            counts = control.counts
            levels = [
                level
                for level in {**counts, **patient.counts}
                if counts.get(level, 0) < _MIN_CONTROLS_PER_LEVEL
            ]
            if levels:
                rare.append(
                    Context(
                        covariate=covariate.name,
                        levels=levels,
                        min_controls=_MIN_CONTROLS_PER_LEVEL,
                    )
                )
        if control.mean is None or control.sd is None or patient.mean is None:
            continue
        means = {"control_mean": control.mean, "patient_mean": patient.mean}
        if abs(patient.mean - control.mean) > _MAX_GROUP_DIFFERENCE * max(
            control.sd, 1e-12
        ):
            differences.append(Context(covariate=covariate.name, **means))
    return Context(
        rare_levels=rare,
        group_differences=differences,
        problems=list(problems.values()),
    )


def build_covariate_rows(cohort: records.CohortRecord) -> list[Context]:
    """Return the rows of the table of covariates."""
    rows = []
    for covariate in cohort.covariates:
        control, patient = covariate.groups.control, covariate.groups.patient
        if control.mean is not None:
            rows.append(
                (
                    f"{covariate.name}, mean ± sd (range)",
                    format_summary(control),
                    format_summary(patient),
                )
            )
            continue
        counts = (control.counts or {}, patient.counts or {})
        levels = list(dict.fromkeys([*counts[0], *counts[1]]))
        for level in levels[:_MAX_LEVELS]:
            shares = _format_share(counts[0], level), _format_share(counts[1], level)
            rows.append((f"{covariate.name}: {level}", *shares))
        if len(levels) > _MAX_LEVELS:
            rows.append(
                (
                    f"{covariate.name}: {len(levels) - _MAX_LEVELS} more categories",
                    "",
                    "",
                )
            )
    return [
        Context(name=name, control=control, patient=patient)
        for name, control, patient in rows
    ]


def _format_share(counts: Mapping[str, int], level: str) -> str:
    number, total = counts.get(level, 0), sum(counts.values())
    return f"{number:,} ({100 * number / total:.0f} %)" if total else "0"


def list_measures(results: StudyResults) -> list[str]:
    """Return what is measured in the regions beside volume."""
    if results.model.card.unit == FEATURE_UNIT:
        return []
    return sorted(
        {freesurfer.infer_measure(region) for region in results.model.regions}
        - {"volume"}
    )


def summarise_methods(results: StudyResults) -> Context:
    """Return what the methods paragraph says beyond the other sections."""
    card, grid = results.model.card, results.selection.grid
    name, values = (
        (DEFAULT_METHOD, {})
        if card.method is None
        else (card.method.name, card.method.settings)
    )
    method = get_study_method(name)
    return Context(
        method=name,
        method_description=get_wording(card.unit)(method.description),
        share=method.get_subsample_fraction(
            values
        ),  # of the people that each member is trained on
        n_patterns_tried=sorted({record.setting.n_patterns for record in grid}),
        members_tried=sorted({record.members.trained for record in grid}),
        weights_tried=sorted({record.setting.orthogonality or 0 for record in grid}),
        ends_at_patients=results.model.heads[0].kind
        == "contrastive",  # 1 is then the 98th percentile of patients
        n_splits=N_SPLITS,
    )


def make_bar(
    value: float,
    interval: tuple[float, float] | None,
    span: tuple[float, float],
    colour: str,
) -> Context:
    """Return a bar from zero to a value with an interval, in percent of a span;
    positions beyond are at its ends.
    """
    low, high = (value, value) if interval is None else interval
    width = max(span[1] - span[0], 1e-12)
    positions = {"zero": 0.0, "value": value, "low": low, "high": high}
    scaled = {
        name: 100 * min(max((number - span[0]) / width, 0.0), 1.0)
        for name, number in positions.items()
    }
    return Context(colour=colour, **scaled)


def make_colour_cell(value: float, limit: float) -> Context:
    """Return a number on the colour of an effect, with black or white letters,
    whichever is easier to read.
    """
    colour = effects_to_rgb(np.array([value]), limit)[0]
    linear = np.where(
        colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4
    )
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    is_dark = (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05)
    return Context(
        value=value,
        colour=effect_to_hex(value, limit),
        ink="#000" if is_dark else "#fff",
    )


def build_trust_section(results: StudyResults) -> Context:
    """Return the permutation test, and how each pattern is reproduced in
    other people.
    """
    patterns, table = [], []
    for pattern in results.findings.patterns:
        measures, row = [], {"pattern": pattern.name}
        for name, threshold in _MEASURES.items():
            estimate = getattr(pattern, name)
            if estimate is None:
                continue
            interval = None if estimate.low is None else (estimate.low, estimate.high)
            row |= {
                name: estimate.value,
                f"{name}_low": estimate.low,
                f"{name}_high": estimate.high,
            }
            # weak unless the interval excludes it; for the prevalence, the figure
            # decides
            is_weak = (
                estimate.value
                if interval is None or name == "prevalence"
                else interval[0]
            ) < threshold
            colour = (
                "var(--patient)" if is_weak or pattern.artefact else "var(--control)"
            )
            bar = make_bar(estimate.value, interval, (0.0, 1.0), colour)
            measures.append(
                Context(
                    name=name,
                    value=estimate.value,
                    interval=interval,
                    is_weak=is_weak,
                    bar=bar,
                )
            )
        patterns.append(Context(finding=pattern, measures=measures))
        table.append(row)
    return Context(
        test=summarise_test(
            results.selection, results.cohort, results.model.preprocessing.adjust
        ),
        chart=plot_excess(results),
        patterns=patterns,
        data=pd.DataFrame(table),
    )


def build_effect_section(
    effects: pd.DataFrame, smallest_effect: float, match: AtlasMatch
) -> Context:
    """Return the difference between patients and controls in each region, from the
    content of ``effects.tsv``.
    """
    strongest = effects.reindex(
        effects["d"].abs().sort_values(ascending=False, kind="stable").index
    )
    limit, listed = (
        compute_colour_limit(effects["d"].to_numpy()),
        strongest.head(N_LISTED_REGIONS),
    )
    span = min(0.0, float(listed["low"].min())), max(0.0, float(listed["high"].max()))
    labels = match.label_regions(tuple(effects["region"]))
    top = []
    for region, *numbers in listed[["region", "d", "low", "high", "q"]].itertuples(
        index=False, name=None
    ):
        d, low, high, q = map(float, numbers)
        bar = make_bar(d, (low, high), span, effect_to_hex(d, limit))
        top.append(
            Context(region=labels[region], d=d, low=low, high=high, q=q, bar=bar)
        )
    return Context(
        smallest_effect=smallest_effect,
        n_significant=int((effects["q"] <= _MAX_Q).sum()),
        n_regions=len(effects),
        limit=limit,
        images=render_views(
            match, dict(zip(effects["region"], effects["d"], strict=True)), limit
        ),
        top=top,
        data=match.name_columns(effects),
    )


def _find_span(results: StudyResults) -> tuple[float, float]:
    """Return the ends of the scale of changes, which all patterns share."""
    top = pd.concat([results.list_top_regions(name) for name in results.names])
    values = top[["change", "low", "high"]].to_numpy(dtype=float)
    low, high = np.nanmin(values, initial=0.0), np.nanmax(values, initial=0.0)
    return float(low), float(high)


def _build_bars(
    top: pd.DataFrame,
    labels: Mapping[str, str],
    span: tuple[float, float],
    limit: float,
) -> list[Context]:
    """Return a bar for the change of each region, with its interval."""
    bars = []
    columns = top[["region", "change", "low", "high"]]
    for region, change, low, high in columns.itertuples(index=False, name=None):
        interval = None if pd.isna(low) or pd.isna(high) else (low, high)
        bar = make_bar(change, interval, span, effect_to_hex(change, limit))
        bars.append(
            Context(region=labels[region], change=change, interval=interval, bar=bar)
        )
    return bars


def build_pattern_sections(
    results: StudyResults, match: AtlasMatch, limit: float
) -> list[Context]:
    """Return pictures, bars and coloured cells of each pattern; colours end at the
    limit.
    """
    labels = match.label_regions(results.model.regions)
    span = _find_span(results)
    is_staged = pattern_tables.get_shape(results.model) == "staged"
    doubted = (records.Reproduction.NOT_REPRODUCED, records.Reproduction.ARTEFACT)

    def build_section(finding: PatternFinding) -> Context:
        name = finding.name
        effects, top = results.get_effects(name), results.list_top_regions(name)
        steps = {
            severity: results.get_effects(name, severity)
            for severity in SEVERITY_LEVELS
        }
        undrawn = (
            []
            if match.atlas is None
            else sorted(match.undrawn_regions, key=lambda region: -abs(effects[region]))
        )
        bars = _build_bars(top, labels, span, limit)
        return Context(
            name=name,
            finding=finding,
            images=render_views(match, effects, limit),
            undrawn=[
                Context(
                    region=labels[each], cell=make_colour_cell(effects[each], limit)
                )
                for each in undrawn
            ],
            top=bars,
            curves=[
                Context(
                    region=labels[region],
                    cells=[
                        make_colour_cell(step[region], limit) for step in steps.values()
                    ],
                )
                for region in top["region"].head(_N_CURVES)
            ],
            steps=[]
            if is_staged
            else _draw_steps(
                match, steps, limit
            ),  # another section shows staged patterns
            data=match.name_columns(
                results.patterns[results.patterns["pattern"] == name]
            ),
            is_staged=is_staged,
            is_faded=not results.findings.is_difference or finding.verdict in doubted,
        )

    return [build_section(finding) for finding in results.findings.patterns]


def _draw_steps(
    match: AtlasMatch, effects: dict[float, dict[str, float]], limit: float
) -> list[Context]:
    """Return small pictures of a pattern at each severity."""
    return [
        Context(
            severity=severity,
            images=render_views(match, step, limit, only_outside=True, shrink=2),
        )
        for severity, step in effects.items()
    ]


def build_trajectory_section(
    results: StudyResults, match: AtlasMatch, limit: float
) -> Context | None:
    """Return how each pattern unfolds; None unless each region changes at its own
    severity.
    """
    model = results.model
    if pattern_tables.get_shape(model) != "staged":
        return None
    courses, order = (
        pattern_tables.make_course_table(model),
        pattern_tables.make_region_order(model),
    )
    patterns = []
    for finding in results.findings.patterns:
        of_pattern = courses[courses["pattern"] == finding.name].reset_index(drop=True)
        rows = order[order["pattern"] == finding.name]
        course = _build_course(results, finding.name, of_pattern, rows, match, limit)
        patterns.append(Context(name=finding.name, finding=finding, **course))
    return Context(
        patterns=patterns,
        onset_share=pattern_tables.ONSET_SHARE,
    )


def _build_course(
    results: StudyResults,
    name: str,
    courses: pd.DataFrame,
    order: pd.DataFrame,
    match: AtlasMatch,
    limit: float,
) -> dict[str, Any]:
    """Return the course of a pattern, from its rows of both tables.

    Of the regions that clearly belong to the pattern, the strongest are listed, the
    earliest first.
    """
    labels = match.label_regions(tuple(courses["region"]))
    strongest = (
        order["change"]
        .abs()
        .sort_values(ascending=False, kind="stable")
        .index[:MAX_ORDERED_REGIONS]
    )
    listed = order.loc[order.index.isin(strongest)]
    by_level = {
        level: dict(zip(courses["region"], courses[f"c{100 * level:.0f}"], strict=True))
        for level in pattern_tables.COURSE_LEVELS
    }
    regions = []
    for row in listed.itertuples():
        interval = (
            None
            if np.isnan(row.onset_low) or np.isnan(row.onset_high)
            else (row.onset_low, row.onset_high)
        )
        bar = make_bar(row.onset, interval, (0.0, 1.0), "var(--patient)")
        regions.append(
            Context(
                region=labels[row.region],
                onset=row.onset,
                interval=interval,
                bar=bar,
            )
        )
    steps, data = _draw_steps(match, by_level, limit), match.name_columns(courses)
    return {
        "regions": regions,
        "n_regions": len(order),
        "chart": plot_course(results, name, list(listed["region"]))
        if regions
        else None,
        "steps": steps,
        "data": data,
    }


def build_training_section(
    training: TrainingResults | None,
    selection: records.SelectionRecord | None,
    match: AtlasMatch,
    limit: float,
) -> Context | None:
    """Return how networks were trained and what they do, or None for methods without
    networks.

    Parameters
    ----------
    training : TrainingResults or None
        Training of the study.
    selection : SelectionRecord or None
        None for a study without a result.
    match : AtlasMatch
        What can be drawn of the brain.
    limit : float
        Effect at which the colours of brains end.
    """
    if training is None:
        return None
    last = training.history.groupby("member").last()
    members = [
        Context(**row, reconstruction=last["reconstruction"].get(row["member"], np.nan))
        for row in training.members.to_dict("records")
    ]
    return Context(
        losses=plot_losses(training.history),
        members=members,
        n_used=sum(member.used for member in members),
        moments=[]
        if training.synthetic is None
        else plot_moments(match.name_columns(training.synthetic)),
        realism=training.realism,
        auc=None
        if training.realism is None
        else max(training.realism.auc.values(), default=None),
        patterns=[]
        if training.transformation is None
        else _build_changes(training.transformation, match, limit),
        agreement=None if selection is None else plot_agreement_by_weight(selection),
    )


def _build_changes(
    table: pd.DataFrame, match: AtlasMatch, limit: float
) -> list[Context]:
    """Return pictures of the change of controls under f, or a chart where nothing can
    be drawn, for each pattern.
    """
    labels, patterns = match.label_regions(tuple(table["region"].unique())), []
    for name, rows in table.groupby("pattern"):
        steps = []
        for severity, changes in rows.groupby("severity"):
            effects = dict(zip(changes["region"], changes["change"], strict=True))
            steps.append(
                Context(
                    severity=severity,
                    images=render_views(match, effects, limit, shrink=2),
                )
            )
        chart = (
            None
            if match.atlas is not None
            else plot_transformation(str(name), rows, labels)
        )
        patterns.append(
            Context(name=name, steps=steps, chart=chart, data=match.name_columns(rows))
        )
    return patterns


def build_subgroup_rows(
    table: pd.DataFrame | None, names: Sequence[str]
) -> list[Context]:
    """Return one row for each group of people, with a cell for each R-index, or None
    where there is no figure.

    Parameters
    ----------
    table : DataFrame or None
        Content of ``subgroups.tsv``.
    names : sequence of str
        Names of the R-indices.
    """
    if table is None:
        return []
    rows = []
    for (variable, level), own in table.groupby(["variable", "level"], sort=False):
        cells = {row.index: row for row in own.itertuples(index=False)}
        first = own.iloc[0]
        rows.append(
            Context(
                name=level if variable == "site" else f"{variable} {level}",
                controls=first["controls"],
                patients=first["patients"],
                cells=[cells.get(name) for name in names],
            )
        )
    return rows


def build_site_section(results: StudyResults) -> Context | None:
    """Return what sites explain in regions, R-indices and head size; None for a single
    site.
    """
    table = results.site_effects
    if table is None:
        return None
    regions = table[table["what"] == "region"]
    left = regions[regions["after"] > _MIN_SITE_SHARE].nlargest(3, "after")
    heads = table[
        (table["what"] == "head size")
        & (table["before"] > _MIN_SITE_SHARE)
        & (table["p"] < _MAX_SITE_P)
    ]
    cells = {
        (row.name, row.group): Context(share=row.after, p=row.p)
        for row in table[table["what"] == "R-index"].itertuples(index=False)
    }
    head = None if heads.empty else heads.iloc[0]
    return Context(
        is_harmonised=results.model.preprocessing.harmoniser is not None,
        before=regions["before"].median(),
        after=regions["after"].median(),
        largest=[
            f"{row.name} ({row.after:.0%})" for row in left.itertuples(index=False)
        ],
        indices=[
            Context(
                name=name,
                cells=[cells.get((name, group)) for group in (CONTROL, PATIENT)],
            )
            for name in results.names
        ],
        head_size=None
        if head is None
        else Context(name=head["name"], share=head["before"], p=head["p"]),
    )


def build_outlying_section(
    table: pd.DataFrame | None,
    outlying: OutlyingFinding | None,
    show_people: bool = False,
) -> Context | None:
    """Return the regions with most outlying measurements, with their value / expected,
    and numbers by group.

    show_people: whether to give the range; otherwise the median of at least five.
    """
    if table is None:
        return None
    ratios = (
        (table["value"] / table["expected"])
        .groupby(table["region"])
        .agg(["size", "min", "median", "max"])
    )
    ratios = ratios.sort_values("size", ascending=False, kind="stable")
    rows = [
        Context(
            region=label_region(str(region)),
            number=int(row["size"]),
            ratio=row["median"] if row["size"] >= MIN_PEOPLE else None,
            low=row["min"],
            high=row["max"],
        )
        for region, row in ratios.head(N_LISTED_REGIONS).iterrows()
    ]
    numbers = {
        "measurements": len(table),
        "participants": table["person"].nunique(),
        "regions": len(ratios),
    }
    return Context(
        rows=rows,
        **numbers,
        by_group=outlying,
        limit=MAX_WRONG_SHARE,
        shows_range=show_people,
    )


def build_association_rows(table: pd.DataFrame | None) -> list[Context]:
    """Return the rows of the associations, strongest variable first; those without a
    correlation are left out.
    """
    if table is None:
        return []
    rows = table[table["correlation"].notna()]
    strength = rows["correlation"].abs().groupby(rows["variable"]).transform("max")
    rows = rows.assign(strength=strength).sort_values(
        ["strength", "variable", "index"], ascending=[False, True, True]
    )
    contexts = []
    for row in rows.to_dict("records"):
        texts = {name: _format_cell(row.get(name)) for name in ("level", "note")}
        interval, colour = (
            (row["low"], row["high"]),
            effect_to_hex(-row["correlation"], 1.0),
        )
        contexts.append(
            Context(
                **row | texts,
                bar=make_bar(row["correlation"], interval, (-1.0, 1.0), colour),
            )
        )
    return contexts


def _format_cell(value: object) -> str:
    """Return a cell of a table as text; '' where it is empty."""
    return (
        ""
        if value is None or value != value
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )

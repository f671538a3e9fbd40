"""Numbers and flags behind the sentences of the report; the sentences are in its templates."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np

from rindices.errors import Severity
from rindices.learners.ensemble import N_SPLITS
from rindices.model.records import CohortRecord, DifferenceRecord, PermutationTestRecord, ProblemRecord
from rindices.model.trajectories import list_trajectory_heads
from rindices.report.formatting import format_summary
from rindices.report.region_names import format_region_name
from rindices.report.study_results import StudyResults
from rindices.study.checks import collect_study_warnings, list_weak_patterns
from rindices.study.recipes import get_study_recipe
from rindices.tables.layout import freesurfer
from rindices.tables.validation.groups import PATIENT
from rindices.wording import FEATURE_UNIT, get_wording

Context = SimpleNamespace
"""Values by name, as a template reads them."""
_MAX_PATTERN_SIMILARITY, _MAX_INDEX_CORRELATION = 0.7, 0.6
_MIN_CONTROLS_PER_LEVEL = 5
_MAX_GROUP_DIFFERENCE = 0.5  # standard deviations of controls
_MAX_LEVELS = 12  # categories of a covariate that the table lists


def summarise_findings(results: StudyResults) -> Context:
    """Return the result in numbers: whether it is in doubt, what the indices are, and where each pattern is."""
    return Context(
        is_doubtful=not results.selection.is_difference_detected,
        n_patterns=results.model.n_patterns,
        locations=[locate_pattern(results, name) for name in results.names],
        is_mean_difference=results.is_mean_difference,
        are_posterior_means=bool(list_trajectory_heads(results.model)),
    )


def locate_pattern(results: StudyResults, name: str, max_structures: int = 3) -> Context:
    """Return where a pattern is strongest, and whether regions mostly lose there; structures are without their side."""
    top = results.list_top_regions(name)
    plain = list(top["region"])
    if results.model.card.unit != FEATURE_UNIT:
        plain = [format_region_name(region).removesuffix(", left").removesuffix(", right") for region in plain]
    is_loss = bool((top["change"] < 0).mean() > 0.5)
    return Context(name=name, is_loss=is_loss, structures=list(dict.fromkeys(plain))[:max_structures])


def summarise_test(
    record: PermutationTestRecord, difference: DifferenceRecord, cohort: CohortRecord, scale: str = ""
) -> Context:
    """Return the permutation test as the page tells it, with the covariates that it adjusts all regions for.

    ``n_reached`` permutations differ at least as much as the groups really do. The test is open-ended if its last step
    still detected a difference, so that there may be more patterns.
    """
    return Context(
        record=record,
        p=difference.p,
        permutations=difference.permutations,
        n_reached=round(difference.p * (difference.permutations + 1)) - 1,
        is_significant=difference.p <= record.level,
        is_open_ended=record.n_patterns > 0 and record.curve[-1].p <= record.level,
        covariates=[] if scale == "none" else cohort.covariate_names,
        n_sites=len(cohort.sites),
        p_error=difference.p_error,
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
        n_trained=members.trained,
        n_converged=members.converged,
        n_not_converged=members.trained - members.converged,
        n_left_out=members.converged - len(results.model.heads),
        intervals_over_trainings=card.interval_over == "trainings",
        similar_pairs=[names for at, *names in pairs if similarity[at] > _MAX_PATTERN_SIMILARITY],
        correlated_pairs=[(*names, float(rho[at])) for at, *names in pairs if abs(rho[at]) > _MAX_INDEX_CORRELATION],
        is_unadjusted=not results.model.covariates and results.model.preprocessing.harmoniser is None,
    )


def collect_cohort_warnings(cohort: CohortRecord, skipped_codes: Collection[str] = ()) -> Context:
    """Return what a reader should know about the people.

    Problems are warnings about the table, one for each code that no other section explains. Their summaries name no
    participant, since a report may be passed on.
    """
    problems: dict[str, ProblemRecord] = {}
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
        if abs(patient.mean - control.mean) > _MAX_GROUP_DIFFERENCE * max(control.sd, 1e-12):
            means = {"control_mean": control.mean, "patient_mean": patient.mean}
            differences.append(Context(covariate=covariate.name, **means))
    return Context(rare_levels=rare, group_differences=differences, problems=list(problems.values()))


def build_covariate_rows(cohort: CohortRecord) -> list[Context]:
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
            rows.append(
                (f"{covariate.name}: {level}", _format_share(counts[0], level), _format_share(counts[1], level))
            )
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
        card=card,
        recipe=name,
        recipe_description=get_wording(card.unit)(recipe.description),
        share=recipe.get_subsample_share(values),  # of the people that each member is trained on
        n_patterns_tried=sorted({record.setting.n_patterns for record in grid}),
        weights_tried=sorted({record.setting.orthogonality or 0 for record in grid}),
        n_members=len(results.model.heads),
        ends_at_patients=results.model.heads[0].kind == "contrastive",  # 1 is then the 98th percentile of patients
        n_splits=N_SPLITS,
    )

"""Who was in the data, and what is to be said about them, from ``cohort.json`` alone."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rindices.errors import ProblemCode, Severity, capitalise_first, format_count
from rindices.model.records import CohortRecord, GroupSummary

MIN_PEOPLE_PER_GROUP = 100
"""People of a group below which they are called few."""
_MIN_CONTROLS_PER_LEVEL = 5  # controls of a category
_MAX_GROUP_DIFFERENCE = 0.5  # standard deviations of controls


def build_covariate_rows(cohort: CohortRecord) -> list[dict[str, str]]:
    """Return the rows of the table of covariates."""
    found = []
    for covariate in cohort.covariates:
        groups = (covariate.groups.control, covariate.groups.patient)
        if groups[0].mean is not None:
            said = [_format_summary(summary) for summary in groups]
            found.append({"name": f"{covariate.name}, mean ± sd (range)", "control": said[0], "patient": said[1]})
            continue
        levels = list(dict.fromkeys([*(groups[0].counts or {}), *(groups[1].counts or {})]))
        for level in levels[:12]:
            control, patient = (_format_share(group.counts or {}, level) for group in groups)
            found.append({"name": f"{covariate.name}: {level}", "control": control, "patient": patient})
        if len(levels) > 12:
            rest = f"{covariate.name}: {len(levels) - 12} more categories"
            found.append({"name": rest, "control": "", "patient": ""})
    return found


def describe_unit(cohort: CohortRecord) -> str:
    """Return the unit of the regions in words."""
    known = {"mm3": "in mm³", "mixed": "in several units", "unknown": "unit unknown"}
    return known.get(cohort.unit, f"in {cohort.unit}")


def describe_rare_levels(cohort: CohortRecord) -> list[str]:
    """Return a warning for each covariate some of whose categories have hardly any controls."""
    said = []
    for covariate in cohort.covariates:
        control, patient = (covariate.groups.control.counts, covariate.groups.patient.counts)
        if control is None or patient is None:
            continue
        found = [level for level in {**control, **patient} if control.get(level, 0) < _MIN_CONTROLS_PER_LEVEL]
        if found:
            said.append(
                f"{covariate.name} has fewer than {_MIN_CONTROLS_PER_LEVEL} controls in {join_with_and(found, 4)}: what it does there is "
                "hard to tell from disease."
            )
    return said


def describe_group_differences(cohort: CohortRecord) -> list[str]:
    """Return the beginning of a warning for each covariate in which patients and controls differ much."""
    said = []
    for covariate in cohort.covariates:
        control, patient = covariate.groups.control, covariate.groups.patient
        if control.mean is None or control.sd is None or patient.mean is None:
            continue
        if abs(patient.mean - control.mean) > _MAX_GROUP_DIFFERENCE * max(control.sd, 1e-12):
            said.append(
                f"Patients and controls differ in {covariate.name} ({patient.mean:.4g} against "
                f"{control.mean:.4g} on average)"
            )
    return said


def describe_table_warnings(cohort: CohortRecord) -> list[str]:
    """Return the warnings about the table without the id of any participant: a report may be passed on."""
    warnings = [problem for problem in cohort.problems if problem.severity == Severity.WARNING]
    coded = [problem for problem in warnings if problem.code != ProblemCode.ERROR]
    sentences = [
        f"{capitalise_first(problem.summary)}.{f' {capitalise_first(problem.cure)}.' if problem.cure else ''}"
        for problem in coded
    ]
    if len(coded) < len(warnings):  # written before problems had codes: the text may name participants
        number = format_count(len(warnings) - len(coded), "warning")
        sentences.append(f"Reading the table gave {number}: see cohort.json.")
    return sentences


def join_with_and(items: list[Any], most: int = 8) -> str:
    """Return names as a sentence lists them."""
    names = [str(item) for item in items]
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _format_summary(summary: GroupSummary) -> str:
    numbers = (summary.mean, summary.sd, summary.min, summary.max)
    return "{} ± {} ({} to {})".format(*(_format_number(value) for value in numbers if value is not None))


def _format_number(value: float) -> str:
    """Return a number as people write it: 1,373,000 and 55.9, never 1.373e+06."""
    digits = max(0, 2 - int(np.floor(np.log10(abs(value))))) if value else 0
    return (
        f"{round(value, 3 - int(np.floor(np.log10(abs(value))))):,.0f}"
        if abs(value) >= 1000
        else f"{value:.{min(digits, 4)}f}"
    )


def _format_share(counts: Mapping[str, int], level: str) -> str:
    number, total = counts.get(level, 0), sum(counts.values())
    return f"{number:,} ({100 * number / total:.0f} %)" if total else "0"

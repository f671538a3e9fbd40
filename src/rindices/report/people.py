"""Who was in the data: rows of the table of covariates, and what may disturb the comparison of the groups."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from rindices.errors import Severity, format_count
from rindices.model.records import CohortRecord, ProblemRecord
from rindices.report.formatting import format_summary

MIN_PEOPLE_PER_GROUP = 100
"""People of a group below which they are called few."""
_MIN_CONTROLS_PER_LEVEL = 5
_MAX_GROUP_DIFFERENCE = 0.5  # standard deviations of controls
_MAX_LEVELS = 12  # categories of a covariate that the table lists


@dataclass(frozen=True)
class CovariateRow:
    """A row of the table of covariates."""

    name: str
    control: str
    patient: str


@dataclass(frozen=True)
class RareLevels:
    """Categories of a covariate that hardly any control has."""

    covariate: str
    levels: tuple[str, ...]
    min_controls: int = _MIN_CONTROLS_PER_LEVEL


@dataclass(frozen=True)
class GroupDifference:
    """A covariate in which patients and controls differ much on average."""

    covariate: str
    control_mean: float
    patient_mean: float


@dataclass(frozen=True)
class CohortWarnings:
    """What a reader should know about the people.

    Attributes
    ----------
    small_groups : dict
        Number of people of each group that has few.
    fewer_controls_than_regions : bool
    rare_levels : list of RareLevels
    group_differences : list of GroupDifference
    problems : list of ProblemRecord
        Warnings about the table. Their ``summary`` names no participant, since a report may be passed on.
    n_undescribed : int
        Warnings of a study that is older than such summaries.
    """

    small_groups: Mapping[str, int]
    fewer_controls_than_regions: bool
    rare_levels: Sequence[RareLevels]
    group_differences: Sequence[GroupDifference]
    problems: Sequence[ProblemRecord]
    n_undescribed: int


def describe_people(cohort: CohortRecord) -> str:
    """Return the size of the groups: ``80 controls and 100 patients``."""
    return f"{format_count(cohort.controls, 'control')} and {format_count(cohort.patients, 'patient')}"


def shuffle_people(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in an order that the system draws and nobody keeps.

    Rows in the order of ids would tell everyone who has the list of participants whose row is whose.
    """
    rows = list(range(len(table)))
    random.SystemRandom().shuffle(rows)
    return table.iloc[rows].reset_index(drop=True)


def sort_people(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows by their values: the same on every page, and the order of ids is lost, too."""
    return table.sort_values(list(table.columns)).reset_index(drop=True)


def build_covariate_rows(cohort: CohortRecord) -> list[CovariateRow]:
    """Return the rows of the table of covariates."""
    rows = []
    for covariate in cohort.covariates:
        control, patient = covariate.groups.control, covariate.groups.patient
        if control.mean is not None:
            rows.append(
                CovariateRow(f"{covariate.name}, mean ± sd (range)", format_summary(control), format_summary(patient))
            )
            continue
        counts = (control.counts or {}, patient.counts or {})
        levels = list(dict.fromkeys([*counts[0], *counts[1]]))
        for level in levels[:_MAX_LEVELS]:
            rows.append(CovariateRow(f"{covariate.name}: {level}", *(_format_share(group, level) for group in counts)))
        if len(levels) > _MAX_LEVELS:
            rows.append(CovariateRow(f"{covariate.name}: {len(levels) - _MAX_LEVELS} more categories", "", ""))
    return rows


def collect_cohort_warnings(cohort: CohortRecord, skipped_codes: Collection[str] = ()) -> CohortWarnings:
    """Return what a reader should know about the people.

    Parameters
    ----------
    skipped_codes : collection of str
        Codes of problems that another section of the report explains.
    """
    groups = {"controls": cohort.controls, "patients": cohort.patients}
    warnings = [problem for problem in cohort.problems if problem.severity == Severity.WARNING]
    described = [problem for problem in warnings if problem.summary]
    return CohortWarnings(
        small_groups={group: number for group, number in groups.items() if number < MIN_PEOPLE_PER_GROUP},
        fewer_controls_than_regions=cohort.controls < cohort.regions,
        rare_levels=_list_rare_levels(cohort),
        group_differences=_list_group_differences(cohort),
        problems=[problem for problem in described if problem.code not in skipped_codes],
        n_undescribed=len(warnings) - len(described),
    )


def _list_rare_levels(cohort: CohortRecord) -> list[RareLevels]:
    rare = []
    for covariate in cohort.covariates:
        control, patient = covariate.groups.control.counts, covariate.groups.patient.counts
        if control is not None and patient is not None:
            levels = [level for level in {**control, **patient} if control.get(level, 0) < _MIN_CONTROLS_PER_LEVEL]
            rare += [RareLevels(covariate.name, tuple(levels))] if levels else []
    return rare


def _list_group_differences(cohort: CohortRecord) -> list[GroupDifference]:
    differences = []
    for covariate in cohort.covariates:
        control, patient = covariate.groups.control, covariate.groups.patient
        if control.mean is None or control.sd is None or patient.mean is None:
            continue
        if abs(patient.mean - control.mean) > _MAX_GROUP_DIFFERENCE * max(control.sd, 1e-12):
            differences.append(GroupDifference(covariate.name, control.mean, patient.mean))
    return differences


def _format_share(counts: Mapping[str, int], level: str) -> str:
    number, total = counts.get(level, 0), sum(counts.values())
    return f"{number:,} ({100 * number / total:.0f} %)" if total else "0"

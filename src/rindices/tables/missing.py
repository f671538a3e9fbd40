"""People who lack values: what is done with them, and what is said about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
import pandas as pd

from rindices._typing import BoolArray
from rindices.errors import Findings, ProblemCode, format_count, join_names
from rindices.tables.participants import MAX_CHANCE, GroupLabels, JoinedParticipants
from rindices.tables.table import Table
from rindices.tables.validation.groups import CONTROL, PATIENT
from rindices.tables.validation.values import ColumnRanges, compute_column_ranges
from rindices.wording import Wording


@dataclass(frozen=True)
class UnfilteredCohort:
    """Content of the tables before people are left out; all parts have the N rows of the table of regions."""

    table: Table
    people: JoinedParticipants
    regions: pd.DataFrame
    covariates: pd.DataFrame
    groups: GroupLabels | None
    sites: pd.Series | None
    icv: pd.Series | None

    @cached_property
    def ranges(self) -> ColumnRanges:
        """Ranges of the regions."""
        return compute_column_ranges(self.regions)

    def take(self, rows: BoolArray) -> "UnfilteredCohort":
        """Select people by a mask (N,)."""
        if rows.all():
            return self
        return UnfilteredCohort(
            self.table.take(rows),
            self.people.take(rows),
            self.regions[rows].reset_index(drop=True),
            self.covariates[rows].reset_index(drop=True),
            None if self.groups is None else self.groups.take(rows),
            None if self.sites is None else self.sites[rows].reset_index(drop=True),
            None if self.icv is None else self.icv[rows].reset_index(drop=True),
        )


MAX_MISSING_SHARE = 0.3
"""Largest share of missing cells in the table of a study whose measured cells are used."""
MIN_MEASURED_SHARE = 0.5
"""Share of the regions that a person of a study must have."""
_DROP_HINT = 'Mend them or set on_missing = "drop" (--on-missing drop)'
_COVARIATE_HINT = 'Mend them, set on_missing = "drop" (--on-missing drop), or impute them (--impute-covariates)'
_N_NAMED_REGIONS = 3


class OnMissing(StrEnum):
    """What to do with people who lack a value.

    ``model``: use the regions that they have; a missing covariate is an error. ``error``: stop. ``drop``: leave them
    out. ``report`` (of ``check``): as ``model``, but errors are only reported.
    """

    MODEL = "model"
    ERROR = "error"
    DROP = "drop"
    REPORT = "report"

    @property
    def uses_measured_cells(self) -> bool:
        """Whether people who lack a region are kept."""
        return self in (OnMissing.MODEL, OnMissing.REPORT)


def find_incomplete_rows(
    parts: UnfilteredCohort, policy: OnMissing, impute: bool, findings: Findings, is_first: bool, word: Wording
) -> tuple[BoolArray, BoolArray]:
    """Report people who lack a value; return those who cannot be used (N,), and those of them with too few regions.

    impute: whether missing covariates are imputed; findings: takes the problems; is_first: whether this is the first
    chunk of a table. Regions without any value are then reported apart, once for the table, and left out of this; word:
    words for regions (`rindices.wording`).
    """
    people, where = parts.people, parts.people.where
    gaps: list[tuple[str, BoolArray, str]] = []
    lacking, unusable = people.unmatched.copy(), np.zeros(len(people.ids), dtype=bool)
    if parts.ranges.not_finite.any():
        missing = parts.regions.isna()
        missing = missing.loc[:, ~(missing.all() & is_first)]
        if parts.groups is not None and is_first:
            first = ~pd.Series(people.ids).duplicated().to_numpy()
            warn_missing_by_group(missing[first], parts.groups.take(first), parts.table.where, findings, word)
        if policy.uses_measured_cells:
            if parts.groups is not None:  # of a study; when a model is applied, it decides who has enough regions
                unusable = _find_unusable_rows(missing, people.ids, parts.table.where, findings, word)
            others = [name for name, left_out in zip(people.ids, unusable, strict=True) if not left_out]
            _report_missing_cells(missing[~unusable], others, parts.table.where, findings, word)
        else:
            gap = f"{word('a missing region')} ({_describe_worst_regions(missing)})"
            gaps.append((gap, missing.any(axis=1).to_numpy(), parts.table.where))
    if parts.sites is not None:
        gaps.append(("no site", parts.sites.isna().to_numpy(), where))
    if parts.groups is not None:
        gaps.append(("no group", parts.groups.unlabelled, where))
    _report_missing(people.unmatched, people.ids, "no row among the participants", where, policy, findings)
    for gap, rows, file in gaps:
        _report_missing(rows & ~people.unmatched, people.ids, gap, file, policy, findings)
        lacking |= rows
    lacking |= _find_missing_covariates(parts.covariates, people, policy, impute, findings)
    return lacking | unusable, unusable


def _report_missing(
    lacking: BoolArray,
    ids: Sequence[str],
    gap: str,
    where: str,
    policy: OnMissing,
    findings: Findings,
    cure: str = _DROP_HINT,
) -> None:
    """Report people (N,) who have a ``gap``, such as "no age", as an error or a note."""
    if not lacking.any():
        return
    offenders = _take_people(ids, lacking)
    code, text = ProblemCode.MISSING_VALUES, f"{format_count(len(offenders), 'person has', 'people have')} {gap}"
    if policy in (OnMissing.ERROR, OnMissing.MODEL):
        findings.error(code, text, where, cure, offenders=offenders)
    elif policy is OnMissing.DROP:
        findings.note(code, text, where, offenders=offenders, ending="; left out")
    else:
        ending = "; fit stops here unless told to leave them out"
        findings.note(code, text, where, cure, offenders=offenders, ending=ending)


def _describe_worst_regions(missing: pd.DataFrame) -> str:
    """Return the regions that are missing most often, from a mask of missing cells (N, R)."""
    counts = missing.sum().sort_values(ascending=False, kind="stable").head(_N_NAMED_REGIONS)
    return join_names(f"{region} {count:,} times" for region, count in counts.items() if count)


def _report_missing_cells(
    missing: pd.DataFrame, ids: Sequence[str], where: str, findings: Findings, word: Wording
) -> None:
    """Report people whose other regions are used, from a mask of missing cells (N, R)."""
    lacking = missing.any(axis=1).to_numpy()
    if lacking.any():
        cells = f"{int(missing.to_numpy().sum()):,} of {missing.size:,} cells are missing"
        people = f"{format_count(int(lacking.sum()), 'person has', 'people have')} {word('a missing region')}"
        findings.note(
            ProblemCode.MISSING_VALUES,
            f"{people}, {cells} ({_describe_worst_regions(missing)})",
            where,
            offenders=_take_people(ids, lacking),
            ending=word("; their other regions are used"),
        )


def _find_unusable_rows(
    missing: pd.DataFrame, ids: Sequence[str], where: str, findings: Findings, word: Wording
) -> BoolArray:
    """Report the people of a study who have too few regions, and return them (N,); a table with too few is an error.

    missing (N, R): mask of missing cells; where: the file, for messages; findings: takes the problems; word: words for
    regions.
    """
    cells = missing.to_numpy()
    unusable = np.asarray(cells.mean(axis=1) > 1.0 - MIN_MEASURED_SHARE)
    if unusable.any():
        people = _take_people(ids, unusable)
        what = f"{format_count(len(people), 'person has', 'people have')} {word('fewer than half of the regions')}"
        findings.warn(ProblemCode.MISSING_VALUES, what, where, offenders=people, ending="; left out")
    if not unusable.all() and cells[~unusable].mean() > MAX_MISSING_SHARE:
        what = f"{cells[~unusable].mean():.0%} of the cells are missing ({_describe_worst_regions(missing)})"
        cure = f"At most {MAX_MISSING_SHARE:.0%} may be: {word('leave out regions')} (--exclude) or people"
        findings.error(ProblemCode.MISSING_VALUES, what, where, cure)
    return unusable


def warn_missing_by_group(
    missing: pd.DataFrame, groups: GroupLabels, where: str, findings: Findings, word: Wording
) -> None:
    """Warn of missing cells (N, R) that depend on the group, by region (exact test, Bonferroni) or by person."""
    cells = missing.to_numpy()
    by_group = [cells[groups.rows(name)] for name in (CONTROL, PATIENT)]
    n_controls, n_patients = map(len, by_group)
    if not n_controls or not n_patients:
        return
    counts = np.array([group.sum(axis=0) for group in by_group])
    totals = counts.sum(axis=0)
    from scipy.stats import hypergeom, mannwhitneyu  # applying a model needs numpy and pandas alone

    tails = [hypergeom.cdf(counts[1], n_controls + n_patients, totals, n_patients)]
    tails.append(hypergeom.sf(counts[1] - 1, n_controls + n_patients, totals, n_patients))
    p_region = np.minimum(1.0, 2.0 * np.minimum(*tails))
    worst = int(p_region.argmin())
    n_tested = int(((totals > 0) & (totals < n_controls + n_patients)).sum())
    p_person = mannwhitneyu(*(group.sum(axis=1) for group in by_group)).pvalue
    is_region = p_region[worst] * n_tested < MAX_CHANCE
    if not is_region and not p_person < MAX_CHANCE:
        return
    shares = [group.mean() for group in by_group]
    what = f"missing cells depend on the group: {shares[0]:.1%} of the cells of controls, {shares[1]:.1%} of patients"
    if is_region:
        rates = counts[:, worst] / (n_controls, n_patients)
        what += f"; {missing.columns[worst]} is missing in {rates[0]:.0%} of controls and {rates[1]:.0%} of patients"
    cure = f"What is missing can look like disease: find out why, {word('leave out regions')} (--exclude) or people"
    findings.warn(ProblemCode.MISSING_BY_GROUP, what, where, cure)


def _find_missing_covariates(
    covariates: pd.DataFrame, people: JoinedParticipants, policy: OnMissing, impute: bool, findings: Findings
) -> BoolArray:
    """Report people who lack a covariate (N, C), and return those who cannot be used (N,): none, if it is imputed."""
    lacking = np.zeros(len(covariates), dtype=bool)
    if impute:
        report_imputed(covariates[~people.unmatched], people.ids, people.where, findings)
        return lacking
    for name in covariates:
        rows = covariates[name].isna().to_numpy() & ~people.unmatched
        _report_missing(rows, people.ids, f"no {name}", people.locate(name), policy, findings, _COVARIATE_HINT)
        lacking |= rows
    return lacking


def report_imputed(covariates: pd.DataFrame, ids: Sequence[str], where: str, findings: Findings) -> None:
    """Warn of people who lack a covariate, by name; the preprocessing predicts it from their others.

    covariates (N, C): its index holds the positions of the people in ``ids``; where: the file, for messages; findings:
    takes the warnings.
    """
    for name in covariates:
        rows = np.asarray(covariates.index[covariates[name].isna()])
        if rows.size:
            findings.warn(
                ProblemCode.MISSING_VALUES,
                f"{format_count(rows.size, 'person has', 'people have')} no {name}",
                where,
                subject=str(name),
                offenders=[ids[int(row)] for row in rows],
                ending="; it is imputed from controls",
            )


def _take_people(ids: Sequence[str], mask: BoolArray) -> list[str]:
    return [ids[row] for row in np.flatnonzero(mask).tolist()]

"""Regions of a table as numbers, its intracranial volume, and people who
lack values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import compress

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    format_count,
    join_names,
)
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.checks.values import (
    ColumnRanges,
    as_numbers,
    compute_column_ranges,
)
from rindices.tables.layouts import column_names, freesurfer, select
from rindices.tables.layouts.muse import find_muse_region
from rindices.tables.participants import MAX_CHANCE, GroupLabels, JoinedParticipants
from rindices.tables.sources.frames import find_duplicates
from rindices.tables.table import Table, take_people
from rindices.wording import Nouns

MAX_MISSING_SHARE = 0.3
"""Largest share of missing cells in the table of a study whose measured cells are used.
"""
MIN_MEASURED_SHARE = 0.5
"""Share of the regions that a person of a study must have."""
_DROP_HINT = "Fill them in, or leave these people out: --on-missing drop"
_COVARIATE_HINT = "Fill them in, leave these people out (--on-missing drop), or impute them (--impute-covariates)"
_N_NAMED_REGIONS = 3
_SUM_OF_REGIONS = "the sum of their regions"
_DOUBTFUL_SHARE = (
    0.05  # of people below, above which a head size is not used unless it is named
)
_UNIT_SHARE = (
    0.5  # of people below, above which the unit is doubted and not single segmentations
)


def read_region_values(
    table: Table, exclude: Sequence[str], findings: Findings
) -> pd.DataFrame:
    """Return the regions (N, R) as numbers, sorted by `region_sort_key`; FreeSurfer's
    zeros become missing.
    """
    names = exclude_regions(table.layout.regions, exclude)
    for name in exclude:
        if _find_excluded_column(name, table.layout.regions) is None:
            what = f"there is no region '{name}' to exclude"
            findings.misspelt(
                ProblemCode.UNKNOWN_REGION, what, name, list(table.layout.regions)
            )
    if len(names) < 2:
        what = "only one region was found" if names else "no regions were found"
        findings.fatal(ProblemCode.NO_REGIONS, what, _suggest_regions(table))
    duplicates = find_duplicates(names.values())
    if duplicates:
        columns = [
            column for column, region in names.items() if region == duplicates[0]
        ]
        what = f"{format_count(len(duplicates), 'region stands', 'regions stand')} in two columns"
        cure = (
            "Keep one of each (raw or harmonised): remove the others or --exclude them"
        )
        kind = OffenderKind.COLUMN
        findings.fatal(
            ProblemCode.DUPLICATE_REGIONS,
            what,
            cure,
            offenders=columns,
            offender_kind=kind,
        )
    ordered = sorted(names, key=lambda column: region_sort_key(names[column]))
    first = table.frame.columns.get_loc(ordered[0])
    adjacent = table.frame.iloc[
        :, first : first + len(ordered)
    ]  # columns of a chunk are in order: no copy
    values = adjacent if adjacent.columns.tolist() == ordered else table.frame[ordered]
    numbers = as_numbers(values, table.ids, findings).reset_index(drop=True)
    numbers.columns = pd.Index([names[column] for column in ordered])
    return (
        _empty_zeros(numbers, table, findings)
        if table.layout.zero_is_missing
        else numbers
    )


def _empty_zeros(
    numbers: pd.DataFrame, table: Table, findings: Findings
) -> pd.DataFrame:
    """Return regions (N, R) in which zeros are missing, with a note; lesions and
    vessels may be 0.
    """
    zero = (numbers == 0) & [
        not freesurfer.may_be_zero(name) for name in numbers.columns
    ]
    n_zeros = int(zero.to_numpy().sum())
    if not n_zeros:
        return numbers
    count = f"{format_count(n_zeros, 'cell')} of 0 in {format_count(int(zero.any().sum()), 'region')}"
    what = f"{count} {'is' if n_zeros == 1 else 'are'} missing: FreeSurfer writes 0 for what it did not find"
    findings.note(
        ProblemCode.ZERO_VOLUMES, what, offenders=compress(table.ids, zero.any(axis=1))
    )
    return numbers.mask(zero)


def _suggest_regions(table: Table) -> str:
    """Return what to do about a table without regions."""
    if table.layout.format == "ukbiobank":
        fields = "26514 to 26598 and 26789 to 26922, or 25782 to 25920"
        return f"Give fields of brain structures ({fields}), or say --measure any if other fields are meant"
    if column_names.find_column(
        table.frame.columns, (*column_names.GROUP_NAMES, *column_names.AGE_SEX_NAMES)
    ):
        return "If it describes participants, give it with --participants and a table of regions before it"
    return "Give a table with one column of numbers a region"


def exclude_regions(
    regions: Mapping[str, str], exclude: Sequence[str]
) -> dict[str, str]:
    """Return the columns of regions without the excluded ones."""
    remaining = dict(regions)
    for name in exclude:
        remaining.pop(_find_excluded_column(name, remaining) or "", None)
    return remaining


def _find_excluded_column(name: str, columns: Mapping[str, str]) -> str | None:
    """Return the column that a column name, region name or MUSE label means, in upper
    or lower case.
    """
    return next(
        (
            c
            for c, region in columns.items()
            if name.lower() in select.list_spellings(c, region)
        ),
        None,
    )


def region_sort_key(region: str) -> tuple[int, str]:
    """Return the sort key of a region: MUSE regions are sorted by code,
    others by name.
    """
    muse_region = find_muse_region(region)
    return (muse_region.code if muse_region else 0, region)


def select_icv(table: Table, people: JoinedParticipants) -> pd.Series | None:
    """Return the intracranial volume of each person from the table of regions, else
    from the participants.
    """
    if table.layout.icv is not None:
        values = table.frame[table.layout.icv]
        return values.where(values != 0) if table.layout.zero_is_missing else values
    column = column_names.find_column(people.frame.columns, column_names.ICV_NAMES)
    return people.frame[column] if column else None


def check_head_sizes(
    icv: pd.Series,
    table: Table,
    regions: pd.DataFrame,
    findings: Findings,
    covariates: Sequence[str],
    is_recognised: bool,
) -> None:
    """Warn of people whose intracranial volume is below a brain volume of the table, or
    below the sum of their regions.

    Many such people are an error if the covariates were recognised by name.

    Parameters
    ----------
    icv : Series
        Intracranial volume of each person.
    table : Table
        Its columns of whole-brain volumes are compared.
    regions : DataFrame
        Regions (N, R). Columns that measure volumes are summed, unless the layout is
        unknown, because its columns may overlap.
    findings : Findings
        Collects the problems.
    covariates : sequence of str
        Covariates that are adjusted for.
    is_recognised : bool
        Whether they were recognised by name.
    """
    head_sizes = pd.to_numeric(icv, errors="coerce").to_numpy(dtype=float)
    parts = _collect_parts(table, regions)
    with np.errstate(invalid="ignore"):
        below = {name: head_sizes < values for name, values in parts.items()}
    worst = max(below, key=lambda name: int(below[name].sum()), default=None)
    if worst is None or not below[worst].any():
        return
    n_below, n_people = int(below[worst].sum()), len(head_sizes)
    is_unit = n_below > _UNIT_SHARE * n_people
    cures = [
        "Check its unit" if is_unit else "Look at the segmentations of these people"
    ]
    others = [name for name in covariates if name != "icv"]
    is_adjusted = len(others) < len(covariates)
    instead = next((name for name in parts if freesurfer.is_head_size(name)), None)
    if instead is not None and is_adjusted and not is_unit:
        cures.append(
            f"or adjust for another head size: --covariates {','.join([*others, instead])}"
        )
    what = f"{n_below:,} of {format_count(n_people, 'person has', 'people have')} an ICV below {worst}"
    report = findings.warn
    if is_recognised and is_adjusted and n_below > _DOUBTFUL_SHARE * n_people:
        report = findings.error
        cures.append(f"or adjust for none: --covariates {','.join(others) or 'none'}")
        cures.append(
            f"or adjust for this one all the same: --covariates {','.join([*others, 'icv'])}"
        )
    report(
        ProblemCode.SMALL_HEAD_SIZES,
        what,
        ", ".join(cures),
        offenders=compress(table.ids, below[worst]),
    )


def _collect_parts(table: Table, regions: pd.DataFrame) -> dict[str, FloatArray]:
    """Return volumes (N,) that no head can be smaller than, by name."""
    layout = table.layout
    composites = layout.aside.get("composite", [])
    columns = [
        name
        for name in composites
        if freesurfer.is_brain_volume(layout.aside_names.get(name, name))
    ]
    columns = [
        name for name in columns if name in table.frame
    ]  # a column of two tables is kept once
    parts = {
        name: pd.to_numeric(table.frame[name], errors="coerce").to_numpy(dtype=float)
        for name in columns
    }
    volumes = [name for name in regions.columns if layout.measure_of(name) == "volume"]
    if layout.format != "table" and volumes:
        parts[_SUM_OF_REGIONS] = regions[volumes].to_numpy().sum(axis=1)
    return parts


@dataclass(frozen=True, kw_only=True)
class UnfilteredCohort:
    """Content of the tables before people are left out.

    All parts have the N rows of the table of regions.

    Attributes
    ----------
    table : Table
        Table of regions.
    people : JoinedParticipants
        Columns about the people.
    regions : DataFrame
        Regions (N, R).
    covariates : DataFrame
        Covariates (N, C).
    groups : GroupLabels or None
        Groups of the people.
    sites : Series or None
        Site of each person.
    icv : Series or None
        Intracranial volume of each person.
    positions : ndarray of shape (N,) or None
        Row of each person among those that were read.
    """

    table: Table
    people: JoinedParticipants
    regions: pd.DataFrame
    covariates: pd.DataFrame
    groups: GroupLabels | None
    sites: pd.Series | None
    icv: pd.Series | None
    positions: IntArray | None = None

    @cached_property
    def ranges(self) -> ColumnRanges:
        """Ranges of the regions."""
        return compute_column_ranges(self.regions)

    def take(self, rows: BoolArray) -> "UnfilteredCohort":
        """Select people by a mask (N,)."""
        selected: UnfilteredCohort = self if rows.all() else take_people(self, rows)
        return selected


class OnMissing(StrEnum):
    """What to do with people who lack a value.

    ``model``: use the regions that they have; a missing covariate is an error.
    ``error``: stop. ``drop``: leave them out. ``report`` (of ``check``): as ``model``,
    but errors are only reported.
    """

    MODEL = "model"
    ERROR = "error"
    DROP = "drop"
    REPORT = "report"

    @property
    def uses_measured_cells(self) -> bool:
        """Whether people who lack a region are kept."""
        return self in (OnMissing.MODEL, OnMissing.REPORT)


def find_missing_regions(parts: UnfilteredCohort) -> pd.DataFrame:
    """Return which regions people lack (N, R), without columns if nobody lacks any."""
    if not parts.ranges.not_finite.any():
        return parts.regions.iloc[:, :0].isna()
    return parts.regions.isna()


def find_incomplete_rows(
    parts: UnfilteredCohort,
    missing: pd.DataFrame,
    policy: OnMissing,
    impute: bool,
    findings: Findings,
    nouns: Nouns,
) -> tuple[BoolArray, BoolArray]:
    """Report people who lack a value. Return those who cannot be used, and those of
    them with too few regions, both (N,).

    Parameters
    ----------
    parts : UnfilteredCohort
        Content of the tables.
    missing : DataFrame
        Which regions people lack (N, R).
    policy : OnMissing
        What to do with people who lack a region.
    impute : bool
        Whether missing covariates are imputed.
    findings : Findings
        Collects the problems.
    nouns : Nouns
        Nouns of the messages.
    """
    people, of_table = parts.people, findings.at(parts.table.where)
    lacking, unusable = people.unmatched.copy(), np.zeros(len(people.ids), dtype=bool)

    def report(
        rows: BoolArray, gap: str, of_file: Findings, cure: str = _DROP_HINT
    ) -> None:
        """Report people who have a row among the participants and a ``gap``."""
        matched = rows & ~people.unmatched
        _report_missing(matched, people.ids, gap, policy, of_file, cure)
        lacking[rows] = True

    if len(missing.columns) and policy.uses_measured_cells:
        # of a study; when a model is applied, it decides who has enough regions
        if parts.groups is not None:
            unusable = _find_unusable_rows(missing, people.ids, of_table, nouns)
        ids = list(compress(people.ids, ~unusable))
        _report_missing_cells(missing[~unusable], ids, of_table, nouns)
    gap = "no row among the participants"
    _report_missing(people.unmatched, people.ids, gap, policy, people.findings)
    if len(missing.columns) and not policy.uses_measured_cells:
        gap = f"a missing {nouns.region} ({_describe_worst_regions(missing)})"
        report(missing.any(axis=1).to_numpy(), gap, of_table)
    if parts.sites is not None:
        report(parts.sites.isna().to_numpy(), "no site", people.findings)
    if parts.groups is not None:
        report(parts.groups.unlabelled, "no group", people.findings)
    if impute:
        report_imputed(parts.covariates[~people.unmatched], people.ids, people.findings)
        return lacking | unusable, unusable
    for name in parts.covariates:
        rows = parts.covariates[name].isna().to_numpy() & ~people.unmatched
        report(rows, f"no {name}", people.get_findings(name), _COVARIATE_HINT)
    return lacking | unusable, unusable


def _report_missing(
    lacking: BoolArray,
    ids: Sequence[str],
    gap: str,
    policy: OnMissing,
    findings: Findings,
    cure: str = _DROP_HINT,
) -> None:
    """Report people (N,) who have a ``gap``, such as "no age", as an error
    or a note.
    """
    if not lacking.any():
        return
    offenders = list(compress(ids, lacking))
    code, text = (
        ProblemCode.MISSING_VALUES,
        f"{format_count(len(offenders), 'person has', 'people have')} {gap}",
    )
    if policy in (OnMissing.ERROR, OnMissing.MODEL):
        findings.error(code, text, cure, offenders=offenders)
    elif policy is OnMissing.DROP:
        findings.note(code, text, offenders=offenders, ending="; left out")
    else:
        ending = "; fit stops here unless told to leave them out"
        findings.note(code, text, cure, offenders=offenders, ending=ending)


def _describe_worst_regions(missing: pd.DataFrame) -> str:
    """Return the regions that are missing most often, from a mask of missing cells (N,
    R).
    """
    counts = (
        missing.sum().sort_values(ascending=False, kind="stable").head(_N_NAMED_REGIONS)
    )
    return join_names(
        f"{region} {count:,} times" for region, count in counts.items() if count
    )


def _report_missing_cells(
    missing: pd.DataFrame, ids: Sequence[str], findings: Findings, nouns: Nouns
) -> None:
    """Report people whose other regions are used, from a mask of missing
    cells (N, R).
    """
    lacking = missing.any(axis=1).to_numpy()
    if lacking.any():
        cells = (
            f"{int(missing.to_numpy().sum()):,} of {missing.size:,} cells are missing"
        )
        people = f"{format_count(int(lacking.sum()), 'person has', 'people have')} a missing {nouns.region}"
        what, ending = (
            f"{people}, {cells} ({_describe_worst_regions(missing)})",
            f"; their other {nouns.regions} are used",
        )
        findings.note(
            ProblemCode.MISSING_VALUES,
            what,
            offenders=compress(ids, lacking),
            ending=ending,
        )


def _find_unusable_rows(
    missing: pd.DataFrame, ids: Sequence[str], findings: Findings, nouns: Nouns
) -> BoolArray:
    """Report the people of a study who have too few regions, and return them (N,)."""
    cells = missing.to_numpy()
    unusable = np.asarray(cells.mean(axis=1) > 1.0 - MIN_MEASURED_SHARE)
    if unusable.any():
        count = format_count(int(unusable.sum()), "person has", "people have")
        what = f"{count} fewer than half of the {nouns.regions}"
        findings.warn(
            ProblemCode.MISSING_VALUES,
            what,
            offenders=compress(ids, unusable),
            ending="; left out",
        )
    if not unusable.all() and cells[~unusable].mean() > MAX_MISSING_SHARE:
        what = f"{cells[~unusable].mean():.0%} of the cells are missing ({_describe_worst_regions(missing)})"
        cure = f"At most {MAX_MISSING_SHARE:.0%} may be: leave out {nouns.regions} (--exclude) or people"
        findings.error(ProblemCode.MISSING_VALUES, what, cure)
    return unusable


def warn_missing_by_group(
    missing: pd.DataFrame, groups: GroupLabels, findings: Findings, nouns: Nouns
) -> None:
    """Warn of missing cells (N, R) that depend on the group, by region (exact test,
    Bonferroni) or by person.
    """
    cells = missing.to_numpy()
    by_group = [cells[groups.rows(name)] for name in (CONTROL, PATIENT)]
    n_controls, n_patients = map(len, by_group)
    if not n_controls or not n_patients:
        return
    counts = np.array([group.sum(axis=0) for group in by_group])
    totals = counts.sum(axis=0)
    from scipy.stats import (
        hypergeom,
        mannwhitneyu,
    )  # applying a model needs numpy and pandas alone

    tails = [hypergeom.cdf(counts[1], n_controls + n_patients, totals, n_patients)]
    tails.append(
        hypergeom.sf(counts[1] - 1, n_controls + n_patients, totals, n_patients)
    )
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
    cure = f"What is missing can look like disease: find out why, leave out {nouns.regions} (--exclude) or people"
    findings.warn(ProblemCode.MISSING_BY_GROUP, what, cure)


def report_imputed(
    covariates: pd.DataFrame, ids: Sequence[str], findings: Findings
) -> None:
    """Warn of people who lack a covariate, which the preprocessing predicts from their
    others.

    Parameters
    ----------
    covariates : DataFrame
        Covariates (N, C). The index holds the positions of the people in ``ids``.
    ids : sequence of str
        IDs of the people.
    findings : Findings
        Collects the warnings.
    """
    for name in covariates:
        offenders = [ids[int(row)] for row in covariates.index[covariates[name].isna()]]
        if offenders:
            what = (
                f"{format_count(len(offenders), 'person has', 'people have')} no {name}"
            )
            ending = "; it is imputed from controls"
            findings.warn(
                ProblemCode.MISSING_VALUES,
                what,
                subject=str(name),
                offenders=offenders,
                ending=ending,
            )

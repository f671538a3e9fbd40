"""Read and validate tables, once and in one pass; the rest of the package trusts the
cohort.
"""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from operator import gt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import BoolArray
from rindices.errors import (
    Findings,
    OffenderKind,
    Problem,
    ProblemCode,
    Severity,
    TableError,
    capitalise_first,
    did_you_mean,
    format_count,
    join_names,
    parse_codes,
)
from rindices.tables import participants, regions
from rindices.tables.checks import values
from rindices.tables.checks.block_table import BlockTable
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.checks.ids import match_ids
from rindices.tables.checks.missing_codes import (
    NO_CODES,
    mask_missing_codes,
    may_hold_codes,
    report_codes,
)
from rindices.tables.checks.report import SUSPECT_CODES, report_blocks
from rindices.tables.checks.values import Unit
from rindices.tables.cohort import (
    GROUP,
    ID,
    SESSION,
    SITE,
    Cohort,
    check_visits,
    sort_keys,
)
from rindices.tables.layouts import column_names
from rindices.tables.layouts.freesurfer import is_brain_volume
from rindices.tables.layouts.select import holds_features, select_columns
from rindices.tables.options import TableOptions
from rindices.tables.regions import OnMissing, UnfilteredCohort
from rindices.tables.sources.frames import MemoryTable
from rindices.tables.table import (
    NO_COLUMN,
    ColumnRoles,
    IndexedTable,
    Table,
    find_id_columns,
    read_region_tables,
    take_people,
)
from rindices.tables.unused import list_unused_columns
from rindices.wording import Nouns, get_nouns

_MAX_EXCLUDED = 5
"""Largest number of people whom a message offers to leave out."""
_EXCLUDE_OPTION = "--exclude-people"
_CURED_BY_EXCLUSION = parse_codes(
    "impossible_values not_a_number negative_values zero_volumes mixed_units missing_values contradictory_visits "
    "small_head_sizes unknown_category infinite_values suspect_rows"
)


@dataclass(frozen=True, kw_only=True)
class TableRequest:
    """The tables to read, and how.

    Attributes
    ----------
    volumes : tuple of Path or MemoryTable
        Tables of regions.
    participants : Path or MemoryTable or None
        Table of the people.
    options : TableOptions
        See `rindices.read_cohort`.
    find_groups : bool
        Whether controls and patients are told apart.
    reports_missing : bool
        Whether people who lack a value are only reported, whatever the options say.
    searches_blocks : bool
        Whether to search for sites and rows that look wrong as a whole.
    model_regions : tuple of str
        Regions of the model that is applied.
    can_exclude_people : bool
        Whether the user can name people to leave out, so that messages may offer it.
    """

    volumes: tuple[Path | MemoryTable, ...]
    participants: Path | MemoryTable | None = None
    options: TableOptions = field(default_factory=TableOptions)
    find_groups: bool = True
    reports_missing: bool = False
    searches_blocks: bool = True
    model_regions: tuple[str, ...] = ()
    can_exclude_people: bool = False

    @property
    def roles(self) -> ColumnRoles:
        """The columns that the user named."""
        names = [each.name for each in fields(ColumnRoles)]
        return ColumnRoles(**self.options.model_dump(include=set(names)))

    @property
    def policy(self) -> OnMissing:
        """What becomes of people who lack a value."""
        if self.reports_missing:
            return OnMissing.REPORT
        return OnMissing(self.options.on_missing)

    def with_options(self, **changes: Any) -> "TableRequest":
        """Return the request with other values of some options."""
        return replace(self, options=self.options.model_copy(update=changes))


@dataclass(frozen=True, kw_only=True)
class ValidationResult:
    """Content of a table and its problems.

    Attributes
    ----------
    problems : tuple of Problem
        Errors, warnings and notes.
    cohort : Cohort or None
        None if there is an error.
    format : str or None
        Program that wrote the table.
    people, controls, patients, regions, sites : int or None
        Numbers. None if unknown.
    covariates : tuple of str
        Covariates that are adjusted for.
    roles : ColumnRoles
        Columns as they were named or recognised.
    icv : str or None
        Column of the intracranial volume.
    unit : str or None
        Unit of the regions.
    aside : dict or None
        Number of columns that are not used, by reason.
    measures : dict
        Number of regions of each kind of measure: volume, thickness or area.
    units : dict
        Unit of each kind of measure.
    kinds : dict or None
        Whether each named covariate is a number or has categories, in words.
    region_names : tuple of str
        Names of the regions.
    participants : IndexedTable or None
        Table that the people were joined with.
    keys : tuple of str
        Unique key of each row, made of participant and session. It is comparable
        between chunks of a table.
    left_out : tuple of str
        Those of the people and sites to leave out that were found.
    blocks : BlockTable or None
        The table after the search of its blocks, if something is suspicious.
    unused : dict
        Columns that are not used, by reason.
    """

    problems: tuple[Problem, ...]
    cohort: Cohort | None = None
    format: str | None = None
    people: int | None = None
    controls: int | None = None
    patients: int | None = None
    regions: int | None = None
    sites: int | None = None
    covariates: tuple[str, ...] = ()
    roles: ColumnRoles = field(default_factory=ColumnRoles)
    icv: str | None = None
    unit: str | None = None
    aside: dict[str, int] | None = None
    measures: dict[str, int] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] | None = None
    region_names: tuple[str, ...] = ()
    participants: IndexedTable | None = None
    keys: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    blocks: BlockTable | None = None
    unused: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not any(problem.severity is Severity.ERROR for problem in self.problems)

    def cohort_or_raise(self) -> Cohort:
        """Return the cohort, or raise a `TableError` with all errors."""
        if self.cohort is None or not self.ok:
            raise TableError(
                problem
                for problem in self.problems
                if problem.severity is Severity.ERROR
            )
        return self.cohort


def offer_exclusion(problem: Problem) -> Problem:
    """Return a problem with the option that leaves its people out, where it is about
    few people and may be cured so.
    """
    people = problem.offenders
    is_about_few = (
        problem.offender_kind is OffenderKind.PARTICIPANT
        and 0 < len(people) <= _MAX_EXCLUDED
    )
    if not problem.cure or not is_about_few or problem.code not in _CURED_BY_EXCLUSION:
        return problem
    whom = "this person" if len(people) == 1 else "these people"
    option = f"To leave {whom} out: {_EXCLUDE_OPTION} {shlex.quote(','.join(people))}"
    return replace(problem, exclusion=option)


def validate_table(request: TableRequest) -> ValidationResult:
    """Read and validate tables; returns all problems, none is raised."""
    return _WholeTable(request).run()


def validate_first_rows(request: TableRequest, table: Table) -> ValidationResult:
    """Validate the first rows of a file, from which the unit, the kinds of the
    covariates and the participants are known for later ones. People stay in the order
    of the rows.
    """
    return _FirstRows(request, table).run()


def validate_later_rows(
    request: TableRequest, table: Table, first: ValidationResult
) -> ValidationResult:
    """Validate further rows of a file, given the validation of the first ones."""
    return _LaterRows(request, table, first).run()


@dataclass(frozen=True)
class _KnownPeople:
    """What is known of the people of a file from its first rows.

    Attributes
    ----------
    participants : IndexedTable or None
        Table that they are joined with.
    covariates : DataFrame
        Their columns, as far as they tell what is a number.
    """

    participants: IndexedTable | None = None
    covariates: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass
class _WholeTable:
    """Validation of a table with all of its rows.

    What concerns all rows together is checked here. A subclass for a part of the rows
    leaves it out.

    Attributes
    ----------
    request : TableRequest
        How the table is read.
    findings : Findings
        Problems of the file.
    """

    request: TableRequest
    findings: Findings = field(default_factory=Findings, kw_only=True)

    def run(self) -> ValidationResult:
        """Return the content of the table and its problems."""
        result = self._validate()
        if not self.request.can_exclude_people:
            return result
        problems = tuple(offer_exclusion(problem) for problem in result.problems)
        return replace(result, problems=problems)

    def _validate(self) -> ValidationResult:
        request, findings = self.request, self.findings
        try:
            table, left_out = self._exclude_people(self.read_table())
            known = self.known_people()
            parts, roles = _read_unfiltered_cohort(request, findings, table, known)
        # its problems may not be among the findings: of a file that could not be read
        except TableError as error:
            problems = tuple(dict.fromkeys([*findings, *error.problems]))
            return ValidationResult(problems=problems)
        of_table = findings.at(parts.table.where)
        unused = self.list_unused_columns(parts, roles)
        if request.options.leave_out_sites:
            parts, sites = self._leave_out_sites(parts)
            left_out += sites
        parts = _take_labelled_people(parts)
        lacking, unusable = regions.find_incomplete_rows(
            parts,
            self.find_missing_regions(parts, of_table),
            request.policy,
            request.options.impute_covariates,
            findings,
            _get_nouns(parts, request),
        )
        parts = _empty_missing_codes(parts, request, of_table)
        parts, units, unit = self.check_values(parts, of_table)
        drops = request.policy in (OnMissing.DROP, OnMissing.MODEL)
        keep = ~lacking if drops else ~unusable
        clean = keep & ~lacking
        if parts.table.sessions is not None:
            _check_sessions(parts, request, of_table)
        blocks = self.search_rows(parts, unit, of_table)
        if parts.groups is not None:
            _check_groups(parts, clean, unit, findings)
            self.compare_groups(parts, parts.groups, clean, roles)
        self.check_anyone_is_left(clean, of_table)
        cohort = None
        if not findings.errors():
            cohort = self.build_cohort(parts, clean, unit)
            doubted = tuple(each for each in findings if each.code in SUSPECT_CODES)
            cohort = replace(cohort, suspicions=doubted)
        return replace(
            _describe_parts(parts, keep, unit),
            problems=tuple(findings),
            cohort=cohort,
            roles=replace(roles, covariates=tuple(parts.covariates)),
            units={kind: str(each) for kind, each in units.items()},
            left_out=tuple(left_out),
            blocks=blocks,
            unused=unused,
        )

    def read_table(self) -> Table:
        """Read the tables of regions, with the selected columns."""
        request, options = self.request, self.request.options
        table = read_region_tables(request.volumes, request.roles, self.findings)
        layout = select_columns(
            table.layout,
            options.include,
            options.measure,
            request.model_regions,
            self.findings.at(table.where),
        )
        return replace(table, layout=layout)

    def known_people(self) -> _KnownPeople:
        """Return what is known of the people before the table is read."""
        return _KnownPeople()

    def _exclude_people(self, table: Table) -> tuple[Table, list[str]]:
        """Return the rows of all other people than those to leave out, and the ids that
        were found.
        """
        names = self.request.options.exclude_people
        if not names:
            return table, []
        matches = match_ids(names, table.ids)
        found = set(matches.pairs.values())
        keep = np.array([name not in found for name in table.ids], dtype=bool)
        absent = [name for name in names if name not in matches.pairs]
        self.report_excluded(table, found, absent)
        return (table if keep.all() else take_people(table, keep)), list(matches.pairs)

    def report_excluded(
        self, table: Table, found: set[str], absent: Sequence[str]
    ) -> None:
        """Report who was left out; an id that nobody has is an error."""
        of_table = self.findings.at(table.where)
        if absent:
            report_unknown_people(absent, of_table, table.ids)
        if found:
            what = f"{format_count(len(found), 'person', 'people')} left out, as asked"
            of_table.note(ProblemCode.PEOPLE_LEFT_OUT, what, offenders=sorted(found))

    def list_unused_columns(
        self, parts: UnfilteredCohort, roles: ColumnRoles
    ) -> dict[str, tuple[str, ...]]:
        """Return and report the columns that are not used, by reason."""
        return list_unused_columns(
            parts, roles, self.request.roles.group, self.findings
        )

    def _leave_out_sites(
        self, parts: UnfilteredCohort
    ) -> tuple[UnfilteredCohort, list[str]]:
        """Return the people of all other sites than those to leave out, and the names
        that were found.
        """
        names, sites = self.request.options.leave_out_sites, parts.sites
        if sites is None:
            sites = pd.Series(dtype="object", index=parts.regions.index)
        present = sorted(sites.dropna().unique())
        is_left_out: BoolArray = sites.isin(names).to_numpy(dtype=bool)
        self.report_left_out_sites(parts, present, int(is_left_out.sum()))
        return parts.take(~is_left_out), [name for name in names if name in present]

    def report_left_out_sites(
        self, parts: UnfilteredCohort, present: list[str], n_people: int
    ) -> None:
        """Report how many were left out; a site that is not there is an error."""
        names, findings = self.request.options.leave_out_sites, parts.people.findings
        _report_unknown_sites(names, present, findings)
        people = format_count(n_people, "person", "people")
        what = f"{people} of {format_count(len(names), 'site')} left out"
        findings.note(
            ProblemCode.SITES_LEFT_OUT,
            what,
            offenders=names,
            offender_kind=OffenderKind.SITE,
        )

    def find_missing_regions(
        self, parts: UnfilteredCohort, findings: Findings
    ) -> pd.DataFrame:
        """Return which regions people lack (N, R), and warn where one group lacks more.

        Regions that nobody has are reported with the values, and do not count here.
        """
        missing = regions.find_missing_regions(parts)
        missing = missing.loc[:, ~missing.all()]
        if parts.groups is not None and len(missing.columns):
            first = ~pd.Series(parts.people.ids).duplicated().to_numpy()
            groups = take_people(parts.groups, first)
            nouns = _get_nouns(parts, self.request)
            regions.warn_missing_by_group(missing[first], groups, findings, nouns)
        return missing

    def build_cohort(
        self, parts: UnfilteredCohort, clean: BoolArray, unit: Unit
    ) -> Cohort:
        """Build the cohort of the rows in a mask (N,), sorted by ID and session."""
        ids, sessions = parts.people.ids, parts.table.sessions
        frames = _list_frames(parts)
        texts = parts.covariates.select_dtypes("category").columns
        frames[2] = parts.covariates.astype(dict.fromkeys(texts, "object"))
        if sessions is not None or not clean.all() or any(map(gt, ids, ids[1:])):
            order = sort_keys(list(zip(ids, sessions or ids, strict=True)))
            rows = order[clean[order]]
            frames = [frame.iloc[rows].reset_index(drop=True) for frame in frames]
        return _make_cohort(parts, frames, unit)

    def check_values(
        self, parts: UnfilteredCohort, findings: Findings
    ) -> tuple[UnfilteredCohort, dict[str, Unit], Unit]:
        """Check the values of the regions, and which covariates they are adjusted for;
        return the unit of each kind of measure, and that of all.
        """
        units = _check_values(parts, self.request.options.measure, findings)
        unit = values.combine_units(units)
        return _check_adjustment(parts, self.request, unit, self.findings), units, unit

    def search_rows(
        self, parts: UnfilteredCohort, unit: Unit, findings: Findings
    ) -> BlockTable | None:
        """Search for equal rows, and for blocks of rows that look wrong."""
        values.warn_equal_rows(parts.regions, parts.table.keys(), findings)
        if not self.request.find_groups or not self.request.searches_blocks:
            return None
        return report_blocks(parts, unit, self.request.options.on_suspect, findings)

    def compare_groups(
        self,
        parts: UnfilteredCohort,
        groups: participants.GroupLabels,
        clean: BoolArray,
        roles: ColumnRoles,
    ) -> None:
        """Check whether the groups differ in sex, age or site."""
        first_scans = _select_first_scans(clean, parts.table.ids)
        participants.check_sexes(parts.people, groups, first_scans, roles)
        participants.check_ages(parts.people, groups, first_scans)
        participants.check_shared_sites(
            parts.people, groups, parts.sites, self.request.roles.site == NO_COLUMN
        )

    def check_anyone_is_left(self, clean: BoolArray, findings: Findings) -> None:
        """Refuse a table of which nobody can be used."""
        if not clean.any():
            findings.error(
                ProblemCode.NO_ONE_LEFT,
                "no one is left",
                "The notes say who was left out and why",
            )


@dataclass
class _FirstRows(_WholeTable):
    """Validation of the first rows of a file.

    Names that are not found may be in other rows, and what concerns all rows is checked
    elsewhere.

    Attributes
    ----------
    table : Table
        The first rows.
    """

    table: Table

    def read_table(self) -> Table:
        """Return the rows, which were read already."""
        return self.table

    def report_excluded(
        self, table: Table, found: set[str], absent: Sequence[str]
    ) -> None:
        """Say nothing: the others may hold those who are absent."""

    def list_unused_columns(
        self, parts: UnfilteredCohort, roles: ColumnRoles
    ) -> dict[str, tuple[str, ...]]:
        """Return none."""
        return {}

    def report_left_out_sites(
        self, parts: UnfilteredCohort, present: list[str], n_people: int
    ) -> None:
        """Refuse names of sites where there are no sites at all."""
        if parts.sites is None:
            names = self.request.options.leave_out_sites
            _report_unknown_sites(names, present, parts.people.findings)

    def build_cohort(
        self, parts: UnfilteredCohort, clean: BoolArray, unit: Unit
    ) -> Cohort:
        """Build the cohort of the rows in a mask (N,), in their order."""
        frames = _list_frames(parts)
        if not clean.all():
            frames = [frame[clean].reset_index(drop=True) for frame in frames]
        return _make_cohort(parts, frames, unit)

    def search_rows(
        self, parts: UnfilteredCohort, unit: Unit, findings: Findings
    ) -> BlockTable | None:
        """Search for nothing: for all chunks together this is done in the end."""
        return None

    def compare_groups(
        self,
        parts: UnfilteredCohort,
        groups: participants.GroupLabels,
        clean: BoolArray,
        roles: ColumnRoles,
    ) -> None:
        """Compare nothing: a part of the rows is no sample of the groups."""


@dataclass
class _LaterRows(_FirstRows):
    """Validation of further rows of a file, with the unit, participants and kinds of
    covariates of the first ones.

    Attributes
    ----------
    first : ValidationResult
        Result for the first rows.
    """

    first: ValidationResult

    def known_people(self) -> _KnownPeople:
        """Return what is known from the first rows."""
        covariates = self.first.cohort_or_raise().covariates
        return _KnownPeople(self.first.participants, covariates)

    def find_missing_regions(
        self, parts: UnfilteredCohort, findings: Findings
    ) -> pd.DataFrame:
        """Return which regions people lack (N, R), also those that nobody has."""
        return regions.find_missing_regions(parts)

    def check_values(
        self, parts: UnfilteredCohort, findings: Findings
    ) -> tuple[UnfilteredCohort, dict[str, Unit], Unit]:
        """Check the values of the regions in the unit of the first rows."""
        unit = Unit(self.first.unit or Unit.UNKNOWN)
        values.check_cells(
            parts.regions, parts.ranges, parts.people.ids, unit, findings
        )
        return parts, {}, unit

    def check_anyone_is_left(self, clean: BoolArray, findings: Findings) -> None:
        """Accept that nobody is left: others are in other rows."""


def _select_first_scans(keep: BoolArray, ids: Sequence[str]) -> BoolArray:
    """Return the mask (N,) of the first row of each person, of those in a mask (N,)."""
    rows = np.flatnonzero(keep)
    is_first = ~pd.Series(np.asarray(ids, dtype=object)[rows]).duplicated().to_numpy(
        dtype=bool
    )
    first = np.zeros_like(keep)
    first[rows[is_first]] = True
    return first


def _take_labelled_people(parts: UnfilteredCohort) -> UnfilteredCohort:
    """Return controls, patients and people without a label; people of other groups are
    left out, so their values are not checked.
    """
    if parts.groups is None:
        return parts
    return parts.take(parts.groups.labels.notna().to_numpy() | parts.groups.unlabelled)


def _get_nouns(parts: UnfilteredCohort, request: TableRequest) -> Nouns:
    """Return the nouns of messages about a table."""
    is_any = holds_features(parts.table.layout, request.options.measure)
    return get_nouns(Unit.ANY if is_any else None)


def _empty_missing_codes(
    parts: UnfilteredCohort, request: TableRequest, findings: Findings
) -> UnfilteredCohort:
    """Return the table without values that stand for missing ones."""
    suspects = may_hold_codes(parts.ranges.low, parts.ranges.high)
    if request.options.missing_codes == NO_CODES or not suspects.any():
        return parts
    emptied = report_codes(parts.regions.loc[:, suspects], findings)
    if not emptied:
        return parts
    return replace(parts, regions=parts.regions.assign(**emptied))


def _report_unknown_sites(
    names: Sequence[str], present: list[str], findings: Findings
) -> None:
    """Report the first name of a site to leave out that is not there."""
    unknown = [name for name in names if name not in present]
    if not unknown:
        return
    what, name = f"there is no site '{unknown[0]}' to leave out", unknown[0]
    if present:
        findings.misspelt(ProblemCode.UNKNOWN_SITE, what, name, present)
    else:
        cure = "Name the column: --site COLUMN"
        findings.error(ProblemCode.UNKNOWN_SITE, what, cure, subject=name)


def report_unknown_people(
    names: Sequence[str], findings: Findings, ids: Sequence[str] = ()
) -> None:
    """Report ids of people to leave out that nobody has; ``ids`` are those that there
    are.
    """
    what = f"{format_count(len(names), 'id')} to leave out that nobody has"
    cure = (
        capitalise_first(did_you_mean(names[0], ids))
        if ids
        else "Give ids as the table spells them"
    )
    findings.error(ProblemCode.UNKNOWN_PERSON, what, cure, offenders=names)


def _list_positive_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns of covariates that are never 0, such as age."""
    return [name for name in frame.columns if column_names.is_positive_covariate(name)]


def _mask_codes(table: Table, request: TableRequest) -> Table:
    """Return a table with codes for missing, such as -9999, as missing."""
    names = *find_id_columns(table.frame, table.id_column), table.session_column
    positive = _list_positive_columns(table.frame)
    positive += [*table.layout.regions, *filter(None, [table.layout.icv])]
    codes = request.options.missing_codes
    return replace(table, frame=mask_missing_codes(table.frame, codes, names, positive))


def _report_unknown_columns(
    roles: ColumnRoles,
    table: Table,
    people: participants.JoinedParticipants,
    findings: Findings,
) -> None:
    """Report columns of ids and sessions that were named and that no table has."""
    frames = people.frame, table.frame
    for option, name in (("id", roles.id), ("session", roles.session)):
        if name and not any(find_id_columns(frame, name) for frame in frames):
            columns = [column for frame in frames for column in frame.columns]
            what = f"there is no column '{name}' for --{option}"
            findings.misspelt(ProblemCode.UNKNOWN_COLUMN, what, name, columns)


def _read_unfiltered_cohort(
    request: TableRequest,
    findings: Findings,
    table: Table,
    known: _KnownPeople,
) -> tuple[UnfilteredCohort, ColumnRoles]:
    """Return the content of the tables, and the columns as they were named or
    recognised.
    """
    table = _mask_codes(table, request)
    people = participants.join_participants(
        table, request.participants, request.roles, findings, known.participants
    )
    frame = mask_missing_codes(
        people.frame,
        request.options.missing_codes,
        zero_columns=_list_positive_columns(people.frame),
    )
    people = replace(people, frame=frame)
    of_table = findings.at(table.where)
    _report_unknown_columns(request.roles, table, people, of_table)
    numbers = regions.read_region_values(table, request.options.exclude, of_table)
    icv = regions.select_icv(table, people)
    options = request.options
    is_adjusted = options.measure != "thickness" and not holds_features(
        table.layout, options.measure
    )
    has_icv = icv is not None and is_adjusted
    roles = participants.resolve_roles(
        people, request.roles, table.layout, has_icv, not request.model_regions
    )
    is_number = pd.api.types.is_numeric_dtype
    kinds = {str(name): is_number(each) for name, each in known.covariates.items()}
    names = roles.covariates or ()
    covariates = participants.read_covariates(people, names, icv, kinds)
    groups = None
    if request.find_groups:
        is_surrealgan = table.layout.format == "surrealgan"
        labels = options.controls, options.patients
        name = request.roles.group
        groups = participants.read_groups(people, name, *labels, is_surrealgan)
    return UnfilteredCohort(
        table=table,
        people=people,
        regions=numbers,
        covariates=covariates,
        groups=groups,
        sites=participants.read_sites(people, roles),
        icv=icv,
        positions=np.arange(len(numbers)),
    ), roles


def _check_values(
    parts: UnfilteredCohort, measure: str | None, findings: Findings
) -> dict[str, Unit]:
    """Check the values of the regions, and return the unit of each kind of measure."""
    layout = parts.table.layout
    if holds_features(layout, measure):
        return values.check_features(parts.regions, parts.ranges, findings)
    kinds = {name: layout.measure_of(name) for name in parts.regions.columns}
    measures = values.check_measures(kinds, measure, findings)
    return values.check_regions(
        parts.regions, parts.ranges, parts.people.ids, measures, findings
    )


def _check_sessions(
    parts: UnfilteredCohort, request: TableRequest, findings: Findings
) -> None:
    """Warn of people with several scans, and check whether they can be of
    one person.
    """
    n_people, n_scans = len(set(parts.people.ids)), len(parts.people.ids)
    if n_people < n_scans:
        what = f"{n_people:,} people have {n_scans:,} scans: repeated scans of a person are not independent"
        findings.warn(
            ProblemCode.REPEATED_SCANS, what, "For training keep one scan a person"
        )
    if request.find_groups:
        if n_people < n_scans and request.roles.session is None:
            what = f"visits of a person are told apart by {parts.table.session_column or 'the id'}"
            findings.note(ProblemCode.SESSIONS_USED, what, "If not: --session COLUMN")
        check_visits(parts.table, parts.people.frame, findings)


def _check_adjustment(
    parts: UnfilteredCohort, request: TableRequest, unit: Unit, findings: Findings
) -> UnfilteredCohort:
    """Say which recognised covariates are adjusted for; not head size, if the values
    are divided by it.
    """
    covariates = parts.covariates
    if request.roles.covariates is None:
        if unit is Unit.NORMALISED and "icv" in covariates:
            covariates = covariates.drop(columns="icv")
        what = f"adjusted for {join_names(covariates.columns)}, recognised by name"
        cure = "To choose: --covariates NAMES, or --covariates none"
        if not len(covariates.columns):
            what = "nothing is adjusted for: no column of age, sex or head size was recognised"
            cure = "To adjust: --covariates NAMES"
        parts.people.findings.note(ProblemCode.COVARIATES_USED, what, cure)
    of_table = findings.at(parts.table.where)
    if unit is Unit.STANDARDISED and len(covariates.columns):
        what = f"standardised values are adjusted for {join_names(covariates.columns)}"
        cure = "If a normative model has removed this already: --covariates none"
        of_table.note(ProblemCode.ADJUSTED_TWICE, what, cure)
    has_other_head_size = any(map(is_brain_volume, covariates))
    if parts.icv is not None and (
        "icv" in covariates or (request.find_groups and not has_other_head_size)
    ):
        names, is_recognised = (
            list(covariates.columns),
            request.roles.covariates is None,
        )
        regions.check_head_sizes(
            parts.icv, parts.table, parts.regions, of_table, names, is_recognised
        )
    return replace(parts, covariates=covariates)


def _check_groups(
    parts: UnfilteredCohort, keep: BoolArray, unit: Unit, findings: Findings
) -> None:
    assert parts.groups is not None
    for name in (CONTROL, PATIENT):
        if not (parts.groups.rows(name) & keep).any() and not findings.errors():
            cure = "See the notes: they lack a value that is needed"
            parts.people.findings.error(
                ProblemCode.EMPTY_GROUP, f"no {name} is left", cure, subject=name
            )
    controls, of_table = (
        parts.regions.to_numpy()[parts.groups.rows(CONTROL) & keep],
        findings.at(parts.table.where),
    )
    values.check_constant(
        controls, list(parts.regions.columns), of_table, get_nouns(unit)
    )


def _describe_parts(
    parts: UnfilteredCohort, keep: BoolArray, unit: Unit
) -> ValidationResult:
    """Return what the tables hold, of the people in a mask (N,)."""
    layout, groups, covariates = parts.table.layout, parts.groups, parts.covariates
    kinds = {
        name: "number"
        if pd.api.types.is_numeric_dtype(column)
        else f"{column.nunique()} categories"
        for name, column in covariates.items()
    }
    measures = Counter(
        "any" if unit is Unit.ANY else layout.measure_of(region)
        for region in parts.regions
    )
    return ValidationResult(
        problems=(),
        format=layout.format,
        people=int(keep.sum()),
        controls=None if groups is None else int((groups.rows(CONTROL) & keep).sum()),
        patients=None if groups is None else int((groups.rows(PATIENT) & keep).sum()),
        regions=parts.regions.shape[1],
        sites=None if parts.sites is None else int(parts.sites[keep].nunique()),
        covariates=tuple(covariates.columns),
        kinds=kinds,
        region_names=tuple(parts.regions.columns.tolist()),
        icv=layout.icv,
        unit=str(unit),
        aside={why: len(columns) for why, columns in layout.aside.items()},
        measures=dict(measures.most_common()),
        participants=parts.people.participants,
        keys=tuple(parts.table.keys(ids=parts.people.get_participant_ids())),
    )


def _list_frames(parts: UnfilteredCohort) -> list[pd.DataFrame]:
    """Return regions, people and covariates as a cohort holds them."""
    labels = None if parts.groups is None else parts.groups.labels.to_numpy()
    sites = None if parts.sites is None else parts.sites.to_numpy()
    columns = {
        ID: parts.people.ids,
        SESSION: parts.table.sessions,
        GROUP: labels,
        SITE: sites,
    }
    people = pd.DataFrame(
        {name: values for name, values in columns.items() if values is not None}
    )
    return [parts.regions, people, parts.covariates]


def _make_cohort(
    parts: UnfilteredCohort, frames: list[pd.DataFrame], unit: Unit
) -> Cohort:
    """Make a cohort of regions, people and covariates."""
    volumes, people, covariates = frames
    return Cohort(
        volumes=volumes,
        people=people,
        covariates=covariates,
        source=parts.table.layout.format,
        unit=str(unit),
    )

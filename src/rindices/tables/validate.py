"""Read and validate tables, once and in one pass; the rest of the package trusts the cohort."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import gt
from pathlib import Path

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
from rindices.tables.checks.block_table import BlockTable
from rindices.tables.checks.report import SUSPECT_CODES, report_blocks
from rindices.tables.cohort import GROUP, ID, SESSION, SITE, Cohort, check_visits, sort_keys
from rindices.tables.io.frames import MemoryTable
from rindices.tables.layout import formats
from rindices.tables.layout.formats import holds_features, select_columns
from rindices.tables.layout.freesurfer import is_brain_volume
from rindices.tables.regions import OnMissing, UnfilteredCohort
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
from rindices.tables.validation import values
from rindices.tables.validation.groups import CONTROL, PATIENT
from rindices.tables.validation.ids import match_ids
from rindices.tables.validation.missing_codes import NO_CODES, mask_missing_codes, may_hold_codes, report_codes
from rindices.tables.validation.values import ALL_MEASURES, MEASURES, Unit
from rindices.wording import get_wording

_MAX_EXCLUDED = 5
"""Largest number of people whom a message offers to leave out."""
_EXCLUDE_OPTION = "--exclude-people"
_CURED_BY_EXCLUSION = parse_codes(
    "impossible_values not_a_number negative_values zero_volumes mixed_units missing_values contradictory_visits "
    "small_head_sizes unknown_category infinite_values suspect_rows"
)


@dataclass(frozen=True)
class TableRequest:
    """The tables to read and the options for reading them, see `rindices.read_cohort`.

    on_suspect: what to do with blocks that look wrong: ``error`` or ``keep``; None not to search them.
    can_exclude_people: whether the user can name people to leave out, so that messages may offer it.
    """

    volumes: tuple[Path | MemoryTable, ...]
    participants: Path | MemoryTable | None
    roles: ColumnRoles
    controls: tuple[str, ...] = ()
    patients: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    measure: str | None = None
    on_missing: str = "report"
    find_groups: bool = True
    include: tuple[str, ...] = ()
    missing_codes: tuple[str, ...] = ()
    model_regions: tuple[str, ...] = ()
    impute_covariates: bool = False
    leave_out_sites: tuple[str, ...] = ()
    exclude_people: tuple[str, ...] = ()
    on_outlier: str | None = None
    on_suspect: str | None = None
    can_exclude_people: bool = False


@dataclass(frozen=True)
class ValidationResult:
    """Content of a table and its problems.

    cohort: none if there is an error; people, controls, patients, regions, sites: their numbers; None if unknown;
    covariates: the covariates that are adjusted for; roles: the columns as they were named or recognised; icv: column
    of the intracranial volume; aside: number of columns that are not used, by reason; measures: number of regions of
    each kind of measure: volume, thickness or area; units: unit of each kind of measure; kinds: whether each named
    covariate is a number or has categories, in words; participants: the table that the people were joined with; keys:
    (N,) unique key of each row, made of participant and session; comparable between chunks of a table; left_out: the
    names that were found, of those of the people and sites to leave out; blocks: the table after the search of its
    blocks; unused: names of the columns that are not used, by reason.
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
            raise TableError(problem for problem in self.problems if problem.severity is Severity.ERROR)
        return self.cohort


def offer_exclusion(problem: Problem) -> Problem:
    """Return a problem with the option that leaves its people out, where it is about few people and may be cured so."""
    people = problem.offenders
    is_about_few = problem.offender_kind is OffenderKind.PARTICIPANT and 0 < len(people) <= _MAX_EXCLUDED
    if not problem.cure or not is_about_few or problem.code not in _CURED_BY_EXCLUSION:
        return problem
    whom = "this person" if len(people) == 1 else "these people"
    option = f"To leave {whom} out: {_EXCLUDE_OPTION} {shlex.quote(','.join(people))}"
    return replace(problem, exclusion=option)


def validate_table(
    request: TableRequest, chunk: Table | None = None, first: ValidationResult | None = None
) -> ValidationResult:
    """Read and validate tables.

    chunk: rows of a table that were read already. Its people stay in the order of the rows; first: validation of the
    first chunk, from which the unit, the kinds of the covariates and the participants are known for later ones. Returns
    with all problems; none is raised.
    """
    result = _validate_table(request, chunk, first)
    if not request.can_exclude_people:
        return result
    return replace(result, problems=tuple(offer_exclusion(problem) for problem in result.problems))


def _validate_table(request: TableRequest, chunk: Table | None, first: ValidationResult | None) -> ValidationResult:
    """Return `validate_table` without offers to leave people out."""
    findings = Findings()
    try:
        for name, value, options in (
            ("on_missing", request.on_missing, list(OnMissing)),
            ("measure", request.measure, (*MEASURES, ALL_MEASURES)),
            ("on_suspect", request.on_suspect, ("error", "keep")),
        ):
            if value not in options and (value is not None or name == "on_missing"):
                cure = capitalise_first(did_you_mean(str(value), options))
                findings.fatal(ProblemCode.UNKNOWN_OPTION, f"{name} = '{value}' is not known", cure, subject=name)
        table = _read_regions(request, findings) if chunk is None else chunk
        table, excluded = _exclude_people(table, request.exclude_people, findings, is_chunk=chunk is not None)
        parts, roles = _read_unfiltered_cohort(request, findings, table, first)
    except TableError as error:  # its problems may not be among the findings: of a file that could not be read
        return ValidationResult(tuple(dict.fromkeys([*findings, *error.problems])))
    of_table = findings.at(parts.table.where)
    unused = {} if chunk is not None else list_unused_columns(parts, roles, request.roles.group, findings)
    policy = OnMissing(request.on_missing)
    left_out = list(excluded)
    if request.leave_out_sites:
        others, sites = _find_other_sites(parts, request.leave_out_sites, is_chunk=chunk is not None)
        parts, left_out = parts.take(others), left_out + sites
    if parts.groups is not None:  # people of other groups are left out, so their values are not checked
        parts = parts.take(parts.groups.labels.notna().to_numpy() | parts.groups.unlabelled)
    word = get_wording(Unit.ANY if holds_features(parts.table.layout, request.measure) else None)
    lacking, unusable = regions.find_incomplete_rows(
        parts, policy, request.impute_covariates, findings, first is None, word
    )
    suspects = may_hold_codes(parts.ranges.low, parts.ranges.high)
    if tuple(request.missing_codes) != NO_CODES and suspects.any():
        emptied = report_codes(parts.regions.loc[:, suspects], of_table)
        parts = replace(parts, regions=parts.regions.assign(**emptied)) if emptied else parts
    if first is None:
        units = _check_values(parts, request.measure, of_table)
        unit = values.combine_units(units)
        parts = _check_adjustment(parts, request, unit, findings)
    else:
        units, unit = {}, Unit(first.unit or Unit.UNKNOWN)
        values.check_cells(parts.regions, parts.ranges, parts.people.ids, unit, of_table)
    keep = ~lacking if policy in (OnMissing.DROP, OnMissing.MODEL) else ~unusable
    if parts.table.sessions is not None:
        _check_sessions(parts, request, of_table)
    if chunk is None:  # for all chunks together this is done in the end
        values.warn_equal_rows(parts.regions, parts.table.keys(), of_table)
    clean, blocks = keep & ~lacking, None
    if chunk is None and request.find_groups and request.on_suspect is not None:
        blocks = report_blocks(parts, unit, request.on_suspect, of_table)
    if parts.groups is not None:
        _check_groups(parts, clean, unit, findings)
    if parts.groups is not None and chunk is None:
        first_scans = _select_first_scans(clean, parts.table.ids)
        participants.check_sexes(parts.people, parts.groups, first_scans, roles)
        participants.check_ages(parts.people, parts.groups, first_scans)
        participants.check_shared_sites(parts.people, parts.groups, parts.sites, request.roles.site == NO_COLUMN)
    if not clean.any() and first is None:
        of_table.error(ProblemCode.NO_ONE_LEFT, "no one is left", "The notes say who was left out and why")
    cohort = None
    if not findings.errors():
        doubted = tuple(problem for problem in findings if problem.code in SUSPECT_CODES)
        cohort = replace(_build_cohort(parts, clean, unit, sort=chunk is None), suspicions=doubted)
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


def _read_regions(request: TableRequest, findings: Findings) -> Table:
    """Read the tables of regions, with the selected columns."""
    table = read_region_tables(request.volumes, request.roles, findings)
    wanted = (request.include, request.measure, request.model_regions)
    return replace(table, layout=select_columns(table.layout, *wanted, findings.at(table.where)))


def _select_first_scans(keep: BoolArray, ids: Sequence[str]) -> BoolArray:
    """Return the mask (N,) of the first row of each person, of those in a mask (N,)."""
    rows = np.flatnonzero(keep)
    is_first = ~pd.Series(np.asarray(ids, dtype=object)[rows]).duplicated().to_numpy(dtype=bool)
    first = np.zeros_like(keep)
    first[rows[is_first]] = True
    return first


def _exclude_people(table: Table, names: Sequence[str], findings: Findings, is_chunk: bool) -> tuple[Table, list[str]]:
    """Return the rows of all other people than those with these ids, and the ids that were found.

    An id that nobody has is an error, unless the table is a chunk, whose others may hold it.
    """
    if not names:
        return table, []
    of_table, matches = findings.at(table.where), match_ids(names, table.ids)
    unknown = [] if is_chunk else [name for name in names if name not in matches.pairs]
    if unknown:
        report_unknown_people(unknown, of_table, table.ids)
    found = set(matches.pairs.values())
    keep = np.array([name not in found for name in table.ids], dtype=bool)
    if found and not is_chunk:
        what = f"{format_count(len(found), 'person', 'people')} left out, as asked"
        of_table.note(ProblemCode.PEOPLE_LEFT_OUT, what, offenders=sorted(found))
    return (table if keep.all() else take_people(table, keep)), list(matches.pairs)


def report_unknown_people(names: Sequence[str], findings: Findings, ids: Sequence[str] = ()) -> None:
    """Report ids of people to leave out that nobody has; ``ids`` are those that there are."""
    what = f"{format_count(len(names), 'id')} to leave out that nobody has"
    cure = capitalise_first(did_you_mean(names[0], ids)) if ids else "Give ids as the table spells them"
    findings.error(ProblemCode.UNKNOWN_PERSON, what, cure, offenders=names)


def _read_unfiltered_cohort(
    request: TableRequest, findings: Findings, table: Table, first: ValidationResult | None
) -> tuple[UnfilteredCohort, ColumnRoles]:
    """Return the content of the tables, and the columns as they were named or recognised."""
    codes, names = request.missing_codes, (*find_id_columns(table.frame, table.id_column), table.session_column)
    positive = [name for name in table.frame.columns if formats.is_positive_covariate(name)]
    positive += [*table.layout.regions, *([table.layout.icv] if table.layout.icv else [])]
    table = replace(table, frame=mask_missing_codes(table.frame, codes, names, positive))
    participant_table = None if first is None else first.participants
    people = participants.join_participants(table, request.participants, request.roles, findings, participant_table)
    positive = [name for name in people.frame.columns if formats.is_positive_covariate(name)]
    people = replace(people, frame=mask_missing_codes(people.frame, codes, zero_columns=positive))
    of_table = findings.at(table.where)
    for option, name in (("id", request.roles.id), ("session", request.roles.session)):
        if name and not find_id_columns(table.frame, name) and not find_id_columns(people.frame, name):
            columns = [*people.frame.columns, *table.frame.columns]
            what = f"there is no column '{name}' for --{option}"
            of_table.misspelt(ProblemCode.UNKNOWN_COLUMN, what, name, columns)
    numbers = regions.read_region_values(table, request.exclude, of_table)
    icv = regions.select_icv(table, people)
    has_icv = icv is not None and request.measure != "thickness" and not holds_features(table.layout, request.measure)
    roles = participants.resolve_roles(people, request.roles, table.layout, has_icv, not request.model_regions)
    known = pd.DataFrame() if first is None else first.cohort_or_raise().covariates
    kinds = {str(name): pd.api.types.is_numeric_dtype(values) for name, values in known.items()}
    covariates = participants.read_covariates(people, roles.covariates or (), icv, kinds)
    groups = None
    if request.find_groups:
        labels, is_surrealgan = (request.controls, request.patients), table.layout.format == "surrealgan"
        groups = participants.read_groups(people, request.roles.group, *labels, is_surrealgan)
    sites = participants.read_sites(people, roles)
    positions = np.arange(len(numbers))
    return UnfilteredCohort(table, people, numbers, covariates, groups, sites, icv, positions), roles


def _find_other_sites(parts: UnfilteredCohort, names: Sequence[str], is_chunk: bool) -> tuple[BoolArray, list[str]]:
    """Return the people (N,) of all other sites than those with these names, and the names that were found.

    A site that is not there is an error, unless the table is a chunk, whose others may hold it.
    """
    findings = parts.people.findings
    sites = pd.Series(dtype="object", index=parts.regions.index) if parts.sites is None else parts.sites
    present = sorted(sites.dropna().unique())
    unknown = [] if is_chunk and parts.sites is not None else [name for name in names if name not in present]
    if unknown:
        what, name = f"there is no site '{unknown[0]}' to leave out", unknown[0]
        if present:
            findings.misspelt(ProblemCode.UNKNOWN_SITE, what, name, present)
        else:
            findings.error(ProblemCode.UNKNOWN_SITE, what, "Name the column: --site COLUMN", subject=name)
    is_left_out: BoolArray = sites.isin(names).to_numpy(dtype=bool)
    if not is_chunk:
        people = format_count(int(is_left_out.sum()), "person", "people")
        what = f"{people} of {format_count(len(names), 'site')} left out"
        findings.note(ProblemCode.SITES_LEFT_OUT, what, offenders=names, offender_kind=OffenderKind.SITE)
    return ~is_left_out, [name for name in names if name in present]


def _check_values(parts: UnfilteredCohort, measure: str | None, findings: Findings) -> dict[str, Unit]:
    """Check the values of the regions, and return the unit of each kind of measure."""
    layout = parts.table.layout
    if holds_features(layout, measure):
        return values.check_features(parts.regions, parts.ranges, findings)
    kinds = {name: layout.measure_of(name) for name in parts.regions.columns}
    measures = values.check_measures(kinds, measure, findings)
    return values.check_regions(parts.regions, parts.ranges, parts.people.ids, measures, findings)


def _check_sessions(parts: UnfilteredCohort, request: TableRequest, findings: Findings) -> None:
    """Warn of people with several scans, and check whether they can be of one person."""
    n_people, n_scans = len(set(parts.people.ids)), len(parts.people.ids)
    if n_people < n_scans:
        what = f"{n_people:,} people have {n_scans:,} scans: repeated scans of a person are not independent"
        findings.warn(ProblemCode.REPEATED_SCANS, what, "For training keep one scan a person")
    if request.find_groups:
        if n_people < n_scans and request.roles.session is None:
            what = f"visits of a person are told apart by {parts.table.session_column or 'the id'}"
            findings.note(ProblemCode.SESSIONS_USED, what, "If not: --session COLUMN")
        check_visits(parts.table, parts.people.frame, findings)


def _check_adjustment(
    parts: UnfilteredCohort, request: TableRequest, unit: Unit, findings: Findings
) -> UnfilteredCohort:
    """Say which recognised covariates are adjusted for; not head size, if the values are divided by it."""
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
    if parts.icv is not None and ("icv" in covariates or (request.find_groups and not has_other_head_size)):
        names, is_recognised = list(covariates.columns), request.roles.covariates is None
        regions.check_head_sizes(parts.icv, parts.table, parts.regions, of_table, names, is_recognised)
    return replace(parts, covariates=covariates)


def _check_groups(parts: UnfilteredCohort, keep: BoolArray, unit: Unit, findings: Findings) -> None:
    assert parts.groups is not None
    for name in (CONTROL, PATIENT):
        if not (parts.groups.rows(name) & keep).any() and not findings.errors():
            cure = "See the notes: they lack a value that is needed"
            parts.people.findings.error(ProblemCode.EMPTY_GROUP, f"no {name} is left", cure, subject=name)
    controls, of_table = parts.regions.to_numpy()[parts.groups.rows(CONTROL) & keep], findings.at(parts.table.where)
    values.check_constant(controls, list(parts.regions.columns), of_table, get_wording(unit))


def _describe_parts(parts: UnfilteredCohort, keep: BoolArray, unit: Unit) -> ValidationResult:
    """Return what the tables hold, of the people in a mask (N,)."""
    layout, groups, covariates = parts.table.layout, parts.groups, parts.covariates
    kinds = {
        name: "number" if pd.api.types.is_numeric_dtype(column) else f"{column.nunique()} categories"
        for name, column in covariates.items()
    }
    measures = Counter("any" if unit is Unit.ANY else layout.measure_of(region) for region in parts.regions)
    return ValidationResult(
        (),
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


def _build_cohort(parts: UnfilteredCohort, clean: BoolArray, unit: Unit, sort: bool) -> Cohort:
    """Build the cohort of the rows in a mask (N,), sorted by id and session unless they are a chunk."""
    ids, sessions = parts.people.ids, parts.table.sessions
    labels = None if parts.groups is None else parts.groups.labels.to_numpy()
    sites = None if parts.sites is None else parts.sites.to_numpy()
    columns = {ID: ids, SESSION: sessions, GROUP: labels, SITE: sites}
    people = pd.DataFrame({name: values for name, values in columns.items() if values is not None})
    frames = [parts.regions, people, parts.covariates]
    if not sort:
        frames = frames if clean.all() else [frame[clean].reset_index(drop=True) for frame in frames]
    else:
        texts = parts.covariates.select_dtypes("category").columns
        frames[2] = parts.covariates.astype(dict.fromkeys(texts, "object"))
        if sessions is not None or not clean.all() or any(map(gt, ids, ids[1:])):
            order = sort_keys(list(zip(ids, sessions or ids, strict=True)))
            frames = [frame.iloc[order[clean[order]]].reset_index(drop=True) for frame in frames]
    return Cohort(frames[0], frames[1], frames[2], source=parts.table.layout.format, unit=str(unit))

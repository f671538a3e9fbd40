"""Columns that are not used, by reason, so that none vanishes without a line."""

from rindices.errors import Findings, OffenderKind, ProblemCode, format_count
from rindices.tables.io.frames import normalise_column_name
from rindices.tables.layout import NAMES, formats
from rindices.tables.regions import UnfilteredCohort
from rindices.tables.table import ColumnRoles, find_id_columns, split_id_columns

ABOUT_PEOPLE = "about people"
"""Reason of columns that tell something about people, which nobody asked for."""


def list_unused_columns(
    parts: UnfilteredCohort, roles: ColumnRoles, group: str | None, findings: Findings
) -> dict[str, tuple[str, ...]]:
    """Return the columns that are not used by reason, and note those about people.

    parts: content of the tables; roles: columns that are used; group: column of the groups, if the user named one;
    findings: takes the notes.
    """
    layout, people = parts.table.layout, parts.people
    unused = {NAMES["reasons"].get(why, why): tuple(names) for why, names in layout.aside.items()}
    guessed = formats.find_column(people.frame.columns, formats.GROUP_NAMES) if parts.groups is not None else None
    used = [*split_id_columns(roles.id), *split_id_columns(roles.participants_id), roles.session, group or guessed]
    used += [roles.site, *(roles.covariates or ()), parts.table.session_column, *parts.table.layout.regions]
    used += find_id_columns(parts.table.frame, parts.table.id_column)
    if people.participants is not None:
        joined = people.participants.table
        used += [*find_id_columns(joined.frame, joined.id_column), joined.session_column]
    names = {normalise_column_name(name) for name in used if name}
    if "icv" in (roles.covariates or ()):
        names |= {normalise_column_name(name) for name in people.frame if parts.icv is people.frame[name]}
    others = tuple(str(name) for name in people.frame if normalise_column_name(str(name)) not in names)
    if others:
        unused[ABOUT_PEOPLE] = others
        what = f"{format_count(len(others), 'column about people is', 'columns about people are')} not used"
        cure = "To adjust for some: --covariates NAMES. To use some as regions: --include NAMES"
        kind = OffenderKind.COLUMN
        people.findings.note(ProblemCode.COLUMNS_NOT_USED, what, cure, offenders=others, offender_kind=kind)
    return unused

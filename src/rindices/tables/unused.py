"""Columns that are not used, by reason, so that none vanishes without a line."""

from rindices.errors import Findings, OffenderKind, ProblemCode, format_count
from rindices.tables.layouts import NAMES, column_names
from rindices.tables.regions import UnfilteredCohort
from rindices.tables.sources.frames import normalise_column_name
from rindices.tables.table import ColumnRoles, find_id_columns, split_id_columns

ABOUT_PEOPLE = "about people"
"""Reason of columns that tell something about people, which nobody asked for."""


def list_unused_columns(
    parts: UnfilteredCohort, roles: ColumnRoles, group: str | None, findings: Findings
) -> dict[str, tuple[str, ...]]:
    """Return the columns that are not used by reason, and note those about people.

    Parameters
    ----------
    parts : UnfilteredCohort
        Content of the tables.
    roles : ColumnRoles
        Columns that are used.
    group : str or None
        Column of the groups, if the user named one.
    findings : Findings
        Collects the notes.
    """
    layout, people = parts.table.layout, parts.people
    unused = {
        NAMES["reasons"].get(why, why): tuple(names)
        for why, names in layout.aside.items()
    }
    names = _name_used_columns(parts, roles, group)
    others = tuple(
        str(name)
        for name in people.frame
        if normalise_column_name(str(name)) not in names
    )
    if others:
        unused[ABOUT_PEOPLE] = others
        what = f"{format_count(len(others), 'column about people is', 'columns about people are')} not used"
        cure = "To adjust for some: --covariates NAMES. To use some as regions: --include NAMES"
        people.findings.note(
            ProblemCode.COLUMNS_NOT_USED,
            what,
            cure,
            offenders=others,
            offender_kind=OffenderKind.COLUMN,
        )
    return unused


def _name_used_columns(
    parts: UnfilteredCohort, roles: ColumnRoles, group: str | None
) -> set[str]:
    """Return the normalised names of the columns that are used."""
    layout, people, table = parts.table.layout, parts.people, parts.table
    if not group and parts.groups is not None:
        group = column_names.find_column(people.frame.columns, column_names.GROUP_NAMES)
    used = [
        *split_id_columns(roles.id),
        *split_id_columns(roles.participants_id),
        roles.session,
        group,
        roles.site,
        *(roles.covariates or ()),
        table.session_column,
        *layout.regions,
        *(name for names in layout.aside.values() for name in names),
        *find_id_columns(table.frame, table.id_column),
    ]
    if people.participants is not None:
        joined = people.participants.table
        used += find_id_columns(joined.frame, joined.id_column)
        used.append(joined.session_column)
    if "icv" in (roles.covariates or ()):
        used += [name for name in people.frame if parts.icv is people.frame[name]]
    return {normalise_column_name(name) for name in used if name}

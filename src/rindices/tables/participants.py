"""What is known about the people: participants joined by id, their groups, sites and covariates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    ProblemDetails,
    capitalise_first,
    did_you_mean,
    format_count,
    join_names,
)
from rindices.tables.io.text import to_text
from rindices.tables.layout import formats
from rindices.tables.table import ColumnRoles, Table, read_participants, report_inexact_matches
from rindices.tables.validation import groups, ids
from rindices.tables.validation.values import as_numbers

MISSING_CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0)
MAX_AGE = 120.0
"""Years."""


@dataclass(frozen=True)
class JoinedParticipants:
    """Everything about the people that is not a region, row by row as in the table of regions.

    Attributes
    ----------
    ids : list of str
    frame : DataFrame
        (N, ...), the participants' columns first.
    unknown : (N,) bool
        People without a row in the table of participants.
    where : str
    participants : Participants or None
        The table they were joined with.
    places : (N,) or None
        Their rows in it, -1 where there is none.
    """

    ids: list[str]
    frame: pd.DataFrame
    unmatched: BoolArray
    where: str
    participants: "ParticipantTable | None" = None
    places: IntArray | None = None

    def take(self, rows: BoolArray) -> "JoinedParticipants":
        """Return some of the people."""
        ids = [name for name, kept in zip(self.ids, rows, strict=True) if kept]
        places = None if self.places is None else self.places[rows]
        frame = self.frame[rows].reset_index(drop=True)
        return JoinedParticipants(ids, frame, self.unmatched[rows], self.where, self.participants, places)

    def find(self, name: str | None) -> str | None:
        """Return the column of this name, in any case."""
        alike = [column for column in self.frame.columns if name and column.lower() == name.lower()]
        return name if name in alike else alike[0] if len(alike) == 1 else None

    def column(self, name: str | None, role: str, findings: Findings) -> str | None:
        """Return a column that the user named; an unknown name is an error with a suggestion."""
        found = self.find(name)
        if name is not None and found is None:
            cure = capitalise_first(did_you_mean(name, list(self.frame.columns)))
            what = f"there is no column '{name}' for the {role}"
            findings.error(ProblemCode.UNKNOWN_COLUMN, what, self.where, cure, subject=name)
        return found


class ParticipantTable:
    """A table of participants, to be joined to one table or to its pieces."""

    def __init__(self, table: Table) -> None:
        self.table = replace(table, frame=table.frame.reset_index(drop=True))
        self.register = ids.IdMatcher(table.ids)
        self._rows: dict[bool, dict[str, int]] = {}

    def rows(self, with_session: bool) -> dict[str, int]:
        """Return the row of each person, or of each session of a person."""
        if with_session not in self._rows:
            self._rows[with_session] = {key: row for row, key in enumerate(self.table.keys(with_session))}
        return self._rows[with_session]


def join_participants(
    table: Table, path: Path | None, roles: ColumnRoles, findings: Findings, known: ParticipantTable | None = None
) -> JoinedParticipants:
    """Join the participants to the rows of the table of regions, by id and, where both have it, session.

    Parameters
    ----------
    known : Participants, optional
        Those of an earlier piece of the same table, so that they are read once.
    """
    own = table.frame[list(dict.fromkeys(table.layout.participant_columns))].reset_index(drop=True)
    if path is None:
        return JoinedParticipants(table.ids, own, np.zeros(len(own), dtype=bool), table.where)
    people = known or ParticipantTable(read_participants(path, roles, table.ids, findings))
    places = _match_participant_rows(table, people, findings, first=known is None)
    unused = len(people.table.ids) - len(set(places[places >= 0]))
    where = people.table.where
    if unused and known is None:
        what = f"{format_count(unused, 'participant is', 'participants are')} not in {table.where}"
        findings.note(ProblemCode.UNUSED_PARTICIPANTS, what, where)
    theirs = people.table.frame.reindex(places).reset_index(drop=True)
    frame = pd.concat([theirs, own[[name for name in own if name not in theirs]]], axis=1)
    return JoinedParticipants(table.ids, frame, places < 0, where, people, places)


def _match_participant_rows(table: Table, known: ParticipantTable, findings: Findings, first: bool) -> IntArray:
    """Return for each row of the table (N,) the row of its participant, -1 where there is none."""
    people = known.table
    matching = known.register.match(table.ids)
    report_inexact_matches(matching, table.where, people.where, findings)
    if not matching.pairs and first:
        findings.fatal(
            ProblemCode.NO_COMMON_IDS,
            f"none of the ids of {table.where} is in {people.where}",
            people.where,
            "Give the participants of these people, or name the id column with --id",
            offenders=table.ids,
            listing=f"{join_names(table.ids, 2)} against {join_names(people.ids, 2)}",
        )
    with_session = table.sessions is not None and people.sessions is not None
    rows = known.rows(with_session)
    if not with_session and len(rows) < len(people.ids):
        findings.fatal(
            ProblemCode.SESSION_UNCLEAR,
            f"{people.where} has several sessions a person, {table.where} does not say which was measured",
            people.where,
            "Add session_id to the table of volumes",
        )
    wanted = table.keys(with_session, [matching.pairs.get(name, "") for name in table.ids])
    return np.array([rows.get(want, -1) for want in wanted], dtype=np.intp)


@dataclass(frozen=True)
class GroupLabels:
    """The groups: ``labels`` is (N,) control, patient or None; ``unlabelled`` is (N,) who has no label at all."""

    labels: pd.Series
    unlabelled: BoolArray

    def take(self, rows: BoolArray) -> "GroupLabels":
        """Return the groups of some people."""
        return GroupLabels(self.labels[rows].reset_index(drop=True), self.unlabelled[rows])

    def rows(self, name: str) -> BoolArray:
        """Return (N,) who is in a group."""
        return np.asarray(self.labels == name, dtype=bool)


def read_groups(
    people: JoinedParticipants, name: str | None, controls: Sequence[str], patients: Sequence[str], findings: Findings
) -> GroupLabels | None:
    """Return who is control and who patient; None where no groups are known."""
    column = people.column(name, "group", findings)
    if name is None:
        column = _guess_group_column(people, bool(controls or patients), findings)
    if column is None:
        return None
    labels = people.frame[column]
    assigned = groups.assign_groups(labels, controls, patients, f"{people.where}, column {column}", findings)
    if assigned is None:
        return None
    unlabelled = np.asarray(to_text(labels).isna(), dtype=bool)
    return GroupLabels(pd.Series(assigned, index=labels.index, dtype="object"), unlabelled)


def _guess_group_column(people: JoinedParticipants, told: bool, findings: Findings) -> str | None:
    """Return a column with a usual name if its labels are unmistakable or were given."""
    columns = people.frame.columns
    found = [name for name in (formats.find_column(columns, [word]) for word in formats.GROUP_NAMES) if name]
    clear = [name for name in found if groups.can_guess_groups(people.frame[name])]
    in_words = [name for name in clear if not formats.is_mostly_numeric(people.frame[name])]
    guess = next(iter([*in_words, *clear, *found]), None)
    if guess is not None and (told or clear):
        what = f"groups are read from column '{guess}'"
        findings.note(ProblemCode.GROUP_COLUMN_GUESSED, what, people.where, subject=guess)
        return guess
    if guess is not None:
        what, cure = f"column '{guess}' may hold the groups", f"Say: --group {guess} --controls LABEL"
        findings.note(ProblemCode.GROUP_COLUMN_POSSIBLE, what, people.where, cure, subject=guess)
    elif told:
        what = "labels were given but no column of groups"
        findings.error(ProblemCode.GROUP_COLUMN_MISSING, what, people.where, "Name it: --group COLUMN")
    else:
        what = "no groups are known; fit needs them"
        findings.note(ProblemCode.NO_GROUPS, what, people.where, "Name the column: --group COLUMN")
    return None


def read_sites(people: JoinedParticipants, roles: ColumnRoles, findings: Findings) -> pd.Series | None:
    """Return the site of each person as text; None where no site was named."""
    column = people.column(roles.site, "site", findings)
    if column is not None:
        return to_text(people.frame[column])
    guess = formats.find_column(people.frame.columns, formats.SITE_NAMES)
    if guess and roles.site is None and guess not in roles.covariates:
        what = f"column '{guess}' may hold the site"
        findings.note(ProblemCode.SITE_COLUMN_POSSIBLE, what, people.where, f"Say so: --site {guess}", subject=guess)
    return None


def read_covariates(
    people: JoinedParticipants,
    names: Sequence[str],
    icv: pd.Series | None,
    findings: Findings,
    kinds: Mapping[str, bool] | None = None,
) -> pd.DataFrame:
    """Return the named covariates (N, C): numbers as floats, everything else as text.

    Parameters
    ----------
    kinds : mapping, optional
        Which are numbers, where the first rows of the table have told.
    """
    known = kinds or {}
    found: dict[str, pd.Series] = {}
    for name in names:
        if name.lower() == "icv" and icv is not None:
            found["icv"] = _convert_covariate("icv", icv.reset_index(drop=True), people, findings, known.get("icv"))
            continue
        column = people.column(name, "covariate", findings)
        if column is not None:
            found[name] = _convert_covariate(name, people.frame[column], people, findings, known.get(name))
    return pd.DataFrame(found, index=people.frame.index)


def _convert_covariate(
    name: str, values: pd.Series, people: JoinedParticipants, findings: Findings, number: bool | None = None
) -> pd.Series:
    """Return one covariate as numbers, or as text where most of it is text or where it names a site."""
    if number is None:
        number = formats.is_mostly_numeric(values) and not formats.find_column([name], formats.SITE_NAMES)
    if not number:
        texts = to_text(values)
        _check_covariate_levels(name, texts, people.where, findings)
        levels = texts.nunique()
        if levels > max(10, len(texts) // 3):
            findings.warn(
                ProblemCode.MANY_CATEGORIES,
                f"covariate {name} has {levels:,} categories for {format_count(len(texts), 'person', 'people')}",
                people.where,
                "Is it a number written as text, or an id?",
                subject=name,
            )
        return texts
    numbers = as_numbers(values.to_frame(name), people.ids, people.where, findings)[name]
    _check_covariate_range(name, numbers, people, findings)
    return numbers


def _check_covariate_levels(name: str, texts: pd.Series, where: str, findings: Findings) -> None:
    """Report categories that are hardly meant as they stand."""
    levels = sorted(map(str, texts.dropna().unique()))
    if formats.find_column([name], formats.AGE_NAMES) and levels:
        findings.error(
            ProblemCode.COVARIATE_IS_TEXT,
            f"covariate {name} is text, not numbers",
            where,
            "Give years as numbers, with a decimal point",
            subject=name,
            offenders=levels,
            offender_kind=OffenderKind.LABEL,
            listing=join_names(levels, 3),
        )
    initials = Counter(level[:1].lower() for level in levels)
    double = [level for level in levels if initials[level[:1].lower()] > 1]
    if double and formats.find_column([name], ("sex", "gender", "handedness")):
        findings.warn(
            ProblemCode.SIMILAR_CATEGORIES,
            f"categories of {name} look like the same ones spelt twice",
            where,
            "Spell them alike",
            subject=name,
            offenders=double,
            offender_kind=OffenderKind.LABEL,
        )


def _check_covariate_range(name: str, numbers: pd.Series, people: JoinedParticipants, findings: Findings) -> None:
    """Report numbers that cannot be meant: infinite ones, ages of nobody, codes for missing, a head of no size."""
    values = numbers.to_numpy(dtype=float)
    median = float(np.nanmedian(values)) if np.isfinite(values).any() else 0.0
    wrong = np.isinf(values)
    with np.errstate(invalid="ignore"):
        if formats.find_column([name], formats.AGE_NAMES):
            wrong |= (values < 0) | (values > MAX_AGE)
        elif name == "icv":
            wrong |= (values <= 0) | (values > 100 * median) | (values < median / 100)
    if wrong.any():
        findings.error(
            ProblemCode.IMPOSSIBLE_VALUES,
            f"covariate {name} cannot be",
            people.where,
            "Mend these cells, empty for missing",
            **_name_cells(name, values, wrong, people),
        )
        return
    codes = np.isin(values, MISSING_CODES)
    others = values[~codes & np.isfinite(values)]
    codes &= np.abs(values - median) > 5 * (others.std() if others.size else np.inf)
    if codes.any():
        findings.warn(
            ProblemCode.CODES_FOR_MISSING,
            f"covariate {name} may hold codes for missing",
            people.where,
            "Empty these cells if so",
            **_name_cells(name, values, codes, people),
        )


def _name_cells(name: str, values: FloatArray, cells: BoolArray, people: JoinedParticipants) -> ProblemDetails:
    """Return the covariate, and the people with the first values, of cells (N,) that are wrong."""
    rows = [int(row) for row in np.flatnonzero(cells)]
    listing = join_names(f"{values[row]:g} for {people.ids[row]}" for row in rows)
    return {"subject": name, "offenders": [people.ids[row] for row in rows], "listing": listing}


def describe_covariate(values: pd.Series) -> str:
    """Return how a covariate is understood."""
    if pd.api.types.is_numeric_dtype(values):
        return "number"
    return f"{values.nunique()} categories"


def suggest_covariates(people: JoinedParticipants, icv: pd.Series | None) -> list[str]:
    """Return the covariates that are there to be named."""
    found = [formats.find_column(people.frame.columns, [name]) for name in formats.AGE_SEX_NAMES]
    return [name for name in found if name] + (["icv"] if icv is not None else [])

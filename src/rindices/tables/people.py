"""What is known about the people: participants joined by id, their groups, sites and covariates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices.errors import Findings, capital, count, did_you_mean, named
from rindices.tables import formats, groups, identity
from rindices.tables.sources import Roles, Table, read_people, say_loose
from rindices.tables.text import to_text
from rindices.tables.values import Rows, as_numbers

Places = NDArray[np.intp]

MISSING_CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0)
OLDEST = 120.0
"""Years."""


@dataclass(frozen=True)
class People:
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
    unknown: Rows
    where: str
    participants: "Participants | None" = None
    places: Places | None = None

    def take(self, rows: Rows) -> "People":
        """Return some of the people."""
        ids = [name for name, kept in zip(self.ids, rows, strict=True) if kept]
        places = None if self.places is None else self.places[rows]
        frame = self.frame[rows].reset_index(drop=True)
        return People(ids, frame, self.unknown[rows], self.where, self.participants, places)

    def find(self, name: str | None) -> str | None:
        """Return the column of this name, in any case."""
        alike = [column for column in self.frame.columns if name and column.lower() == name.lower()]
        return name if name in alike else alike[0] if len(alike) == 1 else None

    def column(self, name: str | None, role: str, findings: Findings) -> str | None:
        """Return a column that the user named; an unknown name is an error with a suggestion."""
        found = self.find(name)
        if name is not None and found is None:
            cure = capital(did_you_mean(name, list(self.frame.columns)))
            findings.error(f"there is no column '{name}' for the {role}", self.where, cure)
        return found


class Participants:
    """A table of participants, to be joined to one table or to its pieces."""

    def __init__(self, table: Table) -> None:
        self.table = replace(table, frame=table.frame.reset_index(drop=True))
        self.register = identity.Register(table.ids)
        self._rows: dict[bool, dict[str, int]] = {}

    def rows(self, with_session: bool) -> dict[str, int]:
        """Return the row of each person, or of each session of a person."""
        if with_session not in self._rows:
            self._rows[with_session] = {key: row for row, key in enumerate(self.table.keys(with_session))}
        return self._rows[with_session]


def join_people(
    table: Table, path: Path | None, roles: Roles, findings: Findings, known: Participants | None = None
) -> People:
    """Join the participants to the rows of the table of regions, by id and, where both have it, session.

    Parameters
    ----------
    known : Participants, optional
        Those of an earlier piece of the same table, so that they are read once.
    """
    own = table.frame[list(dict.fromkeys(table.layout.others))].reset_index(drop=True)
    if path is None:
        return People(table.ids, own, np.zeros(len(own), dtype=bool), table.where)
    people = known or Participants(read_people(path, roles, table.ids, findings))
    places = _places(table, people, findings, first=known is None)
    unused = len(people.table.ids) - len(set(places[places >= 0]))
    where = people.table.where
    if unused and known is None:
        findings.note(f"{count(unused, 'participant is', 'participants are')} not in {table.where}", where)
    theirs = people.table.frame.reindex(places).reset_index(drop=True)
    frame = pd.concat([theirs, own[[name for name in own if name not in theirs]]], axis=1)
    return People(table.ids, frame, places < 0, where, people, places)


def _places(table: Table, known: Participants, findings: Findings, first: bool) -> Places:
    """Return for each row of the table (N,) the row of its participant, -1 where there is none."""
    people = known.table
    matching = known.register.match(table.ids)
    say_loose(matching, table.where, people.where, findings)
    if not matching.pairs and first:
        findings.fatal(
            f"none of the ids of {table.where} ({named(table.ids, 2)}) is in {people.where} ({named(people.ids, 2)})",
            people.where,
            "Give the participants of these people, or name the id column with --id",
        )
    with_session = table.sessions is not None and people.sessions is not None
    rows = known.rows(with_session)
    if not with_session and len(rows) < len(people.ids):
        findings.fatal(
            f"{people.where} has several sessions a person, {table.where} does not say which was measured",
            people.where,
            "Add session_id to the table of volumes",
        )
    wanted = table.keys(with_session, [matching.pairs.get(name, "") for name in table.ids])
    return np.array([rows.get(want, -1) for want in wanted], dtype=np.intp)


@dataclass(frozen=True)
class Groups:
    """The groups: ``labels`` is (N,) control, patient or None; ``unlabelled`` is (N,) who has no label at all."""

    labels: pd.Series
    unlabelled: Rows

    def take(self, rows: Rows) -> "Groups":
        """Return the groups of some people."""
        return Groups(self.labels[rows].reset_index(drop=True), self.unlabelled[rows])

    def rows(self, name: str) -> Rows:
        """Return (N,) who is in a group."""
        return np.asarray(self.labels == name, dtype=bool)


def read_groups(
    people: People, name: str | None, controls: Sequence[str], patients: Sequence[str], findings: Findings
) -> Groups | None:
    """Return who is control and who patient; None where no groups are known."""
    column = people.column(name, "group", findings)
    if name is None:
        column = _guess_group(people, bool(controls or patients), findings)
    if column is None:
        return None
    labels = people.frame[column]
    assigned = groups.assign(labels, controls, patients, f"{people.where}, column {column}", findings)
    if assigned is None:
        return None
    unlabelled = np.asarray(to_text(labels).isna(), dtype=bool)
    return Groups(pd.Series(assigned, index=labels.index, dtype="object"), unlabelled)


def _guess_group(people: People, told: bool, findings: Findings) -> str | None:
    """Return a column with a usual name if its labels are unmistakable or were given."""
    columns = people.frame.columns
    found = [name for name in (formats.find_name(columns, [word]) for word in formats.GROUP_NAMES) if name]
    clear = [name for name in found if groups.unmistakable(people.frame[name])]
    in_words = [name for name in clear if not formats.mostly_numbers(people.frame[name])]
    guess = next(iter([*in_words, *clear, *found]), None)
    if guess is not None and (told or clear):
        findings.note(f"groups are read from column '{guess}'", people.where)
        return guess
    if guess is not None:
        findings.note(f"column '{guess}' may hold the groups", people.where, f"Say: --group {guess} --controls LABEL")
    elif told:
        findings.error("labels were given but no column of groups", people.where, "Name it: --group COLUMN")
    else:
        findings.note("no groups are known; fit needs them", people.where, "Name the column: --group COLUMN")
    return None


def read_sites(people: People, roles: Roles, findings: Findings) -> pd.Series | None:
    """Return the site of each person as text; None where no site was named."""
    column = people.column(roles.site, "site", findings)
    if column is not None:
        return to_text(people.frame[column])
    guess = formats.find_name(people.frame.columns, formats.SITE_NAMES)
    if guess and roles.site is None and guess not in roles.covariates:
        findings.note(f"column '{guess}' may hold the site", people.where, f"Say so: --site {guess}")
    return None


def read_covariates(
    people: People,
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
            found["icv"] = _covariate("icv", icv.reset_index(drop=True), people, findings, known.get("icv"))
            continue
        column = people.column(name, "covariate", findings)
        if column is not None:
            found[name] = _covariate(name, people.frame[column], people, findings, known.get(name))
    return pd.DataFrame(found, index=people.frame.index)


def _covariate(
    name: str, values: pd.Series, people: People, findings: Findings, number: bool | None = None
) -> pd.Series:
    """Return one covariate as numbers, or as text where most of it is text or where it names a site."""
    if number is None:
        number = formats.mostly_numbers(values) and not formats.find_name([name], formats.SITE_NAMES)
    if not number:
        texts = to_text(values)
        _check_levels(name, texts, people.where, findings)
        levels = texts.nunique()
        if levels > max(10, len(texts) // 3):
            findings.warn(
                f"covariate {name} has {levels:,} categories for {count(len(texts), 'person', 'people')}",
                people.where,
                "Is it a number written as text, or an id?",
            )
        return texts
    numbers = as_numbers(values.to_frame(name), people.ids, people.where, findings)[name]
    _check_range(name, numbers, people, findings)
    return numbers


def _check_levels(name: str, texts: pd.Series, where: str, findings: Findings) -> None:
    """Report categories that are hardly meant as they stand."""
    levels = sorted(map(str, texts.dropna().unique()))
    if formats.find_name([name], formats.AGE_NAMES) and levels:
        cure = "Give years as numbers, with a decimal point"
        findings.error(f"covariate {name} is text, not numbers: {named(levels, 3)}", where, cure)
    initials = Counter(level[:1].lower() for level in levels)
    double = [level for level in levels if initials[level[:1].lower()] > 1]
    if double and formats.find_name([name], ("sex", "gender", "handedness")):
        what = f"categories of {name} look like the same ones spelt twice: {named(double)}"
        findings.warn(what, where, "Spell them alike")


def _check_range(name: str, numbers: pd.Series, people: People, findings: Findings) -> None:
    """Report numbers that cannot be meant: infinite ones, ages of nobody, codes for missing, a head of no size."""
    values = numbers.to_numpy(dtype=float)
    median = float(np.nanmedian(values)) if np.isfinite(values).any() else 0.0
    wrong = np.isinf(values)
    with np.errstate(invalid="ignore"):
        if formats.find_name([name], formats.AGE_NAMES):
            wrong |= (values < 0) | (values > OLDEST)
        elif name == "icv":
            wrong |= (values <= 0) | (values > 100 * median) | (values < median / 100)
    if wrong.any():
        cells = named(f"{values[int(row)]:g} for {people.ids[int(row)]}" for row in np.flatnonzero(wrong))
        findings.error(f"covariate {name} cannot be: {cells}", people.where, "Mend these cells, empty for missing")
        return
    codes = np.isin(values, MISSING_CODES)
    others = values[~codes & np.isfinite(values)]
    codes &= np.abs(values - median) > 5 * (others.std() if others.size else np.inf)
    if codes.any():
        cells = named(f"{values[int(row)]:g} for {people.ids[int(row)]}" for row in np.flatnonzero(codes))
        findings.warn(f"covariate {name} may hold codes for missing: {cells}", people.where, "Empty these cells if so")


def describe_covariate(values: pd.Series) -> str:
    """Return how a covariate is understood."""
    if pd.api.types.is_numeric_dtype(values):
        return "number"
    return f"{values.nunique()} categories"


def offered_covariates(people: People, icv: pd.Series | None) -> list[str]:
    """Return the covariates that are there to be named."""
    found = [formats.find_name(people.frame.columns, [name]) for name in formats.AGE_SEX_NAMES]
    return [name for name in found if name] + (["icv"] if icv is not None else [])

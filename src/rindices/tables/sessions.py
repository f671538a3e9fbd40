"""Several scans of a person: the first one, or all of them in their order."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rindices._typing import FloatArray
from rindices.errors import Findings, Problem, ProblemCode, Severity, format_count, join_names
from rindices.tables.cohort import GROUP, ID, SESSION, Cohort
from rindices.tables.layout.formats import AGE_NAMES, SEX_NAMES, find_column
from rindices.tables.table import Table
from rindices.tables.validation.groups import normalise_labels
from rindices.tables.validation.ids import normalise_session

_AGE_TOLERANCE = 0.05  # years by which an age may fall, because ages are rounded
_MAX_YEARS_BETWEEN_VISITS = 30


def keep_first_scans(cohort: Cohort, where: str = "") -> tuple[Cohort, list[Problem]]:
    """Return the first scan of each person, since scans of the same person are not independent.

    where: the file, for the message. Returns cohort: with one row per person; unchanged if no one has several;
    problems: a note that names the sessions, the number of people and of rows that are left out; empty if no one has
    several.
    """
    if SESSION not in cohort.people or not cohort.people[ID].duplicated().any():
        return cohort, []
    sessions = [str(session) for session in cohort.people[SESSION]]
    order = sorted(range(len(cohort)), key=lambda row: make_session_key(sessions[row]))
    first_rows: dict[str, int] = {}
    for row in order:
        first_rows.setdefault(str(cohort.people[ID].iloc[row]), row)
    rows = np.sort(np.fromiter(first_rows.values(), dtype=np.intp))
    counts = Counter(sessions[row] for row in rows)
    used = join_names(
        f"{session} ({format_count(number, 'person', 'people')})" for session, number in counts.most_common()
    )
    what = (
        f"{format_count(len(rows), 'person has', 'people have')} {len(cohort):,} scans; fit uses the first session of "
        f"each person: {used}; {format_count(len(cohort) - len(rows), 'row is', 'rows are')} left out"
    )
    cure = "Use apply for the other sessions, or give the rows of another session to fit"
    return cohort.take(rows), [Problem(Severity.NOTE, what, where, cure, ProblemCode.REPEATED_SCANS)]


def attach_visits(cohort: Cohort, where: str = "") -> tuple[Cohort, list[Problem]]:
    """Return the first scan of each person, with all scans as ``visits``.

    Scans at which a person belongs to another group than at the first one are left out.

    where: the file, for the message. Returns cohort: with one row per person; unchanged if no one has several;
    problems: a note with the number of people and of scans; empty if no one has several.
    """
    first = keep_first_scans(cohort)[0]
    if first is cohort:
        return cohort, []
    visits = cohort
    if GROUP in cohort.people:
        groups = cohort.people[ID].map(first.people.set_index(ID)[GROUP])
        visits = cohort.take((cohort.people[GROUP] == groups).to_numpy(dtype=bool))
    n_changed = len(cohort) - len(visits)
    changed = f", without {format_count(n_changed, 'scan')} at which the group has changed" if n_changed else ""
    what = f"patterns are learnt from {len(visits):,} scans of {format_count(len(first), 'person', 'people')}{changed}"
    cure = "Use --visits first to learn from the first session of each person alone"
    return replace(first, visits=visits), [Problem(Severity.NOTE, what, where, cure, ProblemCode.REPEATED_SCANS)]


def find_visit_times(visits: Cohort) -> FloatArray:
    """Return the time of each scan (V,): a covariate that grows from scan to scan in everyone, as age does.

    Without such a covariate, the number of the scan in the order of the sessions.
    """
    keys = [make_session_key(str(session)) for session in visits.people[SESSION]]
    ids = visits.people[ID].to_numpy()
    order = np.array(sorted(range(len(visits)), key=lambda row: (str(ids[row]), keys[row])), dtype=np.intp)
    is_same_person = ids[order][1:] == ids[order][:-1]
    for name in visits.covariates:
        if pd.api.types.is_numeric_dtype(visits.covariates[name]):
            times: FloatArray = visits.covariates[name].to_numpy(dtype=float)
            if (np.diff(times[order])[is_same_person] > 0).all():
                return times
    numbers = np.empty(len(visits))
    numbers[order] = pd.Series(ids[order]).groupby(ids[order]).cumcount().to_numpy()
    return numbers


def warn_repeated_scans(ids: Sequence[str], where: str, findings: Findings) -> None:
    """Warn of people, given by the id of each scan, who have several scans."""
    n_people = len(set(ids))
    if n_people < len(ids):
        what = f"{n_people:,} people have {len(ids):,} scans: repeated scans of a person are not independent"
        findings.warn(ProblemCode.REPEATED_SCANS, what, where, "For training keep one scan a person")


def check_visits(table: Table, people: pd.DataFrame, findings: Findings) -> None:
    """Refuse visits of one id that cannot be of one person: two sexes, ages that fall or are too far apart.

    table: with sessions; people (N, ...): columns about the people.
    """
    ids, sessions, where = table.ids, table.sessions or [], table.where
    if len(set(ids)) == len(ids):
        return
    joined = f"{table.session_column or 'COLUMN'},{table.id_column}"
    cure = f"If they are different people, make the ids unique, e.g. --id {joined} to join columns; else mend the cells"
    order = sorted(range(len(ids)), key=lambda row: (ids[row], make_session_key(sessions[row])))
    names = pd.Series([ids[row] for row in order])
    sex, age = (find_column(people.columns, kinds) for kinds in (SEX_NAMES, AGE_NAMES))
    if sex is not None:
        initials = normalise_labels(people[sex].iloc[order]).reset_index(drop=True).str.lower().str[:1]
        n_sexes = initials.groupby(names).nunique()
        mixed = [str(name) for name in n_sexes.index[n_sexes > 1]]
        if mixed:
            what = f"visits of {format_count(len(mixed), 'id')} have two sexes"
            findings.error(ProblemCode.CONTRADICTORY_VISITS, what, where, cure, subject=sex, offenders=mixed)
    if age is not None:
        ages = pd.to_numeric(people[age].iloc[order], errors="coerce").reset_index(drop=True)
        by_person = ages.groupby(names)
        is_wrong = (by_person.diff().groupby(names).min() < -_AGE_TOLERANCE) | (
            by_person.max() - by_person.min() > _MAX_YEARS_BETWEEN_VISITS
        )
        wrong = [str(name) for name in is_wrong.index[is_wrong]]
        if wrong:
            what = f"ages of {format_count(len(wrong), 'id')} fall from session to session"
            what += f", or are more than {_MAX_YEARS_BETWEEN_VISITS} years apart"
            findings.error(ProblemCode.CONTRADICTORY_VISITS, what, where, cure, subject=age, offenders=wrong)


def make_session_key(session: str) -> list[tuple[int, int, str]]:
    """Return a key by which sessions are sorted with their numbers as numbers: 2 before 10."""
    words = re.findall(r"\d+|\D+", normalise_session(session))
    return [(0, int(word), "") if word.isdigit() else (1, 0, word) for word in words]

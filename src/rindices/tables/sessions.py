"""Several scans of a person: training uses the first one."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from rindices.errors import Findings, Problem, ProblemCode, Severity, format_count, join_names
from rindices.tables.cohort import ID, SESSION, Cohort
from rindices.tables.validation.ids import normalise_session


def keep_first_scans(cohort: Cohort, where: str = "") -> tuple[Cohort, list[Problem]]:
    """Return the first scan of each person, since scans of the same person are not independent.

    Parameters
    ----------
    cohort : Cohort
    where : str
        The file, for the message.

    Returns
    -------
    cohort : Cohort
        With one row per person; unchanged if no one has several.
    problems : list of Problem
        A note that names the sessions, the number of people and of rows that are left out; empty if no one has several.
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


def warn_repeated_scans(ids: Sequence[str], where: str, findings: Findings) -> None:
    """Warn of people, given by the id of each scan, who have several scans."""
    n_people = len(set(ids))
    if n_people < len(ids):
        what = f"{n_people:,} people have {len(ids):,} scans: repeated scans of a person are not independent"
        findings.warn(ProblemCode.REPEATED_SCANS, what, where, "For training keep one scan a person")


def make_session_key(session: str) -> list[tuple[int, int, str]]:
    """Return a key by which sessions are sorted with their numbers as numbers: 2 before 10."""
    words = re.findall(r"\d+|\D+", normalise_session(session))
    return [(0, int(word), "") if word.isdigit() else (1, 0, word) for word in words]

"""Training uses the first scan of each person."""

import pandas as pd

from rindices.errors import ProblemCode
from rindices.tables.cohort import Cohort
from rindices.tables.sessions import keep_first_scans


def make_cohort(ids: str, sessions: list[str] | None) -> Cohort:
    people = pd.DataFrame({"participant_id": list(ids), "group": "control"})
    if sessions is not None:
        people["session_id"] = sessions
    return Cohort(pd.DataFrame({"a": range(len(people))}, dtype=float), people, pd.DataFrame(index=people.index))


def test_the_first_session_of_each_person_stays() -> None:
    cohort, problems = keep_first_scans(make_cohort("aabbc", ["1", "2", "10", "2", "2"]), "t.csv")
    assert cohort.people["session_id"].tolist() == ["1", "2", "2"]
    assert cohort.volumes["a"].tolist() == [0, 3, 4]
    (note,) = problems
    assert (note.code, str(note.severity)) == (ProblemCode.REPEATED_SCANS, "note")
    assert "3 people have 5 scans" in note.what
    assert "2 (2 people), 1 (1 person); 2 rows are left out" in note.what


def test_one_scan_per_person_is_left_as_it_is() -> None:
    for sessions in (None, ["1", "2"]):
        cohort = make_cohort("ab", sessions)
        assert keep_first_scans(cohort) == (cohort, [])


def test_months_are_sorted_as_numbers() -> None:
    cohort, _ = keep_first_scans(make_cohort("aaa", ["m12", "m06", "m6b"]))
    assert cohort.people["session_id"].tolist() == ["m06"]

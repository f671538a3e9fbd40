"""Several scans of a person."""

from dataclasses import replace

import pandas as pd

from rindices.errors import ProblemCode
from rindices.tables.cohort import Cohort
from rindices.tables.sessions import attach_visits, find_visit_times, keep_first_scans


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


def test_all_scans_are_attached_to_the_first_ones() -> None:
    cohort, problems = attach_visits(make_cohort("aabbc", ["1", "2", "10", "2", "2"]), "t.csv")
    assert cohort.people["session_id"].tolist() == ["1", "2", "2"]
    assert cohort.visits is not None
    assert len(cohort.visits) == 5
    (problem,) = problems
    assert problem.what == "patterns are learnt from 5 scans of 3 people"
    single = make_cohort("abc", ["1", "1", "1"])
    assert attach_visits(single) == (single, [])


def test_scans_after_a_change_of_group_are_left_out() -> None:
    cohort = make_cohort("aab", ["1", "2", "1"])
    people = cohort.people.assign(group=["control", "patient", "patient"])
    cohort, problems = attach_visits(replace(cohort, people=people))
    assert cohort.visits is not None
    assert cohort.visits.people["session_id"].tolist() == ["1", "1"]
    assert problems[0].what.endswith("2 people, without 1 scan at which the group has changed")


def test_times_are_a_covariate_that_grows_or_the_order_of_the_sessions() -> None:
    cohort = make_cohort("aabb", ["1", "2", "10", "2"])
    assert find_visit_times(cohort).tolist() == [0, 1, 1, 0]
    for ages, expected in (([60, 61.5, 80, 72], [60, 61.5, 80, 72]), ([60, 60, 80, 72], [0, 1, 1, 0])):
        aged = replace(cohort, covariates=cohort.covariates.assign(sex="F", icv=1.0, age=ages))
        assert find_visit_times(aged).tolist() == expected

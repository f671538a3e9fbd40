"""Checks before training find what would stop fit."""

from dataclasses import replace

import numpy as np
import pytest

from rindices.errors import Problem, ProblemCode, Severity
from rindices.experiments.simulate import simulate_cohort
from rindices.study.config import StudyConfig, make_study
from rindices.study.preflight import find_study_problems, keep_training_scans
from rindices.tables.cohort import Cohort


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return simulate_cohort("tiny", 0).cohort


def make_config(**model: object) -> StudyConfig:
    return make_study({"data": {"volumes": "memory"}, "model": model})


def list_errors(cohort: Cohort, study: StudyConfig) -> str:
    problems = find_study_problems(cohort, study)
    return "\n".join(
        str(problem) for problem in problems if problem.severity is Severity.ERROR
    )


def test_a_good_cohort_has_no_errors(cohort: Cohort) -> None:
    assert not list_errors(cohort, make_config())


def test_more_patterns_than_regions_are_an_error(cohort: Cohort) -> None:
    few = replace(cohort, volumes=cohort.volumes.iloc[:, :3])
    assert "4 patterns need" in list_errors(few, make_config(patterns=[4]))
    assert not list_errors(few, make_config(patterns=[1, 2]))


def test_a_site_without_controls_is_an_error(cohort: Cohort) -> None:
    site = np.where(cohort.is_patient & (np.arange(len(cohort)) % 5 == 0), "B", "A")
    with_sites = replace(cohort, people=cohort.people.assign(site=site))
    assert "no control was measured at B" in list_errors(with_sites, make_config())


def test_too_few_controls_are_an_error(cohort: Cohort) -> None:
    rows = np.concatenate(
        [np.flatnonzero(cohort.is_control)[:3], np.flatnonzero(cohort.is_patient)]
    )
    assert "too few controls" in list_errors(cohort.take(rows), make_config())


def test_the_warning_of_repeated_scans_becomes_a_note_about_the_session(
    cohort: Cohort,
) -> None:
    warning = Problem(
        severity=Severity.WARNING,
        what="repeated",
        where="t.csv",
        code=ProblemCode.REPEATED_SCANS,
    )
    other = Problem(severity=Severity.NOTE, what="other")
    people = cohort.people.assign(
        participant_id=[f"p{row // 2}" for row in range(len(cohort))], session_id="1"
    )
    for visits in (None, "mean", "all", "first"):
        first_scans, problems = keep_training_scans(
            replace(cohort, people=people), [warning, other], visits
        )
        assert len(first_scans) == len(cohort) // 2
        assert (first_scans.visits is None) == (visits == "first")
        assert [problem.severity for problem in problems] == [
            Severity.NOTE,
            Severity.NOTE,
        ]
    assert keep_training_scans(cohort, [warning, other]) == (cohort, [warning, other])

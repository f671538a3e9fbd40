"""Errors of a study: exported, and the same after a way between processes."""

import pickle

import rindices as ri
from tests.study.test_checks_results import make_selection


def test_an_error_without_a_model_survives_pickling() -> None:
    error = ri.NoPatternError("no difference was detected.", make_selection())
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ri.NoPatternError
    assert str(again) == str(error)
    assert again.problems == error.problems
    assert again.selection.to_dict() == error.selection.to_dict()


def test_errors_of_a_study_are_study_errors() -> None:
    assert all(
        issubclass(kind, ri.StudyError)
        for kind in (ri.NoPatternError, ri.StudyStoppedError)
    )
    assert (
        pickle.loads(pickle.dumps(ri.StudyStoppedError("stopped"))).problems[0].what
        == "stopped"
    )
    assert {"NoPatternError", "StudyStoppedError", "StudyError", "StudyWarning"} <= set(
        ri.__all__
    )

"""Errors of a study: exported, and the same after a way between processes."""

import pickle

import pytest

import rindices as ri
from rindices.model.records import SelectionRecord
from rindices.study.exceptions import _NoModelError


@pytest.mark.parametrize("kind", [ri.NoPatternError, ri.UnstableError])
def test_errors_without_a_model_survive_pickling(kind: type[_NoModelError]) -> None:
    error = kind("no setting gave a stable result: M = 2: unstable.", SelectionRecord(None))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.problems == error.problems
    assert again.selection.to_dict() == error.selection.to_dict()


def test_errors_of_a_study_are_study_errors() -> None:
    assert all(issubclass(kind, ri.StudyError) for kind in (ri.NoPatternError, ri.UnstableError, ri.StudyStoppedError))
    assert pickle.loads(pickle.dumps(ri.StudyStoppedError("stopped"))).problems[0].what == "stopped"
    assert {"NoPatternError", "UnstableError", "StudyStoppedError", "StudyError", "StudyWarning"} <= set(ri.__all__)

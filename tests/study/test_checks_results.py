"""Warnings about the result of a study."""

import json
from typing import Any

import numpy as np
import pytest

from rindices.learners.ensemble import GroupSeparation, PatternStability
from rindices.model.records import (
    AgreementRecord,
    CandidateRecord,
    SelectionRecord,
    SettingRecord,
)
from rindices.study.build import make_pattern_records
from rindices.study.checks import collect_study_warnings
from rindices.study.group_tests import GroupTests, make_number_record
from tests.study.test_group_tests import make_tests

STABILITY = np.array([[0.9, 0.2], [1.0, 0.4]])
DEFAULT_TESTS = make_tests(2)


def make_selection(
    tests: GroupTests = DEFAULT_TESTS, number: int | None = None, **values: Any
) -> SelectionRecord:
    values = {
        "chosen": None,
        "finding": "patterns",
        "difference": tests.make_difference_record(),
    } | values
    return SelectionRecord(
        **values, number_of_patterns=make_number_record(tests, None, number)
    )


def list_warnings(selection: SelectionRecord) -> str:
    return "\n".join(str(problem) for problem in collect_study_warnings(selection))


def test_patterns_are_warned_about_by_name() -> None:
    carriers, auc = np.array([[0.8, 0.1]] * 2), np.full((2, 2), 0.8)
    stability = PatternStability(STABILITY, STABILITY)
    patterns = make_pattern_records(
        stability, GroupSeparation(carriers, auc), [0.1, None], in_sample=False
    )
    assert [pattern.name for pattern in patterns] == ["r1", "r2"]
    assert patterns[0].stability == pytest.approx(0.95)
    assert patterns[1].carriers == pytest.approx(0.1)
    assert patterns[1].auc == pytest.approx(0.8)
    json.dumps([pattern.to_dict() for pattern in patterns], allow_nan=False)
    warnings = list_warnings(make_selection(make_tests(2), 3, patterns=patterns))
    assert "different numbers" in warnings
    assert "few patients carry r2" in warnings
    assert "do not reproduce r2" in warnings
    assert "r1" not in warnings


def test_groups_that_cannot_be_compared_are_warned_about() -> None:
    assert "can hardly compare" in list_warnings(
        make_selection(make_tests(0, p=1.0, overlap=0.0))
    )


def test_unstable_patterns_are_named_with_their_figures() -> None:
    candidate = CandidateRecord(
        setting=SettingRecord(n_patterns=2, orthogonality=None),
        agreement=AgreementRecord(concordance=0.5, dimension=0.5, difference=0.5),
        stable=False,
        why="concordance may be as low as 0.44",
    )
    selection = make_selection(grid=(candidate,), finding="mean_difference")
    assert "not stable: 2 (concordance may be as low as 0.44)" in list_warnings(
        selection
    )
    assert "not stable" not in list_warnings(
        selection.model_copy(update={"finding": "patterns"})
    )

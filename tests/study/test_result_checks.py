"""Warnings about the result of a study."""

import json

import numpy as np
import pytest

from rindices.learners.pattern_stability import PatternStability
from rindices.selection.dimensions import DimensionEstimate, DimensionTest
from rindices.study.build import make_pattern_records
from rindices.study.number_of_patterns import (
    make_number_record,
)
from rindices.study.result_checks import collect_study_warnings

DIMENSIONS = DimensionEstimate(
    2, tuple(DimensionTest(k, 5.0 - k, (3.0, 3.3), p, 199) for k, p in enumerate((0.005, 0.01, 0.4))), 0.05, 0.9
)


def test_records_are_plain_and_complete() -> None:
    number = make_number_record(DIMENSIONS, (2, 3), 3)
    assert (number["by_agreement"], number["by_test"], number["forced"]) == (3, 2, None)
    assert [point["p"] for point in number["test"]["curve"]] == [0.005, 0.01, 0.4]
    assert make_number_record(DIMENSIONS, (4,), 4)["forced"] == 4
    stability = np.array([[0.9, 0.2], [1.0, 0.4]])
    ends = np.array([[0.7, 0.0], [0.9, 0.2]])
    patterns = make_pattern_records(PatternStability(stability, stability, np.array([0.8, 0.1]), ends))
    assert [p["name"] for p in patterns] == ["r1", "r2"]
    assert patterns[0]["stability"] == pytest.approx(0.95)
    assert patterns[1]["carriers_interval"] == [0.0, 0.2]
    json.dumps([number.to_dict(), *(pattern.to_dict() for pattern in patterns)], allow_nan=False)
    said = "\n".join(str(problem) for problem in collect_study_warnings(number, patterns))
    assert "different numbers" in said
    assert "few patients carry r2" in said
    assert "do not reproduce r2" in said
    assert "r1" not in said

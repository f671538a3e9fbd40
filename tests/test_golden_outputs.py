"""A small study gives the numbers that were published with the release."""

import json

from scripts.golden_outputs import GOLDEN, compute_outputs, list_differences


def test_a_small_study_gives_the_golden_outputs() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert list_differences(compute_outputs(), golden) == []


def test_differences_are_found() -> None:
    golden = json.loads(GOLDEN.read_text())
    changed = json.loads(GOLDEN.read_text())
    changed["r_indices"][3][1] += 0.01
    changed["outside_training_range"][0] += 1
    problems = list_differences(changed, golden)
    assert [problem.partition(":")[0] for problem in problems] == [
        "outside_training_range",
        "r_indices",
    ]

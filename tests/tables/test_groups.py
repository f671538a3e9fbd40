"""Labels are mapped from the user's own words, and nothing is guessed that could be mistaken."""

import pandas as pd
import pytest

from rindices.errors import Findings
from rindices.tables.validation.groups import assign_groups


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["control", "patient"], "cp"),
        (["PT", "CN"], "pc"),
        (["HC", "schizophrenia"], "cp"),
        ([-1, 1], "cp"),
        ([-1.0, 1.0], "cp"),
        (["-1.0", "1.0"], "cp"),
        ([0, 1], "cp"),
        (["Healthy Control", "AD"], "cp"),
    ],
)
def test_unmistakable(labels: list[object], expected: str) -> None:
    findings = Findings()
    found = assign_groups(pd.Series(labels), [], [], "here", findings)
    assert found is not None
    assert "".join(name[0] for name in found) == expected
    assert not findings.errors()
    assert bool(list(findings)) == (0 in labels)  # 0 and 1 come with a note


@pytest.mark.parametrize("labels", [[1, 2], ["A", "B"], ["CN", "MCI", "AD"], ["CN", "HC"], [-1, 0, 1]])
def test_anything_else_asks(labels: list[object]) -> None:
    findings = Findings()
    assert assign_groups(pd.Series(labels), [], [], "here", findings) is None
    assert "--controls" in str(findings.errors()[0])


def test_own_labels_and_the_rest() -> None:
    findings = Findings()
    labels = pd.Series(["CN", "MCI", "AD", "FTD", None])
    found = assign_groups(labels, ["cn"], ["MCI", "AD"], "here", findings)
    assert found is not None
    assert list(found) == ["control", "patient", "patient", None, None]
    assert "FTD (1)" in str(next(iter(findings)))


def test_numbers_are_equal_however_written() -> None:
    for label in ("1", "1.0", "01.0"[1:]):
        found = assign_groups(pd.Series([1.0, 2.0, 2.0]), [label], ["2"], "here", Findings())
        assert found is not None
        assert list(found) == ["control", "patient", "patient"]

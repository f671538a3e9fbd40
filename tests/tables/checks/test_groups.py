"""Labels become controls and patients, and are guessed only if they are
unmistakable.
"""

import pandas as pd
import pytest

from rindices.errors import Findings
from rindices.tables.checks.groups import assign_groups


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["control", "patient"], "cp"),
        (["PT", "CN"], "pc"),
        (["HC", "schizophrenia"], "cp"),
        (["Healthy Control", "AD"], "cp"),
    ],
)
def test_unmistakable_labels_are_guessed(labels: list[object], expected: str) -> None:
    findings = Findings()
    assigned = assign_groups(pd.Series(labels), [], [], findings)
    assert assigned is not None
    assert "".join(name[0] for name in assigned) == expected
    assert not findings.errors()
    assert f"patients are {labels[expected.index('p')]} (1)" in str(
        next(iter(findings))
    )


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1],
        [-1, 1],
        [1, 2],
        ["A", "B"],
        ["CN", "MCI", "AD"],
        ["CN", "HC"],
        [-1, 0, 1],
    ],
)
def test_other_labels_are_not_guessed(labels: list[object]) -> None:
    findings = Findings()
    assert assign_groups(pd.Series(labels), [], [], findings) is None
    assert "--controls" in str(findings.errors()[0])


def test_people_with_other_labels_are_in_no_group() -> None:
    findings = Findings()
    labels = pd.Series(["CN", "MCI", "AD", "FTD", None])
    assigned = assign_groups(labels, ["cn"], ["MCI", "AD"], findings)
    assert assigned is not None
    assert list(assigned) == ["control", "patient", "patient", None, None]
    assert "FTD (1)" in str(next(iter(findings)))


def test_spellings_of_a_number_are_equal() -> None:
    for label in ("1", "1.0", "01.0"[1:]):
        assigned = assign_groups(pd.Series([1.0, 2.0, 2.0]), [label], ["2"], Findings())
        assert assigned is not None
        assert list(assigned) == ["control", "patient", "patient"]

"""People are selected from all parts of a table alike."""

import numpy as np
import pandas as pd

from rindices.tables.layout.formats import Layout
from rindices.tables.missing import UnfilteredCohort
from rindices.tables.participants import GroupLabels, JoinedParticipants
from rindices.tables.table import Table


def test_a_mask_selects_people_from_every_part() -> None:
    ids = ["a", "b", "c"]
    frame = pd.DataFrame({"region": [1.0, 2.0, 3.0]})
    people = JoinedParticipants(ids, pd.DataFrame({"age": [50, 60, 70]}), np.zeros(3, dtype=bool), "p.csv")
    groups = GroupLabels(pd.Series(["control", "patient", "patient"]), np.zeros(3, dtype=bool))
    table = Table(ids, None, frame, Layout("table", {"region": "region"}), "t.csv")
    parts = UnfilteredCohort(table, people, frame, people.frame, groups, pd.Series(list("xyz")), pd.Series([7, 8, 9]))
    assert parts.take(np.ones(3, dtype=bool)) is parts
    selected = parts.take(np.array([True, False, True]))
    assert selected.table.ids == selected.people.ids == ["a", "c"]
    assert selected.ranges.high.tolist() == [3.0]
    assert selected.covariates["age"].tolist() == [50, 70]
    assert selected.groups is not None
    assert selected.groups.labels.tolist() == ["control", "patient"]
    assert selected.sites is not None
    assert selected.sites.tolist() == ["x", "z"]
    assert selected.icv is not None
    assert selected.icv.tolist() == [7, 9]

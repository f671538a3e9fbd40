"""Regions that are sums of a table's columns."""

import numpy as np
import pandas as pd

from rindices.model.summed_regions import add_summed_regions, format_region_name
from rindices.tables.cohort import Cohort


def make_cohort(**columns: list[float]) -> Cohort:
    people = pd.DataFrame({"participant_id": ["p0", "p1"]})
    return Cohort(pd.DataFrame(columns), people, pd.DataFrame(index=range(2)))


def test_columns_are_replaced_by_their_sum_with_a_note() -> None:
    cohort = make_cohort(a=[1.0, 2.0], b=[10.0, 20.0], c=[5.0, 6.0])
    summed, (note,) = add_summed_regions(cohort, {"a+b": ("a", "b")})
    assert list(summed.volumes) == ["c", "a+b"]
    np.testing.assert_array_equal(summed.volumes["a+b"], [11.0, 22.0])
    assert note.what == "1 regions of the model are sums of the table's columns, computed here: a+b"


def test_sums_in_the_table_and_incomplete_sums_are_left() -> None:
    cohort = make_cohort(**{"a": [1.0, 2.0], "a+b": [3.0, 4.0]})
    assert add_summed_regions(cohort, {"a+b": ("a", "b"), "a+c": ("a", "c")}) == (cohort, [])


def test_muse_codes_get_their_label() -> None:
    assert format_region_name("MUSE_47+MUSE_48") == "Hippocampus_R+Hippocampus_L"
    assert format_region_name("other") == "other"

"""People with the same values in all regions are named together."""

import numpy as np
import pandas as pd

from rindices.errors import Findings
from rindices.tables.validation.values import MIN_REGIONS, hash_rows, warn_equal_rows


def list_warnings(values: np.ndarray) -> list[tuple[str, tuple[str, ...]]]:
    findings = Findings()
    warn_equal_rows(pd.DataFrame(values), [f"p{k}" for k in range(len(values))], "t.csv", findings)
    return [(problem.text, problem.offenders) for problem in findings]


def test_equal_rows_are_named_together() -> None:
    values = np.random.default_rng(0).normal(2000, 100, (50, MIN_REGIONS)).round()
    assert list_warnings(values) == []
    values[[7, 30]] = values[2]
    values[40] = values[9]
    ((text, people),) = list_warnings(values)
    assert text == "5 people have the same values in all regions as someone else: p2 = p7 = p30, p9 = p40"
    assert set(people) == {"p2", "p7", "p30", "p9", "p40"}


def test_few_regions_and_missing_values_are_no_sign_of_one_person() -> None:
    assert list_warnings(np.ones((5, MIN_REGIONS - 1))) == []
    values = np.ones((5, MIN_REGIONS))
    values[:, 2] = np.nan
    assert list_warnings(values) == []


def test_hashes_do_not_depend_on_the_other_rows() -> None:
    values = np.random.default_rng(1).normal(size=(1000, 9)).round(2)
    assert (hash_rows(values)[::7] == hash_rows(values[::7])).all()
    assert len(set(hash_rows(values).tolist())) == len(np.unique(values, axis=0))

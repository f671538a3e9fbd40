"""Values of regions are checked for unit, sign and scale."""

from pathlib import Path

import numpy as np
import pandas as pd

from rindices.errors import Findings, ProblemCode
from rindices.tables.validation.values import (
    as_numbers,
    check_constant,
    compute_column_ranges,
)
from tests.tables.helpers import (
    list_messages,
    validate_files,
    write_table,
)


def test_percent_of_the_intracranial_volume_is_not_ml(tmp_path: Path, volumes: pd.DataFrame) -> None:
    percent = volumes.copy()
    percent.iloc[:, 2:] = 100 * volumes.iloc[:, 2:].div(volumes["702"], axis=0)
    assert "times the usual adult volume" in list_messages(
        validate_files(write_table(percent, tmp_path / "v.csv")), "error"
    )


def test_a_cell_of_text_names_person_and_column() -> None:
    findings = Findings()
    frame = pd.DataFrame({"left": ["1.5", "x", None], "right": [1, 2, 3]})
    numbers = as_numbers(frame, ["a", "b", "c"], "t.csv", findings)
    np.testing.assert_array_equal(numbers["left"], [1.5, np.nan, np.nan])
    (problem,) = findings
    assert (problem.code, problem.offenders) == (ProblemCode.NOT_A_NUMBER, ("b",))
    assert "'x' for b in left" in str(problem)


def test_ranges_leave_missing_values_out() -> None:
    ranges = compute_column_ranges(pd.DataFrame({"a": [1.0, 3.0], "b": [np.nan, 2.0]}))
    assert [list(values) for values in ranges] == [[1.0, 2.0], [3.0, 2.0], [False, True]]
    assert np.isnan(compute_column_ranges(pd.DataFrame({"a": np.zeros(0)})).low).all()


def test_regions_that_are_constant_in_controls_are_refused() -> None:
    findings = Findings()
    check_constant(np.array([[1.0, 2.0], [1.0, 3.0]]), ["a", "b"], "t.csv", findings)
    assert [problem.offenders for problem in findings.errors()] == [("a",)]


def test_a_table_of_blank_rows_has_no_people(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("ID,47,48\n,,\n")
    assert "a header and no people" in list_messages(validate_files(tmp_path / "v.csv"), "error")

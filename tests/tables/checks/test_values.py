"""Units, numbers and measures of a table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.errors import Findings, ProblemCode
from rindices.tables.checks.values import (
    MIN_REGIONS,
    Unit,
    as_numbers,
    check_constant,
    compute_column_ranges,
    find_scale_outliers,
    guess_unit,
    warn_equal_rows,
)
from tests.conftest import muse_volumes
from tests.tables.helpers import (
    list_messages,
    validate_files,
    write_table,
)


def test_percent_of_the_intracranial_volume_is_not_ml(
    tmp_path: Path, volumes: pd.DataFrame
) -> None:
    percent = volumes.copy()
    percent.iloc[:, 2:] = 100 * volumes.iloc[:, 2:].div(volumes["702"], axis=0)
    assert "times the usual adult volume" in list_messages(
        validate_files(write_table(percent, tmp_path / "v.csv")), "error"
    )


def test_a_cell_of_text_names_person_and_column() -> None:
    findings = Findings()
    frame = pd.DataFrame({"left": ["1.5", "x", None], "right": [1, 2, 3]})
    numbers = as_numbers(frame, ["a", "b", "c"], findings)
    np.testing.assert_array_equal(numbers["left"], [1.5, np.nan, np.nan])
    (problem,) = findings
    assert (problem.code, problem.offenders) == (ProblemCode.NOT_A_NUMBER, ("b",))
    assert "'x' for b in left" in str(problem)


def test_ranges_leave_missing_values_out() -> None:
    ranges = compute_column_ranges(pd.DataFrame({"a": [1.0, 3.0], "b": [np.nan, 2.0]}))
    assert [list(values) for values in ranges] == [
        [1.0, 2.0],
        [3.0, 2.0],
        [False, True],
    ]
    assert np.isnan(compute_column_ranges(pd.DataFrame({"a": np.zeros(0)})).low).all()


def test_regions_that_are_constant_in_controls_are_refused() -> None:
    findings = Findings()
    check_constant(np.array([[1.0, 2.0], [1.0, 3.0]]), ["a", "b"], findings)
    assert [problem.offenders for problem in findings.errors()] == [("a",)]


def test_a_table_of_blank_rows_has_no_people(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("ID,47,48\n,,\n")
    assert "a header and no people" in list_messages(
        validate_files(tmp_path / "v.csv"), "error"
    )


@pytest.mark.parametrize(
    ("factor", "unit"),
    [
        (1.0, Unit.MM3),
        (1e-3, Unit.ML),
        (1 / 1.4e6, Unit.NORMALISED),
        (1e9, Unit.UNKNOWN),
    ],
)
def test_units_of_volumes(factor: float, unit: Unit) -> None:
    values = muse_volumes().iloc[:, 2:].to_numpy() * factor
    assert guess_unit(values, np.median(values, axis=0)) is unit


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (1.0, 0.1)])
def test_standardised_values(mean: float, sd: float) -> None:
    values = np.random.default_rng(0).normal(mean, sd, size=(50, 30))
    assert guess_unit(values, np.median(values, axis=0)) is Unit.STANDARDISED


def test_thickness_in_mm() -> None:
    values = np.random.default_rng(0).uniform(1.8, 3.6, size=(50, 30))
    assert guess_unit(values, np.median(values, axis=0)) is Unit.MM


def test_values_of_another_scale_are_found() -> None:
    values = np.full((10, 4), 2000.0)
    values[3, 1], values[7, 2] = 2.0, 2e6
    values[5, 0] = 0.0  # a zero is another problem
    outliers = find_scale_outliers(values, np.median(values, axis=0))
    assert np.argwhere(outliers).tolist() == [[3, 1], [7, 2]]


def test_a_table_without_values_has_no_unit() -> None:
    values = np.full((3, 2), np.nan)
    assert guess_unit(values, np.full(2, np.nan)) is Unit.UNKNOWN


def test_extreme_values_do_not_overflow() -> None:
    values = np.array([[1.0, 1.0], [1.9e154, 1.0], [2e300, 1.0]])
    assert guess_unit(values, np.median(values, axis=0)) is not Unit.STANDARDISED
    assert find_scale_outliers(values, np.array([1e307, 1.0])).sum() == 3


def test_infinite_and_missing_values_are_ignored() -> None:
    values = np.array([[np.inf, np.nan], [1.0, np.nan], [1e300, np.nan]])
    assert guess_unit(values, np.array([1.0, np.nan])) is not Unit.STANDARDISED


def list_warnings(values: np.ndarray) -> list[tuple[str, tuple[str, ...]]]:
    findings = Findings()
    warn_equal_rows(
        pd.DataFrame(values), [f"p{k}" for k in range(len(values))], findings
    )
    return [(problem.text, problem.offenders) for problem in findings]


def test_equal_rows_are_named_together() -> None:
    values = np.random.default_rng(0).normal(2000, 100, (50, MIN_REGIONS)).round()
    assert list_warnings(values) == []
    values[[7, 30]] = values[2]
    values[40] = values[9]
    ((text, people),) = list_warnings(values)
    assert (
        text
        == "5 people have the same values in all regions as someone else: p2 = p7 = p30, p9 = p40"
    )
    assert set(people) == {"p2", "p7", "p30", "p9", "p40"}


def test_few_regions_and_missing_values_are_no_sign_of_one_person() -> None:
    assert list_warnings(np.ones((5, MIN_REGIONS - 1))) == []
    values = np.ones((5, MIN_REGIONS))
    values[:, 2] = np.nan
    assert list_warnings(values) == []

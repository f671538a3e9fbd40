"""Checks of a table and of its R-indices when a model is applied."""

import re

import numpy as np
import pandas as pd
import pytest

from rindices.errors import ModelError
from rindices.model.apply_checks import (
    add_missing_regions,
    add_summed_regions,
    check_model_regions,
    check_results,
    check_scale,
    compare_information,
    compute_information,
    note_missing,
    report_people_without_index,
)
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.tables.cohort import Cohort


@pytest.fixture
def cohort() -> Cohort:
    volumes = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    people = pd.DataFrame({"participant_id": ["p1", "p2"]})
    return Cohort(
        volumes=volumes,
        people=people,
        covariates=pd.DataFrame(index=volumes.index),
        source="table",
        unit="mm3",
    )


def test_the_regions_and_the_unit_of_the_model_pass(cohort: Cohort) -> None:
    check_model_regions(cohort, ("b", "a"), "mm3")


@pytest.mark.parametrize(
    ("regions", "unit", "message"),
    [
        (("a", "b", "c"), "mm3", "1 regions are missing: c"),
        (("a",), "mm3", "1 columns are not regions of this model: b"),
        (("a", "b"), "mm", "convert it"),
    ],
)
def test_another_table_is_refused(
    cohort: Cohort, regions: tuple[str, ...], unit: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        check_model_regions(cohort, regions, unit)


def test_a_region_on_another_scale_is_named() -> None:
    values = np.full((5, 2), CONTROL_MEAN)
    check_scale(values, ("a", "b"))
    values[:, 1] += 1000 * CONTROL_SD
    with pytest.raises(
        ModelError, match=r"1 region is scaled differently than in training: b"
    ):
        check_scale(values, ("a", "b"))


def test_people_whose_results_are_not_finite_are_named(cohort: Cohort) -> None:
    check_results(cohort, [np.zeros(2)])
    with pytest.raises(ModelError, match="1 person is not a number") as raised:
        check_results(cohort, [np.zeros(2), np.array([0.0, np.nan])])
    assert raised.value.problems[0].offenders == ("p2",)


def make_cohort(n_regions: int = 4) -> Cohort:
    volumes = pd.DataFrame(
        np.ones((2, n_regions)), columns=[f"r{k}" for k in range(n_regions)]
    )
    people = pd.DataFrame({"participant_id": ["a", "b"]})
    return Cohort(
        volumes=volumes, people=people, covariates=pd.DataFrame(index=range(2))
    )


def test_empty_columns_stand_for_missing_regions() -> None:
    cohort = make_cohort(4)
    completed, absent = add_missing_regions(
        cohort, ["r0", "r1", "r2", "r3", "x"], "model"
    )
    assert absent == ["x"]
    assert completed.volumes["x"].isna().all()
    for regions, policy in (
        (["r0", "x"], "model"),
        (["r0", "r1", "r2", "r3", "x"], "error"),
        (list("abcdefghi"), "model"),
    ):
        assert add_missing_regions(cohort, regions, policy) == (cohort, [])


def test_people_of_whom_too_little_is_known_are_named() -> None:
    cohort, spread = make_cohort(), np.array([0.1, 0.2])
    information = compute_information(
        np.array([[0.04, 0.0], [0.0, 0.11], [0.0, 0.0], [0.3, 0.0]]), spread
    )
    np.testing.assert_allclose(information, [0.6, 0.45, 1.0, 0.0])
    (warning,) = report_people_without_index(cohort, information[:2] < 0.5, 0.5)
    assert re.search(
        r"1 person lacks too many regions.*50% of an R-index: b\. They are left out",
        str(warning),
    )


def test_notes_say_how_much_wider_intervals_are() -> None:
    is_short, widening = np.array([True, False]), np.array([1.25, 1.0])
    (note,) = note_missing((), is_short, widening, "mm3")
    assert (
        note.what
        == "1 person lacks regions: R-indices come from the others, and their intervals are 25% wider on average"
    )
    (warning,) = note_missing(["x"], is_short, widening, "any")
    assert "the table lacks 1 feature" in warning.what
    assert note_missing((), np.zeros(2, dtype=bool), widening, "mm3") == []


def make_named_cohort(**columns: list[float]) -> Cohort:
    people = pd.DataFrame({"participant_id": ["p0", "p1"]})
    return Cohort(
        volumes=pd.DataFrame(columns),
        people=people,
        covariates=pd.DataFrame(index=range(2)),
    )


def test_columns_are_replaced_by_their_sum_with_a_note() -> None:
    cohort = make_named_cohort(a=[1.0, 2.0], b=[10.0, 20.0], c=[5.0, 6.0])
    summed, (note,) = add_summed_regions(cohort, {"a+b": ("a", "b")})
    assert list(summed.volumes) == ["c", "a+b"]
    np.testing.assert_array_equal(summed.volumes["a+b"], [11.0, 22.0])
    assert (
        note.what
        == "1 regions of the model are sums of the table's columns, computed here: a+b"
    )


def test_sums_in_the_table_and_incomplete_sums_are_left() -> None:
    cohort = make_named_cohort(**{"a": [1.0, 2.0], "a+b": [3.0, 4.0]})
    assert add_summed_regions(cohort, {"a+b": ("a", "b"), "a+c": ("a", "c")}) == (
        cohort,
        [],
    )


@pytest.mark.parametrize("column", ["group", "site", "session_id"])
def test_groups_sites_and_sessions_that_differ_in_information_are_named(
    column: str,
) -> None:
    levels = np.repeat(["a", "b", "c"], [6, 6, 4])  # four people are too few to compare
    for low, is_named in ((0.94, True), (0.96, False)):
        table = pd.DataFrame(
            {column: levels, "information": np.repeat([1.0, low, 0.1], [6, 6, 4])}
        )
        problems = compare_information(table)
        assert [problem.offenders for problem in problems] == (
            [("b", "a")] if is_named else []
        )
    (problem,) = compare_information(
        table.assign(information=np.repeat([0.5, 0.7, 1.0], [6, 6, 4]))
    )
    assert f"in one {column.removesuffix('_id')} than in another" in problem.what
    assert problem.listing == "a 0.50, b 0.70"

"""Codes for missing are found by value and position, and treated as missing
when asked.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.errors import Findings, ProblemCode
from rindices.tables.checks.missing_codes import (
    NO_CODES,
    find_missing_codes,
    mask_missing_codes,
    may_hold_codes,
    report_codes,
)
from tests.tables.helpers import (
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([10, 20, 30, -9999], [-9999]),
        ([0, 5, 30, -4, -4], [-4, -4]),
        ([0, 1, 1, 99], [99]),
        ([-2.5, 0.1, 2.0, 999], [999]),
        ([-2.5, 0.1, 2.0, -4], []),
        ([20, 60, 77, 88, 99], []),
        ([60, 85, 99], []),
        ([-1, 1, 1], []),
        ([-9999, -9999], []),
        ([1, 2, np.nan, -999], [-999]),
        ([5, 5, -8], [-8]),
    ],
)
def test_codes_lie_outside_all_other_values(
    values: list[float], codes: list[float]
) -> None:
    array = np.array(values, dtype=float)
    assert array[find_missing_codes(array)].tolist() == codes


def test_codes_become_missing_in_numbers_and_texts() -> None:
    frame = pd.DataFrame(
        {
            "id": ["9", "2"],
            "score": [-9999.0, 3.0],
            "sex": ["9", "F"],
            "note": ["u", "-9999"],
        }
    )
    masked = mask_missing_codes(frame, ["-9999", "9.0", "u"], keep=["id"])
    assert masked.isna().to_numpy().tolist() == [
        [False, True, True, True],
        [False, False, False, True],
    ]
    assert mask_missing_codes(frame, NO_CODES) is frame
    assert mask_missing_codes(frame, ()) is frame


def test_columns_are_named_with_the_number_of_cells() -> None:
    frame = pd.DataFrame(
        {"score": [1, 2, -9999, -9999], "fine": [1, 2, 3, 4], "text": list("abcd")}
    )
    findings = Findings()
    report_codes(frame, findings)
    (problem,) = findings
    assert problem.code is ProblemCode.CODES_FOR_MISSING
    assert (
        problem.text
        == "2 cells in 1 column may stand for missing: score (-9999 in 2 cells)"
    )
    assert (
        problem.cure
        == "If so: --missing-codes -9999. If these are values: --missing-codes none"
    )
    assert not report_codes(frame[["fine", "text"]], Findings())


def test_only_extreme_values_can_be_codes() -> None:
    assert may_hold_codes(
        np.array([-999.0, 1, 1]), np.array([5.0, 999, 5])
    ).tolist() == [True, True, False]


@pytest.mark.parametrize("code", [-9999.0, 0.0 - 999, 99999.0])
def test_codes_in_regions_are_refused_until_they_are_named(
    code: float, tmp_path: Path
) -> None:
    table = make_table()
    table.loc[[2, 5], "roi3"] = code
    paths = (
        write_table(table, tmp_path / "v.csv"),
        write_table(make_people(), tmp_path / "p.csv"),
    )
    refused = list_messages(validate_files(*paths), "error")
    assert (
        f"2 cells in 1 column may stand for missing: roi3 ({code:g} in 2 cells)"
        in refused
    )
    assert len(refused.splitlines()) == 1
    result = validate_files(*paths, missing_codes=f"{code:g}", on_missing="drop")
    assert (result.ok, result.people) == (True, 58)


def test_codes_in_a_covariate_are_named_and_become_missing(tmp_path: Path) -> None:
    people = make_people(iq=[-9999.0, *np.linspace(80, 130, 59)])
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(people, tmp_path / "p.csv"),
    )
    result = validate_files(*paths, covariates=["iq"])
    assert "1 cell of covariate iq may hold codes for missing" in list_messages(
        result, "warning"
    )
    assert "--missing-codes -9999" in list_messages(result, "warning")
    result = validate_files(
        *paths, covariates=["iq"], missing_codes=[-9999], on_missing="drop"
    )
    assert (result.ok, result.people) == (True, 59)
    assert "codes for missing" not in list_messages(result)

"""People who lack values are used, left out or refused, and named."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.tables.readers import make_request
from rindices.tables.table import ColumnRoles
from rindices.tables.validate import validate_table
from tests.tables.helpers import N, list_messages, make_people, make_table, validate_files, write_table

GROUPS = {"group": "diagnosis", "controls": ["CN"]}


@pytest.fixture
def holes() -> pd.DataFrame:
    """A table in which one person lacks one region and another one lacks most."""
    table = make_table()
    table.loc[3, "roi7"] = np.nan
    table.loc[5, [f"roi{k}" for k in range(1, 16)]] = np.nan
    return table


def write_people(tmp_path: Path, **columns: object) -> Path:
    return write_table(make_people(**columns), tmp_path / "people.tsv", sep="\t")


@pytest.mark.parametrize("policy", ["model", "report"])
def test_people_with_few_regions_are_left_out_and_not_said_to_be_used(
    tmp_path: Path, holes: pd.DataFrame, policy: str
) -> None:
    result = validate_files(write_table(holes, tmp_path / "v.csv"), write_people(tmp_path), on_missing=policy, **GROUPS)
    assert not list_messages(result, "error")
    assert "1 person has fewer than half of the regions: sub-006; left out" in list_messages(result, "warning")
    used = "1 person has a missing region, 1 of 1,180 cells are missing (roi7 1 times): sub-004; their other regions"
    assert used in list_messages(result, "note")
    assert result.left_out == 1


def test_without_groups_the_model_decides_who_has_enough_regions(tmp_path: Path, holes: pd.DataFrame) -> None:
    holes.loc[:, [f"roi{k}" for k in range(1, 9)]] = np.nan
    holes.loc[0, "roi1"] = 1.0
    request = make_request(write_table(holes, tmp_path / "v.csv"), None, ColumnRoles())
    result = validate_table(replace(request, find_groups=False))
    assert "fewer than half" not in list_messages(result)
    assert "At most 30%" not in list_messages(result)


def test_a_study_with_too_many_missing_cells_is_refused(tmp_path: Path) -> None:
    table = make_table()
    table.iloc[2:, 1:8] = np.nan
    result = validate_files(write_table(table, tmp_path / "v.csv"), write_people(tmp_path), **GROUPS)
    assert "At most 30% may be: leave out regions (--exclude) or people" in list_messages(result, "error")


@pytest.mark.parametrize(
    ("policy", "severity", "ending"),
    [
        ("error", "error", ""),
        ("model", "error", ""),
        ("drop", "note", "; left out"),
        ("report", "note", "; fit stops here unless told to leave them out"),
    ],
)
def test_a_missing_covariate_is_an_error_or_a_note(tmp_path: Path, policy: str, severity: str, ending: str) -> None:
    people = write_people(tmp_path, age=[np.nan, *np.linspace(50.0, 80.0, N - 1)])
    table = write_table(make_table(), tmp_path / "v.csv")
    result = validate_files(table, people, covariates=["age"], on_missing=policy, **GROUPS)
    assert f"1 person has no age: sub-001{ending}" in list_messages(result, severity)

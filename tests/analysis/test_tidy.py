"""Joins, choices of people, and tables as files."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from rindices.analysis.associate import associate_indices
from rindices.analysis.tidy import (
    as_records,
    false_discovery_rate,
    select_people,
    standardise_columns,
    write_table,
)
from rindices.errors import AnalysisError
from tests.analysis.helpers import N_PEOPLE, make_clinical_tables


def test_tables_that_cannot_be_joined_are_refused_by_name() -> None:
    indices, clinical = make_clinical_tables()
    with pytest.raises(
        AnalysisError, match="appear more than once in the other table: sub-"
    ):
        associate_indices(indices, pd.concat([clinical, clinical.iloc[:1]]))
    with pytest.raises(AnalysisError, match="none of the people with R-indices"):
        associate_indices(
            indices, clinical.assign(participant_id=[f"x{k}" for k in range(N_PEOPLE)])
        )
    with pytest.raises(
        AnalysisError,
        match="no column 'memry' for the variables: did you mean 'memory'",
    ):
        associate_indices(indices, clinical, variables=["memry"])
    with pytest.raises(AnalysisError, match="needs the columns participant_id and r1"):
        associate_indices(indices.drop(columns=["r1", "r2"]), clinical)


def test_false_discovery_rate_equals_statsmodels() -> None:
    p = np.random.default_rng(0).uniform(size=400) ** 3
    np.testing.assert_allclose(
        false_discovery_rate(p), multipletests(p, method="fdr_bh")[1], rtol=1e-12
    )


def test_people_are_selected_by_group() -> None:
    indices = make_clinical_tables()[0].assign(
        group=["control", "patient"] * (N_PEOPLE // 2)
    )
    assert set(select_people(indices, "controls")["group"]) == {"control"}
    assert len(select_people(indices.drop(columns="group"), "all")) == N_PEOPLE
    with pytest.raises(AnalysisError, match="patients are unknown: choose all people"):
        select_people(indices.drop(columns="group"), "patients")
    with pytest.raises(AnalysisError, match="has no patients: choose all people"):
        select_people(indices[indices["group"] == "control"], "patients")


def test_a_constant_column_becomes_zero() -> None:
    standardised = standardise_columns(np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_allclose(standardised, [[-1, 0], [1, 0]])
    assert standardise_columns(np.zeros((0, 2))).shape == (0, 2)


TABLE = pd.DataFrame(
    {
        "index": ["r1", "r2"],
        "p": [0.5, np.nan],
        "n": pd.array([3, pd.NA], dtype="Int64"),
    }
)
DESCRIPTIONS = {"index": "R-index", "p": "p-value", "n": "People"}


def test_table_and_dictionary_are_written(tmp_path: Path) -> None:
    write_table(TABLE, tmp_path / "new" / "table.tsv", {"seed": 3}, DESCRIPTIONS)
    assert (
        tmp_path / "new" / "table.tsv"
    ).read_text() == "index\tp\tn\nr1\t0.5\t3\nr2\tn/a\tn/a\n"
    dictionary = json.loads((tmp_path / "new" / "table.json").read_text())
    assert dictionary["p"] == {"Description": "p-value"}
    assert dictionary["GeneratedBy"]["seed"] == 3
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "table.tsv",
        "table.json",
    }
    write_table(None, tmp_path / "new" / "table.tsv", {})
    assert not list((tmp_path / "new").iterdir())


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        AnalysisError,
        match=r"cannot write .*table\.tsv .*: give another folder with --out",
    ):
        write_table(TABLE, tmp_path / "file" / "table.tsv", {}, DESCRIPTIONS)


def test_records_have_null_for_missing_numbers() -> None:
    assert as_records(TABLE) == [
        {"index": "r1", "p": 0.5, "n": 3},
        {"index": "r2", "p": None, "n": None},
    ]

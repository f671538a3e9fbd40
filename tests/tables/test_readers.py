"""Reading of cohorts and of R-indices."""

import sys
from functools import cache
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rindices as ri
from rindices.errors import Findings, ProblemCode, Severity, TableError
from rindices.tables.cohort import Cohort
from rindices.tables.options import TableOptions, make_options
from rindices.tables.readers import read_indices, read_indices_with_variables
from rindices.tables.table import ColumnRoles
from tests.conftest import muse_volumes, participants_of
from tests.tables.helpers import (
    validate_files,
    write_table,
)


def test_parquet_and_csv_give_the_same_cohort(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    volumes.to_parquet(tmp_path / "v.parquet")
    participants.to_parquet(tmp_path / "p.parquet")
    text_paths = (
        write_table(volumes, tmp_path / "v.csv"),
        write_table(participants, tmp_path / "p.tsv", "\t"),
    )
    options = {"group": "diagnosis", "covariates": ["age", "sex", "icv"]}
    fingerprints = [
        validate_files(*paths, **options).cohort.fingerprint()  # type: ignore[union-attr]
        for paths in (text_paths, (tmp_path / "v.parquet", tmp_path / "p.parquet"))
    ]
    assert fingerprints[0] == fingerprints[1]


def read_tables_with_sites(
    volumes: pd.DataFrame, participants: pd.DataFrame, folder: Path
) -> Cohort:
    options = {
        "group": "diagnosis",
        "controls": "CN",
        "covariates": ["age", "sex", "icv"],
        "site": "scanner",
    }
    paths = (
        write_table(volumes, folder / "v.csv"),
        write_table(participants, folder / "p.tsv", "\t"),
    )
    cohort = validate_files(*paths, **options).cohort
    assert cohort is not None
    return cohort


@cache
def read_in_order(folder: Path) -> Cohort:
    volumes = muse_volumes()
    return read_tables_with_sites(
        volumes,
        participants_of(volumes).assign(scanner=["a", "a", "b", "b"] * 10),
        folder,
    )


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_rows_and_columns_changes_nothing(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    volumes = muse_volumes()
    participants = participants_of(volumes).assign(scanner=["a", "a", "b", "b"] * 10)

    def shuffled(frame: pd.DataFrame) -> pd.DataFrame:
        columns = frame.sample(frac=1, axis=1, random_state=seed)
        return columns.sample(frac=1, random_state=seed + 1 if seed < 2**32 - 1 else 0)

    before = read_in_order(folder)
    after = read_tables_with_sites(shuffled(volumes), shuffled(participants), folder)
    assert before.fingerprint() == after.fingerprint()
    pd.testing.assert_frame_equal(before.volumes, after.volumes)
    pd.testing.assert_frame_equal(before.people, after.people)
    pd.testing.assert_frame_equal(before.covariates, after.covariates)


def test_all_errors_are_raised_together(tmp_path: Path, volumes: pd.DataFrame) -> None:
    path = write_table(
        volumes.assign(**{"47": np.nan, "48": -volumes["48"]}), tmp_path / "v.csv"
    )
    with pytest.raises(ri.TableError, match="MUSE_47") as caught:
        ri.read_cohort(path, covariates=["age"])
    assert len(caught.value.problems) == 3


def test_frames_in_memory_and_excel_give_the_cohort_of_the_text(
    tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    volumes = volumes.assign(ID=[f"{k:03d}" for k in range(len(volumes))]).astype(
        {"47": object}
    )
    volumes.loc[2, "47"] = "n/a"
    participants = participants.assign(participant_id=volumes["ID"])
    write_table(volumes, tmp_path / "v.csv")
    write_table(participants, tmp_path / "p.csv")
    volumes.to_excel(tmp_path / "v.xlsx", index=False, startrow=2)
    with pd.ExcelWriter(tmp_path / "p.xlsx") as writer:
        participants.to_excel(writer, sheet_name="people", index=False)
        volumes.to_excel(writer, sheet_name="other", index=False)
    options = {"group": "diagnosis", "covariates": ["age", "sex", "icv"]}
    sources = [
        (tmp_path / "v.csv", tmp_path / "p.csv"),
        (tmp_path / "v.xlsx", tmp_path / "p.xlsx"),
        (volumes, participants),
        (volumes.set_index("ID"), participants),
    ]
    cohorts = [ri.read_cohort(*tables, **options) for tables in sources]  # type: ignore[arg-type]
    assert len({cohort.fingerprint() for cohort in cohorts}) == 1
    messages = [
        str(problem)
        for problem in validate_files(tmp_path / "v.xlsx", tmp_path / "p.xlsx").problems
    ]
    assert any(
        "p.xlsx: sheet 'people' is read, not other." in message for message in messages
    )


def test_errors_of_python_name_arguments_and_the_frame(
    volumes: pd.DataFrame, participants: pd.DataFrame
) -> None:
    volumes.loc[3, "47"] = 0.0
    with pytest.raises(ri.TableError) as caught:
        ri.read_cohort(volumes, participants)
    assert "volumes: values of 0 in 1 region: MUSE_47 of sub-003" in str(caught.value)
    assert 'missing_codes="0"' in str(caught.value)
    assert "--" not in str(caught.value)


def test_an_excel_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.xlsx").write_bytes(b"PK\x03\x04rest")
    with pytest.raises(
        ri.TableError,
        match=r"v\.xlsx: this is not a readable Excel file .* Export the table as CSV",
    ):
        ri.read_cohort(tmp_path / "v.xlsx")


def test_the_cure_is_said_where_openpyxl_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v.xlsx").write_bytes(b"PK\x03\x04rest")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        ri.TableError,
        match=r"reading Excel needs openpyxl\. .* install it: pip install openpyxl$",
    ):
        ri.read_cohort(tmp_path / "v.xlsx")


INDICES = pd.DataFrame({"participant_id": ["sub-01", "sub-02"], "r1": [0.1, 0.2]})


def test_ids_come_first_with_their_usual_name(tmp_path: Path) -> None:
    path = write_table(
        INDICES.rename(columns={"participant_id": "subject"})[["r1", "subject"]],
        tmp_path / "r.csv",
    )
    pd.testing.assert_frame_equal(read_indices(path, Findings()), INDICES)


def test_variables_are_joined_in_the_order_of_the_indices(tmp_path: Path) -> None:
    clinical = pd.DataFrame(
        {"code": [2, 1], "mmse": ["30", "severe"], "apoe": ["e3", "e4"]}
    )
    paths = (
        write_table(INDICES, tmp_path / "r.csv"),
        write_table(clinical, tmp_path / "c.csv"),
    )
    findings = Findings()
    indices, variables = read_indices_with_variables(
        *paths, ColumnRoles(id="code"), findings
    )
    assert (
        indices["participant_id"].tolist()
        == variables["participant_id"].tolist()
        == ["sub-01", "sub-02"]
    )
    assert list(variables) == ["participant_id", "mmse", "apoe"]
    assert variables["mmse"].isna().tolist() == [True, False]
    problem = next(
        problem for problem in findings if problem.code is ProblemCode.NOT_A_NUMBER
    )
    assert (problem.severity, problem.offenders) == (Severity.WARNING, ("sub-01",))


def test_read_cohort_takes_the_options_of_tables() -> None:
    """An option is declared in `TableOptions`, and an argument here."""
    parameters = list(signature(ri.read_cohort).parameters.values())[2:]
    fields = TableOptions.model_fields
    assert {each.name: each.default for each in parameters} == {
        name: field.default for name, field in fields.items() if name != "on_outlier"
    }


def test_texts_are_taken_one_by_one_or_in_any_sequence() -> None:
    options = make_options(
        exclude="a", controls=1, missing_codes=np.array([-9, -4]), patients=None
    )
    assert options.exclude == ("a",)
    assert options.controls == ("1",)
    assert options.missing_codes == ("-9", "-4")
    assert options.patients == ()


def test_all_wrong_options_are_named_at_once() -> None:
    with pytest.raises(TableError) as caught:
        make_options(on_suspect="kep", impute_covariates="maybe", exclude=[{}])
    assert str(caught.value).splitlines() == [
        'exclude holds {}, not a text. Give exclude=["NAME"].',
        "on_suspect = 'kep' is not known. Did you mean 'keep'?",
        "impute_covariates is 'maybe', not True or False. Give impute_covariates=True.",
    ]

"""Text tables are read with their encodings, separators, decimal marks and missing values."""

from pathlib import Path

import numpy as np
import pandas as pd

from tests.conftest import muse_volumes, participants_of
from tests.tables.helpers import (
    N,
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)


def test_ids_keep_leading_zeros(tmp_path: Path) -> None:
    frame = muse_volumes().assign(ID=[f"{k:04d}" for k in range(40)])
    result = validate_files(write_table(frame, tmp_path / "v.csv"))
    assert result.cohort is not None
    assert result.cohort.people["participant_id"].tolist() == [f"{k:04d}" for k in range(40)]


def test_n_a_means_missing(tmp_path: Path, volumes: pd.DataFrame) -> None:
    people = participants_of(volumes)
    people["age"] = people["age"].astype(object)
    people.loc[4, "age"] = "n/a"
    path = write_table(people, tmp_path / "participants.tsv", "\t")
    result = validate_files(write_table(volumes, tmp_path / "v.csv"), path, covariates=["age"], on_missing="error")
    assert "1 person has no age: sub-004" in list_messages(result, "error")


def test_blanks_after_separators_are_skipped(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> None:
    participants.loc[2, "age"] = np.nan
    text = participants.to_csv(index=False, na_rep="n/a").replace(",", ", ")
    (tmp_path / "p.csv").write_text(text)
    result = validate_files(
        write_table(volumes, tmp_path / "v.csv"), tmp_path / "p.csv", covariates=["age", "sex"], group="diagnosis"
    )
    assert "1 person has no age: sub-002" in list_messages(result)
    assert (result.controls, result.patients) == (20, 20)


def test_empty_rows_comments_and_the_separator_line_of_excel_are_skipped(tmp_path: Path) -> None:
    text = make_table().to_csv(index=False, sep=";")
    (tmp_path / "v.csv").write_text("sep=;\n# exported today\n" + text + ";" * 20 + "\n" + ";" * 20 + "\n")
    result = validate_files(tmp_path / "v.csv")
    assert (result.people, result.regions) == (N, 20)


def test_ids_as_floats_and_long_ids_are_read_exactly(tmp_path: Path) -> None:
    floats = make_people(participant_id=[f"{k}.0" for k in range(100, 160)])
    paths = write_table(make_table(range(100, 160)), tmp_path / "v.csv"), write_table(floats, tmp_path / "p.csv")
    assert validate_files(*paths, covariates=["age"]).people == N
    long = [10**17 + k for k in range(N)]
    make_table(long).to_parquet(tmp_path / "v.parquet")
    cohort = validate_files(tmp_path / "v.parquet").cohort
    assert cohort is not None
    assert cohort.people["participant_id"].tolist() == [str(name) for name in long]


def test_none_is_a_label_and_not_missing(tmp_path: Path) -> None:
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(make_people(diagnosis=["None", "AD"] * 30), tmp_path / "p.csv"),
    )
    result = validate_files(*paths, group="diagnosis", controls="None")
    assert (result.controls, result.patients) == (30, 30)
